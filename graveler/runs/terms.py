"""The terms on which a run is opened: what its opener says of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from graveler.errors import InvalidInputError
from graveler.limits import RUN_KEY_BYTES
from graveler.names import check_caller_pairs
from graveler.runs.record import LEASE, TTL, RunRecord

__all__ = ["Terms"]

_ON_FAILURE: Final = ("park", "drop")


@dataclass(frozen=True, slots=True)
class Terms:
    """What an opener says of a run.

    Attributes:
        into: The branch to publish to.
        metadata: Pairs kept on the run and on its commits.
        on_failure: ``park`` or ``drop``.
        lease: How long the attempt may be silent before it counts as dead.
        ttl: How long the run is kept once it is parked.
        owner: Who opens, where several processes are one opener.
        accepts: Called with the run that an attempt is to be opened on, None for a new one; an
            exception refuses.
    """

    into: str = "main"
    metadata: Mapping[str, str] = field(default_factory=dict)
    on_failure: str = "park"
    lease: timedelta = LEASE
    ttl: timedelta = TTL
    owner: str = ""
    accepts: Callable[[RunRecord | None], None] | None = None

    def check(self, key: str, now: datetime) -> None:
        """Refuse what a run cannot be opened on.

        Raises:
            InvalidInputError: It is that.
        """
        _check_key(key)
        check_caller_pairs(f"run {key!r}", self.metadata)
        if self.on_failure not in _ON_FAILURE:
            raise InvalidInputError(
                f"run {key!r}: on_failure {self.on_failure!r}: give one of {_ON_FAILURE}"
            )
        for name, length in (("lease", self.lease), ("ttl", self.ttl)):
            if type(length) is not timedelta or length <= timedelta(0):
                raise InvalidInputError(f"run {key!r}: {name} {length!r}: give a timedelta above 0")
            try:
                now + length
            except OverflowError:
                raise InvalidInputError(
                    f"run {key!r}: {name} {length!r} ends beyond the calendar: give a shorter one"
                ) from None


def _check_key(key: str) -> None:
    """Refuse what no run can be called.

    Raises:
        InvalidInputError: The key is empty, longer than 4096 bytes, or not valid text.
    """
    if type(key) is not str or not key.strip():
        raise InvalidInputError(
            f"run key {key!r} is empty: name the run by what it makes, as its hour"
        )
    try:
        length = len(key.encode())
    except UnicodeEncodeError:
        raise InvalidInputError(f"run key {key[:80]!r} is not valid text: choose another") from None
    if length > RUN_KEY_BYTES:
        raise InvalidInputError(
            f"run key of {length} bytes ({key[:80]!r}…): give at most {RUN_KEY_BYTES}"
        )
