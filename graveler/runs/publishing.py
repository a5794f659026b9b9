"""Publishing a run: candidate, gates, compare-and-set, until the judged candidate is what lands."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from graveler.errors import (
    FencedError,
    GateFailedError,
    GravelerError,
    MergeConflictError,
    ProtectedBranchError,
    RunStateError,
    StateError,
)
from graveler.gates import (
    Candidate,
    Gate,
    RunContext,
    Verdict,
)
from graveler.model import BranchRecord, Commit
from graveler.publishing import Candidacy, Panel, land
from graveler.publishing.landing import CommitSpec, Landed, Tip
from graveler.reads.stores import Stores
from graveler.reads.view import uncommitted
from graveler.refs import move
from graveler.refs.branches import check_fence, owned
from graveler.repository.merges import build_merge
from graveler.retries import retry
from graveler.runs.branch import drop_branches, frozen
from graveler.runs.inputs import encode_inputs
from graveler.runs.lifecycle import (
    park,
    refused,
    rounds_with,
    settle_publish,
)
from graveler.runs.record import Refusal, RunHandle, RunRecord
from graveler.runs.records import RunRecords
from graveler.runs.rollback.revert_guard import check_not_reverted
from graveler.runs.state import RunEvent, RunState, next_state


@dataclass(frozen=True, slots=True)
class PublishResult:
    """What publishing did.

    Attributes:
        commit: The commit that holds the run on the target.
        already: The target held all of it before this call.
        verdicts: What the gates said of the candidate that landed.
    """

    commit: Commit
    already: bool
    verdicts: tuple[Verdict, ...] = ()


def publish(
    stores: Stores,
    records: RunRecords,
    run: RunHandle,
    *,
    gates: Iterable[Gate],
    strategy: str | None,
) -> PublishResult:
    """Make the run's committed head part of its target, if every gate lets it.

    May be called again: a run that is published answers with its commit. The run's branch
    takes no more writes from the start of the call, also where the call fails: then publish
    again, or open a new attempt. Gates run outside any lock; where the target moved meanwhile,
    only what changed there is merged again, and a gate whose inputs did not change keeps its
    verdict. After three lost races the gates run while the turn at the target is held, for ten
    seconds at most: give slower gates a prefix.

    Raises:
        GateFailedError: A gate refused; the run is parked, the target did not move.
        MergeConflictError: The target changed the same paths; the run is parked.
        FencedError: A newer attempt owns the run.
        ProtectedBranchError: The target takes no merges.
        StateError: Writes are staged on the run's branch but not committed.
    """
    try:
        return _publish(stores, records, run, tuple(gates), strategy)
    except (FencedError, RunStateError):
        record = records.get(run.key)
        if not _is_over(record, run):
            raise
        return _published(stores, record)  # by another process of this attempt, just now


def _publish(
    stores: Stores,
    records: RunRecords,
    run: RunHandle,
    gates: tuple[Gate, ...],
    strategy: str | None,
) -> PublishResult:
    earlier: Commit | None = None

    def attempt(number: int) -> PublishResult | None:
        nonlocal earlier
        # an earlier call of this attempt may have died in the middle
        record = _mine(settle_publish(stores, records, _mine(records.get(run.key), run)), run)
        if record.state is RunState.PUBLISHED:
            drop_branches(stores, record)
            return _published(stores, record)
        _check_takes_merges(stores, records, record)
        next_state(run.key, record.state, RunEvent.CANDIDATE)
        head = _freeze(stores, run)
        work = _Candidacy(stores, records, record, run, head, gates, strategy)
        try:
            landed, earlier = land(work, number, earlier)
        except (GateFailedError, MergeConflictError) as error:
            refusal = _refusal(stores, error)
            park(stores, records, run, reason=refusal.reason, refusal=refusal)
            raise
        result = None if landed is None else work.close(landed)
        if result is not None:
            drop_branches(stores, record)
            records.index.forget(record)
        return result

    return retry(stores.clock, stores.ids, f"the target of run {run.key!r}", attempt)


def _check_takes_merges(stores: Stores, records: RunRecords, record: RunRecord) -> None:
    try:
        stores.refs.protection.check(record.into, "merge")
    except ProtectedBranchError as error:
        refusal = _refusal(stores, error)
        records.update(record.key, lambda there: refused(_still(there, record), refusal))
        raise


def _refusal(stores: Stores, error: GravelerError) -> Refusal:
    verdicts = error.verdicts if isinstance(error, GateFailedError) else ()
    gates = tuple(verdict.gate for verdict in verdicts if verdict.refuses)
    return Refusal(stores.clock.now(), str(error), gates)


def judge_run(
    stores: Stores, records: RunRecords, run: RunHandle, gates: Iterable[Gate]
) -> tuple[Verdict, ...]:
    """Return what the gates say of what the target would become if the run published now.

    Nothing moves. Verdicts are kept as those of `publish` are, which does not ask a gate again
    about what it has judged here; the run's record shows them until then. Empty where the run
    has changed nothing.

    Raises:
        MergeConflictError: The target changed the same paths.
        FencedError: A newer attempt owns the run.
        StateError: Writes are staged on the run's branch but not committed.
    """
    record = _mine(records.get(run.key), run)
    head = _committed_head(stores, run)
    dest = stores.refs.commits.get(stores.refs.branches.get(record.into).commit_id)
    panel = Panel.of(stores, record.into, gates)
    candidate = _candidate(stores, record, head, dest, panel.gates, strategy=None)
    if candidate is None:
        return ()
    verdicts = panel.judge(_view(stores, record, candidate, dest))
    if not verdicts:
        return ()
    asked = {verdict.gate for verdict in verdicts}

    def change(there: RunRecord | None) -> RunRecord:
        there = _still(there, record)
        others = [verdict for verdict in there.verdicts if verdict.gate not in asked]
        return replace(there, verdicts=(*others, *verdicts))

    records.update(run.key, change)
    return verdicts


def _mine(record: RunRecord | None, run: RunHandle) -> RunRecord:
    if record is None or record.fence != run.fence:
        attempt = "gone" if record is None else f"at attempt {record.attempt}"
        raise FencedError(f"run {run.key!r} is {attempt}; this is attempt {run.attempt}")
    return record


def _committed_head(stores: Stores, run: RunHandle) -> Commit:
    branch = stores.refs.branches.find(run.branch)
    if branch is None:
        raise FencedError(
            f"run {run.key!r}: its branch is gone, the run is over: it was published or given up; "
            "what is to be written after that needs a run of its own"
        )
    if branch.fence != frozen(run.fence):
        check_fence(branch, run.fence)
    _check_committed(stores, run)
    return stores.refs.commits.get(branch.commit_id)


def _check_committed(stores: Stores, run: RunHandle) -> None:
    left = next(uncommitted(stores, run.branch), None)
    if left is not None:
        raise StateError(
            f"run {run.key!r} has writes that are not committed ({left.path!r} is one): "
            "commit them or reset the run, then publish"
        )


def _freeze(stores: Stores, run: RunHandle) -> Commit:
    """Let no more writes in and return the head: it holds all that was acknowledged.

    Without it, what another process of this attempt writes or joins while the gates run would
    be acknowledged and then go with the branch.
    """
    closed = frozen(run.fence)

    def close(there: BranchRecord) -> BranchRecord:
        if there.fence == closed:
            return there
        check_fence(there, run.fence)
        return replace(there, fence=closed)

    def reopen(there: BranchRecord) -> BranchRecord:
        return replace(there, fence=run.fence) if there.fence == closed else there

    with owned(run.branch, run.fence):
        branch = move(stores.refs, run.branch, close, landed=lambda now: now.fence == closed)
        try:
            _check_committed(stores, run)
        except StateError:
            move(stores.refs, run.branch, reopen, landed=lambda now: now.fence != closed)
            raise
    return stores.refs.commits.get(branch.commit_id)


class _Candidacy(Candidacy):
    """A run's head on its way to the target."""

    def __init__(  # noqa: PLR0913 - what a publish is called with
        self,
        stores: Stores,
        records: RunRecords,
        record: RunRecord,
        run: RunHandle,
        head: Commit,
        gates: tuple[Gate, ...],
        strategy: str | None,
    ) -> None:
        super().__init__(stores, record.into, gates, f"run {record.key!r}")
        self._records = records
        self._record = record
        self._run = run
        self._head = head
        self._strategy = strategy

    def build(self, tip: Tip, earlier: Commit | None) -> Commit | None:
        """Return the candidate, None where the target holds the run."""
        return _candidate(
            self.stores,
            self._record,
            self._head,
            tip.head,
            self.panel.gates,
            strategy=self._strategy,
            earlier=earlier,
        )

    def view(self, candidate: Commit, head: Commit) -> Candidate:
        """Return what the gates read."""
        return _view(self.stores, self._record, candidate, head)

    def judge(self, candidate: Commit, head: Commit) -> None:
        """Let the gates judge; a refusal is noted on the run, too."""
        try:
            super().judge(candidate, head)
        except GateFailedError as error:
            record, verdicts = self._record, error.verdicts
            self._records.update(
                record.key, lambda there: replace(_still(there, record), verdicts=verdicts)
            )
            raise

    def announce(self, candidate: Commit) -> bool:
        """Note the candidate on the run, so that a successor can look for it on the target.

        Returns:
            Whether it is noted; else another process of this attempt has announced one, which
            has to be settled first.
        """

        def change(there: RunRecord | None) -> RunRecord:
            there = _mine(there, self._run)
            if there.state is RunState.PUBLISHING:
                return there
            return replace(
                there,
                state=next_state(self._run.key, there.state, RunEvent.CANDIDATE),
                head=self._head.id,
                candidate=candidate.id,
                verdicts=self.verdicts,
            )

        return self._records.update(self._run.key, change).candidate == candidate.id

    def lost(self, candidate: Commit) -> None:
        """Note on the run that the candidate did not land."""

        def change(there: RunRecord | None) -> RunRecord:
            there = _mine(there, self._run)
            if there.state is not RunState.PUBLISHING or there.candidate != candidate.id:
                return there  # another process has settled it
            state = next_state(self._run.key, there.state, RunEvent.LOST)
            return replace(there, state=state, candidate="")

        self._records.update(self._run.key, change)

    def close(self, landed: Landed) -> PublishResult | None:
        """Note on the run that it is published; None where another publish has to be settled."""
        made = landed.commit
        now = _landed(
            self._records,
            self._run,
            head=self._head,
            commit=(made or landed.tip.head).id,
            verdicts=() if made is None else self.verdicts,
            announced="" if made is None else made.id,
        )
        if made is not None:
            return PublishResult(made, already=False, verdicts=self.verdicts)
        # it changed nothing, or is on the target already
        return _published(self.stores, now) if _is_over(now, self._run) else None


