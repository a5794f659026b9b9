"""Publishing a commit of an ingestion branch: candidate, gates, compare-and-set.

That a commit is published at most once needs no record: the commit that publishes it names it
as its second parent, so it is in the target's history from then on, and who comes later finds
it there. A tick that died in the middle leaves nothing to be cleared up.

What history cannot tell is that a change is about to be taken off instead. Whoever decides that
writes it down first and then the target's record anew; so a publisher who read the target's
record first, and then that nothing is being taken off and that his change is still on the branch,
either lands before the decision looks whether he has, or loses his compare-and-set.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Final

from graveler.config import default_committer
from graveler.errors import GateFailedError, ThrottledError
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
from graveler.kv.store import Predicate
from graveler.model import BranchRecord, Commit
from graveler.refs import advance, backoff, is_ancestor
from graveler.repository.merging import build_merge
from graveler.repository.stores import Stores
from graveler.repository.writing import check_fence

__all__ = ["Publisher", "Said"]

_ATTEMPTS: Final = 200
_OVERTAKEN: Final = 3


@dataclass(frozen=True, slots=True)
class Said:
    """What a publishing commit says.

    Attributes:
        message: Its message; also what gates are told they judge.
        metadata: Its pairs; the gates get those of them that are not graveler's own.
    """

    message: str
    metadata: Mapping[str, str]

    @property
    def context(self) -> RunContext:
        """What gates may know of what they judge."""
        theirs = {
            key: text for key, text in self.metadata.items() if not key.startswith("graveler.")
        }
        return RunContext(self.message, 1, theirs)


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
        said: Said,
        *,
        wanted: Callable[[], bool],
        strategy: str | None = None,
    ) -> Commit | None:
        """Make `source` part of the target, if every gate lets it.

        Gates run outside any lock; who was overtaken three times keeps the turn at the target
        while they do.

        Args:
            source: The commit.
            said: What the commit that publishes it says.
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
        for number in range(_ATTEMPTS):
            gates = combined(self.stores, self.into, self.gates)
            work = _Try(replace(self, gates=gates), source, said, wanted, strategy)
            if gates and number < _OVERTAKEN:
                over, earlier = work.beside_others(earlier)
            else:
                over, earlier = work.in_turn(earlier)
            if over:
                return earlier
            backoff(self.stores.clock, self.stores.ids, number)
        raise ThrottledError(
            f"{said.message}: branch {self.into!r} moved during each of {_ATTEMPTS} tries to "
            "publish; try again"
        )

    def judge(self, candidate: Commit, dest: Commit, said: Said) -> tuple[Verdict, ...]:
        """Return what the gates say of a candidate; those that the target requires are asked, too.

        Raises:
            GateFailedError: One refuses it.
        """
        verdicts = judge(self.stores, self._view(candidate, dest, said), self.gates)
        refusals = [verdict for verdict in verdicts if verdict.refuses]
        if refusals:
            reasons = "; ".join(f"{verdict.gate}: {verdict.reason}" for verdict in refusals)
            raise GateFailedError(f"{said.message} was refused: {reasons}", verdicts)
        return verdicts

    def passed_before(self, candidate: Commit, dest: Commit, said: Said) -> bool:
        """Return whether every gate has judged just this before, and let it through."""
        known = known_verdicts(self.stores, self._view(candidate, dest, said), self.gates)
        return known is not None and not any(verdict.refuses for verdict in known)

    def _view(self, candidate: Commit, dest: Commit, said: Said) -> Candidate:
        return Candidate(self.stores, candidate, target=dest, into=self.into, run=said.context)


_Outcome = tuple[bool, Commit | None]
"""Whether it is over, and the commit on the target; else the candidate that lost its race."""


@dataclass(frozen=True, slots=True)
class _Try:
    """One try to publish a commit on the target's present head."""

    publisher: Publisher
    source: Commit
    said: Said
    wanted: Callable[[], bool]
    strategy: str | None

    def in_turn(self, earlier: Commit | None) -> _Outcome:
        with self._turn():
            found = self._look()
            if found is None:
                return True, None
            target, predicate, dest = found
            candidate = self._build(dest, earlier)
            self.publisher.judge(candidate, dest, self.said)
            return self._land(target, predicate, candidate)

    def beside_others(self, earlier: Commit | None) -> _Outcome:
        found = self._look()
        if found is None:
            return True, None
        _, judged, base = found
        candidate = self._build(base, earlier)
        self.publisher.judge(candidate, base, self.said)
        with self._turn():
            found = self._look()
            if found is None:
                return True, None
            target, predicate, dest = found
            if predicate != judged:  # it moved, or requires other gates by now
                if dest.id != base.id:
                    candidate = self._build(dest, candidate)
                if not self.publisher.passed_before(candidate, dest, self.said):
                    return False, candidate
            return self._land(target, predicate, candidate)

    def _turn(self) -> AbstractContextManager[Any]:
        return self.publisher.stores.refs.turn(self.publisher.into)

    def _look(self) -> tuple[BranchRecord, Predicate, Commit] | None:
        """Return the target as it is, None where nothing is to be published.

        The order of the reads is what keeps a change that is being taken off from landing.
        """
        stores = self.publisher.stores
        target, predicate = stores.refs.branches.get_for_update(self.publisher.into)
        check_fence(target, "")
        if self.publisher.records.standing().taking is not None or not self.wanted():
            return None
        dest = stores.refs.commits.get(target.commit_id)
        if is_ancestor(stores.refs.commits, self.source.id, dest.id):
            return None
        return target, predicate, dest

    def _build(self, dest: Commit, earlier: Commit | None) -> Commit:
        gates = self.publisher.gates
        named = {"graveler.gates": ",".join(gate.name for gate in gates)} if gates else {}
        made = build_merge(
            self.publisher.stores,
            source=self.source,
            dest=dest,
            message=self.said.message,
            metadata={**self.said.metadata, **named},
            committer=default_committer(),
            strategy=self.strategy,
            earlier=earlier,
        )
        return made or dest  # it is not there: `_look` has seen to that

    def _land(self, target: BranchRecord, predicate: Predicate, candidate: Commit) -> _Outcome:
        moved = replace(target, commit_id=candidate.id)
        landed = advance(self.publisher.stores.refs, moved, predicate, action="publish")
        return landed, candidate
