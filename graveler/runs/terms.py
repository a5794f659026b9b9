"""The terms on which a run is opened."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Self, TypedDict

from graveler.arguments import BranchLike, Duration, branch_text, choice, duration, pairs, run_key
from graveler.names import check_caller_pairs
from graveler.runs.record import LEASE, TTL, RunRecord


class RunTerms(TypedDict, total=False):
    """The keyword arguments that every call takes that opens a run.

    Attributes:
        into: The branch to publish to (``main``): a user's branch, not that of a run or a step.
        metadata: Pairs kept on the run and on its commits; see `Origin`.
        on_failure: What happens to an attempt that is closed unpublished or whose lease expires:
            ``park`` (the default) keeps its commits for the next attempt, ``drop`` does not.
        lease: How long the attempt may be silent before it counts as dead (15 minutes): a
            timedelta, or text (``36h``). Its work renews the lease; so does `Run.renew`.
        ttl: How long a parked run is kept (14 days).
    """

    into: str | BranchLike
    metadata: Mapping[str, str] | None
    on_failure: str
    lease: Duration
    ttl: Duration


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of one run, checked.

    Attributes:
        key: Name of the run.
        into: As in `RunTerms`; so are `metadata`, `on_failure`, `lease` and `ttl`.
        owner: The opener's name, where several processes are one opener; else "".
        accepts: Called with the run's record before an attempt is opened, with None for a new
            run; an exception refuses the attempt.
    """

    key: str
    into: str = "main"
    metadata: Mapping[str, str] = field(default_factory=dict)
    on_failure: str = "park"
    lease: timedelta = LEASE
    ttl: timedelta = TTL
    owner: str = ""
    accepts: Callable[[RunRecord | None], None] | None = None

    @classmethod
    def of(  # noqa: PLR0913 - the terms of a run
        cls,
        key: str,
        *,
        into: str | BranchLike = "main",
        metadata: Mapping[str, str] | None = None,
        on_failure: str = "park",
        lease: Duration = LEASE,
        ttl: Duration = TTL,
        owner: str = "",
        accepts: Callable[[RunRecord | None], None] | None = None,
    ) -> Self:
        """Return the terms as a caller gives them.

        Raises:
            InvalidInputError: An argument is invalid; the message names it.
        """
        key = run_key(key)
        return cls(
            key=key,
            into=branch_text(into, "into"),
            metadata=check_caller_pairs(f"run {key!r}", pairs(metadata, "metadata")),
            on_failure=choice(on_failure, "on_failure", ("park", "drop")),
            lease=duration(lease, "lease", zero=False),
            ttl=duration(ttl, "ttl", zero=False),
            owner=owner,
            accepts=accepts,
        )
