"""Publishing a run: candidate, gates and compare-and-set, until the judged candidate lands."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from graveler.base.telemetry import PUBLISH
from graveler.display import Shown
from graveler.errors import (
    FencedError,
    GateFailedError,
    InternalError,
    MergeConflictError,
    ProtectedBranchError,
    RunStateError,
    SchemaChangedError,
)
from graveler.gates import Candidate, Gate, RunContext, Verdict
from graveler.kv.record_store import Version
from graveler.model import Commit
from graveler.publishing.candidacy import Candidacy, land_candidate
from graveler.publishing.landing import CommitSpec, Landed, Tip, make_commit, tip_of
from graveler.publishing.panel import Judged
from graveler.publishing.tracing import traced
from graveler.refs.pack_rule import PACKING, PackRule
from graveler.refs.refs import Look
from graveler.refs.settings import PROTECTION, REQUIRED_GATES, Rules
from graveler.repository.commits.packing import pack_published
from graveler.repository.merges import build_merge
from graveler.repository.strategies import Settlement, Strategy, settling
from graveler.runs.branch import committed_head, freeze
from graveler.runs.history import check_fork
from graveler.runs.lifecycle import drop, own, park, publish_of, settle_publish
from graveler.runs.record import (
    RunHandle,
    RunRecord,
    after,
    encode_inputs,
    published,
    refused,
)
from graveler.runs.records import RunRecords
from graveler.runs.state import RunEvent, RunState, next_state


@dataclass(frozen=True, slots=True)
class PublishTerms:
    """The terms of a publish, without its gates."""

    strategy: Strategy | None = None
    message: str = ""
    accepts: Callable[[Commit], None] | None = None
    judged: Judged = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PublishResult(Shown):
    """The result of a publish.

    Attributes:
        commit: The target's commit that has the run's work.
        already: Whether the target had all of the work before this call.
        verdicts: The verdicts of the gates on the candidate that landed.
    """

    commit: Commit
    already: bool
    verdicts: tuple[Verdict, ...] = ()


def publish(
    records: RunRecords,
    run: RunHandle,
    *,
    into: str,
    gates: Iterable[Gate],
    terms: PublishTerms,
) -> PublishResult:
    """Merge the run's committed head into its target if every gate passes.

    Idempotent: for a published run, its commit is returned. The run's branch refuses writes from
    the start of the call, even if the call fails: publish again, or open a new attempt. Gates run
    outside any lock. If the target moves meanwhile, only its changes are merged again, and a gate
    whose inputs did not change keeps its verdict. After three lost races the gates run while the
    turn at the target is held, for at most ten seconds. Give slower gates a prefix.
    """
    stores, gates = records.stores, tuple(gates)

    def begin() -> RunCandidacy | PublishResult:
        seen = _read(records, run, into)
        # an earlier call of this attempt may have died in the middle
        known = own(seen.run.record, run)
        record = own(settle_publish(records, known), run)
        work.note({"vcs.ref.base.name": record.into})
        if record.state is RunState.PUBLISHED:
            drop(records, record)
            return _result(records, record)
        _check_takes_merges(records, record, seen.rules)
        next_state(run.key, record.state, RunEvent.CANDIDATE)
        head = freeze(stores, run, seen.branch)
        fresh = record is known and record.into == into
        look = seen if fresh else None
        return RunCandidacy(records, record, head, gates, terms, settled, look)

    names = {"vcs.ref.head.name": run.branch, "graveler.run.key": run.key}
    try:
        try:
            with (
                settling(stores, terms.strategy, run.branch, into) as settled,
                traced(stores, PUBLISH, names) as work,
            ):
                result = land_candidate(stores, f"the target of run {run.key!r}", begin)
                work.end(result.commit, landed=not result.already)
                return result
        except (GateFailedError, MergeConflictError, SchemaChangedError) as error:
            park(records, run, reason=str(error), refusal=error)
            raise
    except (FencedError, RunStateError):
        record = records.get(run.key)
        if record.fence != run.fence or record.state is not RunState.PUBLISHED:
            raise
        return _result(records, record)  # another process of this attempt has just published it


class _Read(NamedTuple):
    """The records that a publish begins with, all read at one moment."""

    run: Version[Any]
    branch: Version[Any] | None
    target: Version[Any] | None
    required: Version[Any] | None
    rules: Rules
    pack_rule: PackRule


def _read(records: RunRecords, run: RunHandle, into: str) -> _Read:
    refs = records.stores.refs
    found, branch, target, required, rules, pack_rule = refs.together.read(
        records.place(run.key),
        refs.branches.place(run.branch),
        refs.branches.place(into),
        refs.settings.place(REQUIRED_GATES),
        refs.settings.place(PROTECTION),
        refs.settings.place(PACKING),
    )
    if found is None:
        records.get(run.key)  # raises
        raise InternalError(f"run {run.key!r} was opened while it was published")
    records.read(run.key, found)
    return _Read(
        found,
        branch,
        target,
        required,
        PROTECTION.of(rules),
        PACKING.of(pack_rule),
    )


def preview_verdicts(
    records: RunRecords, run: RunHandle, gates: Iterable[Gate]
) -> tuple[Verdict, ...]:
    """Return the verdicts of the gates on the tree that the target would get if the run published now.

    Nothing moves. The run's record shows the verdicts until the publish. The result is empty if the run
    has changed nothing.
    """
    record = own(records.get(run.key), run)
    head = committed_head(records.stores, run)
    verdicts = RunCandidacy(records, record, head, gates, PublishTerms()).preview()
    if not verdicts:
        return ()
    names = {verdict.gate for verdict in verdicts}

    def change(now: RunRecord) -> RunRecord:
        now = _still(now, record)
        others = [verdict for verdict in now.verdicts if verdict.gate not in names]
        return replace(now, verdicts=(*others, *verdicts))

    records.update(run.key, change)
    return verdicts


class RunCandidacy(Candidacy[PublishResult]):
    """A run's head on its way to the target."""

    def __init__(
        self,
        records: RunRecords,
        record: RunRecord,
        head: Commit,
        gates: Iterable[Gate],
        terms: PublishTerms,
        strategy: Settlement | None = None,
        seen: _Read | None = None,
    ) -> None:
        what = f"run {record.key!r}"
        super().__init__(records.stores, record.into, gates, what, terms.judged)
        self._seen = seen
        self._known = None if seen is None else seen.run
        self._records = records
        self._record = record
        self._head = head
        self._terms = terms
        self._strategy = strategy

    def look(self) -> Tip:
        """Return the target, and read its rules and gates at the same moment."""
        seen, self._seen = self._seen, None
        if seen is None or seen.target is None:
            return super().look()
        self.load_required_gates(REQUIRED_GATES.of(seen.required))
        self.pack_rule = seen.pack_rule
        return tip_of(self.stores, Look.of(seen.target, None))

    def build(self, tip: Tip, earlier: Commit | None) -> Commit | None:
        """Return the candidate; None if the target already has the run's work."""
        if self._terms.accepts is not None:
            self._terms.accepts(tip.head)
        check_fork(self.stores, self._record, tip.head)
        return build_merge(
            self.stores,
            source=self._head,
            dest=tip.head,
            spec=self._spec(),
            strategy=self._strategy,
            earlier=earlier,
        )

    def unchanged(self, head: Commit) -> Commit:
        """Return the unchanged target as a commit of the run, because gates may refuse an empty hour."""
        parents = (head, self._head)
        return make_commit(self.stores, tree=head.metarange, parents=parents, spec=self._spec())

    def _spec(self) -> CommitSpec:
        record = self._record
        metadata = {
            **record.metadata,
            "graveler.run": record.key,
            "graveler.attempt": str(record.attempt),
            "graveler.published": "true",
        }
        if self.panel.gates:
            metadata["graveler.gates"] = ",".join(gate.name for gate in self.panel.gates)
        if record.inputs:
            metadata["graveler.inputs"] = encode_inputs(record.inputs)
        return CommitSpec(self._terms.message or f"run {record.key}", metadata)

    def view(self, candidate: Commit, head: Commit) -> Candidate:
        """Return the candidate as the gates read it."""
        context = RunContext(self._record.key, self._record.attempt, self._record.metadata)
        return Candidate(self.stores, candidate, target=head, into=self.into, run=context)

    def announce(self, candidate: Commit) -> bool:
        """Record the candidate on the run, so that a newer attempt can look for it on the target.

        Returns:
            Whether it is recorded. If not, another process of this attempt has announced another
            candidate, which must be settled first.
        """

        def change(record: RunRecord) -> RunRecord:
            record = own(record, self._record)
            if record.state is RunState.PUBLISHING:
                return record
            return after(
                record,
                RunEvent.CANDIDATE,
                head=self._head.id,
                candidate=candidate.id,
                verdicts=self.verdicts,
            )

        self._known = self._records.updated(self._record.key, change, self._known)
        return self._known.record.candidate == candidate.id

    def lost(self, candidate: Commit) -> None:
        """Record on the run that the candidate did not land."""

        def change(record: RunRecord) -> RunRecord:
            record = own(record, self._record)
            if record.state is not RunState.PUBLISHING or record.candidate != candidate.id:
                return record  # another process has settled it
            return after(record, RunEvent.LOST, candidate="")

        self._records.update(self._record.key, change)

    def end(self, landed: Landed) -> PublishResult | None:
        """Record the publish on the run; None if another publish must be settled first."""
        commit = landed.commit
        announced = "" if commit is None else commit.id
        publish = publish_of(
            self._records,
            replace(self._record, verdicts=self.verdicts),
            commit or landed.tip.head,
            head=self._head.id,
            landed=commit is not None,
        )

        def change(record: RunRecord) -> RunRecord:
            if record.fence != self._record.fence or record.state is RunState.PUBLISHED:
                return record  # a newer attempt found the candidate on the target
            if record.state is RunState.PUBLISHING and record.candidate != announced:
                return record  # another process of this attempt is about to land a candidate
            return published(record, publish)

        now = self._records.updated(self._record.key, change, self._known).record
        if commit is None and (
            now.fence != self._record.fence or now.state is not RunState.PUBLISHED
        ):
            return None
        drop(self._records, self._record)
        if commit is None:  # the run changed nothing, or is on the target already
            return _result(self._records, now)
        pack_published(self.stores, self.into, commit, self.pack_rule)
        return PublishResult(commit, already=False, verdicts=self.verdicts)


def _still(now: RunRecord, record: RunRecord) -> RunRecord:
    if now.fence != record.fence:
        raise FencedError(f"run {record.key!r} was opened again while it was judged")
    return now


def _check_takes_merges(records: RunRecords, record: RunRecord, rules: Rules) -> None:
    try:
        rules.check(record.into, "merge")
    except ProtectedBranchError as error:
        refusal, at = error, records.stores.clock.now()
        records.update(record.key, lambda now: refused(_still(now, record), refusal, at))
        raise


def _result(records: RunRecords, record: RunRecord) -> PublishResult:
    commit = records.stores.refs.commits.get(record.commit)
    return PublishResult(commit, already=True, verdicts=record.verdicts)
