"""The source of a candidate: the repository without its writes, or a publisher's process.

A candidate reads through stores that refuse every write. A check in a process of its own reads
through its publisher. A tree has a name: the candidate, the present target, or the id of an
earlier commit of the target.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn

from graveler.committed import RangeStore, diff
from graveler.errors import InvalidInputError, ReadOnlyError
from graveler.gates.statistics import known, may_touch
from graveler.kv.store import KVStore, Predicate, Stored
from graveler.model import Commit
from graveler.objects.store import ANYTHING, Body, Expected, ObjectInfo, ObjectStore
from graveler.process import Inline
from graveler.reads.files import read_range
from graveler.reads.stores import Stores
from graveler.reads.view import Ref, find_value, snapshot
from graveler.refs import Refs, is_ancestor, log
from graveler.staging import StagingArea

# The ports document the methods.
# ruff: noqa: D102


def _refuse(what: str) -> NoReturn:
    raise ReadOnlyError(
        f"a candidate can only be read, and this would write ({what}): let the run write what is "
        "to be published, and have the gate report numbers with candidate.report()"
    )


class ReadOnlyKVStore(KVStore):
    """A read-only view of a key-value store, which closing the view leaves open."""

    def __init__(self, store: KVStore) -> None:
        self.__store = store

    def get(self, partition: str, key: bytes) -> Stored | None:
        return self.__store.get(partition, key)

    def get_each(self, partitions: Sequence[str], key: bytes) -> list[Stored | None]:
        return self.__store.get_each(partitions, key)

    def turn(self, name: str, patience: float) -> AbstractContextManager[bool]:
        _refuse(f"the turn {name!r}")

    def set(self, partition: str, key: bytes, value: bytes) -> None:
        _refuse(f"key {key!r} of {partition}")

    def set_many(self, partition: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        _refuse(f"keys of {partition}")

    def set_if(self, partition: str, key: bytes, value: bytes, predicate: Predicate) -> None:
        _refuse(f"key {key!r} of {partition}")

    def delete(self, partition: str, key: bytes) -> None:
        _refuse(f"key {key!r} of {partition}")

    def delete_if(self, partition: str, key: bytes, predicate: Predicate) -> None:
        _refuse(f"key {key!r} of {partition}")

    def drop(self, partition: str) -> None:
        _refuse(f"partition {partition}")

    def scan(self, partition: str, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        return self.__store.scan(partition, start)

    def partitions(self, prefix: str) -> Iterator[str]:
        return self.__store.partitions(prefix)

    def close(self) -> None:
        """Do nothing: the store has another owner."""


class ReadOnlyObjects(ObjectStore):
    """A read-only view of an object store, which closing the view leaves open."""

    def __init__(self, store: ObjectStore) -> None:
        self.__store = store

    @property
    def root(self) -> str:
        return self.__store.root

    def local_file(self, key: str) -> Path | None:
        return self.__store.local_file(key)

    def put(self, key: str, body: Body) -> ObjectInfo:
        _refuse(f"object {key}")

    def put_if_absent(self, key: str, body: Body) -> bool:
        _refuse(f"object {key}")

    def put_if_match(self, key: str, body: Body, etag: str) -> ObjectInfo:
        _refuse(f"object {key}")

    def get(self, key: str, expected: Expected = ANYTHING) -> bytes:
        return self.__store.get(key, expected)

    def get_range(self, key: str, start: int, length: int, expected: Expected = ANYTHING) -> bytes:
        return self.__store.get_range(key, start, length, expected)

    def open(self, key: str, expected: Expected = ANYTHING) -> BinaryIO:
        return self.__store.open(key, expected)

    def head(self, key: str) -> ObjectInfo:
        return self.__store.head(key)

    def delete(self, key: str) -> None:
        _refuse(f"object {key}")

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        return self.__store.list(prefix, after=after)

    def uri(self, key: str) -> str:
        return self.__store.uri(key)

    def close(self) -> None:
        """Do nothing: the store has another owner."""


def read_only(stores: Stores) -> Stores:
    """Return the repository with ports that refuse every write."""
    kv = ReadOnlyKVStore(stores.kv)
    objects = ReadOnlyObjects(stores.objects)
    ranges = RangeStore(objects, stores.ranges.cache)
    ranges.metaranges = stores.ranges.metaranges  # immutable and named by id: the cache stays valid
    return replace(
        stores,
        kv=kv,
        objects=objects,
        ranges=ranges,
        staging=StagingArea(kv, stores.uid, Inline()),
        refs=Refs(kv, stores.uid, clock=stores.clock, ids=stores.ids),
        open_store=lambda root: ReadOnlyObjects(stores.open_store(root)),
    )


AFTER: Final = "candidate"
BEFORE: Final = "target"
_MOST_COMMITS: Final = 1_000

Difference = tuple[bytes, bytes | None, bytes | None]
"""A key, and its value records before and after."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """A commit of the target that may have brought files below a prefix.

    Attributes:
        commit: Its id, which names its tree.
        created: When it was made.
        run: Key of the run that the commit published; "" if none.
        stats: Encoded statistics of its files; None if they are not computed yet.
    """

    commit: str
    created: datetime
    run: str
    stats: Mapping[str, Any] | None


class Source(ABC):
    """Reads of a candidate, of its target, and of the target's history."""

    @property
    @abstractmethod
    def stores(self) -> Stores:
        """The read-only repository; refused in a process that has none."""

    @abstractmethod
    def find(self, tree: str, key: bytes) -> bytes | None:
        """Return the value record at a key of a tree, or None."""

    @abstractmethod
    def scan(self, tree: str, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield (key, value record) of a tree from `start` on below `prefix`."""

    @abstractmethod
    def has_below(self, prefix: str) -> bool:
        """Return whether the candidate has any path that starts with `prefix`."""

    @abstractmethod
    def changes(self, tree: str, prefix: bytes) -> Iterator[Difference]:
        """Yield the changes of a tree: the candidate's to the target, a commit's to its first parent."""

    @abstractmethod
    def open(self, tree: str, path: str) -> BinaryIO:
        """Return a readable, seekable stream of a file of a tree."""

    @abstractmethod
    def get(self, tree: str, path: str) -> bytes:
        """Return the bytes of a file of a tree."""

    @abstractmethod
    def read(self, tree: str, path: str, start: int, length: int) -> bytes:
        """Return at most `length` bytes of a file of a tree, from `start` on."""

    @abstractmethod
    def uri(self, address: str) -> str:
        """Return the physical URI of an address."""

    @abstractmethod
    def past(self, prefix: str) -> Iterator[Earlier]:
        """Yield the earlier commits that may have touched a prefix, the latest first."""

    @abstractmethod
    def goes_back(self) -> bool:
        """Return whether the candidate is in the history of the target."""

    @abstractmethod
    def now(self) -> datetime:
        """Return the time, by the repository's clock."""


class StoreSource(Source):
    """The repository in this process.

    Args:
        stores: The repository; it is wrapped to refuse writes.
        commit: The candidate.
        target: The head of the branch.
    """

    def __init__(self, stores: Stores, commit: Commit, target: Commit) -> None:
        self._stores = read_only(stores)
        self._target = target
        self._trees = {AFTER: Ref(self._stores, commit), BEFORE: Ref(self._stores, target)}

    @property
    def stores(self) -> Stores:
        """The read-only repository."""
        return self._stores

    def find(self, tree: str, key: bytes) -> bytes | None:
        """Return the value record at a key of a tree, or None."""
        return find_value(self._tree(tree), key)

    def scan(self, tree: str, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield (key, value record) of a tree from `start` on below `prefix`."""
        with snapshot(self._tree(tree), start, prefix) as rows:
            yield from rows(start)

    def has_below(self, prefix: str) -> bool:
        """Return whether the candidate has any path that starts with `prefix`."""
        return self._trees[AFTER].has_below(prefix)

    def changes(self, tree: str, prefix: bytes) -> Iterator[Difference]:
        """Yield the changes of a tree: the candidate's to the target, a commit's to its first parent."""
        after = self._tree(tree).commit
        before = self._target if tree == AFTER else self._commit(after.parents[0])
        ranges = self._stores.ranges
        for change in diff(ranges, before.metarange, after.metarange, prefix=prefix):
            yield change.key, change.left_value, change.right_value

    def open(self, tree: str, path: str) -> BinaryIO:
        """Return a readable, seekable stream of a file of a tree."""
        return self._tree(tree).open(path)

    def get(self, tree: str, path: str) -> bytes:
        """Return the bytes of a file of a tree."""
        return self._tree(tree).get(path)

    def read(self, tree: str, path: str, start: int, length: int) -> bytes:
        """Return at most `length` bytes of a file of a tree, from `start` on."""
        return read_range(self._stores, self._tree(tree).stat(path), start, length)

    def uri(self, address: str) -> str:
        """Return the physical URI of an address."""
        return self._stores.uri(address)

    def past(self, prefix: str) -> Iterator[Earlier]:
        """Yield the earlier commits that may have touched a prefix, the latest first."""
        line = log(self._stores.refs.commits, self._target.id, first_parent=True)
        for commit in islice(line, _MOST_COMMITS):
            if commit.parents and may_touch(commit, prefix):
                self._trees[commit.id] = Ref(self._stores, commit)
                run = commit.metadata.get("graveler.run", "")
                stats = known(self._stores, commit.id, prefix)
                yield Earlier(commit.id, commit.created, run, stats)

    def goes_back(self) -> bool:
        """Return whether the candidate is in the history of the target."""
        commits = self._stores.refs.commits
        return is_ancestor(commits, self._trees[AFTER].commit_id, self._target.id)

    def now(self) -> datetime:
        """Return the time, by the repository's clock."""
        return self._stores.clock.now()

    def _tree(self, name: str) -> Ref:
        found = self._trees.get(name)
        if found is None:
            raise InvalidInputError(f"tree {name!r}: ask for its history first")
        return found

    def _commit(self, identifier: str) -> Commit:
        return self._stores.refs.commits.get(identifier)
