"""The records that all layers share, and the limits of their fields.

Records are frozen and slotted, without behaviour of their own. Writers refuse values above a limit,
and readers accept everything that a writer may write. Sizes are bytes of UTF-8. Texts count as in
JSON: control characters take six bytes, quotes and backslashes two. ``docs/formats/limits.md`` has
the table.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from operator import attrgetter
from typing import Any, NamedTuple

from graveler.display import Shown

REVERT = "graveler.revert"
"""Metadata of a commit that reverts another one: its id."""
PATH_BYTES = 1024
"""Limit of a path, because DynamoDB accepts no longer key."""
RANGE_KEY_BYTES = PATH_BYTES + 256
"""Limit of a key of a range: a path, or the path of a claim with its writer."""
ADDRESS_BYTES = 4096
"""Limit of an entry's address."""
CHECKSUM_BYTES = 256
"""Limit of an entry's checksum, including the algorithm, and of its version in a foreign store."""
CONTENT_TYPE_BYTES = 256
"""Limit of an entry's content type."""
METADATA_PAIRS = 1000
"""Maximum number of metadata pairs of an entry, a commit or a run."""
METADATA_BYTES = 64 * 1024
"""Limit of all names and values of such metadata together."""
ENTRY_BYTES = 128 * 1024
"""Limit of an entry's value record, above the sum of the limits of its fields."""
MESSAGE_BYTES = 64 * 1024
"""Limit of a commit's message, and of the reason for which a run is set aside."""
COMMITTER_BYTES = 1024
"""Limit of a committer's name."""
RECORD_BYTES = 384 * 1024
"""Limit of the record of a commit or a run. With its keys it fits into an item of DynamoDB."""
RUN_KEY_BYTES = 4096
"""Limit of a run's key, a step's name and an owner."""
REF_CHARACTERS = 200
"""Limit of the name of a branch or a tag, in characters."""
KEY_BYTES = 4096
"""Limit of a key in a table. Without a limit, a small file could make the reader copy huge keys,
because each key may share the beginning of the previous one."""
BLOCK_BYTES = 64 * 1024 * 1024
"""Limit of a decompressed block of a table. A record is never split."""

CLAIMS = "graveler.claims"
"""Metadata of a commit: the metarange id of its claims, if it has any."""
LONGEST_DURATION = timedelta(days=36_500)
"""Limit of leases, times to live, windows and grace. Added to a time of `TIMES` it gives a time."""
TIMES = (datetime(1, 1, 2, tzinfo=UTC), datetime(9800, 1, 1, tzinfo=UTC))
"""The first and the last time that records can hold."""


class _Deferred:
    """An entry whose fields are decoded when the first one is read.

    A listing makes an object for every path, and most readers use only one or two fields.
    """

    __slots__ = ("_stored",)

    def __getattr__(self, name: str) -> Any:
        # called for an empty slot, and for a name that is not a field
        if name not in _ENTRY_FIELDS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        decode, key, value, origin = self._stored
        values = decode(key, value)
        for field_name, decoded in zip(_ENTRY_FIELDS, (*values, origin, values[1:4]), strict=True):
            object.__setattr__(self, field_name, decoded)
        return object.__getattribute__(self, name)


@dataclass(frozen=True, slots=True, eq=False)
class Entry(_Deferred, Shown):
    """A path of a tree and the address of its bytes.

    An entry that was read from a tree is decoded when its first field is read. Damage that no hash
    has detected raises CorruptionError at that time.

    Attributes:
        path: UTF-8 text, 1 to 1024 bytes, compared bytewise.
        address: Key in the repository's storage (``data/…``), or a full URI
            (``s3://…``, ``file:///…``) of a linked file.
        size: Size in bytes.
        checksum: ``algorithm:hex`` of the content, or "" if a linked file has none. A checksum that
            the caller declared is verified when the file is read. It is not part of the identity.
        content_type: Media type, or "".
        mtime: The time at which the bytes were written, UTC.
        metadata: The user's pairs.
        version: The version of a foreign file when it was linked: ``etag:<ETag>`` or
            ``mtime:<µs>``. "" in the repository's own storage, where no address is used twice.
        computed: Whether graveler computed the checksum of bytes that it stored or read.
        origin: The branch, or the commit, of the view that the entry was read from, or "". It is not
            stored, and not part of the identity.
        seal: Address, size and checksum with which graveler made or read the entry. `computed`
            counts for them alone. It is not stored, and not part of the identity.
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
    origin: str = field(default="", repr=False)
    seal: tuple[str, int, str] | None = field(default=None, repr=False)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Entry):
            return NotImplemented
        return _entry_values(self) == _entry_values(other)

    __hash__ = None  # type: ignore[assignment]


_ENTRY_FIELDS = tuple(field.name for field in fields(Entry))
_entry_values = attrgetter(*_ENTRY_FIELDS[:-2])
seal_of = attrgetter("address", "size", "checksum")
"""Return the seal of an entry with these fields."""


@dataclass(frozen=True, slots=True)
class Prefix(Shown):
    """Paths that a listing folds into one item. The prefix ends with the delimiter."""

    path: str


@dataclass(frozen=True, slots=True)
class Transfer:
    """The result of a call that transfers many files.

    Attributes:
        files: Number of transferred files.
        bytes: Total size of these files.
        skipped: Number of files whose content existed already.
        deleted: Number of files that were deleted because the source does not have them.
    """

    files: int
    bytes: int
    skipped: int = 0
    deleted: int = 0


class ChangeKind(StrEnum):
    """The kind of the change of a path from the left tree to the right one."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"

    @classmethod
    def of(cls, before: object | None, after: object | None) -> "ChangeKind":
        """Return the kind of the change from `before` to `after`. None means a missing path."""
        if before is None:
            return cls.ADDED
        return cls.REMOVED if after is None else cls.CHANGED


