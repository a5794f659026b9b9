"""Reading the log of moves: where a ref was, move by move or at a time."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from itertools import groupby

from graveler.clock import from_unix_us, unix_us
from graveler.errors import RefNotFoundError
from graveler.model import BranchRecord, Move
from graveler.refs.moves import DELETED, Life
from graveler.refs.refs import Refs


@dataclass(frozen=True, slots=True)
class RefMove:
    """One line of the log: a branch was made, moved or deleted, or a tag made or deleted.

    Attributes:
        ref: Name of the branch or tag.
        kind: ``branch`` or ``tag``.
        position: How many lines of the same ref came after it: ``main@{2}`` is where the
            branch was put by the one at 2.
        at: When, by the clock of the writer.
        action: ``create``, ``commit``, ``merge``, ``publish``, ``reset``, ``undo``, ``delete``, …
        before: The commit it was at before; None if it did not exist, or is unknown.
        after: The commit it was at since; None where it was deleted.
        actor: The user, if known.
    """

    ref: str
    kind: str
    position: int
    at: datetime
    action: str
    before: str | None
    after: str | None
    actor: str


def branch_moves(refs: Refs, name: str) -> Iterator[RefMove]:
    """Yield what was done with the branch, the latest first; with those of its name before it.

    Reads no more of the log than is asked for.
    """
    yield from _branch_lines(name, _lines(refs, name, refs.branches.find(name), None))


def tag_moves(refs: Refs, name: str) -> Iterator[RefMove]:
    """Yield what was done with the tag, the latest first."""
    true = list(_true(refs.moves.of_tag(name), refs.tags.find(name)))
    for position, move in enumerate(reversed(true)):
        yield _line(name, "tag", position, move, None)


def all_moves(refs: Refs, *, hidden: bool = False) -> Iterator[RefMove]:
    """Yield what was done with all branches and tags, the latest first.

    Args:
        refs: The repository's refs.
        hidden: Those too that are left out of listings, as the branches of runs.
    """
    there = {record.name: record for record in refs.branches.list()}
    dead = refs.moves.all_lives()
    logs = []
    for name in there.keys() | dead.keys():
        record, lives = there.get(name), dead.get(name, [])
        if record is None:
            shown = hidden or not lives[0].hidden
        else:
            shown = hidden or not record.hidden
            lives = [life for life in lives if life.born != record.born]
        if shown:
            logs.append(_branch_lines(name, _lines(refs, name, record, lives)))
    logs += [tag_moves(refs, tag) for tag in refs.moves.tags()]
    # within one log the order counts, not the clocks
    return merge(*logs, key=lambda move: move.at, reverse=True)


def moves_ago(refs: Refs, name: str, number: int) -> str | None:
    """Return the commit at which the branch was `number` moves ago, None if it was deleted then.

    Raises:
        RefNotFoundError: The log does not go back so far.
    """
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
    """Return the commit at which the branch was at a time, by its log.

    Where clocks jumped, that is the latest move whose time is not after `when`.

    Raises:
        RefNotFoundError: There was no such branch then, or there is none now.
    """
    refs.branches.get(name)
    moment = unix_us(when)
    line = None
    for line in branch_moves(refs, name):
        if unix_us(line.at) <= moment:
            if line.after is None:
                raise RefNotFoundError(
                    f"no branch {name!r} at {when.isoformat()}: it was deleted at "
                    f"{line.at.isoformat()}, and made again later"
                )
            return line.after
    since = "it has no log yet" if line is None else f"its log begins at {line.at.isoformat()}"
    raise RefNotFoundError(f"no branch {name!r} at {when.isoformat()}: {since}")


def _line(name: str, kind: str, position: int, move: Move, before: str | None) -> RefMove:
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
    )


def _branch_lines(name: str, lines: Iterator[tuple[Move, Move | None]]) -> Iterator[RefMove]:
    for position, (move, older) in enumerate(lines):
        before = None if older is None else older.commit
        yield _line(name, "branch", position, move, before)


def _lines(
    refs: Refs, name: str, record: BranchRecord | None, lives: Iterable[Life] | None
) -> Iterator[tuple[Move, Move | None]]:
    """Yield each move with the one before it; `lives` are looked up where they are not known."""
    if record is not None:
        yield from _with_older(refs.moves.of(record))
    if lives is None:
        lives = refs.moves.lives(name, but=None if record is None else record.born)
    for life in lives:
        yield from _with_older(refs.moves.of_life(name, life))


def _with_older(latest_first: Iterator[Move]) -> Iterator[tuple[Move, Move | None]]:
    move = next(latest_first, None)
    while move is not None:
        older = next(latest_first, None)
        yield move, older
        move = older


def _true(moves: list[Move], now: str | None) -> Iterator[Move]:
    """Yield the lines of a tag that came true: each was written before it was done.

    A tag is made and deleted in turns; of several of one kind in a row, one is true.
    """
    turns = [list(turn) for _, turn in groupby(moves, key=lambda move: move.action == DELETED)]
    if turns and turns[-1][-1].action == DELETED and now is not None:
        turns.pop()  # the writer ended before it deleted the tag
    for number, turn in enumerate(turns):
        if turn[0].action == DELETED:
            yield turn[-1]
            continue
        ended = turns[number + 1][-1].commit if number + 1 < len(turns) else now
        made = [move for move in turn if move.commit == ended]
        yield from made[-1:]
