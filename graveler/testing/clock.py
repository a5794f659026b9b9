"""A clock that a test moves."""

from datetime import UTC, datetime, timedelta
from threading import Lock

from graveler.clock import Clock

__all__ = ["LakeClock"]


class LakeClock(Clock):
    """Stands still but for a microsecond a look; ``advance`` moves it, and so does ``sleep``.

    Leases, times to live, grace periods and ages are counted by the lake's clock, so they run
    out when the test says so::

        clock.advance(minutes=20)
        repo.runs.reap(dry_run=False)
    """

    def __init__(self, start: datetime | None = None) -> None:
        self._now = start or datetime(2026, 1, 1, tzinfo=UTC)
        self._lock = Lock()

    def now(self) -> datetime:
        """Return the time set, a microsecond later with each call, so that order shows."""
        with self._lock:
            self._now += timedelta(microseconds=1)
            return self._now

    def sleep(self, seconds: float) -> None:
        """Move the time on instead of waiting."""
        self.advance(seconds=seconds)

    def advance(self, by: timedelta | None = None, **parts: float) -> datetime:
        """Move the time on, by a timedelta or by its parts (``hours=2``); return it."""
        with self._lock:
            self._now += (by or timedelta()) + timedelta(**parts)
            return self._now

    def set(self, moment: datetime) -> None:
        """Set the time, also backwards."""
        with self._lock:
            self._now = moment.astimezone(UTC)
