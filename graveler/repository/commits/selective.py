"""Commits that leave staged writes staged: of some of the staged paths, or of given changes.

The live token is sealed, and the step that moves the branch puts a token with a void for each path
after the sealed ones. The voided writes no longer count, and are removed afterwards. If the chosen
writes are all of the leading tokens, and no other token has one, these tokens leave the record
instead, because a commit that names tokens holds exactly their writes. Later writes of other
processes are under the new live token, above both.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from graveler.base.background import batches
from graveler.base.globs import compiled, literal_start
from graveler.committed.apply import Applied, apply, keeping
from graveler.committed.claims import claims_of
from graveler.committed.diff import diff
from graveler.committed.metarange import get, prefix_end, scan
from graveler.errors import (
    BackendUnavailableError,
    NoChangesError,
    NotFoundError,
    OutcomeUnknownError,
    PreconditionFailedError,
    ThrottledError,
)
from graveler.model import BranchRecord, Commit, Entry
from graveler.publishing.landing import (
    CommitSpec,
    Tip,
    claims_after,
    keep_head,
    land,
    look,
    make_commit,
)
from graveler.publishing.tables import Watch, noted
from graveler.reads.listing import overlay, within
from graveler.reads.stores import Stores
from graveler.reads.view import View, literal_in
from graveler.refs.mover import move
from graveler.repository.commits.sealing import commit_with
from graveler.repository.writes import unfinished
from graveler.repository.writes.borrowed import Row, borrowed_row, confirm
from graveler.repository.writes.bundles import seal
from graveler.repository.writes.staged import CHUNK
from graveler.staging.area import Staged, laid_token
from graveler.values import (
    TOMBSTONE,
    VOID,
    author_text,
    decode_entry,
    entry_identity,
    signed_by,
    staged_changes,
    staged_value,
)

Rows = Callable[[Sequence[str]], Iterable[tuple[bytes, bytes]]]
"""Returns the staged writes of some paths under tokens, newest first: (key, staged write)."""


class GivingWay:
    """Sealed writes of some paths, which give way to a commit of these paths."""

    def __init__(self, stores: Stores, name: str, rows: Rows) -> None:
        self._stores = stores
        self._name = name
        self._rows = rows
        self._sealed: tuple[str, ...] = ()
        self._token = ""

    def beneath_voids(self, record: BranchRecord, sealed: tuple[str, ...]) -> BranchRecord:
        """Return a record with these sealed tokens, in which the writes no longer count.

        If any of the writes exists, a token with voids follows the given tokens. The record counts
        the voids, so that a committer that has read the writes before detects the change, even
        after the writes are removed.
        """
        staging = self._stores.staging
        if self._token and self._token not in record.sealed_tokens:
            staging.drop(self._token)  # of a lost race
        self._sealed, self._token = sealed, ""
        for chunk in batches(self._rows(sealed[::-1]), CHUNK):
            self._token = self._token or laid_token(self._stores.ids)
            staging.set_many(self._token, [(key, VOID) for key, _ in chunk])
        if not self._token:
            return replace(record, sealed_tokens=sealed)
        return replace(record, sealed_tokens=(*sealed, self._token), voided=record.voided + 1)

    def clear(self) -> None:
        """Remove the writes once the record has the voids. Then remove empty tokens and the voids.

        The voids stay until the record no longer names them, because a reader may have read the
        writes that they hide.
        """
        if not self._token:
            return
        with suppress(OutcomeUnknownError, BackendUnavailableError, NotFoundError, ThrottledError):
            staging = self._stores.staging
            for token in self._sealed:
                # what a late writer puts under a sealed token is not acknowledged
                for keys in batches(staging.keys([self._token]), CHUNK):
                    staging.remove_many(token, list(staging.get_many([token], keys)))
            needless = {self._token, *filter(staging.is_empty, self._sealed)}

            def gone(record: BranchRecord) -> bool:
                return needless.isdisjoint(record.sealed_tokens)

            def change(record: BranchRecord) -> BranchRecord:
                kept = tuple(token for token in record.sealed_tokens if token not in needless)
                return record if gone(record) else replace(record, sealed_tokens=kept)

            move(self._stores.refs, self._name, change, landed=gone)
            staging.drop(*needless)


class Choice:
    """The staged writes that a commit takes, or that a reset drops.

    Args:
        patterns: Patterns of paths. A pattern that ends with a slash matches all paths below it.
            None at all: all paths.
        views: Returns trees. The text of a path or a folder that one of them has is no pattern.
        author: Only what this author staged; "" for what all have staged.
    """

    def __init__(
        self, patterns: Sequence[str], views: Callable[[], Iterable[View]], author: str = ""
    ) -> None:
        self.patterns = tuple(patterns)
        self.author = author_text(author)
        rules = [literal_in(views, each) for each in patterns]
        self._rules = [(literal_start(rule).encode(), compiled(rule)) for rule in rules]

    def covers(self, key: bytes) -> bool:
        """Return whether the path of a key is chosen."""
        return not self._rules or any(
            key.startswith(start) and rule.fullmatch(key.decode("utf-8", "backslashreplace"))
            for start, rule in self._rules
        )

    def of(self, staged: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        """Yield the staged writes that are chosen."""
        return (
            (key, write)
            for key, write in staged
            if self.covers(key) and self.author in {"", signed_by(write)[0]}
        )

    def __str__(self) -> str:
        """Return the words for a message."""
        at = f" at {', '.join(self.patterns)}" if self.patterns else ""
        return f"nothing is staged{at}" + (f" by {self.author}" if self.author else "")


def commit_paths(
    stores: Stores,
    name: str,
    spec: CommitSpec,
    choice: Choice,
    *,
    fence: str = "",
    keep: str = "",
) -> Commit:
    """Commit the staged writes at some paths of the branch. The others stay staged.

    Returns:
        The commit. If another committer landed the writes meanwhile, its commit.
    """
    unfinished.check(stores, name, fence, choice.covers)
    staging = stores.staging
    staged = staging.noted(name)
    older = GivingWay(stores, name, lambda tokens: choice.of(staging.scan(tokens)))
    whole: tuple[str, ...] = ()

    def build(tip: Tip) -> BranchRecord | None:
        nonlocal whole
        sealed = tip.record.sealed_tokens
        borrowed: list[Row] = []
        changes = staged_changes(
            choice.of(staging.scan(sealed[::-1])),
            lambda key, write: borrowed.append(borrowed_row(key, write)),
        )
        if keep:
            changes = keeping(stores.ranges, keep, changes)
        tables = Watch()
        listed = list(tables.of(changes))
        applied = apply(stores.ranges, tip.head.metarange, listed, stores.splitting)
        if borrowed:
            confirm(stores, sealed, borrowed)
        by, written = (name, fence, spec), [key for key, *_ in listed]
        record, whole = _successor(
            stores,
            by,
            tip,
            older,
            applied,
            written,
            tables,
            lambda: _leading(stores, choice, sealed),
        )
        return record

    if not fence:
        stores.refs.protection.check(name, "commit")
    seal(stores, name, fence)
    landed = land(stores, name, "commit", build, fence=fence, guard="" if fence else "commit")
    staging.drop(*whole)
    older.clear()
    if landed.commit is None:
        look(stores, name, fence=fence)  # raises if a newer attempt discarded the writes
        other = _taken(stores, landed.head, staged, choice)
        if other is not None:
            return other
        raise NoChangesError(f"branch {name!r}: {choice} that differs from the head")
    return landed.commit


def _taken(stores: Stores, head: Commit, staged: Sequence[Staged], choice: Choice) -> Commit | None:
    """Return another committer's commit with the chosen ones of the staged writes, or None."""
    tokens = {each.token for each in staged if each.acknowledged}
    other = commit_with(stores, head, staged[0].head, tokens) if tokens else None
    if other is not None:
        before = stores.refs.commits.get(other.parents[0]).metarange
        for key, *_ in diff(stores.ranges, before, other.metarange):
            if choice.covers(key):
                return other
    return None