@dataclass(frozen=True, slots=True)
class Change(Shown):
    """A path that differs between two trees.

    Attributes:
        path: The path.
        kind: Added, changed or removed.
        before: The left tree's entry, or None if the path was added.
        after: The right tree's entry, or None if the path was removed.
        author: Of a staged change: who staged it, the committer or the key of the run. "" if it is
            unknown, as of what version 0.2 staged.
        at: Of a staged change: when, UTC. None if it is unknown.
    """

    path: str
    kind: ChangeKind
    before: Entry | None
    after: Entry | None
    author: str = field(default="", compare=False)
    at: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ChangedBy:
    """The last change of a path on one side of a merge.

    Attributes:
        commit: Id of the commit on that side's own line.
        run: Key of the run that made or published it, or "".
    """

    commit: str
    run: str = ""


@dataclass(frozen=True, slots=True)
class Conflict(Shown):
    """A path that both sides of a merge changed in different ways.

    Attributes:
        path: The path.
        base: Its entry in the merge base, or None if it is missing.
        source: Its entry in the merge source, or None if it is missing.
        dest: Its entry in the merge destination, or None if it is missing.
        bases_disagree: Whether there are several merge bases whose entries cannot be merged. Then
            `base` is None.
        source_change: The last change on the source's side, or None if unknown.
        dest_change: The same for the destination's side.
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
    """A range, as recorded in its metarange.

    Attributes:
        id: Range id, 32 raw bytes.
        min_key: First key.
        max_key: Last key.
        count: Number of records.
        size: Logical bytes: the sum of key and value lengths.
        natural: Whether the splitting policy ends the range at this place, given the next key of
            the tree.
        total: The sum of the ids of its records, 32 bytes. The sum over the ranges of a tree does
            not depend on where they end.
        digest: SHA-256 of the framed records. It verifies them without their ids.
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
class Commit(Shown):
    """An immutable point of history.

    Attributes:
        id: 64 hex digits, the hash of the other fields. The exceptions are marked below.
        metarange: Id (hex) of the tree.
        parents: Commit ids, first parent first.
        generation: 1 for a root, else 1 + the largest of its parents' ones. Not part of its id.
        message: Free text.
        committer: Name of the committer.
        created: The time of the commit, UTC, in microseconds.
        metadata: The caller's pairs. Names that start with ``graveler.`` are graveler's own.
        tokens: The staging tokens whose writes it contains. Not part of its id.
        spans: First and last key of each stretch of ranges in which it differs from its first
            parent, in key order. None if they were not recorded. Not part of its id.
        by_other: Whether other committers have committed all of the requested writes, so that this
            commit was not made for the request. Never stored.
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

    @property
    def trees(self) -> tuple[str, ...]:
        """The ids of its trees: that of the files, and that of the claims if it has any."""
        claims = self.metadata.get(CLAIMS)
        return (self.metarange,) if claims is None else (self.metarange, claims)


class Move(NamedTuple):
    """One step of a branch from commit to commit.

    Attributes:
        at_us: The time in microseconds since 1970, by the mover's clock.
        action: The action: ``create``, ``commit``, ``merge``, ``delete``, …
        commit: The branch's head after the move.
        actor: Name of the actor, if known.
    """

    at_us: int
    action: str
    commit: str
    actor: str


class Dropped(NamedTuple):
    """Staged writes that a reset of a branch dropped.

    Attributes:
        move: Number of the move in the branch's log, from 0.
        files: Number of the writes.
        tokens: Their tokens, oldest first, which no branch has any longer.
    """

    move: int
    files: int
    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BranchRecord(Shown):
    """The only mutable record of a branch. It changes only by compare-and-set.

    Attributes:
        name: Branch name.
        commit_id: The head.
        staging_token: The partition of the branch's current writes.
        sealed_tokens: Partitions whose writes wait for a commit, oldest first.
        attempt: The attempt of the run that owns the branch, or 0 for a user's branch.
        fence: An id that is unique to one opening of the branch by a run. A writer with another
            fence is stale. "" for a user's branch, which all users may write.
        hidden: Whether listings omit the branch, such as those of runs.
        nonce: A value that differs with every write, to distinguish a lost reply from a lost race.
        born: An id that is unique to this creation of the branch, see `graveler.refs.moves`.
        moves: The latest moves, oldest first. The last one is the move to ``commit_id``.
        pages: Number of pages of older moves in the log.
        voided: How many times staged writes gave way to a commit of their paths.
        rewound: How many times it moved to a commit that was not made on top of its head.
        lost: The head when it was accepted without parts of its tree. While it is the head, nothing
            is made on top of it.
        dropped: What the latest resets dropped, oldest first.
        ends: When maintenance deletes the branch. None: never.
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
    rewound: int = 0
    lost: str = ""
    dropped: tuple[Dropped, ...] = ()
    ends: datetime | None = None

    @property
    def line(self) -> str:
        """While it stays the same, every later head has every earlier one in its history."""
        return f"{self.born}.{self.rewound}"
