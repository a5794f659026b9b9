"""Landing: the one protocol that gives a branch a new head.

A *landing* reads the branch's record, builds a commit on its head, lets the required gates judge the
commit, and replaces the record by compare-and-set. After a lost race it reads, builds and judges again.
Movers take turns after a lost race. A process that lost a race recently, or found that another one moves
the branch, too, takes a turn at once. Turns make further lost races rare, but correctness depends only
on the compare-and-set.

No reader sees a change before the compare-and-set, and each step before it may be repeated. A
process that dies before it leaves objects and commit records that no branch names.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from graveler.base.retries import retry
from graveler.committed.bases import Base, Bases
from graveler.committed.claims import claimed, claims_of, is_title
from graveler.committed.diff import differing_spans
from graveler.committed.merge import merge
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.config import default_committer
from graveler.errors import OutcomeUnknownError, PreconditionFailedError
from graveler.kv.store import Predicate
from graveler.model import CLAIMS, BranchRecord, Commit
from graveler.reads.stores import Stores
from graveler.reads.view import readable
from graveler.refs.branches import check_fence, owned
from graveler.refs.history import merge_bases
from graveler.refs.mover import advance
from graveler.refs.refs import Look
from graveler.refs.settings import Rules

if TYPE_CHECKING:
    from graveler.publishing.panel import Judged


@dataclass(frozen=True, slots=True)
class CommitSpec:
    """The message, metadata and committer of a commit."""

    message: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    committer: str = ""


@dataclass(frozen=True, slots=True)
class Tip:
    """A branch as one try reads it."""

    record: BranchRecord
    predicate: Predicate
    head: Commit
    rules: Rules | None = None

    def at(self, commit: Commit) -> BranchRecord:
        """Return the record with another head; staged writes stay staged."""
        return replace(self.record, commit_id=commit.id)


@dataclass(frozen=True, slots=True)
class Landed:
    """The result of a landing."""

    tip: Tip
    commit: Commit | None

    @property
    def head(self) -> Commit:
        """The head of the branch after the landing."""
        return self.commit or self.tip.head


class RetryLanding(Exception):
    """A build reports that the branch has moved; the attempt counts as a lost race."""


Build = Callable[[Tip], BranchRecord | None]
"""Returns the new record, most often ``tip.at(make_commit(…))``, or None if there is nothing to land.
It runs again after each lost race, so a repetition must be harmless. An error that it raises ends the
landing, except `RetryLanding`."""


def look(stores: Stores, name: str, *, fence: str = "", rules: bool = False) -> Tip:
    """Return the present state of a branch."""
    return tip_of(stores, stores.refs.look(name, rules=rules), fence=fence)


def tip_of(stores: Stores, seen: Look, *, fence: str = "") -> Tip:
    """Return the state of a branch that was read with other records."""
    check_fence(seen.record, fence)
    head = stores.refs.commits.get(seen.record.commit_id)
    return Tip(seen.record, seen.predicate, head, seen.rules)


def make_commit(
    stores: Stores,
    *,
    tree: str,
    parents: Sequence[Commit],
    spec: CommitSpec,
    tokens: tuple[str, ...] = (),
    same_records: bool = False,
    claims: str | None = None,
) -> Commit:
    """Store a commit record and return the commit; no branch moves."""
    stores.moving()  # before the commit gets its time
    claims = merged_claims(stores, parents) if claims is None else claims
    metadata = {key: text for key, text in spec.metadata.items() if key != CLAIMS}
    if claims != EMPTY_METARANGE:
        metadata[CLAIMS] = claims
    return stores.refs.commits.add(
        metarange=tree,
        parents=tuple(parent.id for parent in parents),
        message=spec.message,
        committer=spec.committer or default_committer(),
        created=stores.store_clock.now(),
        metadata=metadata,
        tokens=tokens,
        spans=() if same_records else differing_spans(stores.ranges, parents[0].metarange, tree),
    )


def merged_claims(stores: Stores, parents: Sequence[Commit]) -> str:
    """Return the claims of the first parent with those that a second parent brings."""
    dest, *others = parents
    ours = claims_of(dest)
    for source in others:
        if claims_of(source) == ours:
            continue

        def bases(some: str | tuple[str, ...], other: str) -> tuple[Base, ...]:
            best = merge_bases(stores.refs.commits, some, other)
            return tuple(Base(commit.id, claims_of(commit)) for commit in best)

        best = bases(source.id, dest.id)
        ours = merge_claims(
            stores, Bases(best, bases) if best else EMPTY_METARANGE, claims_of(source), ours
        )
    return ours


def merge_claims(
    stores: Stores, base: str | Bases, source: str, dest: str, *, returns: bool = False
) -> str:
    """Return the claims `dest` with the changes from `base` to `source`."""

    def settle(key: bytes, _base: object, ours: bytes | None, theirs: bytes | None) -> bytes | None:
        if ours is None or theirs is None:
            # a claim that one side withdraws goes, but not the title of a step that ran again
            return (ours or theirs) if is_title(key) else None
        return theirs if returns and is_title(key) else ours

    return merge(
        stores.ranges,
        base,
        source,
        dest,
        splitting=stores.splitting,
        resolve=settle,
        units=False,
    ).metarange


def claims_after(
    stores: Stores,
    by: tuple[str, str, CommitSpec],
    head: Commit,
    tree: str,
    equal: Sequence[bytes] = (),
) -> str:
    """Return the claims of a commit that makes `tree` from the head of a branch.

    Args:
        by: The branch, which is the writer; the fence of the run that owns it, or "" for a user's
            branch; the spec of the commit, whose metadata names the step.
        equal: Paths that were written, in key order; those that `tree` has unchanged are claimed, too.
    """
    claims, (name, fence, spec) = claims_of(head), by
    if not fence and (claims == EMPTY_METARANGE or not equal):
        return claims
    return claimed(
        stores.ranges,
        stores.splitting,
        claims,
        writer=name,
        step=spec.metadata.get("graveler.step", "") if fence else None,
        before=head.metarange,
        tree=tree,
        equal=equal,
    )


def keep_head(stores: Stores, record: BranchRecord, predicate: Predicate) -> None:
    """Write a branch's record with other sealed tokens and the same head, from within a build."""
    try:
        stores.refs.branches.replace(record, predicate)
    except (PreconditionFailedError, OutcomeUnknownError):
        raise RetryLanding from None


