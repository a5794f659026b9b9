"""The records that every floor shares, and how large their fields may be.

Records are frozen and slotted, without behaviour of their own. Writers refuse what exceeds a limit, and
readers take as much as a writer may write. Sizes are bytes of UTF-8, and texts count as in JSON:
control characters take six bytes, quotes and backslashes two. ``docs/formats/limits.md`` has the
table.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final, NamedTuple

PATH_BYTES: Final = 1024
"""Of a path; DynamoDB takes no longer key."""
ADDRESS_BYTES: Final = 4096
"""Of an entry's address."""
CHECKSUM_BYTES: Final = 256
"""Of an entry's checksum, algorithm included, and of what a foreign store calls its version."""
CONTENT_TYPE_BYTES: Final = 256
"""Of an entry's content type."""
METADATA_PAIRS: Final = 1000
"""Pairs of metadata of an entry, a commit or a run."""
METADATA_BYTES: Final = 64 * 1024
"""Of all names and values of such metadata together."""
ENTRY_BYTES: Final = 128 * 1024
"""Of an entry's value record: more than all that may be in it."""
MESSAGE_BYTES: Final = 64 * 1024
"""Of a commit's message, and of the reason for which a run is set aside."""
COMMITTER_BYTES: Final = 1024
"""Of a committer's name."""
RECORD_BYTES: Final = 384 * 1024
"""Of a commit's record, and of a run's; with its names it fits into an item of DynamoDB."""
RUN_KEY_BYTES: Final = 4096
"""Of a run's key, a step's name and an owner."""
REF_CHARACTERS: Final = 200
"""Of the name of a branch or a tag."""
KEY_BYTES: Final = 4096
"""Of a key that a reader of tables takes. Without a limit a small file could make the reader copy
keys without end: each one may take over the beginning of the one before it."""
BLOCK_BYTES: Final = 64 * 1024 * 1024
"""Of a block of a table, unpacked; one record is never split."""

LONGEST_DURATION: Final = timedelta(days=36_500)
"""Of leases, times to live, windows and grace; added to any time of `TIMES` it gives a time."""
TIMES: Final = (datetime(1, 1, 2, tzinfo=UTC), datetime(9800, 1, 1, tzinfo=UTC))
"""The first and the last time that records hold."""


class _Deferred:
    """An entry whose fields are decoded when the first one is read.

    A listing makes an object for every path, and most readers look at one or two fields.
    """

    __slots__ = ("_stored",)

    def __getattr__(self, name: str) -> Any:
        # reached for an empty slot, and for a name that is no field
        if name not in _ENTRY_FIELDS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        decode, key, value = self._stored
        for field_name, decoded in zip(_ENTRY_FIELDS, decode(key, value), strict=True):
            object.__setattr__(self, field_name, decoded)
        return object.__getattribute__(self, name)


@dataclass(frozen=True, slots=True, eq=False)
class Entry(_Deferred):
    """One path of a tree and where its bytes are.

    An entry that was read from a tree is decoded when its first field is read; damage in it that
    no hash has found raises CorruptionError then.

    Attributes:
        path: UTF-8 text, 1 to 1024 bytes, compared bytewise.
        address: Key in the repository's storage (``data/…``), or a full URI
            (``s3://…``, ``file:///…``) of a linked file.
        size: Bytes.
        checksum: ``algorithm:hex`` of the content, or "" where a linked file has none. One that
            the caller declared is checked when the file is read and decides nothing.
        content_type: Media type, or "".
        mtime: When the bytes were written, UTC.
        metadata: The user's own pairs.
        version: What the store of a foreign file reported when it was linked: ``etag:<ETag>`` or
            ``mtime:<µs>``; "" in the repository's own storage, where no address is used twice.
        computed: Whether graveler computed the checksum, of bytes that it stored or read.
    """

    path: str
    address: str
    size: int
    checksum: str = ""
    content_type: str = ""
    mtime: datetime | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    computed: bool = False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Entry):
            return NotImplemented
        return _entry_values(self) == _entry_values(other)

    __hash__ = None  # type: ignore[assignment]


_ENTRY_FIELDS: Final = tuple(field.name for field in fields(Entry))
_entry_values = attrgetter(*_ENTRY_FIELDS)


@dataclass(frozen=True, slots=True)
class Prefix:
    """Paths folded into one line of a listing by its delimiter; ends with the delimiter."""

    path: str


@dataclass(frozen=True, slots=True)
class Transfer:
    """What a call that moves many files did.

    Attributes:
        files: Files that were moved.
        bytes: Their bytes.
        skipped: Files whose content was there already.
        deleted: Files that were deleted, because the source does not have them.
    """

    files: int
    bytes: int
    skipped: int = 0
    deleted: int = 0


class ChangeKind(StrEnum):
    """What happened to a path from the left tree to the right one."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"

    @classmethod
    def of(cls, before: object | None, after: object | None) -> "ChangeKind":
        """Return what happened to a path that had `before` and has `after`; None: nothing there."""
        if before is None:
            return cls.ADDED
        return cls.REMOVED if after is None else cls.CHANGED


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs between two trees.

    Attributes:
        path: The path.
        kind: Added, changed or removed.
        before: The left tree's entry, None where added.
        after: The right tree's entry, None where removed.
    """

    path: str
    kind: ChangeKind
    before: Entry | None
    after: Entry | None


