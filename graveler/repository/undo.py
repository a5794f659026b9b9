"""Undo: put a branch back where it was before a move; make a deleted branch or tag again.

The log of moves says where the branch was. An undo is a move too and stands in the log, so that the
next undo reverses it.
"""

from graveler.errors import (
    AlreadyExistsError,
    FencedError,
    InvalidInputError,
    PreconditionFailedError,
    RefNotFoundError,
)
from graveler.model import BranchRecord, Commit, Move
from graveler.publishing.landing import Tip, land
from graveler.publishing.panel import enforce
from graveler.reads.stores import Stores
from graveler.refs import moves_ago, tag_moves
from graveler.repository.branches import begun_from

_ACTION = "undo"


def undo(stores: Stores, name: str, to: int) -> Commit:
    """Put the branch where it was `to` moves ago; make it again there if it was deleted.

    What is staged stays staged. What was staged when the branch was deleted is lost.

    Raises:
        RefNotFoundError: The log does not reach back that far, or the branch did not exist then.
        PreconditionFailedError: The branch moved meanwhile, and stays as it is.
        FencedError: The branch is or was a run's.
        ProtectedBranchError: The branch may not be moved so.
        GateFailedError: A gate that the branch requires refuses; it did not move.
    """
    if to < 1:
        raise InvalidInputError(f"undo of {name!r} to {to}: give how many moves ago, from 1")
    record = stores.refs.branches.find(name)
    commit_id = moves_ago(stores.refs, name, to)
    if commit_id is None:
        raise RefNotFoundError(
            f"undo of {name!r}: it was not there {_moves(to)} ago, but deleted: choose another "
            f"line of `graveler reflog {name}` with --to"
        )
    target = stores.refs.commits.get(commit_id)
    stores.refs.expired.check_nameable(target.id)
    if record is None:
        return _undelete(stores, name, target)
    seen = _latest(record)

    def build(tip: Tip) -> BranchRecord | None:
        if (tip.record.born, _latest(tip.record)) != (record.born, seen):
            raise PreconditionFailedError(
                f"undo of {name!r}: the branch was moved meanwhile and stays where it is; "
                f"look at `graveler reflog {name}`, then try again"
            )
        return None if tip.head.id == target.id else tip.at(target)

    def landed(now: BranchRecord) -> bool:
        since = now.moves.index(seen) + 1 if seen in now.moves else 0
        return any(
            (later.action, later.commit) == (_ACTION, target.id) for later in now.moves[since:]
        )

    land(stores, name, _ACTION, build, guard="reset", landed=landed)
    return target


def _moves(number: int) -> str:
    return f"{number} {'move' if number == 1 else 'moves'}"


def _latest(record: BranchRecord) -> Move | None:
    return record.moves[-1] if record.moves else None


def _undelete(stores: Stores, name: str, target: Commit) -> Commit:
    life = next(stores.refs.moves.lives(name))
    if life.run:
        raise FencedError(
            f"undo of {name!r}: the branch was a run's: open the run again, or make a branch of "
            f"your own from commit {target.id[:12]}"
        )
    enforce(stores, _ACTION, name, target, begun_from(stores, target))
    record = BranchRecord(
        name=name,
        commit_id=target.id,
        staging_token=stores.ids.unique(),
        hidden=life.hidden,
    )
    try:
        stores.refs.branches.create(record, action=_ACTION)
    except AlreadyExistsError:
        raise PreconditionFailedError(
            f"undo of {name!r}: a branch of that name was made meanwhile; it stays as it is"
        ) from None
    return target


def undelete_tag(stores: Stores, name: str) -> Commit:
    """Make a deleted tag again, for the commit it named last.

    Raises:
        RefNotFoundError: The log knows of no such tag.
        AlreadyExistsError: There is a tag of that name.
    """
    line = next(tag_moves(stores.refs, name), None)
    if line is None:
        raise RefNotFoundError(f"no tag {name!r}, and none is in the log of moves")
    if line.before is None:
        raise AlreadyExistsError(f"tag {name!r} was not deleted: it names commit {line.after}")
    commit = stores.refs.commits.get(line.before)
    stores.refs.expired.check_nameable(commit.id)
    stores.refs.tags.create(name, commit.id, action=_ACTION)
    return commit
