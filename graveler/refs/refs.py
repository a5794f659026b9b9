"""All refs of a repository, in the key-value partition ``refs:<uid>``, and its tags.

The key of a tag is ``tag/<name>``. Its value is the commit id. A tag does not move.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Self

from graveler.base.clock import Clock, IdSource
from graveler.base.names import check_tag
from graveler.base.read_only import refuse_writes
from graveler.base.records import decode_json, read_key
from graveler.base.retries import retry
from graveler.errors import (
    AlreadyExistsError,
    CorruptionError,
    OutcomeUnknownError,
    PreconditionFailedError,
    RefNotFoundError,
)
from graveler.kv.record_store import Place, SnapshotReader, Version
from graveler.kv.store import ABSENT, KVStore, Predicate
from graveler.model import BranchRecord
from graveler.refs.branches import Branches, missing_branch
from graveler.refs.commits import Commits, ExpiredCommits
from graveler.refs.epochs import Epoch, Epochs
from graveler.refs.moves import DELETED, Moves
from graveler.refs.settings import (
    PROTECTION,
    LinkPlaces,
    Protection,
    Requirements,
    Rules,
    Settings,
)

_PREFIX = b"tag/"
_COMMIT_ID = re.compile(rb"[0-9a-f]{64}")


class Tags:
    """The tags of one repository."""

    def __init__(
        self,
        kv: KVStore,
        partition: str,
        moves: Moves,
        *,
        clock: Clock,
        ids: IdSource,
        named: Callable[[str], None],
    ) -> None:
        self._named = named
        self._moves = moves
        self._clock = clock
        self._ids = ids
        self._kv = kv
        self._partition = partition

    def find(self, name: str) -> str | None:
        """Return the commit id of a tag, or None."""
        stored = self._kv.get(self._partition, _key(name))
        return None if stored is None else _commit_id(name, stored.value)

    def create(self, name: str, commit_id: str, *, action: str = "create") -> None:
        """Create a tag of a commit. Creating the same tag again is not an error."""
        refuse_writes(f"tag {name!r}")
        key = _key(name)
        line = self._moves.add_tag(name, action, commit_id)
        try:
            self._kv.set_if(self._partition, key, commit_id.encode(), ABSENT)
        except (PreconditionFailedError, OutcomeUnknownError) as error:
            # not RecordStore.write: the line is removed only if the tag is certainly not written
            stored = self.find(name)
            if stored is None and isinstance(error, OutcomeUnknownError):
                raise
            if isinstance(error, PreconditionFailedError):
                self._moves.drop_tag(line)
            if stored != commit_id:
                raise AlreadyExistsError(
                    f"tag {name!r} names commit {stored}: delete it first, or choose another name"
                ) from None
        self._named(commit_id)

    def delete(self, name: str) -> None:
        """Remove a tag, or raise RefNotFoundError."""
        refuse_writes(f"tag {name!r}")
        key = _key(name)

        def attempt(_number: int) -> bool | None:
            stored = self._kv.get(self._partition, key)
            if stored is None:
                raise RefNotFoundError(f"no tag {name!r}: `graveler tag list` shows all tags")
            self._moves.add_tag(name, DELETED, _commit_id(name, stored.value))
            try:
                self._kv.delete_if(self._partition, key, stored.predicate)
            except (PreconditionFailedError, OutcomeUnknownError):
                # a tag that is still stored was created again or not removed
                return True if self.find(name) is None else None
            return True

        retry(self._clock, self._ids, f"tag {name!r}", attempt)

    def list(self) -> Iterator[tuple[str, str]]:
        """Yield (name, commit id), by name."""
        for key, value in self._kv.scan_below(self._partition, _PREFIX):
            name = read_key(key[len(_PREFIX) :], "tag")
            yield name, _commit_id(name, value)


def _key(name: str) -> bytes:
    return _PREFIX + check_tag(name).encode()


def _commit_id(name: str, raw: bytes) -> str:
    if _COMMIT_ID.fullmatch(raw):
        return raw.decode()
    if raw.startswith(b"{"):
        decode_json(raw, f"tag {name!r}")  # raises for the record of a newer graveler
    raise CorruptionError(f"tag {name!r} names no commit: {raw[:80]!r}")


_PATIENCE_S = 10.0
_BUSY = timedelta(seconds=10)
"""The time for which a branch counts as busy after a lost race."""
_MOST_LEFT = 64
"""The most branches whose last move by this process is kept."""


@dataclass(frozen=True, slots=True)
class Look:
    """A branch and the records that decide about its moves, at one moment."""

    record: BranchRecord
    predicate: Predicate
    rules: Rules | None
    epoch: Epoch | None
    also: tuple[Version[Any] | None, ...] = ()

    @classmethod
    def of(cls, branch: Version[Any], rules: Version[Any] | None) -> Self:
        """Return a look at a branch and its rules, which were read with other records."""
        return cls(branch.record, branch.predicate, PROTECTION.of(rules), None)

    @property
    def seen(self) -> Version[BranchRecord]:
        """The record with its predicate."""
        return Version(self.record, self.predicate)


class Refs:
    """Branches, tags, commits and the protection rules of one repository."""

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
        self._uid = uid
        self._races: dict[str, datetime] = {}
        self._left: dict[str, tuple[str, datetime]] = {}
        self.clock = clock
        self.ids = ids
        self.together = SnapshotReader(kv)
        self.moves = Moves(kv, uid, clock, ids)
        self.commits = Commits(kv, partition)
        self.expired = ExpiredCommits(
            kv,
            uid,
            has_tree=has_tree
            and (lambda commit: all(map(has_tree, self.commits.get(commit).trees))),
        )
        self.branches = Branches(kv, partition, ids, self.moves, named=self.expired.keep)
        self.tags = Tags(kv, partition, self.moves, clock=clock, ids=ids, named=self.expired.keep)
        self.settings = Settings(kv, uid, clock=clock, ids=ids)
        self.protection = Protection(self.settings)
        self.links = LinkPlaces(self.settings)
        self.requirements = Requirements(self.settings)

    def look(self, branch: str, *also: Place, rules: bool = False, epoch: bool = False) -> Look:
        """Read a branch and the records that decide about its moves, in one round trip.

        All are read at one moment. A branch must never be read after its rules: a change of
        required gates rewrites the record of each matching branch. A move that the gates did not
        judge then loses its compare-and-set.
        """
        places = [self.branches.place(branch)]
        if rules:
            places.append(self.settings.place(PROTECTION))
        if epoch:
            places.append(self.epochs.place)
        found = self.together.read(*places, *also)
        others = iter(found[1:])
        version = found[0]
        if version is None:
            raise missing_branch(branch)
        self.branches.remember(version)
        read_rules = next(others) if rules else None
        read_epoch = next(others) if epoch else None
        return Look(
            record=version.record,
            predicate=version.predicate,
            rules=PROTECTION.of(read_rules) if rules else None,
            epoch=(read_epoch.record if read_epoch else Epoch()) if epoch else None,
            also=tuple(others),
        )

    def name_and_read(
        self, *places: Place
    ) -> tuple[Callable[[str], None], list[Version[Any] | None]]:
        """Return a function for an older commit that a branch names, and a list for the places.

        The function reads the places and the condemnation of the commit at one moment. It fills the
        list, which is empty before.
        """
        found: list[Version[Any] | None] = []

        def named(commit_id: str) -> None:
            condemned, *others = self.together.read(self.expired.place(commit_id), *places)
            found[:] = others
            self.expired.keep_found(commit_id, condemned)

        return named, found

    @cached_property
    def epochs(self) -> Epochs:
        """The epoch of sweeps. Only sweeps and writers that borrow bytes read it."""
        return Epochs(self._kv, self._uid, clock=self.clock, ids=self.ids)

    def turn(self, branch: str) -> AbstractContextManager[bool]:
        """Hold the turn at moving `branch` while the block runs.

        Movers of a branch that lost a race take turns, so that they do not repeat their work. Turns
        are advisory: after ten seconds the block runs without the turn, and correctness depends
        only on compare-and-set. Reads and staged writes take no turns.
        """
        return self._kv.turn(f"{self._uid}/{branch}", _PATIENCE_S)

    def race_lost(self, branch: str) -> None:
        """Note that a race for `branch` has just been lost."""
        self._races[branch] = self.clock.now()

    def moved_to(self, branch: str, commit: str) -> None:
        """Note that this process has moved `branch` to a commit."""
        if len(self._left) >= _MOST_LEFT:
            self._left.clear()  # one step: several threads may note their moves
        self._left[branch] = commit, self.clock.now()

    def found_at(self, branch: str, commit: str) -> None:
        """Note the head that a move of `branch` begins with.

        If another process has moved the branch since this process did, in the last ten seconds, this
        process takes turns, too. A process that happens to win its races would otherwise pass those
        that wait for their turn, again and again.
        """
        left, when = self._left.pop(branch, (commit, self.clock.now()))
        if left != commit and abs(self.clock.now() - when) <= _BUSY:
            self._races[branch] = self.clock.now()

    def is_busy(self, branch: str) -> bool:
        """Return whether others have moved `branch` beside this process in the last ten seconds."""
        lost = self._races.get(branch)
        if lost is None:
            return False
        if abs(self.clock.now() - lost) <= _BUSY:
            return True
        self._races.pop(branch, None)  # another thread may have removed it
        return False
