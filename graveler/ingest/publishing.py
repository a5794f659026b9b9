"""Publishing a commit of an ingestion branch: candidate, gates, compare-and-set.

That a commit is published at most once needs no record: the commit that publishes it names it
as its second parent, so it is in the target's history from then on, and who comes later finds
it there. A tick that died in the middle leaves nothing to be cleared up.

What history cannot tell is that a change is about to be taken off instead. Whoever decides that
writes it down first and then the target's record anew; so a publisher who read the target's
record first, and then that nothing is being taken off and that his change is still on the branch,
either lands before the decision looks whether he has, or loses his compare-and-set.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from graveler.errors import GateFailedError
from graveler.gates import (
    Candidate,
    Gate,
    RunContext,
    Verdict,
    combined,
    judge,
    known_verdicts,
)
from graveler.ingest.records import IngestRecords
from graveler.model import Commit
from graveler.refs import is_ancestor
from graveler.repository.landing import CommitSpec, Landed, Tip, land_judged
from graveler.repository.merge.merges import build_merge
from graveler.repository.stores import Stores
from graveler.retries import retry

__all__ = ["Publisher"]

_OVERTAKEN: Final = 3


@dataclass(frozen=True, slots=True)
class Publisher:
    """Publishes commits to a branch.

    Attributes:
        stores: The repository.
        records: Of the ingestion branch.
        into: The branch to publish to.
        gates: Who judges the candidates, beside those that the target requires.
    """

    stores: Stores
    records: IngestRecords
    into: str
    gates: tuple[Gate, ...]

    def publish(
        self,
        source: Commit,
        spec: CommitSpec,
        *,
        wanted: Callable[[], bool],
        strategy: str | None = None,
    ) -> Commit | None:
        """Make `source` part of the target, if every gate lets it.

        Gates run outside any lock; after three lost races they run while the turn is held.

        Args:
            source: The commit.
            spec: What the commit that publishes it says.
            wanted: Asked again before each try whether it still is to be published.
            strategy: ``source-wins`` or ``dest-wins`` where paths conflict.

        Returns:
            The commit on the target, None where there is nothing to do here: it is published, is
            not wanted any more, or a change is being taken off.

        Raises:
            GateFailedError: A gate refused; the target did not move.
            MergeConflictError: The target changed the same paths.
            ProtectedBranchError: The target takes no merges.
        """
        self.stores.refs.protection.check(self.into, "merge")
        earlier: Commit | None = None

        def attempt(number: int) -> Landed | None:
            nonlocal earlier
            gates = combined(self.stores, self.into, self.gates)
            work = _Candidacy(replace(self, gates=gates), source, spec, wanted, strategy)
            beside = bool(gates) and number < _OVERTAKEN
            landed, earlier = land_judged(
                self.stores, self.into, work, beside=beside, earlier=earlier
            )
            return landed

        clock, ids = self.stores.clock, self.stores.ids
        return retry(clock, ids, f"branch {self.into!r} ({spec.message})", attempt).commit

    def judge(self, candidate: Commit, dest: Commit, spec: CommitSpec) -> tuple[Verdict, ...]:
        """Return what the gates say of a candidate; those that the target requires are asked, too.

        Raises:
            GateFailedError: One refuses it.
        """
        verdicts = judge(self.stores, self._view(candidate, dest, spec), self.gates)
        refusals = [verdict for verdict in verdicts if verdict.refuses]
        if refusals:
            reasons = "; ".join(f"{verdict.gate}: {verdict.reason}" for verdict in refusals)
            raise GateFailedError(f"{spec.message} was refused: {reasons}", verdicts)
        return verdicts

    def passed_before(self, candidate: Commit, dest: Commit, spec: CommitSpec) -> bool:
        """Return whether every gate has judged just this before, and let it through."""
        known = known_verdicts(self.stores, self._view(candidate, dest, spec), self.gates)
        return known is not None and not any(verdict.refuses for verdict in known)

    def _view(self, candidate: Commit, dest: Commit, spec: CommitSpec) -> Candidate:
        return Candidate(self.stores, candidate, target=dest, into=self.into, run=_context(spec))


def _context(spec: CommitSpec) -> RunContext:
    """Return what gates may know of what they judge."""
    theirs = {key: text for key, text in spec.metadata.items() if not key.startswith("graveler.")}
    return RunContext(spec.message, 1, theirs)


@dataclass(frozen=True, slots=True)
class _Candidacy:
    """A commit of the branch on its way to the target."""

    publisher: Publisher
    source: Commit
    spec: CommitSpec
    wanted: Callable[[], bool]
    strategy: str | None

    def build(self, tip: Tip, earlier: Commit | None) -> Commit | None:
        """Return the candidate, None where nothing is to be published.

        The target's record is read before the standing: that order keeps a change that is being
        quarantined from landing.
        """
        stores = self.publisher.stores
        if self.publisher.records.standing().taking is not None or not self.wanted():
            return None
        if is_ancestor(stores.refs.commits, self.source.id, tip.head.id):
            return None
        gates = self.publisher.gates
        named = {"graveler.gates": ",".join(gate.name for gate in gates)} if gates else {}
        return build_merge(
            stores,
            source=self.source,
            dest=tip.head,
            spec=replace(self.spec, metadata={**self.spec.metadata, **named}),
            strategy=self.strategy,
            earlier=earlier,
        )

    def judge(self, candidate: Commit, head: Commit) -> None:
        """Let the gates judge; raise GateFailedError where one refuses."""
        self.publisher.judge(candidate, head, self.spec)

    def passed_before(self, candidate: Commit, head: Commit) -> bool:
        """Return whether every gate has judged the same before, and let it through."""
        return self.publisher.passed_before(candidate, head, self.spec)

    def announce(self, _candidate: Commit) -> bool:
        """Need no note: the commit that lands names its source as its second parent."""
        return True

    def lost(self, _candidate: Commit) -> None:
        """Need no note."""
