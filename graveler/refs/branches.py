"""Branch records: key ``branch/<name>``, or ``branch/~<name>`` for runs and their steps.

No name begins with ``~``, and no character of a name sorts after ``~``. So the branches of users
sort before the branches of runs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any

from graveler.base.clock import IdSource
from graveler.base.names import check_branch, is_of_run
from graveler.base.read_only import refuse_writes
from graveler.base.records import (
    DIGEST,
    DIGEST_OR_NONE,
    NAME,
    Schema,
    array,
    integer,
    read_key,
    row,
)
from graveler.errors import (
    AlreadyExistsError,
    BackendUnavailableError,
    FencedError,
    OutcomeUnknownError,
    PreconditionFailedError,
    RefNotFoundError,
)
from graveler.kv.record_store import Place, SharedReads, Version
from graveler.kv.store import ABSENT, KVStore, Predicate, Stored
from graveler.model import BranchRecord, Dropped
from graveler.refs.moves import MOVES, Moves

_PREFIX = b"branch/"
_OF_RUNS = b"branch/~"
_TRIES = 3
_REMEMBERED = 1_000
_MAKES_A_COMMIT = frozenset({"commit", "merge", "publish", "step", "revert", "cherry-pick", "pack"})


_BRANCH = Schema(
    BranchRecord,
    "branch record",
    keys={"commit_id": "commit", "staging_token": "staging", "sealed_tokens": "sealed"},
    types={
        "name": NAME,
        "commit_id": DIGEST,
        "staging_token": NAME,
        "sealed_tokens": array(NAME),
        "moves": MOVES,
        "lost": DIGEST_OR_NONE,
        "dropped": array(row(integer(), integer(1), array(NAME), make=Dropped)),
    },
    sparse=("voided", "rewound", "lost", "dropped", "ends"),
    fixed={"sealed_order": "oldest-first"},
)


def encode_branch(record: BranchRecord) -> bytes:
    """Return the branch record's JSON."""
    if record.lost not in {"", record.commit_id}:
        record = replace(record, lost="")
    return _BRANCH.encode(record)


@lru_cache(maxsize=1024)  # the same version is read many times
def decode_branch(raw: bytes) -> BranchRecord:
    """Return the branch record, or raise CorruptionError."""
    return _BRANCH.decode(raw)


@lru_cache(maxsize=1024)
def branch_key(name: str) -> bytes:
    """Return the key of a branch's record."""
    return (_OF_RUNS if is_of_run(name) else _PREFIX) + name.encode()


def missing_branch(name: str) -> RefNotFoundError:
    """Return the error for a branch that does not exist."""
    return RefNotFoundError(f"no branch {name!r}: `graveler branch list` shows all branches")


