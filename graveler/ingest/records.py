"""The records of one ingestion branch, in the key-value partition ``ingest:<uid>``.

History alone shows whether an hour is committed or published. The records hold the rest.
``standing/<branch>`` holds why publishing is held and which change is being quarantined.
``hour/<branch>/<hour>`` holds hints about an hour: where to look for its changes.
``quarantine/<branch>/<name>`` holds a quarantined change. A record is changed only by
compare-and-set.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from graveler.base.clock import unix_us
from graveler.base.records import Fields, decode_json, encode_json
from graveler.kv.record_store import RecordStore
from graveler.reads.stores import Stores
from graveler.runs.record import Refusal


class HourState(StrEnum):
    """The state of an hour."""

    EMPTY = "empty"
    """Its tick found nothing staged and no earlier commit waits, or its changes were dropped."""
    COMMITTED = "committed"
    """Not published yet; the hour, or an earlier hour before it, is committed on the branch."""
    HELD = "held"
    """Publishing is held until the branch is repaired, or a path of the hour conflicts."""
    QUARANTINED = "quarantined"
    PUBLISHED = "published"


@dataclass(frozen=True, slots=True)
class HourRecord:
    """What the ticks of an hour noted. The state of the hour is computed when it is read.

    Attributes:
        hour: The hour, ``2013-01-01T05:00Z``.
        commits: Commits of the ticks on the ingestion branch, oldest first.
        late: Earlier hours that have files in these commits, at most a thousand.
        published: The commit that published the last of them to the target; "" until it is seen.
        line: The line of the target that has it, see `graveler.model.BranchRecord.line`.
        behind: If nothing was staged, the newest commit that waited to be published then, or "".
        aside: Paths that were set aside, at most a hundred, each with its quarantine.
        ticked: Whether a tick of the hour has committed, or found nothing staged.
    """

    hour: str
    commits: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    published: str = ""
    line: str = ""
    behind: str = ""
    aside: dict[str, str] = field(default_factory=dict)
    ticked: bool = True
    nonce: str = ""


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A refused change, or writes that conflict with the target, on a branch of its own.

    Attributes:
        name: Name of the branch.
        hours: The hours of the change; of conflicting writes, at most the latest 24.
        commits: The commits that were removed from the ingestion branch.
        head: The first commit of the branch: the change on top of what was published before it.
        refusal: Why the change was refused.
        created: When it was quarantined.
        releasing: Whether a release has begun; a later call finishes an interrupted release.
        released: The commit that released it to the target; "" before.
        policy: For conflicting writes, why they are here: ``hold``, ``quarantine`` or ``target``.
        units: Folders of tables that are here as a whole.
        nonce: Unique to every write.
    """

    name: str
    hours: tuple[str, ...]
    commits: tuple[str, ...]
    head: str
    refusal: Refusal
    created: datetime
    releasing: bool = False
    released: str = ""
    policy: str = ""
    units: tuple[str, ...] = ()
    nonce: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """The decisions that are in force for an ingestion branch.

    Attributes:
        held: Why publishing is held, or None.
        taking: The change that is being quarantined: it is decided and not finished.
        into: The branch to which it is published; "" before the first tick.
        shelves: Quarantines that conflicting writes join: they may be released or deleted by now.
        sealed: The head of the branch when a tick committed nothing, and nothing was left staged.
    """

    held: Refusal | None = None
    taking: Quarantine | None = None
    into: str = ""
    shelves: tuple[str, ...] = ()
    sealed: str = ""
    nonce: str = ""


_R = TypeVar("_R", HourRecord, Quarantine, Standing)


class IngestRecords:
    """The records of one ingestion branch."""

    def __init__(self, stores: Stores, branch: str) -> None:
        self._stores = stores
        self._branch = branch

    def standing(self) -> Standing:
        """Return the decisions that are in force."""
        return self._kind("standing", decode_standing).get("") or Standing()

    def change_standing(self, change: Callable[[Standing], Standing]) -> Standing:
        """Replace the standing by ``change(standing)`` in one atomic step and return it."""
        kind = self._kind("standing", decode_standing)
        return self._update(kind, "", lambda record: change(record or Standing()))

    def hour(self, hour: str) -> HourRecord | None:
        """Return the result of the ticks of an hour; None before the first tick."""
        return self._kind("hour", decode_hour).get(hour)

    def change_hour(self, hour: str, change: Callable[[HourRecord], HourRecord]) -> HourRecord:
        """Replace the record of an hour by ``change(record)`` in one atomic step and return it."""
        kind = self._kind("hour", decode_hour)
        return self._update(kind, hour, lambda record: change(record or HourRecord(hour)))

    def quarantine(self, name: str) -> Quarantine | None:
        """Return the quarantine of that name, or None."""
        return self._kind("quarantine", decode_quarantine).get(name)

    def quarantines(self) -> Iterator[Quarantine]:
        """Yield every quarantine by name, including released ones."""
        rows = self._kind("quarantine", decode_quarantine).scan(self._key("quarantine", "") + b"/")
        return (record for _, record in rows)

    def change_quarantine(
        self, record: Quarantine, change: Callable[[Quarantine], Quarantine] = lambda record: record
    ) -> Quarantine:
        """Replace a quarantine by ``change(quarantine)`` in one atomic step and return it.

        If it is not stored yet, it is stored; without `change`, a stored one stays.
        """
        kind = self._kind("quarantine", decode_quarantine)
        return self._update(kind, record.name, lambda stored: change(stored or record))

    def _key(self, kind: str, name: str) -> bytes:
        return "/".join(filter(None, (kind, self._branch, name))).encode()

    def _kind(self, kind: str, decode: Callable[[bytes], _R]) -> RecordStore[str, _R]:
        return RecordStore(
            self._stores.kv,
            f"ingest:{self._stores.uid}",
            key=lambda name: self._key(kind, name),
            encode=encode,
            decode=decode,
        )

    def _update(
        self, kind: RecordStore[str, _R], name: str, change: Callable[[_R | None], _R]
    ) -> _R:
        """Write ``change(record)`` with a new nonce, unless it equals the stored record."""
        ids = self._stores.ids

        def changed(record: _R | None) -> _R:
            new = change(record)
            return new if new is record else replace(new, nonce=ids.unique())

        what = f"records of ingestion branch {self._branch!r}"
        return kind.update(name, changed, what=what, clock=self._stores.clock, ids=ids)


def branches_of(stores: Stores) -> Iterator[str]:
    """Yield the names of the ingestion branches that have had a tick."""
    start = b"standing/"
    for key, _ in stores.kv.scan_below(f"ingest:{stores.uid}", start):
        yield key.removeprefix(start).decode()


def encode(record: HourRecord | Quarantine | Standing) -> bytes:
    """Return a record as bytes."""
    return encode_json(_plain(asdict(record)))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return unix_us(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return value


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
        policy=fields.text("policy", ""),
        units=fields.texts("units", ()),
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
        line=fields.text("line", ""),
        behind=fields.digest("behind", ""),
        aside=dict(fields.pairs("aside", {})),
        ticked=fields.flag("ticked", True),
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
    return Standing(
        held=held,
        taking=taking,
        into=fields.text("into", ""),
        shelves=fields.texts("shelves", ()),
        sealed=fields.digest("sealed", ""),
        nonce=fields.text("nonce"),
    )
