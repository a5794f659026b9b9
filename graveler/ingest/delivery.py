"""Publishing a commit of an ingestion branch: candidate, gates, compare-and-set.

The commit that publishes a change names it as its second parent, so history shows what is published.
The decision to quarantine a change is written before the target's record is rewritten, and a publisher
reads that record first. It therefore lands before the decision looks for it, or loses its compare-and-set.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from graveler.base.telemetry import PUBLISH
from graveler.gates import Candidate, Gate, RunContext
from graveler.gates.checks.paths import OWN_HOURS
from graveler.ingest.hours import ARRIVED, hour_kinds
from graveler.ingest.unpublished import IngestBranch
from graveler.model import Commit
from graveler.publishing.candidacy import Candidacy, land_candidate
from graveler.publishing.landing import CommitSpec, Landed, Tip, claims_after, make_commit
from graveler.publishing.tracing import traced
from graveler.reads.changes import diff_commits
from graveler.refs.history import is_ancestor
from graveler.repository.commits.packing import pack_published
from graveler.repository.merges import build_merge
from graveler.repository.strategies import Settlement


class IngestCandidacy(Candidacy[Landed]):
    """A commit of an ingestion branch on its way to the target.

    Args:
        spec: Message and metadata of the commit that publishes it.
        gates: The gates of the publisher; those that the target requires are added.
        wanted: Called before each attempt with the head of the target; returns whether the commit is
            still to be published.
        tree: Returns the tree of the candidate for a head of the target, and the paths that are
            published although they are equal there; None: a merge makes it.
    """

    def __init__(
        self,
        branch: IngestBranch,
        source: Commit,
        spec: CommitSpec,
        gates: tuple[Gate, ...],
        wanted: Callable[[Commit], bool] = lambda _: True,
        strategy: Settlement | None = None,
        tree: Callable[[Commit], tuple[str, Sequence[bytes]]] | None = None,
    ) -> None:
        super().__init__(branch.stores, branch.into, gates, spec.message)
        self._name = branch.name
        self._records = branch.records
        self._source = source
        self._spec = spec
        self._wanted = wanted
        self._strategy = strategy
        self._tree = tree

    def publish(self) -> bool:
        """Merge the commit into the target if every gate passes; return whether the target moved.

        Nothing happens if the commit is published or no longer wanted, or if a change is being
        quarantined. Gates run outside any lock. After three lost races they run while the turn is
        held.
        """

        def begin() -> Candidacy[Landed] | Landed:
            return self

        names = {"vcs.ref.head.name": self._name, "vcs.ref.base.name": self.into}
        with traced(self.stores, PUBLISH, names) as work:
            self.stores.refs.protection.check(self.into, "merge")
            landed = land_candidate(self.stores, f"branch {self.into!r} ({self.what})", begin)
            work.end(landed.head, landed=landed.commit is not None)
        return landed.commit is not None

    def end(self, landed: Landed) -> Landed:
        """Return the result of the landing."""
        if landed.commit is not None:
            pack_published(self.stores, self.into, landed.commit, self.pack_rule)
        return landed

    def build(self, tip: Tip, earlier: Commit | None) -> Commit | None:
        """Return the candidate; None if the change is published or is being quarantined."""
        if self._records.standing().taking is not None or not self._wanted(tip.head):
            return None
        if is_ancestor(self.stores.refs.commits, self._source.id, tip.head.id):
            return None
        names = ",".join(gate.name for gate in self.panel.gates)
        gates = {"graveler.gates": names} if names else {}
        spec = replace(self._spec, metadata={**self._spec.metadata, **gates})
        if self._tree is not None:
            parents, (tree, equal) = (tip.head, self._source), self._tree(tip.head)
            by = (self._name, "", spec)
            claims = claims_after(self.stores, by, tip.head, tree, equal)
            return make_commit(self.stores, tree=tree, parents=parents, spec=spec, claims=claims)
        return build_merge(
            self.stores,
            source=self._source,
            dest=tip.head,
            spec=spec,
            strategy=self._strategy,
            earlier=earlier,
        )

    def view(self, candidate: Commit, head: Commit) -> Candidate:
        """Return the candidate as the gates read it."""
        hour = self._spec.metadata.get("hour", "")
        kinds = hour_kinds(diff_commits(self.stores, head, candidate), hour)
        pairs = {
            key: text
            for key, text in self._spec.metadata.items()
            if not key.startswith("graveler.")
        }
        pairs[OWN_HOURS] = ",".join(name for name, kind in kinds.items() if kind in ARRIVED)
        context = RunContext(self._spec.message, 1, pairs)
        return Candidate(self.stores, candidate, target=head, into=self.into, run=context)
