"""Commit records: key ``commit/<64 hex>``. They are immutable, so a cached one is never outdated.

The id of each record is verified when it is loaded; the generation, which it does not cover, must
decrease to the parents. The tree of a commit may be deleted: it is *condemned* from the mark that
finds it unreachable until the sweep after the undelete window, and then *expired*. No new ref may
name a condemned commit; a writer that looked it up before the mark removes the condemnation.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from itertools import islice
from threading import RLock

from graveler.base.clock import from_unix_us, unix_us
from graveler.base.forks import watch
from graveler.base.names import check_pairs
from graveler.base.records import DIGEST, NAME, Microseconds, Schema, array, integer, read_key
from graveler.errors import (
    CorruptionError,
    ExpiredError,
    InvalidInputError,
    RefNotFoundError,
    ThrottledError,
)
from graveler.kv.record_store import RecordStore, Version
from graveler.kv.store import KVStore
from graveler.model import RECORD_BYTES, Commit
from graveler.values import framed

_PREFIX = b"commit/"
_CACHED = 10_000
_SHORTEST_PREFIX = 4


def id_of(commit: Commit) -> str:
    """Return the id that follows from the fields of a commit, 64 hex digits."""
    created = unix_us(commit.created)
    texts = (commit.committer, commit.message, commit.metarange)
    fields = framed(*texts, created, commit.metadata, commit.parents)
    return sha256(b"commit:1" + fields).hexdigest()


def _checked(commit: Commit) -> Commit:
    """Return the commit if its id matches its fields, or raise CorruptionError."""
    computed = id_of(commit)
    if computed != commit.id:
        raise CorruptionError(
            f"commit {commit.id} does not match its id (it computes to {computed}): its metarange, "
            "parents, message, committer, time or metadata was damaged or changed in the key-value "
            "store; restore that, or the refs from a dump (graveler refs restore), and run "
            "`graveler fsck`"
        )
    if (commit.generation == 1) != (not commit.parents):
        raise _wrong_generation(commit, f"it has {len(commit.parents)} parents")
    return commit


def _wrong_generation(commit: Commit, why: str) -> CorruptionError:
    return CorruptionError(
        f"commit {commit.id} cannot be read: field 'generation' is {commit.generation}, and {why}: "
        "the record was damaged or changed in the key-value store; restore that, or the refs from "
        "a dump (graveler refs restore)"
    )


class Commits:
    """The commit records of one repository.

    Attributes:
        known: Pairs of a commit and one that has it in its history. No walk looks for them.
    """

    def __init__(self, kv: KVStore, partition: str) -> None:
        self.known: set[tuple[str, str]] = set()
        self._kv = kv
        self._partition = partition
        self._cache: OrderedDict[str, Commit] = OrderedDict()
        self._begin()
        watch(self)

    def _begin(self) -> None:
        self._lock = RLock()  # a signal handler may read meanwhile

    def after_fork_in_child(self) -> None:
        """Replace the lock: a thread of the parent may have held it."""
        self._begin()

    def find(self, identifier: str) -> Commit | None:
        """Return the commit of a full id, or None."""
        try:
            return self.get(identifier)
        except RefNotFoundError:
            return None

    def get(self, identifier: str) -> Commit:
        """Return the commit of a full id, or raise RefNotFoundError."""
        with self._lock:
            commit = self._cache.get(identifier)
            if commit is not None:
                self._cache.move_to_end(identifier)
                return commit
        stored = self._kv.get(self._partition, _PREFIX + identifier.encode())
        if stored is None:
            raise RefNotFoundError(f"no commit {identifier}")
        return self._remember(_checked(decode_commit(identifier, stored.value)))

    def parent(self, commit: Commit, identifier: str) -> Commit:
        """Return a parent of a commit. Raise CorruptionError unless its generation is lower."""
        parent = self.get(identifier)
        if parent.generation >= commit.generation:
            raise _wrong_generation(
                commit, f"that of its parent {identifier[:12]} is {parent.generation}"
            )
        return parent

    def by_prefix(self, prefix: str) -> Commit | None:
        """Return the only commit whose id starts with `prefix` (4 or more hex digits), or None."""
        if len(prefix) < _SHORTEST_PREFIX:
            return None
        rows = self._kv.scan_below(self._partition, _PREFIX + prefix.encode())
        ids = [read_key(key[len(_PREFIX) :], "commit") for key, _ in islice(rows, 2)]
        if len(ids) > 1:
            raise InvalidInputError(
                f"commit prefix {prefix!r} is ambiguous ({ids[0][:16]}…, {ids[1][:16]}…): "
                "give more digits"
            )
        return self.get(ids[0]) if ids else None

    def add(
        self,
        *,
        metarange: str,
        parents: tuple[str, ...],
        message: str,
        committer: str,
        created: datetime,
        metadata: Mapping[str, str],
        tokens: tuple[str, ...] = (),
        spans: tuple[tuple[bytes, bytes], ...] | None = None,
    ) -> Commit:
        """Store a commit and return it. Storing the same commit twice is harmless."""
        check_pairs("commit", metadata)
        commit = Commit(
            id="",
            metarange=metarange,
            parents=parents,
            generation=1 + max((self.get(parent).generation for parent in parents), default=0),
            message=message,
            committer=committer,
            created=created,
            metadata=dict(metadata),
            tokens=tokens,
            spans=spans,
        )
        commit = replace(commit, id=id_of(commit))
        record = encode_commit(commit)
        if len(record) > RECORD_BYTES:
            raise InvalidInputError(
                f"commit of {len(record)} bytes, with message, metadata and what was read: at most "
                f"{RECORD_BYTES}: shorten its message or its metadata"
            )
        self._kv.set(self._partition, _PREFIX + commit.id.encode(), record)
        return self._remember(commit)

    def add_all(self, commits: Iterable[Commit]) -> None:
        """Store commits unchanged in few round trips. The caller has checked their ids."""
        items = [(_PREFIX + commit.id.encode(), encode_commit(commit)) for commit in commits]
        self._kv.set_many(self._partition, items)

    def list(self) -> Iterator[Commit]:
        """Yield every stored commit by id. Each id is verified."""
        for key, value in self._kv.scan_below(self._partition, _PREFIX):
            yield _checked(decode_commit(read_key(key[len(_PREFIX) :], "commit"), value))

    def _remember(self, commit: Commit) -> Commit:
        with self._lock:
            self._cache[commit.id] = commit
            if len(self._cache) > _CACHED:
                self._cache.popitem(last=False)
        return commit


MISSING = "missing"
"""Stands for a mark in the record of a commit whose tree a check found incomplete."""

_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Expired:
    """A commit whose tree garbage collection has condemned or removed.

    Attributes:
        at: The time at which it was condemned or expired, microseconds since 1970, UTC.
        gone: Whether the tree is gone. Otherwise it is kept until the undelete window ends.
    """

    mark: str
    at: Microseconds
    gone: bool

    @property
    def when(self) -> datetime:
        """The time at which the commit was condemned or expired."""
        return from_unix_us(self.at)


EXPIRED = Schema(Expired, "record of an expired commit", states_format=True)


class ExpiredCommits(RecordStore[Expired]):
    """The condemned and the expired commits of one repository.

    Args:
        has_tree: Returns whether the storage has the tree of a commit. Called only for condemned
            commits: a key-value store that was restored from a backup may lack a sweep.
    """

    def __init__(
        self, kv: KVStore, uid: str, *, has_tree: Callable[[str], bool] | None = None
    ) -> None:
        super().__init__(
            kv, f"gc:{uid}", prefix=_PREFIX, encode=EXPIRED.encode, decode=EXPIRED.decode
        )
        self.has_tree = has_tree or (lambda _: True)

    def list(self) -> Iterator[tuple[str, Expired]]:
        """Yield the condemned and expired commits by id."""
        for name, record in self.scan():
            yield read_key(name, "expired commit"), record

    def check_readable(self, commit_id: str) -> None:
        """Raise ExpiredError if the commit's tree is gone."""
        self._find_condemned(commit_id)

    def check_nameable(self, commit_id: str) -> None:
        """Raise ExpiredError if no new ref may name the commit: its tree is gone or condemned."""
        record = self._find_condemned(commit_id)
        if record is not None:
            raise ExpiredError(
                f"commit {commit_id[:12]} was condemned by garbage collection on "
                f"{record.when:%Y-%m-%d %H:%M} UTC, because nothing named it: `graveler gc undelete "
                f"{record.mark}` makes it available again"
            )

    def _find_condemned(self, commit_id: str) -> Expired | None:
        """Return the record of a condemned commit, or None. ExpiredError: its tree is gone."""
        record = self.get(commit_id)
        if record is not None and (record.gone or not self.has_tree(commit_id)):
            raise _gone(commit_id, record)
        return record

    def keep(self, commit_id: str) -> None:
        """Remove the condemnation of a commit that a ref now names."""
        self.keep_found(commit_id, self.find(commit_id))

    def keep_found(self, commit_id: str, stored: Version[Expired] | None) -> None:
        """Keep the commit like `keep`. `stored` was read after a ref named the commit."""
        for _ in range(_ATTEMPTS):
            if stored is None:
                return
            record, predicate = stored
            if record.gone:
                raise _gone(commit_id, record)
            if self.remove(commit_id, predicate):
                return
            stored = self.find(commit_id)
        raise ThrottledError(f"commit {commit_id[:12]}: lost {_ATTEMPTS} races; try again")


