"""Commit: seal the live token, build the tree, move the branch in one step.

No reader sees a change before the last compare-and-set, every step before it may be repeated, and a
crash leaves the writes staged. The sealed tokens are committed from the front, so the tokens of a
committer that are left are a prefix of those that are still sealed: all, none (others landed or
discarded them), or the last ones. A committer that lost the race keeps its tree if the head changed
only by its own tokens. See ``docs/design/0006-commits-that-overlap.md``.
"""

from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile

from graveler.base.background import growing_batches
from graveler.base.telemetry import COMMIT
from graveler.committed.apply import Applied, StagedChange, Tally, apply, keeping, reapply
from graveler.committed.claims import claims_of
from graveler.committed.diff import same_records
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.errors import NoChangesError, ThrottledError
from graveler.kv.record_store import Version
from graveler.kv.store import Predicate
from graveler.model import BranchRecord, Commit
from graveler.publishing.landing import (
    CommitSpec,
    RetryLanding,
    Tip,
    claims_after,
    keep_head,
    land,
    make_commit,
)
from graveler.publishing.tables import Watch, noted
from graveler.publishing.tracing import traced
from graveler.reads.stores import Stores
from graveler.refs.branches import check_fence, owned
from graveler.refs.history import line_above
from graveler.refs.mover import moved
from graveler.repository.writes import unfinished
from graveler.repository.writes.borrowed import Row, borrowed_row, confirm
from graveler.staging.area import Staged, is_laid
from graveler.values import staged_changes

Apply = Callable[[str, Iterable[StagedChange]], Applied]
"""Applies changes in key order to the tree of a metarange id, and returns the new tree, which is in
the store. It runs again if another committer has landed some of the changes."""

Sift = Callable[[Iterator[StagedChange]], Iterator[StagedChange]]
"""Yields those of the staged changes that the commit shall have. Before it ends, it stores the others
elsewhere: their rows are dropped with the tokens. It may run again for a part of the changes."""

_ATTEMPTS = 200
_LOOKED_BACK = 1_000
MOST_SEALED = 64
"""The maximum number of sealed tokens of a branch. A committer at this limit commits them first."""


@dataclass(frozen=True, slots=True)
class _Seal:
    """A branch that a committer has read and sealed.

    Attributes:
        record: Its record after sealing. Nothing is sealed if nothing is staged, or if the number
            of sealed tokens is at its limit. If another committer sealed first, the live token of
            `seen` belongs to that committer.
        predicate: The predicate for replacing exactly that record. None if nothing was sealed, so
            that no compare-and-set has proved that it is the current record.
        judged: Whether the branch required gates while it had that record. None if the rules were
            not read.
    """

    seen: BranchRecord
    record: BranchRecord
    predicate: Predicate | None
    judged: bool | None


def _seal(stores: Stores, name: str, fence: str) -> _Seal:
    """Give the branch a new live token and put the old one after the sealed ones.

    A process that has just staged writes knows the branch's record. If the record is unchanged, it
    is sealed at once, and the rules are read afterwards.
    """
    looks: list[BranchRecord] = []
    tries: list[BranchRecord] = []
    judged: bool | None = False if fence else None
    known = _known(stores, name, fence)

    def read() -> Version[BranchRecord]:
        nonlocal judged, known
        if known is not None:
            known = None
            looks.clear()  # the look was outdated when this commit began
        look = stores.refs.look(name, rules=not fence)
        check_fence(look.record, fence)
        judged = look.rules.check(name, "commit") if look.rules is not None else False
        return look.seen

    def change(record: BranchRecord) -> BranchRecord:
        looks.append(record)
        live = record.staging_token
        if len(record.sealed_tokens) >= MOST_SEALED or (
            not stores.staging.is_filled(live) and stores.staging.is_empty(live)
        ):
            return record
        new = replace(
            record,
            staging_token=stores.ids.unique(),
            sealed_tokens=(*record.sealed_tokens, live),
        )
        tries.append(new)
        return new

    def landed(now: BranchRecord) -> bool:
        nonlocal judged
        check_fence(now, fence)
        if known is not None and not _was_live(stores, now, tries[-1]):
            return False  # the remembered record may have been outdated when this commit began
        judged = False if fence else None  # another mover may have written the record
        return now.staging_token != looks[-1].staging_token

    record, predicate = moved(stores.refs, name, change, landed=landed, read=read, known=known)
    return _Seal(looks[0], record, None if record is looks[-1] else predicate, judged)


