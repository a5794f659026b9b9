"""Checks of the number of rows, by bounds and by comparison with earlier commits."""

from statistics import median
from typing import Any

from graveler.base.names import read_hour
from graveler.errors import InvalidInputError
from graveler.gates.candidate import Candidate
from graveler.gates.checks.base import (
    Rule,
    built_in,
    check_bounds,
    check_share,
    check_some_bound,
    nothing_below,
    of_files,
)
from graveler.model import Entry

_MOST_MORE = 10
"""Largest share; a larger number is probably a percentage."""

_NOTHING_NEW = (
    "; nothing there would change, as where an hour is done again with equal content: scope='all' "
    "counts the files that stay, too"
)


@built_in
def row_count(
    prefix: str = "",
    at_least: int | None = 1,
    at_most: int | None = None,
    *,
    scope: str = "changes",
    missing: str = "refuse",
    **options: Any,
) -> Rule:
    """The files together have the expected number of rows.

    Cost: the footer of each Parquet file; CSV files are read completely.

    Args:
        at_least: Fewest rows.
        at_most: Most rows.
        missing: ``refuse`` or ``allow``: what to do if a run adds no file; give ``allow`` if
            several pipelines publish to a branch that requires this check.
    """
    check_bounds(at_least, at_most, counts=True)
    check_some_bound(missing, at_least=at_least, at_most=at_most)

    def check(candidate: Candidate, _: list[Entry]) -> str | None:
        stats = candidate.new_stats(prefix) if scope == "changes" else candidate.stats(prefix)
        candidate.report(files=stats.files, rows=stats.rows)
        if stats.rows is None:
            return (
                f"rows below {prefix!r} cannot be counted: a file is neither Parquet nor CSV "
                "by its name"
            )
        counted = f"{stats.rows} rows in {stats.files} files below {prefix!r}"
        if at_least is not None and stats.rows < at_least:
            hint = "" if scope == "all" or stats.files else _NOTHING_NEW
            return f"{counted}: expected at least {at_least}{hint}"
        if at_most is not None and stats.rows > at_most:
            return f"{counted}: expected at most {at_most}"
        return None

    def nothing(candidate: Candidate) -> str | None:
        return check(candidate, []) or nothing_below(candidate, prefix, scope)

    return of_files(check, prefix, scope, missing, nothing=nothing)


@built_in
def row_count_change(
    prefix: str = "",
    *,
    less: float | None = 0.5,
    more: float | None = None,
    history: int = 20,
    enough: int = 3,
    missing: str = "refuse",
    **options: Any,
) -> Rule:
    """A run adds about as many rows as the median of earlier commits.

    If the run has an ``hour``, these are the commits of the same time of day in UTC, on earlier days.
    What was rolled back or reverted does not count.

    Cost: the footer of each file that the run adds; those of earlier commits are read once.

    Args:
        less: Allowed decrease as a share, from 0 to below 1 (0.5 is 50 %); None for any.
        more: Allowed increase as a share, from 0 to 10; None for any.
        history: Number of commits to compare with.
        enough: With fewer earlier commits than this, the check passes.
    """
    check_share("less", less, 1, below=True)
    check_share("more", more, _MOST_MORE)
    if less is None and more is None:
        raise InvalidInputError("less None and more None: nothing is refused: give one of them")
    if history < enough or enough < 1:
        raise InvalidInputError(
            f"history {history} and enough {enough}: compare with at least one, and with no more "
            "than are looked up"
        )

    def check(candidate: Candidate, _: list[Entry]) -> str | None:
        rows = candidate.new_stats(prefix).rows
        if rows is None:
            return f"rows below {prefix!r} cannot be counted: neither Parquet nor CSV"
        hour = read_hour(candidate.run.metadata.get("hour", ""))
        past = candidate.history(prefix, int(history), same_time=hour)
        usual = [commit.stats.rows for commit in past if commit.stats.rows is not None]
        candidate.report(rows=rows, compared=len(usual))
        if len(usual) < enough:
            return None
        middle = median(usual)
        candidate.report(usual=middle)
        same = "" if hour is None else f" of {hour:%H:%M}"
        change = f"{rows} rows below {prefix!r}, where {len(usual)} earlier commits{same}"
        if less is not None and rows < middle * (1 - less):
            return f"{change} brought {middle:g} (median): more than {less:.0%} less"
        if more is not None and rows > middle * (1 + more):
            return f"{change} brought {middle:g} (median): more than {more:.0%} more"
        return None

    return of_files(check, prefix, "changes", missing, reads=("changes", "history", "run"))
