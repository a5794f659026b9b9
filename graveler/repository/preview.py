"""The preview of a merge: nothing moves, and nothing is written unless gates are to judge it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from graveler.committed.diff import RawChange
from graveler.committed.merge import SHOWN, RawConflict, merge_changes
from graveler.display import Rows, Shown, listing
from graveler.gates import Candidate, Gate, Verdict
from graveler.gates.gate import Check, as_gates
from graveler.model import Change, ChangeKind, Commit, Conflict
from graveler.publishing.landing import CommitSpec, look
from graveler.publishing.panel import Panel
from graveler.reads.changes import change_of
from graveler.reads.stores import Stores
from graveler.refs.expression import resolve_to_name
from graveler.repository.merges import build_merge, describe, merge_start
from graveler.repository.origins import refuse_unpublished
from graveler.repository.strategies import Strategy, conflict_of, settling
from graveler.repository.tables import TableMerges


@dataclass(frozen=True, slots=True)
class MergePreview(Shown):
    """The changes and conflicts of a merge that was not made.

    Attributes:
        source: The commit to merge.
        dest: The head to merge it into.
        already: Whether the destination contains the source, so that there is nothing to merge.
        added: Number of paths that the destination gains.
        changed: Number of paths that change.
        removed: Number of paths that the destination loses.
        conflicts: The first 1,000 conflicts, in path order. Any conflict refuses the merge.
        conflict_count: Number of all conflicts.
        complete: Whether all was read. False: the numbers are those up to the limit.
    """

    source: Commit
    dest: Commit
    already: bool = False
    added: int = 0
    changed: int = 0
    removed: int = 0
    conflicts: tuple[Conflict, ...] = ()
    conflict_count: int = 0
    complete: bool = True
    _read: Callable[[], Iterator[RawChange | RawConflict]] = field(
        default=lambda: iter(()), repr=False, compare=False
    )
    _judge: Callable[[tuple[Gate, ...]], tuple[Verdict, ...]] = field(
        default=lambda _: (), repr=False, compare=False
    )

    @listing
    def changes(self) -> Iterator[Change]:
        """Yield the changes of the destination without conflicts, in byte order of the paths.

        Each call reads the trees again.
        """
        return (change_of(*item) for item in self._read() if isinstance(item, RawChange))

    @listing
    def every_conflict(self) -> Iterator[Conflict]:
        """Yield all conflicts, without the commits that caused them: paths in byte order, then tables.

        Each call reads the trees again.
        """
        return (conflict_of(*item) for item in self._read() if isinstance(item, RawConflict))

    def judge(self, gates: Iterable[Gate | Check] | Gate | Check = ()) -> tuple[Verdict, ...]:
        """Run gates, and those that the branch requires, on what the merge would make; nothing moves.

        The candidate and the verdicts are stored, and the merge reuses the verdicts if their inputs are
        unchanged. The result is empty if there is no gate, or if there is nothing to merge.

        Raises:
            MergeConflictError: Both sides changed a path in different ways.
        """
        return Rows(self._judge(as_gates(gates)))


def preview_merge(
    stores: Stores,
    expression: str,
    into: str,
    spec: CommitSpec,
    strategy: Strategy | None,
    *,
    limit: int | None = None,
) -> MergePreview:
    """Return the preview of a merge into a branch. No gate runs; see `MergePreview.judge`.

    Args:
        limit: Read at most so many changes and conflicts.
    """
    source = resolve_to_name(stores.refs, expression)
    dest = look(stores, into).head
    stores.refs.protection.check(into, "merge")
    refuse_unpublished(stores, source, dest)
    bases = merge_start(stores, source, dest)
    if bases is None:
        return MergePreview(source, dest, already=True)

    def read() -> Iterator[RawChange | RawConflict]:
        trees = (bases, source.metarange, dest.metarange)
        with settling(stores, strategy, source.id, into, keep=False) as settled:
            tables = TableMerges(stores, settled, (source, dest))
            yield from merge_changes(
                stores.ranges,
                *trees,
                strategy=settled.word,
                resolve=tables.resolve,
                whole=settled.whole,
            )
            yield from tables.conflicts(*trees[1:])

    def judge(gates: tuple[Gate, ...]) -> tuple[Verdict, ...]:
        panel = Panel.of(stores, into, gates)
        if not panel.gates:
            return ()
        with settling(stores, strategy, source.id, into) as settled:
            made = build_merge(stores, source=source, dest=dest, spec=spec, strategy=settled)
            candidate = Candidate(stores, made or dest, target=dest, into=into, action="merge")
            return panel.verdicts(candidate)

    tally: Counter[ChangeKind] = Counter()
    conflicts: list[RawConflict] = []
    count, items = 0, read()
    for item in islice(items, limit):
        if isinstance(item, RawChange):
            tally[ChangeKind.of(item.left_value, item.right_value)] += 1
            continue
        count += 1
        if count <= SHOWN:
            conflicts.append(item)
    return MergePreview(
        source,
        dest,
        added=tally[ChangeKind.ADDED],
        changed=tally[ChangeKind.CHANGED],
        removed=tally[ChangeKind.REMOVED],
        conflicts=Rows(describe(stores, conflicts, source=source, dest=dest)),
        conflict_count=count,
        complete=next(items, None) is None,
        _read=read,
        _judge=judge,
    )
