"""Resets, which drop staged writes, and the way back.

The record of a branch notes the tokens that a reset dropped, with the number of its move. No branch has
these tokens any longer, so garbage collection removes them and the bytes of their writes, with its window
as for all that a ref no longer names. Until then an undo of the move stages copies of the writes, beneath
those that were staged since.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from graveler.base.background import batches
from graveler.config import default_committer
from graveler.errors import ExpiredError, StagedByOthersError
from graveler.model import BranchRecord, Commit, Dropped, Move
from graveler.publishing.landing import Tip, land
from graveler.reads.stores import Stores
from graveler.reads.versions import newest_first
from graveler.refs.branches import check_fence, owned
from graveler.refs.expression import resolve_to_name
from graveler.refs.mover import move
from graveler.refs.moves import number_of_moves
from graveler.repository.commits.selective import Choice, GivingWay
from graveler.repository.origins import refuse_removed, refuse_unpublished
from graveler.repository.writes import unfinished
from graveler.repository.writes.borrowed import Hold, Row
from graveler.repository.writes.bundles import check_room, seal
from graveler.repository.writes.copies import rows_at
from graveler.repository.writes.staged import CHUNK
from graveler.staging.area import HOLD
from graveler.values import author_text, signed_by, staged_value, write_start

_RESET = "reset"
_NOTED = 8
"""The number of resets that a record notes."""


def latest_move(record: BranchRecord) -> Move | None:
    """Return the latest move of a branch."""
    return record.moves[-1] if record.moves else None


def has_moved(now: BranchRecord, latest: Move | None, action: str, commit_id: str) -> bool:
    """Return whether the log has a move with this action and commit after the move `latest`."""
    since = now.moves.index(latest) + 1 if latest in now.moves else 0
    return any((move.action, move.commit) == (action, commit_id) for move in now.moves[since:])


def _tokens(record: BranchRecord) -> tuple[str, ...]:
    return (*record.sealed_tokens, record.staging_token)


def _counted(name: str, writes: Iterable[tuple[bytes, bytes]], *, others: bool) -> int:
    """Return the number of writes that a reset drops, or refuse it because of their authors."""
    authors = Counter(signed_by(write)[0] for _, write in writes)
    files = authors.total()
    del authors[author_text(default_committer())]
    if authors and not others:
        raise StagedByOthersError(
            f"branch {name!r}: the reset drops {files:,} staged {'file' if files == 1 else 'files'}, "
            f"also of {authors_text(authors)}: give others=True (--yes) to drop them too, or paths of your own"
        )
    return files


def authors_text(authors: Mapping[str, int]) -> str:
    """Return authors, each with the number of their staged writes."""
    return ", ".join(f"{who or '(unknown)'} ({n:,})" for who, n in sorted(authors.items()))


def _noted(record: BranchRecord, files: int, tokens: tuple[str, ...]) -> BranchRecord:
    """Return a record that notes what its next move drops."""
    if not files:
        return record
    dropped = Dropped(number_of_moves(record), files, tokens)
    return replace(record, dropped=(*record.dropped, dropped)[-_NOTED:])


def reset(stores: Stores, name: str, *, fence: str = "", others: bool = False) -> int:
    """Drop the staged writes of the branch. Return their number; a run's are not counted or kept."""
    dropped: tuple[str, ...] = ()
    token, files = "", 0

    def change(record: BranchRecord) -> BranchRecord:
        nonlocal dropped, token, files
        check_fence(record, fence)
        dropped = _tokens(record)
        if not fence:
            files = _counted(name, stores.staging.all(newest_first(record)), others=others)
        token = stores.ids.unique()
        return _noted(replace(record, staging_token=token, sealed_tokens=()), files, dropped)

    def landed(now: BranchRecord) -> bool:
        # only this reset writes this token. If the token is gone too, a second reset is harmless
        return token in _tokens(now)

    with owned(name, fence):
        move(stores.refs, name, change, action=_RESET, landed=landed)
    if not files:
        stores.staging.drop(*dropped)
    unfinished.settle(stores, name, fence)
    return files


