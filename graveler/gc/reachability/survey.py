"""A survey of a whole repository: the objects that are kept, and all other objects of its storage.

The kept objects are closed: a kept table never names a deleted table or data file. This also holds
for a table that is kept only because it is too young to be condemned. A writer that reuses any table
in the storage therefore has everything that the table names. Trees are read from the storage, each table once, never from the cache.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from graveler.base.background import Progress, no_progress
from graveler.base.clock import unix_us
from graveler.committed.cache.table import TableKind
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.references import (
    AddressLists,
    Ranges,
    ReadRanges,
    by_one_process,
    named_addresses,
    named_ranges,
    ranges_of,
)
from graveler.errors import (
    CorruptionError,
    ObjectNotFoundError,
    PermissionDeniedError,
    ReadOnlyError,
    StateError,
)
from graveler.gc.marks import FOLDER, Kind, Tally, store_now
from graveler.gc.reachability.graph import CommitGraph
from graveler.gc.reachability.retention import Line, kept_commits
from graveler.gc.reachability.roots import Roots, RunRoots
from graveler.gc.reachability.scratch import ListedFile, Scratch
from graveler.gc.rules import ADOPTION, Keep, Retention
from graveler.objects.address import FILES, is_made_for, is_old, is_old_storage, is_table
from graveler.reads.stores import Stores
from graveler.refs.refs import Refs
from graveler.repository.witness.marker import MARKER, read_marker

_TABLES = "_graveler/"
_TABLE = re.compile(r"_graveler/([0-9a-f]{64})")
_LOOKS = 100
_SHOWN = 20


@dataclass(slots=True)
class _Unknown:
    count: int = 0
    keys: tuple[str, ...] = ()

    def add(self, key: str) -> None:
        self.count += 1
        if len(self.keys) < _SHOWN:
            self.keys = (*self.keys, _bytes(key).decode("utf-8", "backslashreplace"))


class DataFile(NamedTuple):
    """A file below ``data/`` or ``tables/``."""

    key: str
    size: int
    mtime: int
    named: bool


def _bytes(key: str) -> bytes:
    """Return the bytes of a listed key, which need not be UTF-8."""
    return key.encode("utf-8", "surrogateescape")


class Survey:
    """The result of one survey."""

    def __init__(
        self,
        stores: Stores,
        scratch: Scratch,
        runs: RunRoots,
        *,
        grace: float,
        progress: Progress | None = None,
        forsaken: Collection[str] = (),
        read: ReadRanges = by_one_process,
    ) -> None:
        self._stores = stores
        self.scratch = scratch
        self._progress = progress or no_progress
        self._grace = round(grace * 1e6)
        # refs of its own: those of the repository remember commits
        self._refs = Refs(stores.kv, stores.uid, clock=stores.clock, ids=stores.ids)
        try:
            self.now = store_now(stores.objects, stores.uid)
        except (PermissionDeniedError, ReadOnlyError):
            # only a dry run continues: a mark also writes to the storage
            self.now = unix_us(stores.clock.now())
        self._read = read
        self._lists = AddressLists(stores.ranges, f"{FOLDER}/{stores.uid}/addresses/")
        self.roots = Roots(stores, scratch, runs)
        self.unknown = _Unknown()
        self._list_tables()
        # List the tokens before reading the branches: a branch has named every token with rows, and
        # an abandoned token is never named again.
        self._tokens = list(stores.staging.tokens())
        self.roots.look_at_holds(set(self._tokens).difference(forsaken))
        self.roots.look()
        self.graph = CommitGraph(self._refs)
        for _ in range(_LOOKS):
            if not self.roots.look():
                break
        self.kept: set[str] = set()

    def keep_commits(self, rules: Retention) -> None:
        """Decide which commits keep their trees, and note the objects that the trees name."""
        kept = kept_commits(self.graph, self._lines(rules), self.now)
        # a new commit may get a ref soon
        kept |= {
            identifier
            for identifier, node in self.graph.nodes.items()
            if abs(self.now - node.created) < self._grace
        }
        if not rules.keeps_everything:  # else everything is reached, merge bases included
            kept |= self.graph.merge_bases(chain.from_iterable(self.roots.heads.values()))
        # a rule that was loosened after a sweep, or a longer grace, covers commits without trees
        gone = {identifier for identifier, record in self._refs.expired.list() if record.gone}
        roots = self.roots.runs.union(*self.roots.tags.values(), *self.roots.heads.values())
        self.kept = kept - gone | roots
        for identifier in list(self.kept):
            named = self.graph.get(identifier).named
            known = (name for name in named if name in self.graph.nodes)
            self.kept.update(name for name in known if name not in gone)
        nodes = [self.graph.get(identifier) for identifier in self.kept]
        trees = sorted({node.trees[0] for node in nodes})
        self.reach_trees(self._reported(trees))
        self.reach_claims({tree for node in nodes for tree in node.trees[1:]})

    def reach_trees(self, metaranges: Iterable[str]) -> None:
        """Note trees that kept commits name, their ranges, and the addresses in them."""
        self.scratch.add_addresses(self._read(self._lists, self._new_ranges(metaranges)))

    def reach_claims(self, metaranges: Iterable[str]) -> None:
        """Note trees of claims and their ranges. The earlier files that claims name are not kept."""
        for _ in self._new_ranges(metaranges):
            pass

    def _new_ranges(self, metaranges: Iterable[str]) -> Ranges:
        for metarange in metaranges:
            identifier = bytes.fromhex(metarange)
            if metarange == EMPTY_METARANGE or not self.scratch.see(identifier):
                continue
            for info in ranges_of(self._stores.ranges, identifier):
                if self.scratch.see(info.id):
                    yield info, self.scratch.has_list(info.id)

    def reach_stray(self, identifier: bytes) -> None:
        """Note a table that is kept although no kept commit names it, and the objects it names.

        A writer of the same table reuses it with all that it names. A table that was deleted in
        the meantime, or cannot be read, names nothing.
        """
        if not self.scratch.see(identifier):
            return
        try:
            reader = self._stores.ranges.stored(identifier)
            if reader.user_properties.get("type") == TableKind.METARANGE:
                for range_id in list(named_ranges(reader)):
                    self.reach_stray(range_id)
            else:
                self.scratch.add_addresses(list(named_addresses(reader)))
        except (ObjectNotFoundError, CorruptionError):
            return

    def _reported(self, trees: Sequence[str]) -> Iterator[str]:
        for done, tree in enumerate(trees):
            self._progress("trees", done, len(trees))
            yield tree

    def has_tree(self, commit_id: str) -> bool:
        """Return whether the commit's trees stay, for this commit or for others."""
        return all(
            tree == EMPTY_METARANGE or self.scratch.is_seen(bytes.fromhex(tree))
            for tree in self.graph.get(commit_id).trees
        )

    def dead_tokens(self) -> list[str]:
        """Return the staging tokens that have writes and that no branch names any longer."""
        return sorted(set(self._tokens) - self.roots.tokens)

    def is_young(self, mtime: int) -> bool:
        """Return whether an object of that time is too young to be condemned."""
        return self.now - mtime < self._grace

    def leave(self, keys: Iterable[str]) -> None:
        """Treat data files as named."""
        self.scratch.add_addresses(key.encode("utf-8", "surrogatepass") for key in keys)

    def data(self) -> Iterator[DataFile]:
        """Yield the data files that something names or that graveler made.

        The addresses of version 0.2 lack the id of the storage. An unnamed file of such an address
        is graveler's if it was adopted, or if version 0.2 began the storage and all data files have
        such an address or one with the id.
        """
        stores = self._stores
        agreed = stores.refs.settings.get(ADOPTION).agreed
        whole = is_old_storage(stores.storage_id)
        named = self.scratch.addresses()
        next_named = next(named, None)
        for done, info in enumerate(chain.from_iterable(map(stores.objects.list, FILES))):
            if not done % 1_000:
                self._progress("data files", done, done + 1)
            key, mtime = _bytes(info.key), unix_us(info.mtime)
            while next_named is not None and next_named < key:
                next_named = next(named, None)
            made, old = is_made_for(stores.storage_id, info.key), is_old(info.key)
            if next_named == key or made or (old and mtime < agreed):
                yield DataFile(info.key, info.size, mtime, next_named == key)
            elif old:
                self.scratch.add_old(key, info.size, mtime)
            else:
                self.unknown.add(info.key)
            whole = whole and (made or old)
        for raw, size, mtime in self.scratch.old():
            if whole:
                yield DataFile(raw.decode(), size, mtime, named=False)
            else:
                self.unknown.add(raw.decode())
        self._note_foreign()

    def _note_foreign(self) -> None:
        for item in self._stores.objects.level():
            if not isinstance(item, str):
                self.unknown.add(item.key)
            elif item not in (*FILES, _TABLES):
                try:
                    for info in self._stores.objects.list(item):
                        self.unknown.add(info.key)
                except PermissionDeniedError:
                    self.unknown.add(item)  # as lost+found

    def lost_lists(self) -> Iterator[str]:
        """Yield the keys of the lists of addresses whose ranges are gone."""
        return map(self._lists.key, self.scratch.lost_lists())

    def table_kinds(self) -> frozenset[bytes]:
        """Return the metaranges that any commit names; other stray tables are ranges."""
        nodes = self.graph.nodes.values()
        return frozenset(bytes.fromhex(tree) for node in nodes for tree in node.trees)

    def tables_kept(self) -> dict[Kind, Tally]:
        """Return how many tables of each kind stay, and their bytes."""
        trees = self.table_kinds()
        tallies: dict[Kind, Tally] = {}
        for file in self.scratch.seen_files():
            kind = Kind.METARANGES if file.id in trees else Kind.RANGES
            tallies[kind] = tallies.get(kind, Tally()).plus(file.size)
        return tallies

    def _list_tables(self) -> None:
        for done, info in enumerate(self._stores.objects.list(_TABLES)):
            self._progress("tables", done, done + 1)
            match = _TABLE.fullmatch(info.key)
            if match is not None:
                self.scratch.add_file(
                    ListedFile(bytes.fromhex(match[1]), info.size, unix_us(info.mtime))
                )
            elif listed := self._lists.identifier(info.key):
                self.scratch.add_list(listed)
            elif not self._is_own(info.key):
                self.unknown.add(info.key)

    def _is_own(self, key: str) -> bool:
        if key == MARKER:
            marker = read_marker(self._stores.objects)
            if marker is not None and marker.owner.uid != self._stores.uid:
                raise StateError(
                    f"{self._stores.storage} belongs to {marker}: nothing is deleted there for "
                    "another repository"
                )
            return True
        return is_table(key)  # also of an earlier owner

    def _lines(self, rules: Retention) -> Iterator[Line]:
        by_rule: dict[Keep, set[str]] = {}
        for name, heads in chain(self.roots.heads.items(), self.roots.tags.items()):
            keep = rules.of(name)
            by_rule.setdefault(keep, set()).update(heads)
            for head in heads:
                yield Line(head, keep)
        firsts = {node.parents[0] for node in self.graph.nodes.values() if node.parents}
        for keep, heads in by_rule.items():
            if not keep.everything:  # else merged commits are kept with the rest
                merged = set(self.graph.ancestors(heads)) - firsts - heads
                for identifier in sorted(merged):
                    yield Line(identifier, keep, merged=True)
