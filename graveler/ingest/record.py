"""What is kept of an ingestion beside the history of its branches.

That an hour is committed or published is told by history alone. Records hold what history
cannot say: what a tick of an hour was answered, why publishing is held, and which change is
about to be taken off the branch.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from graveler.clock import unix_us
from graveler.fields import Fields
from graveler.records import decode_json, encode_json
from graveler.runs.record import Refusal


class HourState(StrEnum):
    """Where an hour stands."""

    EMPTY = "empty"
    """Its tick found nothing staged, and what waited before it waits no more."""
    COMMITTED = "committed"
    """On the ingestion branch, or behind an earlier hour that is; not published yet."""
    HELD = "held"
    """The same, and publishing is held until it is mended."""
    QUARANTINED = "quarantined"
    PUBLISHED = "published"


@dataclass(frozen=True, slots=True)
class HourRecord:
    """What the ticks of an hour did.

    Attributes:
        hour: The hour, ``2013-01-01T05:00Z``.
        commits: What they committed on the ingestion branch, oldest first.
        late: Earlier hours of which these commits bring files.
        published: The commit by which the last of it reached the target, once that was seen.
        behind: Where they found nothing staged: the newest commit that waited to be published
            at that time, "" where none did.
        nonce: Differs with every write.
    """

    hour: str
    commits: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    published: str = ""
    behind: str = ""
    nonce: str = ""


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A change that was refused, on a branch of its own.

    Attributes:
        name: Of the branch.
        hours: The hours whose change it is.
        commits: What was taken off the ingestion branch.
        head: The branch's first commit: the change, over what was published before it.
        refusal: Why.
        created: When.
        releasing: It is being released; a release that was cut off is gone on with.
        released: The commit by which it reached the target, "" while it has not.
        nonce: Differs with every write.
    """

    name: str
    hours: tuple[str, ...]
    commits: tuple[str, ...]
    head: str
    refusal: Refusal
    created: datetime
    releasing: bool = False
    released: str = ""
    nonce: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """What is going on with an ingestion branch.

    Attributes:
        held: Why publishing is held, or None.
        taking: The change that is being taken off the branch: decided, and not done yet.
        nonce: Differs with every write.
    """

    held: Refusal | None = None
    taking: Quarantine | None = None
    nonce: str = ""


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return unix_us(value)
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return value


def encode(record: HourRecord | Quarantine | Standing) -> bytes:
    """Return a record as bytes."""
    return encode_json(_plain(asdict(record)))


def _refusal(fields: Fields) -> Refusal:
    return Refusal(fields.moment("at"), fields.text("reason"), fields.texts("gates"))


def _quarantine(fields: Fields) -> Quarantine:
    return Quarantine(
        name=fields.name("name"),
        hours=fields.texts("hours"),
        commits=fields.digests("commits"),
        head=fields.digest("head"),
        refusal=_refusal(fields.record("refusal")),
        created=fields.moment("created"),
        releasing=fields.flag("releasing"),
        released=fields.digest("released", ""),
        nonce=fields.text("nonce"),
    )


def decode_hour(raw: bytes) -> HourRecord:
    """Return the record of an hour, or raise CorruptionError."""
    what = "hour of an ingestion"
    fields = Fields(decode_json(raw, what), what)
    return HourRecord(
        hour=fields.text("hour"),
        commits=fields.digests("commits"),
        late=fields.texts("late"),
        published=fields.digest("published", ""),
        behind=fields.digest("behind", ""),
        nonce=fields.text("nonce"),
    )


def decode_quarantine(raw: bytes) -> Quarantine:
    """Return the record of a quarantine, or raise CorruptionError."""
    return _quarantine(Fields(decode_json(raw, "quarantine"), "quarantine"))


def decode_standing(raw: bytes) -> Standing:
    """Return the standing of an ingestion branch, or raise CorruptionError."""
    what = "standing of an ingestion"
    fields = Fields(decode_json(raw, what), what)
    taking = None if fields.value("taking") is None else _quarantine(fields.record("taking"))
    held = None if fields.value("held") is None else _refusal(fields.record("held"))
    return Standing(held=held, taking=taking, nonce=fields.text("nonce"))