def _was_live(stores: Stores, now: BranchRecord, tried: BranchRecord) -> bool:
    """Return whether a record, whose write has an unknown outcome, was the branch's record."""
    token = tried.staging_token
    if token in (now.staging_token, *now.sealed_tokens):
        return True
    commits = stores.refs.commits
    floor = commits.get(tried.commit_id).generation
    return _holder(stores, commits.get(now.commit_id), floor, {token}) is not None


def _holder(stores: Stores, head: Commit, floor: int, tokens: Set[str]) -> Commit | None:
    """Return the latest commit above a generation that has a token, along first parents."""
    line = line_above(stores.refs.commits, head, floor)
    return next((commit for commit in line if not tokens.isdisjoint(commit.tokens)), None)


def _known(stores: Stores, name: str, fence: str) -> Version[BranchRecord] | None:
    """Return the version of the branch under which this process has staged writes, or None."""
    seen = stores.refs.branches.remembered(name)
    if seen is None or seen.record.fence != fence or len(seen.record.sealed_tokens) >= MOST_SEALED:
        return None
    return seen if stores.staging.is_filled(seen.record.staging_token) else None


@dataclass(frozen=True, slots=True)
class _Order:
    """The arguments of a commit."""

    name: str
    fence: str
    spec: CommitSpec
    allow_empty: bool
    keep: str
    by: Apply | None = None
    sift: Sift | None = None
    staged: tuple[Staged, ...] = ()


def commit(
    stores: Stores,
    name: str,
    spec: CommitSpec,
    *,
    fence: str = "",
    allow_empty: bool = False,
    keep: str = "",
    by: Apply | None = None,
    sift: Sift | None = None,
) -> Commit:
    """Commit the staged writes of the branch.

    Args:
        keep: Metarange id of a tree whose records replace staged ones of equal content, even if
            the head has none, or "" for no tree.
        by: Applies the writes to the head. None: this process does. After a lost race this process
            continues from its result, wherever the new head equals the old one.
        sift: Decides which of the staged writes are committed. None: all are.

    Returns:
        The commit. If another committer landed all the writes meanwhile, the branch's head, which
        contains them.
    """
    unfinished.check(stores, name, fence)
    names = {"vcs.ref.head.name": name}
    if run := spec.metadata.get("graveler.run"):
        names["graveler.run.key"] = run
    with traced(stores, COMMIT, names) as work, owned(name, fence):
        staged = stores.staging.noted(name)
        made = _commit(stores, _Order(name, fence, spec, allow_empty, keep, by, sift, staged))
        work.end(made, landed=True)
        return made


def _commit(stores: Stores, order: _Order) -> Commit:
    earlier = None
    for _ in range(_ATTEMPTS):
        seal = _seal(stores, order.name, order.fence)
        committer = _Committer(stores, order, seal)
        full = len(seal.record.sealed_tokens) >= MOST_SEALED
        if not full or seal.record.staging_token != seal.seen.staging_token:
            break
        # the tokens of dead committers land first, so that their number stays bounded. The live
        # token, with this caller's writes, is sealed afterwards
        with suppress(NoChangesError):
            earlier = committer.run()
    else:
        raise ThrottledError(f"branch {order.name!r} is busy: {MOST_SEALED} commits are running")
    try:
        return committer.run()
    except NoChangesError:
        if earlier is None:
            raise
        return earlier


@dataclass(frozen=True, slots=True)
class _Built:
    """A tree that was built from a head and some tokens.

    Attributes:
        whole: Whether the tokens were still sealed after they were read. Another committer drops
            the tokens that it has landed, so other tokens may have been read only in part.
    """

    parent: Commit
    tokens: tuple[str, ...]
    read: tuple[str, ...]
    voided: int
    applied: Applied
    whole: bool