class Branches:
    """The branch records of one repository.

    Args:
        named: Called with an older commit to which a branch was moved, so that it is kept.
    """

    def __init__(
        self,
        kv: KVStore,
        partition: str,
        ids: IdSource,
        moves: Moves,
        *,
        named: Callable[[str], None],
    ) -> None:
        self._named = named
        self._kv = kv
        self._partition = partition
        self._ids = ids
        self._moves = moves
        self._reads = SharedReads(self._read)
        self._remembered: dict[str, Version[BranchRecord]] = {}

    def find(self, name: str) -> BranchRecord | None:
        """Return the current record of the branch, or None."""
        stored = self._reads.get(name)
        return None if stored is None else decode_branch(stored.value)

    def get(self, name: str) -> BranchRecord:
        """Return the current record of the branch, or raise RefNotFoundError."""
        return self.get_for_update(name)[0]

    def get_for_update(self, name: str) -> Version[BranchRecord]:
        """Return the current record and the predicate for replacing exactly this version."""
        stored = self._reads.get(name)
        if stored is None:
            raise missing_branch(name)
        return Version(decode_branch(stored.value), stored.predicate)

    def place(self, name: str) -> Place:
        """Return the place of a branch's record, to read it together with others."""
        return Place(self._partition, branch_key(check_branch(name)), decode_branch)

    def remember(self, seen: Version[BranchRecord]) -> None:
        """Keep a version of a record for a later compare-and-set. It may be outdated by then."""
        if len(self._remembered) >= _REMEMBERED:
            self._remembered.clear()
        self._remembered[seen.record.name] = seen

    def remembered(self, name: str) -> Version[BranchRecord] | None:
        """Return the version that this process last read or wrote. It may be outdated."""
        return self._remembered.get(name)

    def replace(
        self,
        record: BranchRecord,
        predicate: Predicate,
        *,
        action: str = "move",
        named: Callable[[str], None] | None = None,
    ) -> Version[BranchRecord]:
        """Write `record` with a new nonce if the branch matches `predicate`."""
        refuse_writes(f"branch {record.name!r}")
        written = replace(self._moves.logged(record, action), nonce=self._ids.unique())
        stays = record.moves and record.moves[-1].commit == record.commit_id
        logged = written.moves is not record.moves
        rewinds = action not in _MAKES_A_COMMIT and logged and not stays
        written = replace(written, rewound=record.rewound + rewinds)
        seen = Version(written, self._write(written, predicate))
        self.remember(seen)
        if rewinds:
            (named or self._named)(written.commit_id)
        return seen

    def _write(self, written: BranchRecord, predicate: Predicate) -> Predicate:
        """Write a record with a new nonce, and return its predicate.

        `RecordStore.update` is not suitable: after a lost reply, the move may be in the log
        although the record has changed since. Only the caller can decide this.
        """
        value = encode_branch(written)
        key = branch_key(written.name)
        unknown: OutcomeUnknownError | None = None
        for _ in range(_TRIES):
            try:
                return self._kv.set_if(self._partition, key, value, predicate)
            except PreconditionFailedError:
                if unknown is None:
                    raise
            except OutcomeUnknownError as error:
                unknown = error
            except BackendUnavailableError:
                if unknown is None:
                    raise
                raise unknown from None  # an earlier attempt may have landed
            stored = self._written(written, predicate, unknown)
            if stored is not None:
                return stored.predicate
        raise BackendUnavailableError(
            f"branch {written.name!r}: none of {_TRIES} writes arrived, and nothing was changed "
            f"({unknown})"
        ) from unknown

    def _written(
        self, written: BranchRecord, predicate: Predicate, unknown: OutcomeUnknownError
    ) -> Stored | None:
        """Return the stored record if it was written, or raise `unknown` if this is not certain."""
        try:
            seen = self._kv.get(self._partition, branch_key(written.name))
        except BackendUnavailableError:
            raise unknown from None
        record = None if seen is None else decode_branch(seen.value)
        if record is not None and record.nonce == written.nonce:
            return seen
        if predicate is ABSENT:
            # The birth identifies the branch. A missing record may have been created and deleted:
            # a second write would restore a staging token whose rows are being dropped.
            if record is not None and record.born == written.born:
                return seen
            raise unknown
        if seen is None or seen.predicate != predicate:
            raise unknown
        return None

    def start(
        self, name: str, commit_id: str, *, action: str = "create", **fields: Any
    ) -> BranchRecord:
        """Write a new user branch at a commit, with these other fields of its record."""
        token = self._ids.unique()
        record = BranchRecord(name=name, commit_id=commit_id, staging_token=token, **fields)
        return self.create(record, action=action).record

    def create(
        self,
        record: BranchRecord,
        *,
        action: str = "create",
        named: Callable[[str], None] | None = None,
    ) -> Version[BranchRecord]:
        """Write a new branch."""
        check_branch(record.name)
        births: list[str] = []
        unknown = OutcomeUnknownError(f"branch {record.name!r} may have been made")
        while True:
            born = record.born or self._moves.birth(record.name)
            if births and record.born:
                born = f"{born}.{self._ids.unique()}"
            try:
                made = self.replace(replace(record, born=born), ABSENT, action=action, named=named)
            except PreconditionFailedError:
                stored = self._reads.get(record.name) if births else None
                if stored and decode_branch(stored.value).born in births:
                    return Version(decode_branch(stored.value), stored.predicate)
                raise AlreadyExistsError(
                    f"branch {record.name!r} exists: choose another name"
                ) from None
            except OutcomeUnknownError as error:
                # the lost write may be done later: the next one makes another branch
                births.append(born)
                record = replace(record, staging_token=self._ids.unique())
                unknown = error
            else:
                if not births or not self._was_deleted(record.name, births):
                    return made
                self.delete(made.record, made.predicate)
            # a branch that was made and deleted meanwhile does not come back
            if len(births) == _TRIES or self._was_deleted(record.name, births):
                raise unknown

    def _was_deleted(self, name: str, births: list[str]) -> bool:
        """Return whether the log has the deletion of one of these branches."""
        return any(life.born in births for life in self._moves.lives(name))

    def delete(self, record: BranchRecord, predicate: Predicate) -> None:
        """Remove the branch if its record is still `record`, which has `predicate`."""
        refuse_writes(f"branch {record.name!r}")
        self._moves.deleting(record)
        self._remembered.pop(record.name, None)
        self._kv.delete_if(self._partition, branch_key(record.name), predicate)

    def list(self, *, runs: bool = True, after: str = "") -> Iterator[BranchRecord]:
        """Yield the branches by name, including hidden ones. Those of runs and steps come last."""
        start = branch_key(after) + b"\0" if after else _PREFIX
        for key, value in self._kv.scan_below(self._partition, _PREFIX, start):
            if key.startswith(_OF_RUNS) and not runs:
                return
            yield decode_branch(value)

    def names(self) -> Iterator[str]:
        """Yield the name of every branch, even if its record cannot be read."""
        for key, _ in self._kv.scan_below(self._partition, _PREFIX):
            yield read_key(key[len(_PREFIX) :].removeprefix(b"~"), "branch")

    def of_runs(self, prefix: str) -> Iterator[BranchRecord]:
        """Yield the branches of runs and steps whose name starts with `prefix`, by name."""
        for _, value in self._kv.scan_below(self._partition, _OF_RUNS + prefix.encode()):
            yield decode_branch(value)

    def _read(self, name: str) -> Stored | None:
        return self._kv.get(self._partition, branch_key(check_branch(name)))


def check_fence(record: BranchRecord, fence: str) -> None:
    """Raise FencedError unless a writer that holds `fence` may write to the branch."""
    if record.fence == fence:
        return
    if not fence:
        raise FencedError(
            f"branch {record.name!r} belongs to a run (attempt {record.attempt}): "
            "write through the run, or on a branch of your own"
        )
    raise FencedError(
        f"branch {record.name!r} (attempt {record.attempt} of its run) takes no more writes from "
        "here: a newer attempt or a newer try of the step was started, or this attempt was published "
        "or set aside; nothing of the write was kept"
    )


@contextmanager
def owned(name: str, fence: str) -> Iterator[None]:
    """Turn a missing branch into FencedError for a writer that holds a fence."""
    try:
        yield
    except RefNotFoundError:
        if not fence:
            raise
        raise FencedError(
            f"branch {name!r} of the run is gone: the run was published, taken over or given up"
        ) from None
