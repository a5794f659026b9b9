"""A clock and ids that a test controls."""

import random
from datetime import UTC, datetime, timedelta
from threading import Lock

from graveler.base.clock import Clock, IdSource


class FakeClock(Clock):
    """A clock that moves by ``advance`` and ``sleep``, and by a microsecond with each call.

    The lake's clock measures leases, times to live, grace periods and ages, so they expire when the
    test moves it::

        clock.advance(minutes=20)
        repo.runs.reap(dry_run=False)
    """

    def __init__(self, start: datetime | None = None) -> None:
        self._now = start or datetime(2013, 1, 1, tzinfo=UTC)
        self._lock = Lock()

    def now(self) -> datetime:
        """Return the time, a microsecond later with each call, so that times show the order."""
        with self._lock:
            self._now += timedelta(microseconds=1)
            return self._now

    def sleep(self, seconds: float) -> None:
        """Advance the time instead of waiting."""
        self.advance(seconds=seconds)

    def advance(self, by: timedelta | None = None, **parts: float) -> datetime:
        """Advance the time by a timedelta or by its parts (``hours=2``); return it."""
        with self._lock:
            self._now += (by or timedelta()) + timedelta(**parts)
            return self._now

    def set(self, moment: datetime) -> None:
        """Set the time, which may be earlier."""
        with self._lock:
            self._now = moment.astimezone(UTC)


class SequenceIds(IdSource):
    """Ids that count from one, for tests that compare runs."""

    def __init__(self, seed: int = 0) -> None:
        self._last = 0
        self._random = random.Random(seed)

    def unique(self) -> str:
        """Return the next number."""
        self._last += 1
        return f"{self._last:032x}"

    def jitter(self) -> float:
        """Return the next number of the seed's sequence."""
        return self._random.random()
