"""The replay of a history under one policy: the ranges that each commit reads, writes and reuses."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from graveler.committed import metarange
from graveler.committed.apply import StagedChange, Tally, apply, joined
from graveler.committed.cache.flat import Record
from graveler.committed.merge import merge
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.ranges.range_writer import RangeWriter
from graveler.committed.splitting import Splitting
from graveler.committed.tree import TreeBuilder
from graveler.model import RangeInfo
from graveler.simulation.history import Commits, History
from graveler.simulation.store import MemoryRanges
from graveler.values import encode_range_info


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy to replay a history under."""

    name: str
    splitting: Splitting
    as_lakefs: bool = False


LAKEFS = Splitting("hash", max_bytes=20 << 20, raggedness=50_000, hard=1)
"""The defaults of lakeFS: a range ends at 20 MiB, or after one key in 50,000."""
BASELINE = Policy("lakefs", LAKEFS, as_lakefs=True)
"""lakeFS with its defaults."""


@dataclass(frozen=True, slots=True)
class Step:
    """One commit. Bytes are logical: those of keys and value records.

    Attributes:
        changed: Bytes of its changes.
        ranges: Number of ranges of its tree.
        size: Bytes of its tree.
        written: Sizes of the ranges that it wrote.
        opened: Sizes of the ranges that it read.
        metarange: Bytes of its metarange.
    """

    changed: int
    ranges: int
    size: int
    written: tuple[int, ...]
    opened: tuple[int, ...]
    metarange: int


@dataclass(frozen=True, slots=True)
class Merge:
    """The merge of the second branch into the first.

    Attributes:
        bytes_shared: Share of the bytes added by the second branch that is in ranges which the first
            branch also has.
    """

    ranges_read: int
    bytes_read: int
    bytes_shared: float


@dataclass(frozen=True, slots=True)
class Replay:
    """A history under one policy."""

    policy: Policy
    base: int
    steps: tuple[Step, ...]
    ranges: tuple[RangeInfo, ...]
    merge: Merge | None = None


def replay(
    history: History, policy: Policy, progress: Callable[[int], None] | None = None
) -> Replay:
    """Replay a history under a policy, on ranges in memory."""
    return _Replay(policy, progress).run(history)


class _Replay:
    def __init__(self, policy: Policy, progress: Callable[[int], None] | None) -> None:
        self._policy = policy
        self._progress = progress
        self._store = MemoryRanges()
        self._sizes: dict[bytes, int] = {}
        self._done = 0

    def run(self, history: History) -> Replay:
        base = self._apply(EMPTY_METARANGE, history.base())
        kept = [base] if history.other is not None else []
        tree, steps = self._branch(base, history.commits, kept)
        merged = None
        if history.other is not None:
            other, _ = self._branch(base, history.other, [base, tree])
            merged = self._merge(base, other, tree)
        size = sum(info.size for info in self._ranges(base))
        return Replay(self._policy, size, tuple(steps), tuple(self._ranges(tree)), merged)

    def _ranges(self, tree: str) -> Sequence[RangeInfo]:
        return metarange.read(self._store, tree)

    def _apply(self, tree: str, changes: Iterable[StagedChange]) -> str:
        splitting = self._policy.splitting
        if self._policy.as_lakefs:
            return apply_as_lakefs(self._store, tree, changes, splitting)
        return apply(self._store, tree, changes, splitting).metarange

    def _branch(self, base: str, commits: Commits, kept: Sequence[str]) -> tuple[str, list[Step]]:
        """Replay the commits of a branch; the ranges of the `kept` trees stay."""
        keep = {info.id for tree in kept for info in self._ranges(tree)}
        steps: list[Step] = []
        tree = base
        for changes in commits():
            before = {info.id for info in self._ranges(tree)}
            self._store.opened.clear()
            tree = self._apply(tree, changes)
            infos = self._ranges(tree)
            steps.append(
                Step(
                    changed=sum(len(key) + len(value or b"") for key, _, value in changes),
                    ranges=len(infos),
                    size=sum(info.size for info in infos),
                    written=tuple(info.size for info in infos if info.id not in before),
                    opened=tuple(self._store.opened.values()),
                    metarange=sum(map(self._listed, infos)),
                )
            )
            self._store.forget(before.difference(keep, (info.id for info in infos)))
            self._done += 1
            if self._progress is not None:
                self._progress(self._done)
        return tree, steps

    def _listed(self, info: RangeInfo) -> int:
        """Return the bytes that a range takes in a metarange."""
        size = self._sizes.get(info.id)
        if size is None:
            size = self._sizes[info.id] = len(info.max_key) + len(encode_range_info(info))
        return size

    def _merge(self, base: str, source: str, dest: str) -> Merge:
        self._store.opened.clear()
        merge(
            self._store, base, source, dest,
            splitting=self._policy.splitting, strategy="source-wins",
        )  # fmt: skip
        common, both = ({info.id for info in self._ranges(tree)} for tree in (base, dest))
        own = {info.id: info.size for info in self._ranges(source) if info.id not in common}
        added, opened = sum(own.values()), self._store.opened
        shared = sum(size for identifier, size in own.items() if identifier in both)
        return Merge(len(opened), sum(opened.values()), shared / added if added else 0.0)


def apply_as_lakefs(
    store: MemoryRanges, base: str, changes: Iterable[StagedChange], splitting: Splitting
) -> str:
    """Return the tree `base` with `changes`, rewritten as lakeFS does.

    A change touches the first range that ends at or after its key, even if the key comes before the
    first key of that range. A touched range is written again. An untouched range is reused by its
    id, and ends the range that is being written. Changes after the last range make a new range.
    """
    infos = metarange.read(store, base)
    result = TreeBuilder()
    touched = groupby(changes, key=lambda change: infos.at_or_after(change[0]))
    at = 0
    for _, adjacent in groupby(enumerate(touched), key=lambda each: each[1][0] - each[0]):
        with RangeWriter(store, splitting) as writer:
            for _, (place, group) in adjacent:
                result.extend(infos[at:place])
                old = store.open_range(infos[place]).records() if place < len(infos) else []
                writer.add_all(joined(old, group, _put, Tally()))
                at = place + 1
            result.extend(writer.finish())
    result.extend(infos[at:])
    return metarange.write(store, result.tree())


def _put(change: StagedChange, _found: Record | None) -> Record | None:
    key, identifier, value = change
    return None if identifier is None or value is None else (key, identifier, value)
