"""The reflog: the log of moves as lines, and the commit of a ref at a line or a time."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from itertools import chain, count, groupby

from graveler.base.clock import from_unix_us, unix_us
from graveler.display import Shown
from graveler.errors import RefNotFoundError
from graveler.model import BranchRecord, Move
from graveler.refs.moves import DELETED, Life, number_of_moves
from graveler.refs.refs import Refs


@dataclass(frozen=True, slots=True)
class RefMove(Shown):
    """A line of the log: a ref was created or deleted, or a branch moved.

    Attributes:
        kind: ``branch`` or ``tag``.
        position: Number of later lines of the same ref. ``main@{2}`` is the commit to which the
            line at position 2 moved the branch.
        action: ``create``, ``commit``, ``merge``, ``publish``, ``reset``, ``undo``, ``delete``, …
        before: The commit before the move. None if the ref did not exist, or it is unknown.
        after: The commit after the move, or None if the ref was deleted.
        actor: The user, or "" if unknown.
        dropped: Number of staged files that a reset dropped, and that its undo brings back.
    """

    ref: str
    kind: str
    position: int
    at: datetime
    action: str
    before: str | None
    after: str | None
    actor: str
    dropped: int = 0


def branch_moves(refs: Refs, name: str) -> Iterator[RefMove]:
    """Yield the moves of the branch and of earlier branches with its name, latest first."""
    record = refs.branches.find(name)
    if record is None:
        yield from _branch_lines(refs, name, refs.moves.lives(name))
    else:
        lives = refs.moves.lives(name, but=record.born)
        yield from _branch_lines(refs, name, chain([record], lives))


def tag_moves(refs: Refs, name: str) -> Iterator[RefMove]:
    """Yield the changes of the tag, latest first."""
    true = list(_true(refs.moves.of_tag(name), refs.tags.find(name)))
    for position, move in enumerate(reversed(true)):
        yield _line(name, "tag", position, move, None)


def all_moves(refs: Refs, *, hidden: bool = False) -> Iterator[RefMove]:
    """Yield the moves of all branches and tags, latest first."""
    records = {record.name: record for record in refs.branches.list()}
    deleted = refs.moves.all_lives()
    logs = []
    for name in records.keys() | deleted.keys():
        record = records.get(name)
        lives: list[BranchRecord | Life] = [*deleted.get(name, ())]
        latest = record or lives[0]
        if record is not None:
            lives = [record, *(life for life in lives if life.born != record.born)]
        if hidden or not latest.hidden:
            logs.append(_branch_lines(refs, name, lives))
    logs += [tag_moves(refs, tag) for tag in refs.moves.tags()]
    # within a log, the order of the lines decides, not the clocks
    return merge(*logs, key=lambda move: move.at, reverse=True)


def moves_ago(refs: Refs, name: str, number: int) -> str | None:
    """Return the commit of the branch `number` moves ago, or None if it was deleted then."""
    line = None
    for line in branch_moves(refs, name):
        if line.position == number:
            return line.after
    if line is None:
        raise RefNotFoundError(f"no branch {name!r} that moved is in the log of moves")
    if line.position == number - 1 and line.before is not None:
        return line.before
    raise RefNotFoundError(
        f"{name}@{{{number}}}: the log of branch {name!r} has {line.position + 1} "
        f"{'move' if not line.position else 'moves'}, the first at {line.at.isoformat()}"
    )


def as_of(refs: Refs, name: str, when: datetime) -> str:
    """Return the commit of the branch at a time, by its log.

    If clocks jumped, the latest move whose time is not after `when` decides. A commit is made
    before the branch moves to it. The commit's own time stands for that commit.
    """
    refs.branches.get(name)
    moment = unix_us(when)
    line = later = None
    for line in branch_moves(refs, name):
        if unix_us(line.at) <= moment:
            if later is not None and refs.commits.get(later).created == when:
                return later
            if line.after is None:
                raise RefNotFoundError(
                    f"no branch {name!r} at {when.isoformat()}: it was deleted at "
                    f"{line.at.isoformat()}, and made again later"
                )
            return line.after
        later = line.after
    if later is not None and refs.commits.get(later).created == when:
        return later
    since = "it has no log yet" if line is None else f"its log begins at {line.at.isoformat()}"
    raise RefNotFoundError(f"no branch {name!r} at {when.isoformat()}: {since}")


def _line(
    name: str, kind: str, position: int, move: Move, before: str | None, dropped: int = 0
) -> RefMove:
    deleted = move.action == DELETED
    return RefMove(
        ref=name,
        kind=kind,
        position=position,
        at=from_unix_us(move.at_us),
        action=move.action,
        before=move.commit if deleted else before,
        after=None if deleted else move.commit,
        actor=move.actor,
        dropped=dropped,
    )


def _branch_lines(
    refs: Refs, name: str, branches: Iterable[BranchRecord | Life]
) -> Iterator[RefMove]:
    position = 0
    for each in branches:
        dropped = {noted.move: noted.files for noted in getattr(each, "dropped", ())}
        numbers = count(number_of_moves(each) - 1, -1)
        for number, (move, older) in zip(numbers, _with_older(refs.moves.of(each)), strict=False):
            before = None if older is None else older.commit
            yield _line(name, "branch", position, move, before, dropped.get(number, 0))
            position += 1


def _with_older(latest_first: Iterator[Move]) -> Iterator[tuple[Move, Move | None]]:
    move = next(latest_first, None)
    while move is not None:
        older = next(latest_first, None)
        yield move, older
        move = older


def _true(moves: list[Move], now: str | None) -> Iterator[Move]:
    """Yield the changes of a tag that were made. Each change is logged before it is made.

    Creations and deletions of a tag alternate. So of several consecutive lines of the same kind,
    only one change was made.
    """
    turns = [list(turn) for _, turn in groupby(moves, key=lambda move: move.action == DELETED)]
    if turns and turns[-1][-1].action == DELETED and now is not None:
        turns.pop()  # the writer died before it deleted the tag
    for number, turn in enumerate(turns):
        if turn[0].action == DELETED:
            yield turn[-1]
            continue
        ended = turns[number + 1][-1].commit if number + 1 < len(turns) else now
        made = [move for move in turn if move.commit == ended]
        yield from made[-1:]
