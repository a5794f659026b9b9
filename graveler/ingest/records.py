"""The records of one ingestion branch, in the key-value partition ``ingest:<uid>``.

History alone shows whether an hour is committed or published. The records hold the rest.
``standing/<branch>`` holds why publishing is held and which change is being quarantined.
``hour/<branch>/<hour>`` holds hints about an hour: where to look for its changes.
``quarantine/<branch>/<name>`` holds a quarantined change. A record is changed only by
compare-and-set.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from graveler.base.records import Digest, DigestOrNone, Name, Schema, optional
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
        behind: If nothing was staged, the newest commit that waited to be published then, or "".
        aside: Paths that were set aside, at most a hundred, each with its quarantine.
        ticked: Whether a tick of the hour has committed, or found nothing staged.
    """

    hour: str
    commits: tuple[Digest, ...] = ()
    late: tuple[str, ...] = ()
    published: DigestOrNone = ""
    line: str = ""
    behind: DigestOrNone = ""
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

    name: Name
    hours: tuple[str, ...]
    commits: tuple[Digest, ...]
    head: Digest
    refusal: Refusal
    created: datetime
    releasing: bool = False
    released: DigestOrNone = ""
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
    sealed: DigestOrNone = ""
    nonce: str = ""


HOUR = Schema(
    HourRecord,
    "hour of an ingestion",
    added=("published", "line", "behind", "aside", "ticked"),
)
QUARANTINE = Schema(Quarantine, "quarantine", added=("released", "policy", "units"))
STANDING = Schema(
    Standing,
    "standing of an ingestion",
    types={"taking": optional(QUARANTINE)},
    added=("into", "shelves", "sealed"),
)
_R = TypeVar("_R", HourRecord, Quarantine, Standing)


class IngestRecords:
    """The records of one ingestion branch."""

    def __init__(self, stores: Stores, branch: str) -> None:
        self._stores = stores
        self._branch = branch
        self._standing = self._of(STANDING, "standing/")
        self._hours = self._of(HOUR, f"hour/{branch}/")
        self._quarantines = self._of(QUARANTINE, f"quarantine/{branch}/")

    def standing(self) -> Standing:
        """Return the decisions that are in force."""
        return self._standing.get(self._branch) or Standing()

    def change_standing(self, change: Callable[[Standing], Standing]) -> Standing:
        """Replace the standing by ``change(standing)`` in one atomic step and return it."""
        return self._update(
            self._standing, self._branch, lambda record: change(record or Standing())
        )

    def hour(self, hour: str) -> HourRecord | None:
        """Return the result of the ticks of an hour; None before the first tick."""
        return self._hours.get(hour)

    def change_hour(self, hour: str, change: Callable[[HourRecord], HourRecord]) -> HourRecord:
        """Replace the record of an hour by ``change(record)`` in one atomic step and return it."""
        return self._update(self._hours, hour, lambda record: change(record or HourRecord(hour)))

    def quarantine(self, name: str) -> Quarantine | None:
        """Return the quarantine of that name, or None."""
        return self._quarantines.get(name)

    def quarantines(self) -> Iterator[Quarantine]:
        """Yield every quarantine by name, including released ones."""
        return (record for _, record in self._quarantines.scan())

    def change_quarantine(
        self, record: Quarantine, change: Callable[[Quarantine], Quarantine] = lambda record: record
    ) -> Quarantine:
        """Replace a quarantine by ``change(quarantine)`` in one atomic step and return it.

        If it is not stored yet, it is stored; without `change`, a stored one stays.
        """
        return self._update(self._quarantines, record.name, lambda stored: change(stored or record))

    def _of(self, schema: Schema[_R], prefix: str) -> RecordStore[_R]:
        return RecordStore(
            self._stores.kv,
            f"ingest:{self._stores.uid}",
            prefix=prefix.encode(),
            encode=schema.encode,
            decode=schema.decode,
        )

    def _update(self, kind: RecordStore[_R], name: str, change: Callable[[_R | None], _R]) -> _R:
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