def reset_paths(
    stores: Stores, name: str, choice: Choice, *, fence: str = "", others: bool = False
) -> int:
    """Drop the staged writes at some paths. Return their number."""
    staging, files, shelf = stores.staging, 0, ""
    older = GivingWay(stores, name, lambda tokens: choice.of(staging.scan(tokens)))

    def change(record: BranchRecord) -> BranchRecord:
        nonlocal files, shelf
        check_fence(record, fence)
        if shelf:
            staging.drop(shelf)  # of a lost race
        tokens = record.sealed_tokens[::-1]
        files = _counted(name, choice.of(staging.scan(tokens)), others=others or bool(fence))
        if not files:
            return record
        shelf = HOLD + stores.ids.unique()  # surveys keep its bytes before the record names it
        for chunk in batches(choice.of(staging.scan(tokens)), CHUNK):
            staging.set_many(shelf, chunk)
        return _noted(older.beneath_voids(record, record.sealed_tokens), files, (shelf,))

    def landed(now: BranchRecord) -> bool:
        return any(shelf in each.tokens for each in now.dropped)

    seal(stores, name, fence)
    with owned(name, fence):
        move(stores.refs, name, change, action=_RESET, landed=landed)
    older.clear()
    return files


def reset_hard(stores: Stores, name: str, to: str, *, others: bool = False) -> tuple[Commit, int]:
    """Move the branch to the commit of `to` and drop the staged writes, in one step.

    The step also replaces the live token. Writes that were acknowledged before it are dropped. A
    writer that checks the branch after it repeats its write.

    Args:
        to: A ref expression, resolved against the state of the branch at the time of the move.

    Returns:
        The commit, and the number of the dropped writes.
    """
    token, files = "", 0
    latest: Move | None = None
    target: Commit | None = None

    def build(tip: Tip) -> BranchRecord:
        nonlocal token, files, latest, target
        latest = latest_move(tip.record)
        target = resolve_to_name(stores.refs, to)
        refuse_unpublished(stores, target, tip.head)
        refuse_removed(stores, target, tip.head)
        files = _counted(name, stores.staging.all(newest_first(tip.record)), others=others)
        token = stores.ids.unique()
        record = replace(tip.at(target), staging_token=token, sealed_tokens=())
        return _noted(record, files, _tokens(tip.record))

    def landed(now: BranchRecord) -> bool:
        # the log decides, independent of later moves. If the head stayed, the token decides
        return token in _tokens(now) or (
            target is not None and has_moved(now, latest, _RESET, target.id)
        )

    result = land(stores, name, _RESET, build, guard="reset", landed=landed)
    if not files:
        stores.staging.drop(*_tokens(result.tip.record))
    unfinished.settle(stores, name, "")
    return result.head, files


def staged_again(
    stores: Stores, record: BranchRecord, head: Commit, dropped: Sequence[Dropped], hold: Hold
) -> BranchRecord:
    """Return a record with copies of dropped writes, beneath all that are staged in `record`.

    Args:
        head: The head of the record.
        dropped: The latest first.
        hold: Gets the copies. It becomes a sealed token of the record.
    """
    hold.release()  # of a lost race
    hold.token = ""
    staging = stores.staging
    for each in dropped:
        found = 0
        for chunk in batches(staging.scan(each.tokens[::-1]), CHUNK):
            found += len(chunk)
            above = newest_first(record) + ([hold.token] if hold.token else [])
            there = staging.get_many(above, [key for key, _ in chunk])
            if missing := [row for row in chunk if row[0] not in there]:
                hold.add(_copied(stores, head, missing))
        if found < each.files:
            raise ExpiredError(
                f"branch {record.name!r}: garbage collection has removed files that a reset dropped: "
                f"{found:,} of {each.files:,} are left; `graveler branch reset --hard` moves the "
                "branch without them"
            )
    if not hold.token:
        return record
    check_room(record)
    return replace(record, sealed_tokens=(*record.sealed_tokens, hold.token))


def _copied(stores: Stores, head: Commit, writes: Sequence[tuple[bytes, bytes]]) -> list[Row]:
    """Return rows of staged writes, after a check that their bytes exist."""
    signed = {key: write[: write_start(write)] for key, write in writes}
    values = [(key, staged_value(write)) for key, write in writes]
    live = [(key, value, False) for key, value in values if value is not None]
    rows = [row._replace(value=signed[row.key] + row.value) for row in rows_at(stores, head, live)]
    return [*rows, *(Row(key, write) for key, write in writes if staged_value(write) is None)]
