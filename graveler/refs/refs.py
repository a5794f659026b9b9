"""The refs of one repository, bundled; all in the key-value partition ``refs:<uid>``.

Tags are here too: key ``tag/<name>``, the commit id as value. A tag does not move.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Final

from graveler.clock import Clock, IdSource
from graveler.errors import (
    AlreadyExistsError,
    CorruptionError,
    OutcomeUnknownError,
    PreconditionFailedError,
    RefNotFoundError,
)
from graveler.kv.store import ABSENT, KVStore
from graveler.names import check_tag
from graveler.process import refuse_writes
from graveler.records import decode_json, read_key
from graveler.refs.branches import Branches
from graveler.refs.commits import Commits, ExpiredCommits
from graveler.refs.epochs import Epochs
from graveler.refs.moves import DELETED, Moves
from graveler.refs.settings import LinkPlaces, Protection, Requirements, Settings

_PREFIX = b"tag/"
_COMMIT_ID = re.compile(rb"[0-9a-f]{64}")


class Tags:
    """The tags of one repository."""

    def __init__(
        self, kv: KVStore, partition: str, moves: Moves, *, named: Callable[[str], None]
    ) -> None:
        self._named = named
        self._moves = moves
        self._kv = kv
        self._partition = partition

    def find(self, name: str) -> str | None:
        """Return the commit id a tag names, or None."""
        stored = self._kv.get(self._partition, _PREFIX + check_tag(name).encode())
        return None if stored is None else _commit_id(name, stored.value)

    def create(self, name: str, commit_id: str, *, action: str = "create") -> None:
        """Name a commit; naming the same commit again is no error.

        Raises:
            AlreadyExistsError: The name stands for another commit.
        """
        refuse_writes(f"tag {name!r}")
        key = _PREFIX + check_tag(name).encode()
        line = self._moves.add_tag(name, action, commit_id)
        try:
            self._kv.set_if(self._partition, key, commit_id.encode(), ABSENT)
        except (PreconditionFailedError, OutcomeUnknownError) as error:
            there = self.find(name)
            if there is None and isinstance(error, OutcomeUnknownError):
                raise
            if isinstance(error, PreconditionFailedError):
                self._moves.drop_tag(line)
            if there != commit_id:
                raise AlreadyExistsError(
                    f"tag {name!r} names commit {there}: delete it first, or choose another name"
                ) from None
        self._named(commit_id)

    def delete(self, name: str) -> None:
        """Remove a tag, or raise RefNotFoundError."""
        refuse_writes(f"tag {name!r}")
        key = _PREFIX + check_tag(name).encode()
        while True:
            stored = self._kv.get(self._partition, key)
            if stored is None:
                raise RefNotFoundError(
                    f"no tag {name!r}: `graveler tag list` shows those there are"
                )
            self._moves.add_tag(name, DELETED, _commit_id(name, stored.value))
            try:
                self._kv.delete_if(self._partition, key, stored.predicate)
            except (PreconditionFailedError, OutcomeUnknownError):
                if self.find(name) is None:
                    return
                continue  # it was created again, or nothing was removed
            return

    def list(self) -> Iterator[tuple[str, str]]:
        """Yield (name, commit id), by name."""
        for key, value in self._kv.scan_below(self._partition, _PREFIX):
            name = read_key(key[len(_PREFIX) :], "tag")
            yield name, _commit_id(name, value)


def _commit_id(name: str, raw: bytes) -> str:
    if _COMMIT_ID.fullmatch(raw):
        return raw.decode()
    if raw.startswith(b"{"):
        decode_json(
            raw, f"tag {name!r}"
        )  # a tag of a newer graveler is a record with its own error
    raise CorruptionError(f"tag {name!r} names no commit: {raw[:80]!r}")


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
