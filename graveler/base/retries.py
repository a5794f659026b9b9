"""Retries: after a lost race, and after a failure of a remote store.

A call ends after `NO_PROGRESS_S` seconds without progress, including retries and pauses. A driver
has a shorter limit for the silence of a connection. If a failed attempt took longer than that, the
rest was progress (a long upload that breaks) and does not count. Consecutive calls of a thread
share the time. So a call that reads back the outcome of a lost write does not wait as long again.
"""

import logging
from collections.abc import Callable
from threading import local
from time import monotonic
from typing import TypeVar

from graveler.base.clock import Clock, IdSource
from graveler.base.telemetry import RACES, RETRIES, report
from graveler.errors import BackendUnavailableError, ThrottledError

NO_PROGRESS_S = 30.0
"""Seconds without progress after which a call ends, unless `[limits]` sets another value."""

_TRY = 0.3
"""The share of that time that an attempt may take without progress: a call gets three attempts."""
_AT_ONCE_S = 1.0
_RACES = 200
_FIRST_WAIT_S = 0.001
_LONGEST_WAIT_S = 0.1
_MOST_DOUBLINGS = 30

log = logging.getLogger("graveler.retries")  # its name in the guide
T = TypeVar("T")


def longest_pause(attempt: int, first_s: float, longest_s: float) -> float:
    """Return the bound of the pause after `attempt` (0, 1, 2 …). It doubles up to `longest_s`."""
    return min(longest_s, first_s * 2.0 ** min(attempt, _MOST_DOUBLINGS))


def backoff(
    clock: Clock,
    ids: IdSource,
    attempt: int,
    *,
    first_s: float = _FIRST_WAIT_S,
    longest_s: float = _LONGEST_WAIT_S,
) -> None:
    """Wait after `attempt` (0, 1, 2 …), with full jitter below a bound that doubles.

    The defaults are for lost races: from 1 ms to 0.1 s.
    """
    clock.sleep(ids.jitter() * longest_pause(attempt, first_s, longest_s))


def retry(clock: Clock, ids: IdSource, what: str, attempt: Callable[[int], T | None]) -> T:
    """Return the first result of `attempt` that is not None, with pauses between attempts."""
    for number in range(_RACES):
        result = attempt(number)
        if result is not None:
            return result
        report(RACES)
        backoff(clock, ids, number)
    raise ThrottledError(f"{what} is busy: lost {_RACES} races; try again")


class Retrier:
    """Repeats calls after retryable errors, for a bounded time. Threads may share it.

    The wait before attempt n is drawn evenly from 0 to `first_wait_s` · 2ⁿ, at most
    `longest_wait_s`. So clients that failed together do not retry together.

    Attributes:
        limit_s: Seconds without progress after which a call ends.
        try_s: Seconds without progress after which a driver ends an attempt.

    Args:
        whole: Whether progress within an attempt is invisible, so that all of its time counts.
    """

    def __init__(
        self,
        clock: Clock,
        ids: IdSource,
        *,
        limit_s: float = NO_PROGRESS_S,
        first_wait_s: float = 0.1,
        longest_wait_s: float = 5.0,
        whole: bool = False,
    ) -> None:
        self.clock = clock
        self.ids = ids
        self.limit_s = limit_s
        self.try_s = _TRY * limit_s
        self.counted_s = limit_s if whole else self.try_s
        self.first_wait_s = first_wait_s
        self.longest_wait_s = longest_wait_s
        self.earlier = local()

    def run(self, what: str, call: Callable[[], T]) -> T:
        """Return the result of `call`, or raise its error after the last attempt."""
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
        """Return the attempts of one call, for callers with their own loop."""
        return Attempts(self, what)


class Attempts:
    """The attempts of one call."""

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
        """Wait and return True if the call that failed with `error` should be repeated."""
        retrier = self._retrier
        took = self._count()
        longest = longest_pause(self._number - 1, retrier.first_wait_s, retrier.longest_wait_s)
        wait = retrier.ids.jitter() * longest
        left = retrier.limit_s - self._spent - wait
        if self._number >= _RACES or left < retrier.try_s:
            self._note(took)
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
        """Note that the call failed and will not be repeated."""
        self._note(self._count())

    def _count(self) -> float:
        took = monotonic() - self._began
        self._spent += min(took, self._retrier.counted_s)
        return took

    def _note(self, took: float) -> None:
        # A store that fails at once costs no wait: the next call, such as one that removes what
        # this call left, has one attempt.
        retrier = self._retrier
        most = retrier.limit_s - retrier.try_s if took < _AT_ONCE_S else self._spent
        retrier.earlier.silence = (min(self._spent, most), monotonic())

    def succeeded(self) -> None:
        """Note that the store answered."""
        self._retrier.earlier.silence = (0.0, 0.0)
