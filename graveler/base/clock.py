"""Interfaces of time, ids and randomness, which tests replace, and time as a number."""

import logging
import os
import random
import time
from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta

_log = logging.getLogger(__name__)
_WRONG = timedelta(minutes=5)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(ABC):
    """The source of time."""

    @abstractmethod
    def now(self) -> datetime:
        """Return the current time, UTC and aware."""

    @abstractmethod
    def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""


class SystemClock(Clock):
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the machine's time in UTC."""
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)


class StoreClock(Clock):
    """The machine's clock, or the object store's while the two differ by more than five minutes.

    Args:
        local: Whether the store is a folder, which has the clock of the machine.
    """

    def __init__(self, clock: Clock, *, local: bool) -> None:
        self.machine = clock.now
        self._clock = clock
        self._local = local
        self._ahead = timedelta()
        self._warned = False

    def now(self) -> datetime:
        """Return the time in UTC."""
        return self._clock.now() + self._ahead

    def sleep(self, seconds: float) -> None:
        """Sleep."""
        self._clock.sleep(seconds)

    def note(self, written: datetime, since: datetime) -> None:
        """Compare the clocks."""
        now = self._clock.now()
        right = self._local or since - _WRONG <= written <= now + _WRONG
        self._ahead = timedelta() if right else written - now
        if not right and not self._warned:
            self._warned = True
            _log.warning(
                "the clock of this machine is %d minutes %s that of the object store: commits get "
                "the time of the store; set the clock",
                round(abs(self._ahead).total_seconds() / 60),
                "behind" if self._ahead > timedelta() else "ahead of",
            )


class IdSource(ABC):
    """The source of unique names and randomness."""

    @abstractmethod
    def unique(self) -> str:
        """Return 32 hex digits that this source or another one never returned before."""

    @abstractmethod
    def jitter(self) -> float:
        """Return a number from 0 up to 1, for spreading retries."""


class RandomIds(IdSource):
    """Ids of 128 bits that sort by the millisecond of their creation.

    Objects that are made at the same time are neighbours in a store's listing, so a sweep by age
    reads few pages. 48 bits are time and 80 are random, as in UUID version 7.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    def unique(self) -> str:
        """Return 12 hex digits of time and 20 random ones."""
        milliseconds = int(self._clock.now().timestamp() * 1000) & 0xFFFFFFFFFFFF
        return f"{milliseconds:012x}{os.urandom(10).hex()}"

    def jitter(self) -> float:
        """Return a random number."""
        return random.random()


def unix_us(moment: datetime) -> int:
    """Return whole microseconds since 1970-01-01 UTC of an aware `moment`."""
    return (moment - _EPOCH) // timedelta.resolution


def from_unix_us(value: int) -> datetime:
    """Return the aware UTC time `value` microseconds after 1970."""
    return _EPOCH + timedelta(microseconds=value)