def announce(stores: Stores, name: str, head: Commit, commit: Commit) -> None:
    """Tell the observer of a branch's new commit, but not of a move to a commit that existed."""
    if stores.observer is not None and commit.parents[:1] == (head.id,):
        stores.observer(stores, name, commit)


def land(
    stores: Stores,
    name: str,
    action: str,
    build: Build,
    *,
    fence: str = "",
    guard: str = "",
    requires: Callable[[], bool] | None = None,
    landed: Callable[[BranchRecord], bool] | None = None,
    first: Tip | None = None,
) -> Landed:
    """Move a branch to the record that `build` makes from its head.

    Args:
        action: Its name in the log of moves and for gates: ``merge``, ``revert``, …
        fence: The fence of the run that owns the branch; "" for a user's branch.
        guard: The action that protection rules may forbid. With one, the gates that the branch
            requires judge the commit; a branch of a run is judged when it is published.
        requires: Called after a build, in place of `guard`; returns whether the branch may require
            gates. The build has checked the rules.
        landed: Called after a lost reply; returns whether the present record includes the move. It is
            needed if the commit may have been the head before.
        first: The branch for the first try, if the caller has just read or written it. It has the
            rules if there is a `guard`.
    """
    guarded = bool(guard) or requires is not None
    refs = stores.refs
    turn_at = 0 if refs.is_busy(name) else 1
    verdicts: Judged = {}

    def attempt(number: int) -> Landed | None:
        if number > 0:
            refs.race_lost(name)
        if number == turn_at:
            turn.enter_context(refs.turn(name))
        if first is None or number >= turn_at:
            tip = look(stores, name, fence=fence, rules=guarded)
        else:
            tip = first
        refs.found_at(name, tip.head.id)
        judged = tip.rules.check(name, guard) if guard and tip.rules is not None else False
        try:
            with readable(stores, tip.head.id):
                record = build(tip)
        except RetryLanding:
            return None
        if record is None:
            return Landed(tip, None)
        commit = stores.refs.commits.get(record.commit_id)
        if tip.record.lost and tip.head.id in commit.parents:
            stores.refs.expired.check_readable(tip.head.id)
        judged = judged if requires is None else requires()
        if judged and commit.id != tip.head.id:
            from graveler.publishing.panel import enforce  # which imports all of the gates

            enforce(stores, action, name, commit, tip.head, verdicts)
        moved = advance(refs, record, tip.predicate, action=action, landed=landed)
        if not moved:
            return None
        refs.moved_to(name, commit.id)
        announce(stores, name, tip.head, commit)
        return Landed(tip, commit)

    with owned(name, fence), ExitStack() as turn:
        return retry(refs.clock, refs.ids, f"branch {name!r}", attempt)
