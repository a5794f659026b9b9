"""Taking a refused change off an ingestion branch, on to a branch of its own.

It is decided by one compare-and-set on the branch's standing, and from then on whoever comes
goes on with it, in steps of which each may be repeated. A publisher that was on its way when it
was decided has landed before, in which case the decision is dropped, or never will.
"""

from dataclasses import replace
from itertools import count

from graveler.committed import Bases
from graveler.errors import (
    AlreadyExistsError,
    GateFailedError,
    MergeConflictError,
    RefNotFoundError,
)
from graveler.ingest.line import INGEST, QUARANTINE, TAKEN_OFF, TAKEN_TO, Point, find_off
from graveler.ingest.publishing import Publisher
from graveler.ingest.record import Quarantine, Standing
from graveler.ingest.records import IngestRecords
from graveler.ingest.trees import put_on, put_on_unless_changed, taken_off
from graveler.model import BranchRecord, Commit
from graveler.publishing.landing import CommitSpec, Tip, land, make_commit
from graveler.reads.stores import Stores
from graveler.refs import is_ancestor, merge_bases, move, remove
from graveler.repository.merges import find_bases
from graveler.runs.record import Refusal


def culprits(publisher: Publisher, point: Point, spec: CommitSpec) -> tuple[Commit, ...]:
    """Return which changes of a refused point are to be taken off it.

    Where there are several, each is judged upon those before it that passed, and the first one
    that is refused is named; where none is, all of them together.
    """
    if len(point.changes) == 1:
        return point.changes
    stores = publisher.stores
    commits = stores.refs.commits
    target = commits.get(stores.refs.branches.get(publisher.into).commit_id)
    bases = find_bases(stores, point.commit, target) or Bases.one(target.metarange)
    tree = target.metarange
    for change in point.changes:
        try:
            tree = put_on_unless_changed(stores, tree, change, bases=bases, target=target.metarange)
            candidate = make_commit(stores, tree=tree, parents=(target,), spec=spec)
            publisher.judge(candidate, target, spec)
        except (GateFailedError, MergeConflictError):
            return (change,)
    return point.changes


