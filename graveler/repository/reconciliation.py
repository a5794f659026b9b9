"""Reconciliation: what a merge makes of paths whose claims or files both sides changed.

Where the destination is as the base, files and claims are merged by content. At any other path that
the source has claimed, or has stopped claiming, its changes are done again on the destination.
Merges, publishes, joins of steps, reverts, cherry-picks and rollbacks all go this way. The rules
are in ``docs/concepts/runs.md``.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, starmap
from typing import Literal, NamedTuple

from graveler.committed.apply import apply
from graveler.committed.bases import CONFLICT, Unresolved
from graveler.committed.claims import (
    Claim,
    ClaimChange,
    Claims,
    Stack,
    claim_changes,
    claims_of,
    claims_of_run,
    run_of,
    same_work,
    spans_of,
    title_of,
)
from graveler.committed.diff import diff, differing_spans, same_content
from graveler.committed.lookup import find_many
from graveler.committed.merge import Merged, RawConflict
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.errors import ExpiredError, ObjectNotFoundError
from graveler.model import Commit
from graveler.objects.address import is_own
from graveler.publishing.landing import merge_claims
from graveler.reads.stores import Stores
from graveler.repository.strategies import Settlement
from graveler.repository.writes.borrowed import Hold, rows_of
from graveler.values import Replacement, decode_entry, record_id

_Value = bytes | Literal[Unresolved.CONFLICT] | None


class Trees(NamedTuple):
    """The trees of a commit: metarange ids of its files and of its claims."""

    files: str
    claims: str


def trees_of(commit: Commit) -> Trees:
    """Return the trees of a commit."""
    return Trees(commit.metarange, claims_of(commit))


def values_at(stores: Stores, tree: str, paths: Sequence[bytes]) -> Iterator[bytes | None]:
    """Yield the value record of each path in a tree, or None."""
    rows = find_many(stores.ranges, tree, paths)
    return (
        None if row is None else row[len(path) :] for path, row in zip(paths, rows, strict=True)
    )


def applied(stores: Stores, tree: str, files: Mapping[bytes, bytes | None]) -> str:
    """Return the tree with other value records at some paths; None removes a path."""
    changes = (
        (path, None, None) if value is None else Replacement(path, record_id(path, value), value)
        for path, value in sorted(files.items())
    )
    return apply(stores.ranges, tree, changes, stores.splitting).metarange


def keep_bytes(
    stores: Stores, files: dict[bytes, bytes | None], hold: Hold, *, fresh: bool = False
) -> None:
    """Check that the bytes of returning files exist, and keep them."""
    epoch = stores.refs.epochs.read()
    entries = []
    for path, value in files.items():
        entry = None if value is None else decode_entry(path, value)
        if entry is None or not is_own(entry.address):
            continue
        try:
            stores.objects.head(entry.address)
        except ObjectNotFoundError as error:
            if not fresh:
                raise ExpiredError(
                    f"{entry.path!r} must return to an earlier file, whose bytes at "
                    f"{entry.address} are expired: `graveler run open --fresh` opens an attempt "
                    "that deletes such files instead"
                ) from error
            files[path] = None
        else:
            entries.append(entry)
    hold.keep(rows_of(entries, epoch))


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The paths of a merge that need more than their contents.

    Attributes:
        settled: The strategy, which also keeps the destination's version of a path that the source
            only stopped claiming.
    """

    changes: "_Changes"
    rows: Mapping[bytes, list[ClaimChange]]
    strategy: Settlement
    settled: Settlement

    @classmethod
    def of(
        cls,
        stores: Stores,
        strategy: Settlement | str | None,
        base: Trees,
        source: Trees,
        dest: Trees,
        *,
        strict: bool = False,
        returns: bool = False,
        joins: bool = False,
    ) -> "Reconciliation":
        """Return the reconciliation of a merge.

        Args:
            strict: Whether a path that the source only stopped claiming, and that others changed on
                the destination, is a conflict.
            returns: Whether the source's claims are older than those of the destination, and return.
            joins: Whether a step joins its run, so that only its own claims come.
        """
        given = strategy if isinstance(strategy, Settlement) else Settlement(strategy)
        changes = _Changes(stores, base, source, dest, word=given.word, returns=returns)
        rows = dict(changes.contested(whole=not (returns or joins)))
        only_left = {
            path
            for path, changed in rows.items()
            if (path in changes.kept and not changed)
            or (changed and not strict and all(row.right is None for row in changed))
        }

        def resolve(key: bytes, was: _Value, ours: bytes | None, theirs: bytes | None) -> _Value:
            if key in only_left:
                return theirs
            return CONFLICT if given.resolve is None else given.resolve(key, was, ours, theirs)

        settled = Settlement(given.word, resolve, given.whole) if only_left else given
        return cls(changes, rows, given, settled)

    def trees(self, merged: Merged, claims: str | None = None) -> tuple[Trees, list[RawConflict]]:
        """Return the trees of the merge, and the conflicts that its contents do not show.

        The files of tables that were merged as a whole stay as they are.
        """
        files = merged.metarange
        changes, stores = self.changes, self.changes.stores
        trees = [tree.claims for tree in changes.trees]
        if claims is None:
            claims = merge_claims(stores, *trees, returns=changes.returns)
        if not self.rows:
            return Trees(files, claims), []
        work, before, source, theirs = (
            Claims(stores.ranges, stores.splitting, tree) for tree in (claims, *trees)
        )
        for each in (work, before, source, theirs):
            each.look_up(self.rows)
        values: dict[_Path, bytes | None] = {}
        conflicts = []
        for at in self._paths(files):
            work.copy(at.path, theirs)
            sides = (work, at.now), (before, at.was), (source, at.ours)
            values[at], conflict = self._replayed(
                at, *(Stack(each, at.path, value) for each, value in sides)
            )
            if at.path.startswith(merged.tables):
                values[at] = at.merged
            elif conflict or (at.path in changes.clashes and self.strategy.word is None):
                conflicts.append(RawConflict(at.path, at.was, at.ours, at.now))
        for writer in {row.writer for rows in self.rows.values() for row in rows}:
            work.retitle(writer, source)
        changed = {at.path: value for at, value in values.items() if value != at.merged}
        returning: dict[bytes, bytes | None] = {
            at.path: value for at, value in values.items() if value not in (None, *at[1:])
        }
        if returning and not conflicts:
            # the rows that keep the bytes stay until garbage collection finds them unused
            keep_bytes(stores, returning, Hold(stores))
        return Trees(applied(stores, files, changed), work.tree()), conflicts

    def _paths(self, files: str) -> Iterator["_Path"]:
        paths = list(self.rows)
        all_trees = (*(tree.files for tree in self.changes.trees), files)
        sides = (values_at(self.changes.stores, tree, paths) for tree in all_trees)
        return starmap(_Path, zip(paths, *sides, strict=True))

    def _replayed(
        self, at: "_Path", work: Stack, base: Stack, source: Stack
    ) -> tuple[bytes | None, bool]:
        """Do the changes of the source at a path again on the destination's claims.

        The claims of the source lie beneath those that lie on them there. What returns lies beneath
        equal claims that came later. All else lies on top.

        Returns:
            The value record at the path, and whether it is a conflict.
        """
        returns, rows = self.changes.returns, self.rows[at.path]
        if not rows and not (returns and at.path not in self.changes.kept):
            return (at.now if at.path in self.changes.kept else at.merged), False
        more, rest = base.without(work)
        is_free = (
            self.strategy.word == "source-wins"
            or same_content(at.now, at.was)
            or same_content(at.merged, at.ours)
            or (not more and same_content(rest, at.now))
        )
        more, rest = base.without(source)
        edited = not more and not same_content(rest, at.ours)
        brings = not same_content(at.was, at.ours)
        claims = {row.writer: row.right for row in rows if not _stands(row, work, brings=brings)}
        known = {*base.writers(), *source.writers()}
        work.withdraw(claims)
        under, above = work.value, set(source.writers()).difference(claims)
        later = [
            writer
            for writer in work.writers()
            if returns and writer not in known and _equals(work.get(writer), under)
        ]
        for writer in source.writers():
            claim = claims.get(writer)
            if claim is not None:
                lying = above.intersection(source.over(writer))
                over = [one for one in work.writers() if one in lying]
                work.insert(writer, claim, source.above(writer), next(iter(over or later), None))
        slot = next(iter(later), None)
        if edited and not same_content(at.ours, work.before(slot)):
            work.set_before(slot, at.ours)
        if is_free or same_content(work.value, under):
            return work.value, False
        return at.merged, self.strategy == Settlement()


