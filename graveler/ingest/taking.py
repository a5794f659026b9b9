"""An ingestion branch takes what others changed on its target, before it commits.

Paths that the branch changed or staged, too, are set aside, or win, by the policy of the ingestion. Nothing
here fails because of a conflict, so no other file waits.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from graveler.committed.apply import StagedChange, apply
from graveler.committed.bases import CONFLICT, Bases, BaseValues, Unresolved
from graveler.committed.claims import claim_changes, claims_of
from graveler.committed.diff import RawChange, diff, same_content
from graveler.committed.merge import staged
from graveler.committed.metarange import EMPTY_METARANGE, get
from graveler.committed.units import log_of, units_of
from graveler.errors import ExpiredError
from graveler.ingest.hours import commit_hour
from graveler.ingest.quarantine import before, with_changes
from graveler.ingest.records import HourRecord
from graveler.ingest.shelves import Shelves
from graveler.ingest.unpublished import (
    CAUGHT_UP,
    FAR,
    INGEST,
    TARGET,
    IngestBranch,
    last_seen,
    points,
    unpublished_line,
)
from graveler.model import REVERT, BranchRecord, Commit
from graveler.publishing.landing import CommitSpec, Tip, claims_after, land, make_commit
from graveler.refs.history import is_ancestor, line_outside
from graveler.repository.merges import find_bases, merge_trees
from graveler.repository.positions import create_branch
from graveler.repository.strategies import Settlement


class Theirs:
    """What others changed on the target, since a commit of the branch had everything on it."""

    def __init__(self, branch: IngestBranch, since: Commit, target: Commit) -> None:
        self._branch, self._stores = branch, branch.stores
        self._since, self._target = since, target
        commits = self._stores.refs.commits
        seen = last_seen(commits, since)
        far = target.generation - commits.get(seen).generation > FAR
        line = [] if far else list(line_outside(commits, target.id, seen))
        mine = [commit for commit in line if commit.metadata.get(INGEST) == branch.name]
        self.exist = far or len(mine) < len(line)
        self._others = None if far else [one for one in line if not self._is_mine(one)]

    @cached_property
    def _line(self) -> list[Commit] | None:
        """The commits of the target that the branch does not have, newest first, if they are few."""
        if self._target.generation - self._since.generation > FAR:
            return None
        return list(line_outside(self._stores.refs.commits, self._target.id, self._since.id))

    def is_own(self, key: bytes) -> bool:
        """Return whether only publishes of the branch, or reverts of them, changed a path lately."""
        if self._line is None:
            return False
        try:
            last = next((one for one in self._line if self._changes(one, key)), None)
        except ExpiredError:
            return False
        return last is None or self._is_mine(last)

    def sift(self, hour: str, changes: Iterator[StagedChange]) -> Iterator[StagedChange]:
        """Yield the staged changes that may be committed, and set aside those that conflict.

        A path that equals the branch is a write if others changed it on the target.
        """
        shelves = Shelves(self._branch)
        shelved = shelves.open()
        ranges, left, right = self._stores.ranges, self._since.metarange, self._target.metarange
        if not (shelved or self.exist):
            yield from changes
            return
        bases = find_bases(self._stores, self._since, self._target) or Bases.one(left)
        values = BaseValues(ranges, bases)
        moved = (log_of(change.key) for change in diff(ranges, left, right))
        units = units_of(log for log in set(moved) if log is not None and self._is_new(values, log))
        aside: dict[str, list[StagedChange]] = {}
        theirs = diff(ranges, left, right)
        there = next(theirs, None)
        for change in changes:
            key, _, value = change
            while there is not None and there.key < key:
                there = next(theirs, None)
            shelf = next((one for one in shelved if one.takes(key)), None)
            name = None if shelf is None else shelf.name
            if name is None and key.startswith(units):
                name = ""
            elif name is None and there is not None and there.key == key:
                now = there.right_value
                if not same_content(now, value) and self._changed(values, key, now):
                    name = ""
            if name is None:
                yield change
                continue
            aside.setdefault(name, []).append(change)
            single = shelf is not None and not key.startswith(shelf.units)
            if single and same_content(get(ranges, right, key), value):
                yield change  # it ends the conflict: the branch has written it, too
        for name, writes in aside.items():
            keys = [key for key, _, _ in writes]
            new = [unit for unit in units if any(key.startswith(unit) for key in keys)]
            shelves.put(writes, {hour: keys}, name, (left, () if name else tuple(new)))

    def _changed(self, values: BaseValues, key: bytes, now: bytes | None) -> bool:
        if self._others is not None and not any(_covers(one, key) for one in self._others):
            return False
        base = values.at(key)
        same = base is not CONFLICT and same_content(base, now)
        return not same and not self.is_own(key)

    def _is_new(self, values: BaseValues, log: bytes) -> bool:
        """Return whether others changed the log of a table."""
        ranges, target = self._stores.ranges, self._target.metarange
        changes = diff(ranges, self._since.metarange, target, prefix=log)
        return any(self._changed(values, change.key, change.right_value) for change in changes)

    def _is_mine(self, commit: Commit) -> bool:
        reverted = commit.metadata.get(REVERT)
        made = self._stores.refs.commits.find(reverted) if reverted else None
        return self._branch.name in (one.metadata.get(INGEST) for one in (commit, made) if one)

    def _changes(self, commit: Commit, key: bytes) -> bool:
        refs, ranges = self._stores.refs, self._stores.ranges
        if not (_covers(commit, key) and commit.parents):
            return False
        before = refs.commits.get(commit.parents[0])
        for one in (before, commit):
            refs.expired.check_readable(one.id)
        return not same_content(*(get(ranges, tree.metarange, key) for tree in (before, commit)))


def _covers(commit: Commit, key: bytes) -> bool:
    """Return whether the commit can differ from its first parent at a key."""
    return commit.spans is None or any(first <= key <= last for first, last in commit.spans)


@dataclass(frozen=True, slots=True)
class Taking:
    """Brings an ingestion branch up to its target."""

    branch: IngestBranch

    def begin(self) -> None:
        """Make the branch on the target, unless it exists."""
        branch, target = self.branch, self.branch.target()
        head = self._mark(target.metarange, (target,), target)
        create_branch(branch.stores, branch.name, head.id, exist_ok=True)

    def bring_up(self, head: Commit, target: Commit) -> None:
        """Take what others changed on the target, if the branch has work for it."""
        if self.is_lost(head, target):
            self._follow_back()
        elif self._is_due(head, target):
            self._merge()

    def _is_due(self, head: Commit, target: Commit) -> bool:
        branch = self.branch
        if not Theirs(branch, head, target).exist:
            return False
        record, staging = branch.stores.refs.branches.get(branch.name), branch.stores.staging
        tokens = (record.staging_token, *record.sealed_tokens)
        return any(not staging.is_empty(token) for token in tokens) or bool(branch.unpublished())

    def take(self) -> bool:
        """Take the target's head, or follow it back; return whether the branch did not have it."""
        if self.is_lost(*self.branch.tips()):
            self._follow_back()
            return True
        return self._merge()

    def _merge(self) -> bool:
        """Merge the target's head into the branch; return whether the branch did not have it."""
        branch, stores = self.branch, self.branch.stores

        def build(tip: Tip) -> BranchRecord | None:
            target = branch.target()
            if is_ancestor(stores.refs.commits, target.id, tip.head.id):
                return None
            bases = find_bases(stores, target, tip.head)
            if bases is None:
                return None  # no history in common: publishing reports it
            return tip.at(self._merged(tip.head, target, bases))

        return land(stores, branch.name, "merge", build).commit is not None

    def is_lost(self, head: Commit, target: Commit) -> bool:
        """Return whether waiting commits are on a commit that the target has no more."""
        commits = self.branch.stores.refs.commits
        line = unpublished_line(commits, head, target)
        taken = (one.metadata[CAUGHT_UP] for one in line if CAUGHT_UP in one.metadata)
        return not all(is_ancestor(commits, one, target.id) for one in taken)

    def _follow_back(self) -> None:
        """Make the waiting commits again on the target.

        Otherwise their publish would bring back what an undo or a reset of the target has dropped.
        """
        branch, stores = self.branch, self.branch.stores
        made: list[Commit] = []
        Shelves(self.branch).return_lost(branch.target())

        def build(tip: Tip) -> BranchRecord | None:
            made.clear()
            target = branch.target()
            if not self.is_lost(tip.head, target):
                return None
            head = self._mark(target.metarange, (target,), target)
            for point in points(stores.refs, tip.head, target):
                for change in point.changes:
                    head = self._again(change, head, target)
                    made.append(head)
            return tip.at(head)

        land(stores, branch.name, "reset", build)
        for commit in made:

            def change(now: HourRecord) -> HourRecord:
                return replace(now, commits=(*now.commits, commit.id), published="")  # noqa: B023

            branch.records.change_hour(commit_hour(commit), change)

    def _mark(
        self, tree: str, parents: tuple[Commit, ...], target: Commit, equal: Sequence[bytes] = ()
    ) -> Commit:
        name, stores = self.branch.name, self.branch.stores
        spec = CommitSpec(
            f"{name}: merge of {self.branch.into}", {INGEST: name, CAUGHT_UP: target.id}
        )
        claims = claims_after(stores, (name, "", spec), target, tree, equal)
        return make_commit(stores, tree=tree, parents=parents, spec=spec, claims=claims)

    def _again(self, change: Commit, head: Commit, target: Commit) -> Commit:
        """Return a commit with the same change on `head`; paths that conflict are set aside."""
        stores, ranges = self.branch.stores, self.branch.stores.ranges
        strategy = "source-wins" if self.branch.policy == "ingest" else "dest-wins"
        tree = with_changes(stores, head.metarange, (change,), strategy)
        lost = {
            key: ours
            for key, _, ours in diff(ranges, before(stores, change).metarange, change.metarange)
            if not same_content(ours, get(ranges, tree, key))
        }
        self._keep(lost, change, tree, (change,))
        asserted = self._asserted(change)
        values = [(key, get(ranges, change.metarange, key)) for key in asserted]
        writes = [staged(RawChange(key, None, value)) for key, value in values]
        tree = apply(ranges, tree, writes, stores.splitting).metarange
        spec = CommitSpec(change.message, {**change.metadata, TARGET: target.id}, change.committer)
        # what the change wrote may equal the new head, and is an assertion there
        equal = sorted({*asserted, *(self._written(change) - lost.keys())})
        claims = claims_after(stores, (self.branch.name, "", spec), head, tree, equal)
        return make_commit(stores, tree=tree, parents=(head,), spec=spec, claims=claims)

    def _asserted(self, change: Commit) -> list[bytes]:
        """Return the paths that a commit of the branch wrote although they were equal."""
        sides = (claims_of(before(self.branch.stores, change)), claims_of(change))
        changes = claim_changes(self.branch.stores.ranges, *sides)
        return sorted(one.path for one in changes if one.writer == self.branch.name and one.right)

    def _written(self, change: Commit) -> set[bytes]:
        stores = self.branch.stores
        changes = diff(stores.ranges, before(stores, change).metarange, change.metarange)
        return {one.key for one in changes}.union(self._asserted(change))

    def _merged(self, head: Commit, target: Commit, bases: Bases) -> Commit:
        """Return the merge of the target, and set aside the changes of the branch that it lacks."""
        theirs, ranges = Theirs(self.branch, head, target), self.branch.stores.ranges
        ours_win = self.branch.policy == "ingest"

        def settle(
            key: bytes, _base: object, source: bytes | None, dest: bytes | None
        ) -> bytes | Unresolved | None:
            return dest if ours_win or theirs.is_own(key) else CONFLICT

        tree = merge_trees(
            self.branch.stores,
            base=bases,
            source=target.metarange,
            dest=head.metarange,
            strategy=Settlement("dest-wins" if ours_win else "source-wins", resolve=settle),
            what=f"{self.branch.into} into {self.branch.name}",
        ).metarange
        if bases.trees == (head.metarange,) and claims_of(head) == EMPTY_METARANGE:
            return self._mark(tree, (head, target), target)
        waiting = points(self.branch.stores.refs, head, target)
        changes = [change for point in waiting for change in point.changes]
        asserted = {key: one.metarange for one in changes for key in self._asserted(one)}
        values, lost, kept = BaseValues(ranges, bases), dict[bytes, bytes | None](), []
        for key, ours, now in diff(ranges, head.metarange, tree):
            if (base := values.at(key)) is CONFLICT or not same_content(base, ours):
                lost[key] = ours
            elif key not in asserted or not same_content(ours, get(ranges, asserted[key], key)):
                continue  # the branch does not have what it asserted any more
            elif ours_win or theirs.is_own(key):
                kept.append(staged(RawChange(key, now, ours)))
            else:
                lost[key] = ours
        tree = apply(ranges, tree, kept, self.branch.stores.splitting).metarange if kept else tree
        self._keep(lost, head, tree, changes or (head,))
        written = {key: one.metarange for one in changes for key in self._written(one)}
        equal = [
            key
            for key, own in sorted(written.items())
            if same_content(*(get(ranges, side, key) for side in (own, target.metarange)))
        ]
        return self._mark(tree, (head, target), target, equal)

    def _keep(
        self,
        lost: dict[bytes, bytes | None],
        source: Commit,
        tree: str,
        changes: Sequence[Commit],
    ) -> None:
        """Set aside paths of a commit that a tree has not; tables as a whole."""
        if not lost:
            return
        units = units_of({log for key in lost if (log := log_of(key)) is not None})
        for unit in units:
            whole = diff(self.branch.stores.ranges, source.metarange, tree, prefix=unit)
            lost.update({key: ours for key, ours, _ in whole})
        writes = [staged(RawChange(key, None, value)) for key, value in sorted(lost.items())]
        Shelves(self.branch).put(
            writes, self._hours(changes, lost), whole=(source.metarange, units)
        )

    def _hours(
        self, changes: Sequence[Commit], lost: Collection[bytes]
    ) -> Mapping[str, Sequence[bytes]]:
        ranges, hours = self.branch.stores.ranges, dict[str, list[bytes]]()
        for change in changes:
            parent = before(self.branch.stores, change)
            trees, equal = (parent.metarange, change.metarange), self._asserted(change)
            for key in sorted(lost):
                if key in equal or not same_content(*(get(ranges, tree, key) for tree in trees)):
                    hours.setdefault(commit_hour(change), []).append(key)
        return hours or {commit_hour(changes[-1]): sorted(lost)}