def _gone(commit_id: str, record: Expired) -> ExpiredError:
    if record.mark == MISSING:
        return ExpiredError(
            f"commit {commit_id[:12]} expired: a check on {record.when:%Y-%m-%d %H:%M} UTC found parts "
            "of its tree missing in the storage; if they are restored, `graveler fsck "
            "--expire-missing` makes it available again"
        )
    return ExpiredError(
        f"commit {commit_id[:12]} expired: garbage collection {record.mark} "
        f"{'removed' if record.gone else 'condemned, and later removed,'} its tree on "
        f"{record.when:%Y-%m-%d %H:%M} UTC, because no ref and no retention rule kept it; the commit "
        "itself stays in the log: choose one that `graveler log` does not show as expired"
    )


COMMIT = Schema(
    Commit,
    types={
        "metarange": DIGEST,
        "parents": array(DIGEST),
        "generation": integer(least=1),
        "tokens": array(NAME),
    },
    apart=("id", "by_other"),
    added=("tokens",),
)


def encode_commit(commit: Commit) -> bytes:
    """Return the commit record's JSON."""
    return COMMIT.encode(commit)


def decode_commit(identifier: str, raw: bytes) -> Commit:
    """Return the commit stored under `identifier`, or raise CorruptionError."""
    what = f"commit {identifier}"
    if len(raw) > RECORD_BYTES:
        raise CorruptionError(f"{what} has a record of {len(raw)} bytes: at most {RECORD_BYTES}")
    return COMMIT.decode(raw, what, id=identifier)