def _stands(row: ClaimChange, work: Stack, *, brings: bool) -> bool:
    """Return whether a claim is there already, so that it does not come again.

    Args:
        brings: Whether the source brings another file. Then a new claim comes again if something
            came upon the claims.
    """
    claim = work.get(row.writer)
    if row.right is None or claim is None or claim.content != row.right.content:
        return False
    is_new = row.left is None or row.left.content != row.right.content
    return not (is_new and brings) or work.is_bare(work.writers()[-1])


def _equals(claim: Claim | None, value: bytes | None) -> bool:
    return claim is not None and claim.equals(value)


class _Path(NamedTuple):
    """A path with its value records."""

    path: bytes
    was: bytes | None
    ours: bytes | None
    now: bytes | None
    merged: bytes | None


class _Changes:
    """The claims that the source of a merge changed.

    Args:
        returns: Whether older claims return. Those of a step that has worked since are left out.

    Attributes:
        clashes: The paths that the destination claims by a step that has worked on both sides.
    """

    def __init__(
        self,
        stores: Stores,
        base: Trees,
        source: Trees,
        dest: Trees,
        *,
        word: str | None,
        returns: bool,
    ) -> None:
        self.stores = stores
        self._ranges = stores.ranges
        self.trees = self.base, self.source, self.dest = base, source, dest
        self.returns = returns
        self._word = word
        self.kept: set[bytes] = set()
        self.clashes: set[bytes] = set()
        self._displaced = cache(self._is_displaced)
        self._worked_since = cache(self._has_worked_since)
        self._both_worked = cache(self._have_both_worked)

    def contested(self, *, whole: bool) -> Iterator[tuple[bytes, list[ClaimChange]]]:
        """Yield the paths at which the destination has changed claims or files, too.

        Args:
            whole: Whether a run whose claims both sides changed comes whole from the source.
        """
        base, dest, stores = self.base, self.dest, self.stores
        if base == dest or (base.claims == self.source.claims and not self.returns):
            return
        rows = self._rows(whole=whole)
        paths = sorted(rows)
        before, now = (Claims(self._ranges, stores.splitting, tree.claims) for tree in (base, dest))
        before.look_up(paths)
        now.look_up(paths)
        sides = (values_at(stores, tree.files, paths) for tree in (base, dest))
        for path, was, there in zip(paths, *sides, strict=True):
            if path in self.kept or was != there or not before.same_at(path, now):
                yield path, rows[path]

    def _rows(self, *, whole: bool) -> Mapping[bytes, list[ClaimChange]]:
        base, source, dest, ranges = self.base, self.source, self.dest, self._ranges
        files, claims = (
            _Spans(differing_spans(ranges, *trees))
            for trees in ((base.files, dest.files), (base.claims, dest.claims))
        )
        changes = [row for row in claim_changes(ranges, base.claims, source.claims) if row.path]
        self.kept = {row.path for row in changes if not row.same and self._is_kept(row.writer)}
        rows: defaultdict[bytes, list[ClaimChange]] = defaultdict(
            list, {path: [] for path in self.kept}
        )
        runs = {run_of(row.writer) for row in changes if not row.same}
        # with the same content, the destination's claim stays
        moved = [row for row in changes if not row.same and not self._is_kept(row.writer)]
        for row in changes:
            if (
                row.path in rows
                or files.touch(row.path, row.path + b"\0")
                or any(claims.touch(*span) for span in spans_of(row.writer, row.path))
            ):
                rows[row.path] += []
        if whole:
            rows.update((row.path, []) for row in moved if self._displaced(run_of(row.writer)))
        for row in moved:
            if row.path in rows:
                rows[row.path].append(row)
        if whole:
            self._bring_whole(rows, filter(self._displaced, sorted(runs)))
        if self.returns and dest.claims != EMPTY_METARANGE:
            for change in diff(ranges, base.files, source.files):
                rows[change.key] += []
        return rows

    def _bring_whole(self, rows: dict[bytes, list[ClaimChange]], runs: Iterable[str]) -> None:
        """Add all claims of runs in the source, and those in the destination that they replace."""
        for run in runs:
            sides = (
                (writer, path, claim, claim)
                for writer, path, claim in claims_of_run(self._ranges, self.source.claims, run)
                if not self._is_kept(writer)
            )
            clashing = (
                (writer, path, claim, None)
                for writer, path, claim in claims_of_run(self._ranges, self.dest.claims, run)
                if self._both_worked(writer) and not self._is_kept(writer)
            )
            for writer, path, was, now in chain(sides, clashing):
                if now is None:
                    self.clashes.add(path)
                if all(row.writer != writer for row in rows[path]):
                    rows[path].append(ClaimChange(writer, path, was, now, same=False))

    def _is_kept(self, writer: str) -> bool:
        if self.returns:
            return self._worked_since(writer)
        return self._word == "dest-wins" and self._both_worked(writer)

    def _is_displaced(self, run: str) -> bool:
        claims = (self.base.claims, self.dest.claims)
        return bool(run) and not same_work(self._ranges, *claims, run)

    def _titles(self, writer: str) -> list[bytes | None]:
        return [title_of(self._ranges, tree.claims, writer) for tree in self.trees]

    def _have_both_worked(self, writer: str) -> bool:
        titles = self._titles(writer)
        return None not in titles[1:] and len(set(titles)) == len(titles)

    def _has_worked_since(self, writer: str) -> bool:
        *older, now = self._titles(writer)
        return now is not None and now not in older


class _Spans:
    """Stretches of ranges: first and last key of each, in key order."""

    def __init__(self, spans: Iterable[tuple[bytes, bytes]]) -> None:
        self._spans = list(spans)
        self._firsts = [first for first, _ in self._spans]

    def touch(self, start: bytes, stop: bytes) -> bool:
        """Return whether they may have a key from `start` up to, not including, `stop`."""
        at = bisect_left(self._firsts, stop) - 1
        return at >= 0 and start <= self._spans[at][1]
