"""Publishing a commit of an ingestion branch: candidate, gates, compare-and-set.

The commit that publishes a change names it as its second parent. So history tells that a change
is published, and no record is needed: a second publisher finds it there, and a tick that died in
the middle leaves nothing to clear up.

History cannot tell that a change is about to be taken off the branch. That decision is first written
to the branch's standing; then the target's record is rewritten. A publisher reads the target's
record first, then the standing and the branch. So it either lands before the decision looks for it
on the target, or it loses its compare-and-set.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from graveler.gates import (
    Candidate,
    Gate,
    RunContext,
)
from graveler.ingest.records import IngestRecords
from graveler.model import Commit
from graveler.publishing import Candidacy, Panel, land
from graveler.publishing.landing import CommitSpec, Landed, Tip
from graveler.publishing.panel import refuse
from graveler.reads.stores import Stores
from graveler.refs import is_ancestor
from graveler.repository.merges import build_merge
from graveler.retries import retry


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
        work = _Candidacy(self, source, spec, wanted, strategy)
        earlier: Commit | None = None

        def attempt(number: int) -> Landed | None:
            nonlocal earlier
            landed, earlier = land(work, number, earlier)
            return landed

        clock, ids = self.stores.clock, self.stores.ids
        return retry(clock, ids, f"branch {self.into!r} ({spec.message})", attempt).commit

    def judge(self, candidate: Commit, dest: Commit, spec: CommitSpec) -> None:
        """Let these gates and those that the target requires judge a candidate.

        Raises:
            GateFailedError: One refuses it.
        """
        panel = Panel.of(self.stores, self.into, self.gates)
        refuse(spec.message, panel.judge(self.view(candidate, dest, spec)))

    def view(self, candidate: Commit, dest: Commit, spec: CommitSpec) -> Candidate:
        """Return what the gates read of a candidate."""
        return Candidate(self.stores, candidate, target=dest, into=self.into, run=_context(spec))


def _context(spec: CommitSpec) -> RunContext:
    """Return what gates may know of what they judge."""
    theirs = {key: text for key, text in spec.metadata.items() if not key.startswith("graveler.")}
    return RunContext(spec.message, 1, theirs)


class _Candidacy(Candidacy):
    """A commit of the branch on its way to the target."""

    def __init__(
        self,
        publisher: Publisher,
        source: Commit,
        spec: CommitSpec,
        wanted: Callable[[], bool],
        strategy: str | None,
    ) -> None:
        super().__init__(publisher.stores, publisher.into, publisher.gates, spec.message)
        self._publisher = publisher
        self._source = source
        self._spec = spec
        self._wanted = wanted
        self._strategy = strategy

    def build(self, tip: Tip, earlier: Commit | None) -> Commit | None:
        """Return the candidate; None where the change is published or is taken off."""
        if self._publisher.records.standing().taking is not None or not self._wanted():
            return None
        if is_ancestor(self.stores.refs.commits, self._source.id, tip.head.id):
            return None
        names = ",".join(gate.name for gate in self.panel.gates)
        named = {"graveler.gates": names} if names else {}
        return build_merge(
            self.stores,
            source=self._source,
            dest=tip.head,
            spec=replace(self._spec, metadata={**self._spec.metadata, **named}),
            strategy=self._strategy,
            earlier=earlier,
        )

    def view(self, candidate: Commit, head: Commit) -> Candidate:
        """Return what the gates read."""
        return self._publisher.view(candidate, head, self._spec)
