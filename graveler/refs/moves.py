"""The log of moves: where every branch was, and since when.

The latest moves of a branch stand in its own record, so that a move and its line in the log
are one compare-and-set. When the record holds ``KEPT`` of them, they are first written to a
page of their own: ``<branch>/<born>/<number of the page>`` in the partition ``moves:<uid>``.
A page written by who then loses the race says what is true all the same, for it holds only
moves that were made. Before a branch is deleted, its latest moves and the deletion go to the
page ``<branch>/<born>/deleted``, which counts once the record is gone.
"""

from dataclasses import replace
from typing import Final

from graveler.clock import Clock
from graveler.config import default_committer
from graveler.identity import unix_us
from graveler.kv.store import KVStore
from graveler.model import BranchRecord, Move
from graveler.records import encode_moves

__all__ = ["Moves"]

_KEPT: Final = 8


class Moves:
    """The log of the branches of one repository."""

    def __init__(self, kv: KVStore, uid: str, clock: Clock) -> None:
        self._kv = kv
        self._partition = f"moves:{uid}"
        self._clock = clock

    def logged(self, record: BranchRecord, action: str) -> BranchRecord:
        """Return `record` with its present head as the latest of its moves."""
        if record.moves and record.moves[-1].commit == record.commit_id:
            return record
        move = self._move(action, record.commit_id)
        if len(record.moves) < _KEPT:
            return replace(record, moves=(*record.moves, move))
        self._kv.set(
            self._partition, _page(record, f"{record.pages:08d}"), encode_moves(record.moves)
        )
        return replace(record, moves=(move,), pages=record.pages + 1)

    def deleting(self, record: BranchRecord) -> None:
        """Write down what the record of a branch says before it is removed."""
        moves = (*record.moves, self._move("delete", record.commit_id))
        self._kv.set(self._partition, _page(record, "deleted"), encode_moves(moves))

    def _move(self, action: str, commit_id: str) -> Move:
        return Move(unix_us(self._clock.now()), action, commit_id, default_committer())


def _page(record: BranchRecord, name: str) -> bytes:
    return f"{record.name}/{record.born}/{name}".encode()
