"""Retries: after a lost race, and after a failure of a remote store.

A call ends after `NO_PROGRESS_S` seconds without progress, retries and pauses included. A driver
lets a connection be silent for a shorter time; if a try that fails took longer than that, the
rest was progress (a long upload that breaks) and does not count. Consecutive calls of one thread
share the time: a call that reads back the outcome of a lost write does not wait as long again.
"""

import logging
from collections.abc import Callable
from threading import local
from time import monotonic
from typing import Final, TypeVar

from graveler.clock import Clock, IdSource
from graveler.errors import BackendUnavailableError, ThrottledError
from graveler.telemetry import RACES, RETRIES, report

NO_PROGRESS_S: Final = 30.0
"""Seconds without progress after which a call ends, unless `[limits]` sets another value."""

_TRY: Final = 0.3
"""Part of that time that a try may take without progress: a call gets three."""
_AT_ONCE_S: Final = 1.0
_RACES: Final = 200
_FIRST_WAIT_S: Final = 0.001
_LONGEST_WAIT_S: Final = 0.1
_MOST_DOUBLINGS: Final = 30

log = logging.getLogger(__name__)
T = TypeVar("T")


def longest_pause(attempt: int, first_s: float, longest_s: float) -> float:
    """Return the bound of the pause after try `attempt` (0, 1, 2 …): it doubles up to `longest_s`."""
    return min(longest_s, first_s * 2.0 ** min(attempt, _MOST_DOUBLINGS))


def backoff(
    clock: Clock,
    ids: IdSource,
    attempt: int,
    *,
    first_s: float = _FIRST_WAIT_S,
    longest_s: float = _LONGEST_WAIT_S,
) -> None:
    """Wait after try `attempt` (0, 1, 2 …): full jitter under a bound that doubles.

    The defaults are those of a lost race: from 1 ms to 0.1 s.
    """
    clock.sleep(ids.jitter() * longest_pause(attempt, first_s, longest_s))


def retry(clock: Clock, ids: IdSource, what: str, attempt: Callable[[int], T | None]) -> T:
    """Return what `attempt` returns once that is not None, with a back-off between two tries.

    Args:
        clock: Waits.
        ids: Draws the jitter.
        what: What is attempted, for the error: ``branch 'main'``.
        attempt: One try, called with 0, 1, 2 …; it returns None after a lost race.

    Raises:
        ThrottledError: 200 races were lost in a row.
    """
    for number in range(_RACES):
        result = attempt(number)
        if result is not None:
            return result
        report(RACES)
        backoff(clock, ids, number)
    raise ThrottledError(f"{what} is busy: lost {_RACES} races; try again")


class Retrier:
    """Repeats what may be repeated, for a bounded time; threads may share it.

    The wait before try n is drawn evenly from 0 to `first_wait_s` · 2ⁿ, at most
    `longest_wait_s`: clients that failed together do not retry together.

    Attributes:
        limit_s: Seconds without progress after which a call ends.
        try_s: Seconds without progress after which a driver ends a try.

    Args:
        clock: Where pauses come from.
        ids: Where their jitter comes from.
        limit_s: As above.
        tries: Largest number of tries.
        first_wait_s: Bound of the first pause.
        longest_wait_s: Bound of all pauses.
        whole: Progress within a try cannot be seen: all of its time counts.
    """

    def __init__(  # noqa: PLR0913 - each driver has its own numbers
        self,
        clock: Clock,
        ids: IdSource,
        *,
        limit_s: float = NO_PROGRESS_S,
        tries: int = 6,
        first_wait_s: float = 0.1,
        longest_wait_s: float = 5.0,
        whole: bool = False,
    ) -> None:
        self.clock = clock
        self.ids = ids
        self.limit_s = limit_s
        self.try_s = _TRY * limit_s
        self.counted_s = limit_s if whole else self.try_s
        self.tries = tries
        self.first_wait_s = first_wait_s
        self.longest_wait_s = longest_wait_s
        self.earlier = local()

    def run(self, what: str, call: Callable[[], T]) -> T:
        """Return what `call` returns; raise what it raises once tries or time are used up.

        Args:
            what: Names the call on the log: ``read s3://bucket/key``.
            call: One try.

        Raises:
            BackendUnavailableError: The time was used up by the call before this one.
        """
        attempts = self.attempts(what)
        while True:
            try:
                result = call()
            except (BackendUnavailableError, ThrottledError) as error:
                if not attempts.again(error):
                    raise
            else:
                attempts.succeeded()
                return result

    def attempts(self, what: str) -> "Attempts":
        """Return the tries of one call, for callers with a loop of their own."""
        return Attempts(self, what)


class Attempts:
    """The tries of one call.

    Raises:
        BackendUnavailableError: The store was silent until just now, for as long as it may be.
    """

    def __init__(self, retrier: Retrier, what: str) -> None:
        self._retrier = retrier
        self._what = what
        self._number = 1
        self._spent: float
        self._spent, until = getattr(retrier.earlier, "silence", (0.0, 0.0))
        self._began = monotonic()
        if self._began - until > _AT_ONCE_S:
            self._spent = 0.0
        elif retrier.limit_s - self._spent < retrier.try_s:
            raise BackendUnavailableError(
                f"{what}: not tried, the store has not answered for {self._spent:.0f} s until just "
                "now; check it and the network, and repeat"
            )

    def again(self, error: Exception) -> bool:
        """Wait and return True if the call that failed by `error` is to be tried again."""
        retrier = self._retrier
        self._spent += min(monotonic() - self._began, retrier.counted_s)
        longest = longest_pause(self._number - 1, retrier.first_wait_s, retrier.longest_wait_s)
        wait = retrier.ids.jitter() * longest
        left = retrier.limit_s - self._spent - wait
        if self._number >= retrier.tries or left < retrier.try_s:
            self._note()
            return False
        self._number += 1
        report(RETRIES, 1, {"error.type": type(error).__name__})
        log.warning(
            "%s failed (%s): try %d in %.1f s, %.0f s are left",
            self._what,
            error,
            self._number,
            wait,
            left,
        )
        retrier.clock.sleep(wait)
        self._spent += wait
        self._began = monotonic()
        return True

    def gave_up(self) -> None:
        """Note that the call failed, and will not be tried again."""
        self._spent += min(monotonic() - self._began, self._retrier.counted_s)
        self._note()

    def _note(self) -> None:
        self._retrier.earlier.silence = (self._spent, monotonic())

    def succeeded(self) -> None:
        """Note that the store answered."""
        self._retrier.earlier.silence = (0.0, 0.0)