def _leading(stores: Stores, choice: Choice, sealed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the leading tokens that the commit takes completely, none if others have some.

    A commit names tokens only if its tree has their writes as they are. The voids keep an older
    write from coming back even without this rule: no schedule of the simulator needs it.
    """
    staging = stores.staging
    if choice.author:
        return ()  # another author's write may hide one that is chosen
    for number, token in enumerate(sealed):
        if not all(choice.covers(key) for key, _ in staging.scan([token])):
            others = choice.of(staging.scan(sealed[number:][::-1]))
            return sealed[:number] if next(others, None) is None else ()
    return sealed


def _successor(
    stores: Stores,
    by: tuple[str, str, CommitSpec],
    tip: Tip,
    older: GivingWay,
    applied: Applied,
    written: Sequence[bytes],
    tables: Watch,
    leading: Callable[[], tuple[str, ...]] = tuple,
) -> tuple[BranchRecord | None, tuple[str, ...]]:
    """Return the record of a branch with a commit of a tree; None if the tree is as the head.

    The second result is the tokens that leave the record with the commit, which holds exactly their
    writes: those that `leading` returns.
    """
    claims = claims_after(stores, by, tip.head, applied.metarange, written)
    changed = applied.changed or claims != claims_of(tip.head)
    tokens = leading() if changed else ()
    rest = older.beneath_voids(tip.record, tip.record.sealed_tokens[len(tokens) :])
    if not changed:
        if rest != tip.record:
            keep_head(stores, rest, tip.predicate)
        return None, ()
    made = make_commit(
        stores,
        tree=applied.metarange,
        parents=(tip.head,),
        spec=noted(by[2], tables.check(stores, tip.head, applied.metarange)),
        tokens=tokens,
        claims=claims,
    )
    return replace(rest, commit_id=made.id), tokens


class Expectation:
    """What a branch must have, besides the writes of a commit, at the moment when the commit lands.

    Args:
        expected: The entry at each key, or None for no file. A key that ends with a slash is a folder
            in which there may be no file that the commit does not delete.
    """

    def __init__(
        self,
        stores: Stores,
        name: str,
        expected: Mapping[bytes, Entry | None],
        writes: Mapping[bytes, bytes],
    ) -> None:
        self._stores = stores
        self._name = name
        self._writes = writes
        self._folders = sorted(key for key in expected if key.endswith(b"/"))
        self._files = {key: expected[key] for key in sorted(expected) if not key.endswith(b"/")}

    def keys(self) -> Sequence[bytes] | None:
        """Return the keys whose staged writes count, besides those that are written; None for all."""
        return None if self._folders else list(self._files)

    def check(self, tip: Tip) -> None:
        """Raise PreconditionFailedError if the head, or a sealed staged write, is another one."""
        sealed = tip.record.sealed_tokens[::-1]
        tree, staging = tip.head.metarange, self._stores.staging
        staged = staging.get_many(sealed, list(self._files)) if self._files else {}
        for key, entry in self._files.items():
            found = _entry_of(key, get(self._stores.ranges, tree, key))
            if not _is_same(entry, found):
                raise self._failed(key, entry, found)
            if key in staged and not _is_same(
                entry, now := _entry_of(key, staged_value(staged[key]))
            ):
                raise self._failed(key, entry, now, "staged, not committed: commit or reset it")
        for folder in self._folders:
            committed = scan(self._stores.ranges, tree, folder, prefix_end(folder))
            for key, _ in overlay(within(folder, staging.scan(sealed, folder)), committed):
                if self._writes.get(key) != TOMBSTONE:
                    raise PreconditionFailedError(
                        f"branch {self._name!r}: {folder.decode()!r} is not empty: {key.decode()!r} is there"
                    )

    def _failed(
        self, key: bytes, entry: Entry | None, found: Entry | None, why: str = "committed meanwhile"
    ) -> PreconditionFailedError:
        wanted, there = (each.address if each else "no file" for each in (entry, found))
        return PreconditionFailedError(
            f"branch {self._name!r}: {key.decode()!r} has changed: expected {wanted}, found {there} "
            f"({why}); read it again, and repeat"
        )


def _entry_of(key: bytes, value: bytes | None) -> Entry | None:
    return None if value is None else decode_entry(key, value)


def _is_same(entry: Entry | None, other: Entry | None) -> bool:
    if entry is None or other is None:
        return entry is other
    return entry_identity(entry) == entry_identity(other)


def commit_changes(
    stores: Stores,
    name: str,
    spec: CommitSpec,
    *,
    fence: str = "",
    writes: Mapping[bytes, bytes],
    expected: Mapping[bytes, Entry | None] | None = None,
) -> Commit:
    """Commit `writes` (staged forms by key) on the current head of the branch."""
    unfinished.check(stores, name, fence, lambda key: key not in writes)
    if not fence:
        stores.refs.protection.check(name, "write")
    keys = sorted(writes)
    older = GivingWay(stores, name, lambda tokens: stores.staging.get_many(tokens, keys).items())
    expectation = Expectation(stores, name, expected or {}, writes)

    def build(tip: Tip) -> BranchRecord | None:
        expectation.check(tip)
        tables = Watch()
        changes = tables.of(staged_changes((key, writes[key]) for key in keys))
        applied = apply(stores.ranges, tip.head.metarange, changes, stores.splitting)
        return _successor(stores, (name, fence, spec), tip, older, applied, keys, tables)[0]

    also = expectation.keys()
    seal(stores, name, fence, keys=None if also is None else [*keys, *also])
    guard = "" if fence else "commit"
    landed = land(stores, name, "commit", build, fence=fence, guard=guard)
    older.clear()
    unfinished.settle(stores, name, fence, keys)
    if landed.commit is None:
        raise NoChangesError(f"branch {name!r}: the head has all of these changes")
    return landed.commit