@dataclass(frozen=True, slots=True)
class ChangedBy:
    """What changed a path last on one side of a merge.

    Attributes:
        commit: Id of the commit on that side's own line.
        run: Key of the run that made or published it, "" where no run did.
    """

    commit: str
    run: str = ""


@dataclass(frozen=True, slots=True)
class Conflict:
    """A path that both sides of a merge changed, differently.

    Attributes:
        path: The path.
        base: Its entry in what both started from, None where the path is missing.
        source: Its entry in the merge source, None where missing.
        dest: Its entry in the merge destination, None where missing.
        bases_disagree: There are several merge bases, and what they have at the path cannot be
            merged; `base` is None.
        source_change: What changed it last on the source's side, None where that is not known.
        dest_change: The same of the destination's side.
    """

    path: str
    base: Entry | None
    source: Entry | None
    dest: Entry | None
    bases_disagree: bool = False
    source_change: ChangedBy | None = None
    dest_change: ChangedBy | None = None


@dataclass(frozen=True, slots=True)
class RangeInfo:
    """One range, as its metarange records it.

    Attributes:
        id: Range id, 32 raw bytes.
        min_key: First key.
        max_key: Last key.
        count: Records.
        size: Logical bytes: the sum of key and value lengths.
        natural: Whether the splitting policy ends it where it ends, given the key that follows it
            in the tree.
        total: The sum of the ids of its records, 32 bytes. The sum over the ranges of a tree does
            not depend on where they end.
        digest: SHA-256 of the records, framed: they are verified by it without their ids.
    """

    id: bytes
    min_key: bytes
    max_key: bytes
    count: int
    size: int
    natural: bool = False
    total: bytes = bytes(32)
    digest: bytes = bytes(32)


@dataclass(frozen=True, slots=True)
class Summary:
    """What applying changes did, in paths and in range files."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    ranges_reused: int = 0
    ranges_written: int = 0

    @property
    def total(self) -> int:
        """Paths that differ."""
        return self.added + self.changed + self.removed


@dataclass(frozen=True, slots=True)
class Commit:
    """An immutable point of history.

    Attributes:
        id: 64 hex digits, a function of every other field but ``generation``.
        metarange: Id (hex) of the tree.
        parents: Commit ids, first parent first.
        generation: 1 for a root, else 1 + the largest of the parents'.
        message: Free text.
        committer: Name of the committer.
        created: When, UTC, microseconds.
        metadata: The caller's pairs; keys that start with ``graveler.`` are ours.
        tokens: The staging tokens whose writes it holds; kept beside the commit, not part of
            its id.
        spans: First and last key of each stretch of ranges in which it differs from its first
            parent, in key order; None where that was not written down. Not part of its id.
        by_other: Of a commit that was asked for: another committer took all of the writes
            along, and this is its commit. Never stored.
    """

    id: str
    metarange: str
    parents: tuple[str, ...]
    generation: int
    message: str
    committer: str
    created: datetime
    metadata: Mapping[str, str]
    tokens: tuple[str, ...] = field(default=(), compare=False)
    spans: tuple[tuple[bytes, bytes], ...] | None = field(default=None, compare=False)
    by_other: bool = field(default=False, compare=False)


class Move(NamedTuple):
    """One step of a branch from commit to commit.

    Attributes:
        at_us: When, microseconds since 1970 by the mover's clock.
        action: What was done: ``create``, ``commit``, ``merge``, ``delete``, …
        commit: The branch's head since then.
        actor: Name of the actor, if known.
    """

    at_us: int
    action: str
    commit: str
    actor: str


@dataclass(frozen=True, slots=True)
class BranchRecord:
    """The one mutable record of a branch; it moves by compare-and-set only.

    Attributes:
        name: Branch name.
        commit_id: The head.
        staging_token: Partition that takes the branch's writes now.
        sealed_tokens: Partitions whose writes wait for a commit, oldest first.
        attempt: Counts the attempts of the run that owns the branch; 0 for a user's.
        fence: Unique to one opening of the branch by a run: a writer that holds another
            one is stale. "" for a user's branch, which anyone may write.
        hidden: Left out of listings (the branches of runs).
        nonce: Differs with every write, which distinguishes a lost reply from a lost race.
        born: Unique to this creation of the branch; the order of births is that of time.
        moves: The latest moves, oldest first; ends with the one to ``commit_id``.
        pages: How many pages of older moves were written to the log.
        voided: How many times staged writes gave way to a commit of their paths.
    """

    name: str
    commit_id: str
    staging_token: str
    sealed_tokens: tuple[str, ...] = ()
    attempt: int = 0
    fence: str = ""
    hidden: bool = False
    nonce: str = ""
    born: str = ""
    moves: tuple[Move, ...] = ()
    pages: int = 0
    voided: int = 0
