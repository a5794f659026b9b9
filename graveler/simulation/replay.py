"""The replay of a history under one policy: the ranges that each commit reads, writes and reuses."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from graveler.committed import metarange
from graveler.committed.apply import StagedChange, apply
from graveler.committed.merge import merge
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.splitting import Splitting
from graveler.model import RangeInfo
from graveler.simulation.baseline import LAKEFS, apply_as_lakefs
from graveler.simulation.history import Commits, History
from graveler.simulation.memory import MemoryRanges
from graveler.values import encode_range_info


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy to replay a history under.

    Attributes:
        as_lakefs: Whether lakeFS's rule decides which ranges a commit writes again.
    """

    name: str
    splitting: Splitting
    as_lakefs: bool = False


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
        opened: Sizes of the ranges that it read.
        added: Bytes of the ranges that the second branch has and the initial tree does not have.
        shared: Bytes of those ranges that the first branch also has.
    """

    opened: tuple[int, ...]
    added: int
    shared: int


@dataclass(frozen=True, slots=True)
class Replay:
    """A history under one policy.

    Attributes:
        steps: The commits of the first branch.
        ranges: The ranges of its last tree.
        merge: The merge, if the history has a second branch.
    """

    policy: Policy
    base: int
    steps: tuple[Step, ...]
    ranges: tuple[RangeInfo, ...]
    merge: Merge | None = None


def replay(
    history: History, policy: Policy, progress: Callable[[int], None] | None = None
) -> Replay:
    """Replay a history under a policy, on ranges in memory.

    Args:
        progress: Called after each commit with the number of commits.
    """
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
        return Merge(
            opened=tuple(self._store.opened.values()),
            added=sum(own.values()),
            shared=sum(size for identifier, size in own.items() if identifier in both),
        )