class _Committer:
    """One commit, from its sealed tokens to the head of the branch."""

    def __init__(self, stores: Stores, order: _Order, seal: _Seal) -> None:
        self._stores = stores
        self._order = order
        self._seen = seal.seen
        self._mine = seal.record.sealed_tokens
        self._sealed = seal
        self._judged = seal.judged
        self._tokens: tuple[str, ...] = ()
        self._other: Commit | None = None
        self._built: _Built | None = None
        self._borrowed: dict[Row, None] = {}  # rows of the tokens that are not confirmed yet
        self._notes = False
        self._written: list[bytes] = []  # the paths of the tokens, if they may be claimed
        self._tables = Watch()

    def run(self) -> Commit:
        """Return this commit, or the commit of another committer with the same writes."""
        seal, first = self._sealed, None
        if seal.predicate is not None:  # otherwise nothing was sealed, and it is read again
            head = self._stores.refs.commits.get(seal.record.commit_id)
            first = Tip(seal.record, seal.predicate, head)
        landed = land(
            self._stores,
            self._order.name,
            "commit",
            self._build,
            fence=self._order.fence,
            requires=None if self._order.fence else lambda: bool(self._judged),
            first=first,
        )
        if landed.commit is None:
            return self._other or landed.head
        self._stores.staging.drop(*self._tokens)
        return landed.commit

    def _build(self, tip: Tip) -> BranchRecord | None:
        """Commit the remaining tokens. Return None if another commit contains all of them."""
        allow_empty = self._order.allow_empty
        if tip.rules is not None:
            self._judged = tip.rules.check(self._order.name, "commit")
        self._tokens = tokens = overlap(self._mine, tip.record.sealed_tokens)
        if not tokens:
            self._other = self._taken(tip)
            if self._other is not None:
                return None
            if not allow_empty:
                raise NoChangesError(f"branch {self._order.name!r}: nothing is staged")
        applied = self._applied(tip, tokens)
        order = self._order
        by, written = (order.name, order.fence, order.spec), sorted(set(self._written))
        claims = claims_after(self._stores, by, tip.head, applied.metarange, written)
        # equal writes may claim what others wrote
        changed = applied.changed or claims != claims_of(tip.head)
        rest = replace(tip.record, sealed_tokens=tip.record.sealed_tokens[len(tokens) :])
        if not changed and not allow_empty:
            keep_head(self._stores, rest, tip.predicate)  # or another committer has landed them
            self._stores.staging.drop(*tokens)
            # a committer may have read a write before it was acknowledged under a later token
            self._other = self._held(tip, {each.token for each in order.staged})
            if self._other is not None:
                return None
            raise NoChangesError(f"branch {self._order.name!r}: what is staged equals the head")
        tables = self._tables.check(self._stores, tip.head, applied.metarange)
        made = make_commit(
            self._stores,
            tree=applied.metarange,
            parents=(tip.head,),
            spec=noted(order.spec, tables),
            tokens=tokens,
            claims=claims,
        )
        return replace(rest, commit_id=made.id)

    def _taken(self, tip: Tip) -> Commit | None:
        """Return another committer's commit with the writes that were sealed here, or None."""
        ours = {each.token for each in self._order.staged if each.acknowledged}
        idle = not self._mine and tip.record.staging_token == self._seen.staging_token
        if not idle:
            # a token that was live at the first read and sealed by another may have these writes too
            sealed = [token for token in self._mine if not is_laid(token)]
            ours |= {self._seen.staging_token, *sealed[-1:]}
        holder = self._held(tip, ours)
        if holder is not None or idle or self._order.allow_empty:
            return holder
        raise NoChangesError(
            f"branch {self._order.name!r}: what was staged was discarded meanwhile, or equalled the head"
        )

    def _held(self, tip: Tip, tokens: Set[str]) -> Commit | None:
        """Return the head if another committer's commit below it has one of the tokens, or None.

        The commit itself may lack later writes and merges of this thread. The head has them.
        """
        since = self._order.staged[0].head if self._order.staged else self._seen.commit_id
        found = commit_with(self._stores, tip.head, since, tokens)
        return None if found is None else replace(tip.head, by_other=True)

    def _applied(self, tip: Tip, tokens: tuple[str, ...]) -> Applied:
        """Return the tree of the tokens over the head.

        The tokens were read completely if they are still sealed after the read. The compare-and-set
        that moves the branch proves it, because the record did not change until then.
        """
        parent, sealed = tip.head, tip.record.sealed_tokens
        read = read_for(tokens, sealed)
        if not tokens:
            if self._judged is None:
                self._check(tokens, read)
            return Applied(parent.metarange, Tally(), changed=False)
        if self._built is not None and self._built.voided != tip.record.voided:
            self._built = None  # the tree may have writes that were removed since
        built, ranges = self._built, self._stores.ranges
        if built is not None and not built.whole:
            count = len(built.tokens)
            whole = (sealed[:count], read_for(sealed[:count], sealed)) == (built.tokens, built.read)
            self._built = built = replace(built, whole=True) if whole else None
        whole = True
        if built is not None and self._only_ours_since(built, parent, read):
            changed = not same_records(ranges, parent.metarange, built.applied.metarange)
            applied = replace(built.applied, changed=changed)
        else:
            applied = self._grown(parent, read)
            # gates must not judge a part, and borrowed bytes are confirmed while they are named
            whole = bool(self._borrowed) or self._judged is not False
            if whole:
                self._check(tokens, read)
        self._built = _Built(parent, tokens, read, tip.record.voided, applied, whole)
        return applied

    def _check(self, tokens: tuple[str, ...], read: tuple[str, ...]) -> None:
        """Check, after the tokens were read, that they are still sealed and may be committed."""
        name, rows = self._order.name, self._borrowed
        unread = self._judged is None
        look = self._stores.refs.look(name, rules=unread, epoch=bool(rows))
        sealed = look.record.sealed_tokens
        if overlap(tokens, sealed) != tokens or read_for(tokens, sealed) != read:
            raise RetryLanding
        if look.rules is not None:
            self._judged = look.rules.check(name, "commit")
        self._borrowed = {}
        if rows and look.epoch is not None:
            confirm(self._stores, tokens, rows, now=look.epoch)

    def _grown(self, parent: Commit, read: tuple[str, ...]) -> Applied:
        stores, built = self._stores, self._built
        newest_first = read[::-1]
        self._notes = bool(self._order.fence) or claims_of(parent) != EMPTY_METARANGE
        if built is None or built.read != read:
            self._written = []
            everything = self._changes(stores.staging.all(newest_first))
            if self._order.by is not None:
                return self._order.by(parent.metarange, everything)
            return apply(stores.ranges, parent.metarange, everything, stores.splitting)

        def changes(first: bytes, last: bytes) -> Iterator[StagedChange]:
            staged = stores.staging.scan(newest_first, first)
            return self._changes(takewhile(lambda item: item[0] <= last, staged))

        return reapply(
            stores.ranges,
            built.parent.metarange,
            built.applied.metarange,
            parent.metarange,
            changes,
            stores.splitting,
        )

    def _changes(self, staged: Iterable[tuple[bytes, bytes]]) -> Iterator[StagedChange]:
        changes = staged_changes(staged, self._note)
        if self._order.sift is not None:
            changes = self._order.sift(changes)
        changes = self._tables.of(changes)
        if self._notes:
            changes = self._noted(changes)
        keep = self._order.keep
        return keeping(self._stores.ranges, keep, changes) if keep else changes

    def _noted(self, changes: Iterator[StagedChange]) -> Iterator[StagedChange]:
        for batch in growing_batches(changes):
            self._written += [key for key, _, _ in batch]
            yield from batch

    def _note(self, key: bytes, write: bytes) -> None:
        self._borrowed[borrowed_row(key, write)] = None

    def _only_ours_since(self, built: _Built, parent: Commit, read: tuple[str, ...]) -> bool:
        """Return whether the head has changed only by tokens that the tree contains too."""
        commits = self._stores.refs.commits
        landed: tuple[str, ...] = ()
        while parent.generation > built.parent.generation and parent.tokens:
            landed = parent.tokens + landed
            parent = commits.get(parent.parents[0])
        return parent.id == built.parent.id and landed + read == built.read


def commit_with(stores: Stores, head: Commit, since: str, tokens: Set[str]) -> Commit | None:
    """Return another committer's latest commit after `since` with one of the tokens, or None."""
    floor = stores.refs.commits.get(since).generation
    floor = max(floor, head.generation - _LOOKED_BACK)
    holder = _holder(stores, head, floor, tokens) if tokens else None
    return None if holder is None else replace(holder, by_other=True)


def overlap(mine: tuple[str, ...], sealed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the leading tokens of `sealed` that are in `mine`: those not committed yet."""
    return tuple(takewhile(mine.__contains__, sealed))


def read_for(tokens: tuple[str, ...], sealed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tokens to read for a commit of `tokens`: these, and the voids after them."""
    return (*tokens, *filter(is_laid, sealed[len(tokens) :]))
