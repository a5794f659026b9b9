"""Landing of a candidate with additional gates, for runs and ingestion.

Gates may take long, so they judge before the process takes its turn at the branch. The process takes a
turn only after a lost race. If the branch moves meanwhile, the candidate is built again on the new head.
It lands only if no gate has anything new to judge. After three lost races the gates judge while the
process holds the turn.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from graveler.base.retries import retry
from graveler.gates import Candidate, Gate, Verdict
from graveler.model import Commit
from graveler.publishing.landing import Landed, Tip, announce, tip_of
from graveler.publishing.panel import Judged, Panel, refuse
from graveler.reads.stores import Stores
from graveler.refs.mover import advance
from graveler.refs.pack_rule import PACKING, PackRule
from graveler.refs.settings import REQUIRED_GATES, GateRules

_OVERTAKEN = 3
R = TypeVar("R")


class Candidacy(ABC, Generic[R]):
    """A commit that is to land on a branch."""

    def __init__(
        self,
        stores: Stores,
        into: str,
        gates: Iterable[Gate],
        what: str,
        judged: Judged | None = None,
    ) -> None:
        self.stores = stores
        self.into = into
        self.what = what
        self._given = tuple(gates)
        self._judged: Judged = {} if judged is None else judged
        self.panel = Panel(stores, ())
        self.verdicts: tuple[Verdict, ...] = ()
        self.pack_rule = PackRule()

    def look(self) -> Tip:
        """Return the branch, and read its rules and gates at the same moment."""
        refs = self.stores.refs
        place = refs.settings.place
        seen = refs.look(self.into, place(REQUIRED_GATES), place(PACKING))
        self.load_required_gates(REQUIRED_GATES.of(seen.also[0]))
        self.pack_rule = PACKING.of(seen.also[1])
        return tip_of(self.stores, seen)

    def load_required_gates(self, required: GateRules | None = None) -> None:
        """Set the gates that the branch requires by these rules; None for the present rules."""
        self.panel = Panel.of(
            self.stores, self.into, self._given, rules=required, judged=self._judged
        )

    @abstractmethod
    def end(self, landed: Landed) -> R | None:
        """Return the result of the landing; None if it must be attempted again."""

    @abstractmethod
    def build(self, tip: Tip, earlier: Commit | None) -> Commit | None:
        """Return the candidate on the branch's head; None if there is nothing to land."""

    def unchanged(self, head: Commit) -> Commit | None:
        """Return the commit to judge if there is nothing to land; None if gates do not judge."""
        del head
        return None

    @abstractmethod
    def view(self, candidate: Commit, head: Commit) -> Candidate:
        """Return the candidate as the gates read it."""

    def preview(self) -> tuple[Verdict, ...]:
        """Return the verdicts that the candidate would get now; nothing moves."""
        tip = self.look()
        candidate = self.build(tip, None) or self.unchanged(tip.head)
        return () if candidate is None else self.panel.verdicts(self.view(candidate, tip.head))

    def check(self, candidate: Commit, head: Commit) -> None:
        """Let the gates judge; raise GateFailedError if one refuses."""
        self.verdicts = self.panel.verdicts(self.view(candidate, head))
        refuse(self.what, self.verdicts, self.into)

    def check_unchanged(self, head: Commit) -> None:
        """Let the gates judge the unchanged branch if there is nothing to land."""
        same = self.unchanged(head) if self.panel.gates else None
        if same is not None:
            self.check(same, head)

    def passed_before(self, candidate: Commit, head: Commit) -> bool:
        """Return whether every gate has passed the same inputs before."""
        known = self.panel.known(self.view(candidate, head))
        if known is None or any(verdict.refuses for verdict in known):
            return False
        self.verdicts = known
        return True

    def announce(self, candidate: Commit) -> bool:
        """Note that the candidate is about to land; return False if another candidate is."""
        del candidate
        return True

    def lost(self, candidate: Commit) -> None:
        """Note that the candidate did not land and never will."""


def land_candidate(stores: Stores, what: str, begin: Callable[[], Candidacy[R] | R]) -> R:
    """Land a candidate and return the result, with a new attempt after each lost race."""
    earlier: Commit | None = None

    def attempt(number: int) -> R | None:
        nonlocal earlier
        work = begin()
        if not isinstance(work, Candidacy):
            return work
        landed, earlier = _attempt(work, number, earlier)
        return None if landed is None else work.end(landed)

    return retry(stores.clock, stores.ids, what, attempt)


def _attempt(
    work: Candidacy[R], number: int, earlier: Commit | None
) -> tuple[Landed | None, Commit | None]:
    """Attempt once to land a candidate.

    Returns:
        The result, or None if the race was lost, and the candidate for the next attempt.
    """
    seen = work.look()
    if number == 0:
        candidate = work.build(seen, earlier)
        if candidate is not None:
            work.check(candidate, seen.head)
        return _land(work, seen, candidate)
    candidate = earlier
    judged = bool(work.panel.gates) and number < _OVERTAKEN
    if judged:
        candidate = work.build(seen, earlier)
        if candidate is None:
            return _land(work, seen, None)
        work.check(candidate, seen.head)
    with work.stores.refs.turn(work.into):
        tip = work.look()
        moved = tip.predicate != seen.predicate
        if moved or not judged:
            # a record with the same head may have been rewritten to stop this landing
            candidate = work.build(tip, candidate)
        if candidate is not None:
            if not judged:
                work.check(candidate, tip.head)
            elif moved and not work.passed_before(candidate, tip.head):
                return None, candidate
        return _land(work, tip, candidate)


def _land(
    work: Candidacy[R], tip: Tip, candidate: Commit | None
) -> tuple[Landed | None, Commit | None]:
    """Move the branch to a candidate that the gates have judged, if it has not changed since `tip`."""
    if candidate is None:
        work.check_unchanged(tip.head)
        return Landed(tip, None), None
    if not work.announce(candidate):
        return None, candidate
    if not advance(work.stores.refs, tip.at(candidate), tip.predicate, action="publish"):
        work.lost(candidate)
        return None, candidate
    announce(work.stores, work.into, tip.head, candidate)
    return Landed(tip, candidate), candidate