class Quarantines:
    """Takes changes off one ingestion branch."""

    def __init__(self, stores: Stores, records: IngestRecords, *, branch: str, into: str) -> None:
        self._stores = stores
        self._records = records
        self._branch = branch
        self._into = into

    def decide(
        self, changes: tuple[Commit, ...], hours: tuple[str, ...], point: Commit, refusal: Refusal
    ) -> None:
        """Decide that the changes are taken off; `settle` does it.

        Where another change is being taken off, nothing is decided: settle, and look again.
        """
        self._stores.refs.protection.check(self._branch, "revert")
        name = self._free_name(hours[0])
        decided = Quarantine(
            name=name,
            hours=hours,
            commits=tuple(change.id for change in changes),
            head=self._parked(name, changes, hours, point).id,
            refusal=refusal,
            created=self._stores.clock.now(),
        )

        def change(there: Standing) -> Standing:
            return there if there.taking is not None else replace(there, taking=decided)

        self._records.change_standing(change)

    def settle(self) -> None:
        """Finish what was decided, if anything is left to be done."""
        taking = self._records.standing().taking
        if taking is None:
            return
        if self._is_to_be_done(taking):
            kept = self._records.add_quarantine(replace(taking, nonce=""))
            self._make_branch(kept)
            self._take_off(taking)
            self._look_again(kept.name)

        def change(there: Standing) -> Standing:
            mine = there.taking is not None and there.taking.head == taking.head
            return replace(there, taking=None) if mine else there

        self._records.change_standing(change)

    def _free_name(self, hour: str) -> str:
        """Return a branch name for the change of an hour that no branch or quarantine ever had."""
        slug = "quarantine-" + hour.removesuffix("Z").replace(":", "-")
        for number in count(1):
            name = slug if number == 1 else f"{slug}.{number}"
            taken = self._records.quarantine(name) or self._stores.refs.branches.find(name)
            if taken is None:
                return name
        raise AssertionError  # pragma: no cover - count() does not end

    def _parked(
        self, name: str, changes: tuple[Commit, ...], hours: tuple[str, ...], point: Commit
    ) -> Commit:
        """Store the commit that the quarantine's branch begins with.

        It is not one of the ingestion branch: what is taken off stays in that one's history, and
        a merge of it, once released, would bring nothing.
        """
        stores = self._stores
        commits = stores.refs.commits
        target = stores.refs.branches.get(self._into).commit_id
        # any of several will do: the quarantine holds the changes, whatever it is released upon
        base = next(iter(merge_bases(commits, point.id, target)), commits.get(target))
        theirs = changes[-1].metadata.items()
        spec = CommitSpec(
            f"{self._branch} {', '.join(hours)}: refused",
            {
                **{key: text for key, text in theirs if not key.startswith("graveler.")},
                INGEST: self._branch,
                QUARANTINE: name,
            },
        )
        tree = put_on(stores, base.metarange, changes)
        return make_commit(stores, tree=tree, parents=(base,), spec=spec)

    def _is_to_be_done(self, taking: Quarantine) -> bool:
        """Return whether the decision holds: its change has not landed, nor was it taken off.

        The target's record is written anew first, so that a publisher that has looked before
        the decision loses its compare-and-set, if it has not won it already.
        """
        commits = self._stores.refs.commits
        try:
            target = move(self._stores.refs, self._into, _rewritten, landed=lambda _: True)
        except RefNotFoundError:
            return False
        record = self._stores.refs.branches.find(self._branch)
        if record is None:
            return False
        off = find_off(commits, commits.get(record.commit_id), taking.commits)
        if off == "":
            return not any(is_ancestor(commits, one, target.commit_id) for one in taking.commits)
        return off == taking.name  # by a call that was cut off after that

    def _make_branch(self, kept: Quarantine) -> None:
        if kept.released:
            return
        stores = self._stores
        try:
            stores.refs.branches.create(
                BranchRecord(name=kept.name, commit_id=kept.head, staging_token=stores.ids.unique())
            )
        except AlreadyExistsError:
            there = stores.refs.branches.find(kept.name)
            if there is None or is_ancestor(stores.refs.commits, kept.head, there.commit_id):
                return
            raise AlreadyExistsError(
                f"branch {kept.name!r} was made by somebody else just when a refused change of "
                f"{self._branch!r} was to get it: delete it, then tick again"
            ) from None

    def _take_off(self, taking: Quarantine) -> None:
        """Take the changes off the branch, in one commit and once; what is staged stays staged."""
        stores, refs = self._stores, self._stores.refs
        changes = [refs.commits.get(each) for each in taking.commits]
        spec = CommitSpec(
            f"{self._branch}: {', '.join(taking.hours)} to {taking.name}",
            {
                INGEST: self._branch,
                TAKEN_TO: taking.name,
                TAKEN_OFF: ",".join(taking.commits),
            },
        )

        def build(tip: Tip) -> BranchRecord | None:
            if find_off(refs.commits, tip.head, taking.commits) != "":
                return None
            tree = taken_off(stores, tip.head.metarange, changes)
            return tip.at(make_commit(stores, tree=tree, parents=(tip.head,), spec=spec))

        land(stores, self._branch, "revert", build)

    def _look_again(self, name: str) -> None:
        """Take away the branch that we made of a quarantine that was released meanwhile."""
        kept = self._records.quarantine(name)
        if kept is not None and kept.released:
            tokens = remove(
                self._stores.refs,
                name,
                lambda record: record.commit_id == kept.head and not record.fence,
            )
            self._stores.staging.drop(*tokens)


def _rewritten(there: BranchRecord) -> BranchRecord:
    return replace(there)  # equal but for the nonce it will get
