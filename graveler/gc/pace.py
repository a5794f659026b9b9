"""A limit to the bytes that are read in a second."""

from threading import Lock
from time import monotonic

from graveler.clock import Clock

__all__ = ["Pace"]


class Pace:
    """Makes readers wait; any number of threads share one.

    Args:
        clock: What is slept by.
        bytes_per_second: On average; None: no limit.
    """

    def __init__(self, clock: Clock, bytes_per_second: float | None) -> None:
        self._clock = clock
        self._rate = bytes_per_second
        self._lock = Lock()
        self._free_at = monotonic()

    def take(self, count: int) -> None:
        """Return when `count` bytes more may have been read."""
        if self._rate is None:
            return
        with self._lock:
            now = monotonic()
            self._free_at = max(self._free_at, now) + count / self._rate
            wait = self._free_at - now
        self._clock.sleep(wait)
