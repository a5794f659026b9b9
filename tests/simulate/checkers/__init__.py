"""One checker for each guarantee; a checker yields what is wrong with the evidence."""

from collections.abc import Callable, Iterable, Iterator

from tests.simulate.checkers.bundles import (
    bundles_show_whole,
    chosen_paths_are_committed_alone,
)
from tests.simulate.checkers.contents import (
    commits_hold_a_listing,
    commits_hold_what_came_before,
    deletions_stay,
    discarded_stays_discarded,
    listings_show_one_version,
    no_write_is_lost,
    reads_are_fresh,
    reads_see_what_happened,
    refs_hold_still,
)
from tests.simulate.checkers.merges import merges_never_guess
from tests.simulate.checkers.progress import (
    everything_is_committed_at_rest,
    nothing_is_sealed_at_rest,
    nothing_staged_is_left_behind,
    only_expected_errors,
    operations_end,
)
from tests.simulate.checkers.refs import (
    commits_are_news,
    commits_land_once,
    commits_stay_in_history,
    nothing_immutable_was_written,
)
from tests.simulate.evidence import Evidence

__all__ = [
    "CHECKERS",
    "EVERYWHERE",
    "Checker",
    "bundles_show_whole",
    "chosen_paths_are_committed_alone",
    "listings_show_one_version",
    "verdict",
]

Checker = Callable[[Evidence], Iterator[str]]

CHECKERS: tuple[Checker, ...] = (
    no_write_is_lost,
    reads_see_what_happened,
    reads_are_fresh,
    deletions_stay,
    discarded_stays_discarded,
    commits_hold_a_listing,
    commits_hold_what_came_before,
    commits_stay_in_history,
    commits_land_once,
    commits_are_news,
    merges_never_guess,
    refs_hold_still,
    nothing_immutable_was_written,
    only_expected_errors,
    operations_end,
    nothing_is_sealed_at_rest,
    everything_is_committed_at_rest,
    nothing_staged_is_left_behind,
)


EVERYWHERE: tuple[Checker, ...] = (
    commits_land_once,
    nothing_immutable_was_written,
    only_expected_errors,
    operations_end,
    nothing_is_sealed_at_rest,
    everything_is_committed_at_rest,
    nothing_staged_is_left_behind,
)
"""The checkers that do not depend on the values that an operation writes."""


def verdict(evidence: Evidence, checkers: Iterable[Checker] = CHECKERS) -> str:
    """Return the first thing that is wrong, with the name of its checker, or ""."""
    for checker in checkers:
        for wrong in checker(evidence):
            return f"{checker.__name__}: {wrong}"
    return ""
