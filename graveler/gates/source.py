"""The source of a candidate: the repository, or the publisher of a gate's process.

A tree has a name: the candidate, the present target, or the id of an earlier commit of the target.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, BinaryIO, NamedTuple, NoReturn

from graveler.base.background import Inline
from graveler.committed.diff import diff
from graveler.committed.ranges.range_store import RangeStore
from graveler.errors import InvalidInputError, ReadOnlyError
from graveler.gates.statistics import known, touching
from graveler.kv.store import KVWrapper, P, T
from graveler.model import REVERT, Commit
from graveler.objects.store import ObjectsWrapper
from graveler.reads.files import read_range
from graveler.reads.stores import Stores
from graveler.reads.view import Ref, find_value, snapshot
from graveler.refs.history import is_ancestor
from graveler.refs.refs import Refs
from graveler.staging.area import StagingArea

AFTER = "candidate"
BEFORE = "target"

Difference = tuple[bytes, bytes | None, bytes | None]
"""A key, and its value records before and after."""


class Earlier(NamedTuple):
    """A commit of the target that may have written files below a prefix."""

    commit: str
    created: datetime
    run: str
    hour: str
    stats: Mapping[str, Any] | None


class Source:
    """Reads of a candidate, of its target, and of the target's history, in the repository."""

    def __init__(self, stores: Stores, commit: Commit, target: Commit) -> None:
        self._stores = stores
        self._target = target
        self._trees = {AFTER: Ref(stores, commit), BEFORE: Ref(stores, target)}

    @property
    def stores(self) -> Stores:
        """The repository with ports that refuse every write."""
        return read_only(self._stores)

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
        before = self._target if tree == AFTER else self._stores.refs.commits.get(after.parents[0])
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
        """Yield the earlier commits that may have touched a prefix, the latest first.

        Commits that were reverted since, and their reverts, are left out.
        """
        reverted: set[str] = set()
        for commit in touching(self._stores, self._target.id, [prefix]):
            if REVERT in commit.metadata and commit.id not in reverted:
                reverted.add(commit.metadata[REVERT])
            elif commit.parents and commit.id not in reverted and REVERT not in commit.metadata:
                self._trees[commit.id] = Ref(self._stores, commit)
                run, hour = (commit.metadata.get(name, "") for name in ("graveler.run", "hour"))
                stats = known(self._stores, commit.id, prefix)
                yield Earlier(commit.id, commit.created, run, hour, stats)

    def goes_back(self) -> bool:
        """Return whether the candidate is in the history of the target."""
        commits = self._stores.refs.commits
        return is_ancestor(commits, self._trees[AFTER].commit_id, self._target.id)

    def now(self) -> datetime:
        """Return the time, by the repository's clock."""
        return self._stores.clock.now()

    def _tree(self, name: str) -> Ref:
        if name not in self._trees:
            raise InvalidInputError(f"tree {name!r}: ask for its history first")
        return self._trees[name]


_KV_READS = frozenset({"get", "get_many", "scan", "scan_all", "scan_below", "partitions"})
_OBJECT_READS = frozenset({"get", "get_range", "open", "head", "list", "level"})


def read_only(stores: Stores) -> Stores:
    """Return the repository with ports that refuse every write."""
    kv = ReadOnlyKVStore(stores.kv)
    objects = ReadOnlyObjects(stores.objects)
    ranges = RangeStore(objects, stores.ranges.cache)
    return replace(
        stores,
        kv=kv,
        objects=objects,
        ranges=ranges,
        staging=StagingArea(kv, stores.uid, Inline()),
        refs=Refs(kv, stores.uid, clock=stores.clock, ids=stores.ids),
        open_store=lambda root: ReadOnlyObjects(stores.open_store(root)),
    )


def _refuse(what: str) -> NoReturn:
    raise ReadOnlyError(
        f"a candidate can only be read, and this would write ({what}): let the run write what is "
        "to be published, and have the gate report numbers with candidate.report()"
    )


class ReadOnlyKVStore(KVWrapper):
    """A read-only view of a key-value store; closing the view leaves the store open."""

    def _forward(self, call: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        if call.__name__ not in _KV_READS:
            _refuse(f"{call.__name__} of {args[0]}")
        return call(*args, **named)

    def close(self) -> None:
        """Do nothing: the store has another owner."""


class ReadOnlyObjects(ObjectsWrapper):
    """A read-only view of an object store; closing the view leaves the store open."""

    def _forward(self, call: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        if call.__name__ not in _OBJECT_READS:
            _refuse(f"{call.__name__} of object {args[0]}")
        return call(*args, **named)

    def close(self) -> None:
        """Do nothing: the store has another owner."""