def _candidate(  # noqa: PLR0913 - the fields of a merge
    stores: Stores,
    record: RunRecord,
    head: Commit,
    dest: Commit,
    gates: tuple[Gate, ...],
    *,
    strategy: str | None,
    earlier: Commit | None = None,
) -> Commit | None:
    check_not_reverted(stores, record, head, dest)
    return build_merge(
        stores,
        source=head,
        dest=dest,
        spec=CommitSpec(f"run {record.key}", _metadata(record, gates)),
        strategy=strategy,
        earlier=earlier,
    )


def _view(stores: Stores, record: RunRecord, candidate: Commit, dest: Commit) -> Candidate:
    context = RunContext(record.key, record.attempt, record.metadata)
    return Candidate(stores, candidate, target=dest, into=record.into, run=context)


def _metadata(record: RunRecord, gates: tuple[Gate, ...]) -> Mapping[str, str]:
    ours = {
        "graveler.run": record.key,
        "graveler.attempt": str(record.attempt),
        "graveler.published": "true",
    }
    if gates:
        ours["graveler.gates"] = ",".join(gate.name for gate in gates)
    if record.inputs:
        ours["graveler.inputs"] = encode_inputs(record.inputs)
    return {**record.metadata, **ours}


def _still(there: RunRecord | None, record: RunRecord) -> RunRecord:
    if there is None or there.fence != record.fence:
        raise FencedError(f"run {record.key!r} was opened again while it was judged")
    return there


def _landed(
    records: RunRecords,
    run: RunHandle,
    *,
    head: Commit,
    commit: str,
    verdicts: tuple[Verdict, ...],
    announced: str = "",
) -> RunRecord:
    def change(there: RunRecord | None) -> RunRecord:
        if there is None or there.fence != run.fence or there.state is RunState.PUBLISHED:
            # a newer attempt has found the candidate landed, and has gone on from there
            return there or records.get(run.key)
        if there.state is RunState.PUBLISHING and there.candidate != announced:
            return there  # another process of this attempt is about to land a candidate
        return replace(
            there,
            state=next_state(run.key, there.state, RunEvent.LANDED),
            head=head.id,
            commit=commit,
            rounds=rounds_with(there, head.id),
            candidate="",
            reason="",
            verdicts=verdicts,
        )

    return records.update(run.key, change)


def _is_over(record: RunRecord, run: RunHandle) -> bool:
    return record.fence == run.fence and record.state is RunState.PUBLISHED


def _published(stores: Stores, record: RunRecord) -> PublishResult:
    return PublishResult(stores.refs.commits.get(record.commit), True, record.verdicts)
