"""The refs of one repository, bundled; all in the key-value partition ``refs:<uid>``."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from graveler.clock import Clock, IdSource
from graveler.kv.store import KVStore
from graveler.refs.branches import Branches
from graveler.refs.commits import Commits
from graveler.refs.epochs import Epochs
from graveler.refs.expired import ExpiredCommits
from graveler.refs.moves import Moves
from graveler.refs.protection import Protection
from graveler.refs.requirements import LinkPlaces, Requirements
from graveler.refs.settings import Settings
from graveler.refs.tags import Tags

_PATIENCE_S: Final = 10.0


class Refs:
    """Branches, tags, commits and the protection rules of one repository.

    Args:
        kv: Where they are.
        uid: The repository.
        clock: Time.
        ids: Unique names.
        has_tree: Whether the storage has the tree of that id (hex); None if it is not needed.
    """

    def __init__(
        self,
        kv: KVStore,
        uid: str,
        *,
        clock: Clock,
        ids: IdSource,
        has_tree: Callable[[str], bool] | None = None,
    ) -> None:
        partition = f"refs:{uid}"
        self._kv = kv
        self._turns = f"{uid}/"
        self.clock = clock
        self.ids = ids
        self.moves = Moves(kv, uid, clock, ids)
        self.commits = Commits(kv, partition)
        self.expired = ExpiredCommits(
            kv,
            uid,
            has_tree=has_tree and (lambda commit: has_tree(self.commits.get(commit).metarange)),
        )
        self.branches = Branches(kv, partition, ids, self.moves, named=self.expired.keep)
        self.tags = Tags(kv, partition, self.moves, named=self.expired.keep)
        self.epochs = Epochs(kv, uid, clock=clock, ids=ids)
        self.settings = Settings(kv, uid, clock=clock, ids=ids)
        self.protection = Protection(self.settings)
        self.links = LinkPlaces(self.settings)
        self.requirements = Requirements(self.settings, self.protection)

    def turn(self, branch: str) -> AbstractContextManager[bool]:
        """Hold the turn at moving `branch` while the block runs.

        Movers of one branch that take turns need not do their work twice. Advisory: after ten
        seconds of waiting the block runs without the turn, and correctness rests on
        compare-and-set alone. Reads and staged writes take no turns.
        """
        return self._kv.turn(self._turns + branch, _PATIENCE_S)
