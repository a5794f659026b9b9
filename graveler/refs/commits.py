"""Commit records: key ``commit/<64 hex>``; immutable, so a cached one is never outdated.

The id of each record is verified when it is loaded, because reads, merges and logs rely on its
fields. The id does not cover the generation, the staging tokens and the spans. Walks need the
generation to fall from child to parent, which is checked wherever both are known.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from threading import RLock
from typing import Final

from graveler.errors import CorruptionError, InvalidInputError, RefNotFoundError
from graveler.identity import commit_id
from graveler.kv.store import KVStore
from graveler.limits import RECORD_BYTES
from graveler.model import Commit
from graveler.names import check_pairs
from graveler.records import decode_commit, encode_commit, read_key

_PREFIX: Final = b"commit/"
_CACHED: Final = 10_000
_SHORTEST_PREFIX: Final = 4


def id_of(commit: Commit) -> str:
    """Return the id that follows from the fields of a commit."""
    return commit_id(
        metarange=commit.metarange,
        parents=commit.parents,
        message=commit.message,
        committer=commit.committer,
        created=commit.created,
        metadata=commit.metadata,
    )


def _checked(commit: Commit) -> Commit:
    """Return the commit if its id matches its fields, or raise CorruptionError."""
    found = id_of(commit)
    if found != commit.id:
        raise CorruptionError(
            f"commit {commit.id} is not what its id says (that would be {found}): its metarange, "
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
    """The commit records of one repository."""

    def __init__(self, kv: KVStore, partition: str) -> None:
        self._kv = kv
        self._partition = partition
        self._cache: OrderedDict[str, Commit] = OrderedDict()
        self._lock = RLock()  # a signal handler may read in between

    def find(self, identifier: str) -> Commit | None:
        """Return the commit of a full id, or None."""
        with self._lock:
            commit = self._cache.get(identifier)
            if commit is not None:
                self._cache.move_to_end(identifier)
                return commit
        stored = self._kv.get(self._partition, _PREFIX + identifier.encode())
        if stored is None:
            return None
        return self._remember(_checked(decode_commit(identifier, stored.value)))

    def get(self, identifier: str) -> Commit:
        """Return the commit of a full id, or raise RefNotFoundError."""
        commit = self.find(identifier)
        if commit is None:
            raise RefNotFoundError(f"no commit {identifier}")
        return commit

    def parent(self, commit: Commit, identifier: str) -> Commit:
        """Return a parent of a commit; raise CorruptionError unless its generation is less."""
        parent = self.get(identifier)
        if parent.generation >= commit.generation:
            raise _wrong_generation(
                commit, f"that of its parent {identifier[:12]} is {parent.generation}"
            )
        return parent

    def by_prefix(self, prefix: str) -> Commit | None:
        """Return the one commit whose id starts with `prefix` (4 or more hex digits), or None.

        Raises:
            InvalidInputError: Several do.
        """
        if len(prefix) < _SHORTEST_PREFIX:
            return None
        start = _PREFIX + prefix.encode()
        found: list[str] = []
        for key, _ in self._kv.scan(self._partition, start):
            if not key.startswith(start):
                break
            found.append(read_key(key[len(_PREFIX) :], "commit"))
            if len(found) > 1:
                raise InvalidInputError(
                    f"commit prefix {prefix!r} is ambiguous ({found[0][:16]}…, {found[1][:16]}…): "
                    "give more digits"
                )
        return self.get(found[0]) if found else None

    def add(  # noqa: PLR0913 - the fields of a commit
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
        """Store a commit and return it; storing the same one twice is harmless."""
        check_pairs("commit", metadata)
        commit = Commit(
            id=commit_id(
                metarange=metarange,
                parents=parents,
                message=message,
                committer=committer,
                created=created,
                metadata=metadata,
            ),
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
        record = encode_commit(commit)
        if len(record) > RECORD_BYTES:
            raise InvalidInputError(
                f"commit of {len(record)} bytes, with message, metadata and what was read: at most "
                f"{RECORD_BYTES}: shorten its message or its metadata"
            )
        self._kv.set(self._partition, _PREFIX + commit.id.encode(), record)
        return self._remember(commit)

    def add_all(self, commits: Iterable[Commit]) -> None:
        """Store commits as they are, in few round trips; their ids must have been checked."""
        items = [(_PREFIX + one.id.encode(), encode_commit(one)) for one in commits]
        self._kv.set_many(self._partition, items)

    def list(self) -> Iterator[Commit]:
        """Yield every commit stored, by id; each is checked against it."""
        for key, value in self._kv.scan(self._partition, _PREFIX):
            if not key.startswith(_PREFIX):
                return
            yield _checked(decode_commit(read_key(key[len(_PREFIX) :], "commit"), value))

    def _remember(self, commit: Commit) -> Commit:
        with self._lock:
            self._cache[commit.id] = commit
            if len(self._cache) > _CACHED:
                self._cache.popitem(last=False)
        return commit
