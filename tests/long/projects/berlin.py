"""Days of Berlin, and numbers that look random, for the deliveries of both projects."""

from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from zoneinfo import ZoneInfo

BERLIN = ZoneInfo("Europe/Berlin")


def hours(day: date) -> list[str]:
    """Return the hours of a day with the offset of Berlin."""
    moment = datetime(day.year, day.month, day.day, tzinfo=BERLIN).astimezone(UTC)
    found = []
    while moment.astimezone(BERLIN).date() == day:
        found.append(moment.astimezone(BERLIN).isoformat())
        moment += timedelta(hours=1)
    return found


def number(*words: object, below: int) -> int:
    """Return a number that looks random and is always the same for the same words."""
    return int.from_bytes(sha256(repr(words).encode()).digest()[:6]) % below
