"""The run records of one repository in its key-value store, and their index.

``run/<branch>`` holds a record. ``step/<branch>`` counts the tries of a step. Two kinds of rows form
the index of the records:

- ``opened/<16 hex digits>/<branch>``: The time when the present attempt was opened, counted
  backwards, so that a scan starts with the latest.
- ``due/<16 hex digits>/<branch>``: The time to check whether a run is alive, the earliest first.

Rows are written before the record that needs them, and deleted after the record that no longer
needs them. Every run therefore has a row of the first kind, and every unfinished run has one of the
second kind. A surplus row is harmless, because a reader compares it with the record.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from graveler.base.background import batches
from graveler.base.clock import unix_us
from graveler.base.names import run_branch
from graveler.base.read_only import refuse_writes
from graveler.base.records import DigestOrNone, Schema, read_key
from graveler.errors import (
    AlreadyExistsError,
    FencedError,
    GravelerError,
    InvalidInputError,
    RunNotFoundError,
)
from graveler.kv.record_store import ABSENT_VERSION, Place, RecordStore, Version
from graveler.kv.store import MAX_KEYS, KVStore
from graveler.reads.stores import Stores
from graveler.runs.record import (
    RunHandle,
    RunOutline,
    RunRecord,
    decode_outline,
    decode_run,
    encode_run,
)

_RUN = b"run/"
_STEP = b"step/"
_OPENED = b"opened/"
_DUE = b"due/"
_FIRST = b"1"
_LAST = b"2"
_NEWEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class _Try:
    """The newest try of a step.

    Attributes:
        owner: The only one who may use the step in this attempt; "" if anybody may.
        joined: The commit with which an owner's step last joined; "" if it changed nothing.
    """

    attempt: int = 0
    number: int = 0
    fence: str = ""
    owner: str = ""
    joined: DigestOrNone = ""
    joined_in: int = 0


_TRY = Schema(_Try, "step record", added=("owner", "joined", "joined_in"))


class RunRecords:
    """The run records of one repository: key-value partition ``runs:<uid>``."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self._partition = f"runs:{stores.uid}"
        self._runs: RecordStore[RunRecord] = RecordStore(
            stores.kv, self._partition, prefix=_RUN, encode=encode_run, decode=decode_run
        )
        self._tries: RecordStore[_Try] = RecordStore(
            stores.kv, self._partition, prefix=_STEP, encode=_TRY.encode, decode=_TRY.decode
        )
        self.index = RunIndex(stores.kv, self._partition)

    def find(self, key: str) -> RunRecord | None:
        """Return the run of that key, or None."""
        return _checked(key, self._runs.get(run_branch(key)))

    def get(self, key: str) -> RunRecord:
        """Return the run of that key, or raise RunNotFoundError."""
        record = self.find(key)
        if record is None:
            raise RunNotFoundError(f"no run {key!r}: `graveler run list` lists the runs")
        return record

    def find_branch(self, branch: str) -> RunRecord | None:
        """Return the run that has the branch, or None."""
        return self._runs.get(branch)

    def owner_of(self, branch: str) -> RunRecord | None:
        """Return the run that owns the branch or the step of the branch, or None."""
        parts = branch.split(".")
        names = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
        return next(filter(None, map(self.find_branch, names)), None)

    def handle(self, record: RunRecord) -> RunHandle:
        """Return the handle of the present attempt of a run."""
        stores = self.stores
        return RunHandle.of(record, location=stores.location, repository=stores.name)

    def list(self) -> Iterator[RunRecord]:
        """Yield every run, by branch name."""
        for record in self.each():
            if isinstance(record, GravelerError):
                raise record
            yield record

    def each(self) -> Iterator[RunRecord | GravelerError]:
        """Yield every run, by branch name; a record that cannot be read yields its error."""
        for _, value in self.stores.kv.scan_below(self._partition, _RUN):
            try:
                record = decode_run(value)
            except GravelerError as error:
                yield error
            else:
                yield record

    def latest(self, start: RunRecord | None = None) -> Iterator[RunRecord]:
        """Yield every run, the latest opened first; reads no more than it yields."""
        for row, branch in self.index.opened(b"" if start is None else opened_key(start) + b"\0"):
            record = self.find_branch(branch)
            if record is not None and opened_key(record) == row:
                yield record

    def outlines(self, branches: Iterable[str]) -> Iterator[RunOutline]:
        """Yield the outlines of the runs that have these branches."""
        for some in batches(branches, MAX_KEYS):
            keys = [(self._partition, _RUN + branch.encode()) for branch in some]
            for stored in filter(None, self.stores.kv.get_many(keys)):
                yield decode_outline(stored.value)

    def live(self, start: RunRecord | None = None) -> Iterator[RunRecord]:
        """Yield the runs that are not over, the latest opened first; reads no others."""
        expected = filter(None, map(self.find_branch, self.index.expected()))
        ordered = sorted((opened_key(record), record) for record in expected if record.live)
        first = b"" if start is None else opened_key(start)
        return (record for key, record in ordered if key > first)

    def place(self, key: str) -> Place:
        """Return the place of a run's record, to read it with other records; see `read`."""
        return self._runs.place(run_branch(key))

    def read(self, key: str, found: Version[Any] | None) -> RunRecord | None:
        """Return the record that was found at the place of a key, or None."""
        return _checked(key, None if found is None else found.record)

    def update(self, key: str, change: Callable[[Any], RunRecord]) -> RunRecord:
        """Replace the record by ``change(record)`` in one atomic step and return it.

        `change` runs again after a lost race; an exception ends the update. If it returns the
        same record, nothing is written.
        """
        return self.updated(key, change).record

    def updated(
        self,
        key: str,
        change: Callable[[Any], RunRecord],
        known: Version[Any] | None = None,
        *,
        opens: bool = False,
    ) -> Version[RunRecord]:
        """Update a record, and return it with its predicate; see `RecordStore.updated`.

        If the run does not exist, `change` gets None from an opener; others fail.
        """
        refuse_writes(f"run {key!r}")
        clock, ids = self.stores.clock, self.stores.ids
        surplus: set[bytes] = set()

        def changed(record: RunRecord | None) -> RunRecord:
            nonlocal surplus
            surplus, before = set(), _checked(key, record)
            new = change(before if before or opens else self.get(key))
            if new is before:
                return new
            new = replace(new, updated=clock.now(), nonce=ids.unique())
            surplus = self.index.prepare(before, new)
            return new

        after = self._runs.updated(
            run_branch(key), changed, what=f"run {key!r}", clock=clock, ids=ids, known=known
        )
        for row in surplus:
            self.index.drop(row)
        return after

    def drop_outdated_rows(self, before: datetime) -> None:
        """Delete the rows that openers left before a time because they lost a race or died."""
        for row, branch in self.index.opened(_opened_key("", before)):
            record = self.find_branch(branch)
            if record is None or opened_key(record) != row:
                self.index.drop(row)

    def try_place(self, step_branch: str) -> Place:
        """Return the place of the newest try of a step, to read it with other records."""
        return self._tries.place(step_branch)

    def next_try(
        self, step_branch: str, run_attempt: int, newest: Version[Any] | None, owner: str = ""
    ) -> tuple[int, str]:
        """Count a try of a step; return its number and its fence, both unique to the try."""
        clock, ids = self.stores.clock, self.stores.ids
        what = f"step {step_branch!r}"

        def counted(newest: _Try | None) -> _Try:
            newest = newest or _Try()
            if newest.attempt > run_attempt:
                raise FencedError(
                    f"{what}: attempt {newest.attempt} of the run has started it; "
                    f"this is attempt {run_attempt}"
                )
            theirs = newest.owner if newest.attempt == run_attempt else ""
            if owner and theirs and theirs != owner:
                raise AlreadyExistsError(
                    f"{what}: in attempt {run_attempt} it belongs to {theirs!r}, and {owner!r} would "
                    "replace its work: give one of the two steps another name"
                )
            return replace(
                newest,
                attempt=run_attempt,
                number=newest.number + 1,
                fence=ids.unique(),
                owner=owner or theirs,
            )

        new = self._tries.updated(
            step_branch, counted, what=what, clock=clock, ids=ids, known=newest or ABSENT_VERSION
        ).record
        return new.number, new.fence

    def end_try(self, step_branch: str, fence: str, joined: str | None) -> None:
        """Record the end of an owner's try, unless a newer try was started.

        Args:
            joined: The commit with which it joined, or "" if it changed nothing; None for a try that
                failed, after which a step that has not joined in the attempt has no owner.
        """

        def ended(newest: _Try | None) -> _Try:
            if newest is None or newest.fence != fence:
                return newest or _Try()
            if joined is not None:
                return replace(newest, joined=joined, joined_in=newest.attempt)
            return newest if newest.joined_in == newest.attempt else replace(newest, owner="")

        self._tries.update(
            step_branch,
            ended,
            what=f"step {step_branch!r}",
            clock=self.stores.clock,
            ids=self.stores.ids,
        )

    def joins(self, branch: str) -> Iterator[str]:
        """Yield the commit with which each step of an owner last joined, in any attempt."""
        for _, value in self.stores.kv.scan_below(self._partition, _STEP + f"{branch}.".encode()):
            if commit := _TRY.decode(value).joined:
                yield commit

    def last_try_fence(self, step_branch: str) -> str:
        """Return the fence of the newest try of a step, or ""."""
        return (self._tries.get(step_branch) or _Try()).fence


def _checked(key: str, record: RunRecord | None) -> RunRecord | None:
    if record is not None and record.key != key:
        raise InvalidInputError(
            f"run {key!r} and run {record.key!r} have one branch name ({record.branch}): "
            "change the key"
        )
    return record


@dataclass(frozen=True, slots=True)
class Appointment:
    """The row of a run that must be checked, and whether it was over at the previous check."""

    row: bytes
    branch: str
    last: bool


class RunIndex:
    """The rows of one repository's runs, in the partition of their records."""

    def __init__(self, kv: KVStore, partition: str) -> None:
        self._kv = kv
        self._partition = partition

    def prepare(self, old: RunRecord | None, new: RunRecord) -> set[bytes]:
        """Write the rows that a record needs, before it replaces `old`, and return the surplus ones.

        The appointment of a run that is now over stays until `forget`.
        """
        had, needs = _rows(old), _rows(new)
        if missing := needs - had:
            self._kv.set_many(self._partition, [(key, _FIRST) for key in sorted(missing)])
        return had - needs if new.live else set()

    def forget(self, record: RunRecord) -> None:
        """Delete the appointment of a run that is over and has left no branch."""
        self.drop(_due_row(record))

    def due(self, now: datetime) -> Iterator[Appointment]:
        """Yield the appointments that are due, the earliest first."""
        until = _due_key("", now)
        for key, value in self._kv.scan_below(self._partition, _DUE):
            if key >= until:
                return
            yield Appointment(key, _branch_of(key), value == _LAST)

    def put_off(self, appointment: Appointment, to: datetime, *, last: bool = False) -> None:
        """Replace an appointment by a later one."""
        row = _due_key(appointment.branch, to)
        self._kv.set(self._partition, row, _LAST if last else _FIRST)
        self.drop(appointment.row)

    def expected(self) -> set[str]:
        """Return the branches of the runs with an appointment, including all unfinished runs."""
        return {_branch_of(key) for key, _ in self._kv.scan_below(self._partition, _DUE)}

    def opened(self, start: bytes) -> Iterator[tuple[bytes, str]]:
        """Yield row and branch of each run, the latest opened first; some rows may be outdated."""
        rows = self._kv.scan_below(self._partition, _OPENED, start)
        return ((key, _branch_of(key)) for key, _ in rows)

    def drop(self, row: bytes) -> None:
        """Delete a row."""
        self._kv.delete(self._partition, row)


def _rows(record: RunRecord | None) -> set[bytes]:
    if record is None:
        return set()
    rows = {opened_key(record)}
    return rows | {_due_row(record)} if record.live else rows


def _due_row(record: RunRecord) -> bytes:
    """Return the row for the end of the lease, or of a time to live that is over before."""
    return _due_key(record.branch, min(record.lease_until, record.expires or record.lease_until))


def opened_key(record: RunRecord) -> bytes:
    """Return the key of the row with which listings find a run; keys sort the latest run first."""
    return _opened_key(record.branch, record.opened)


def _opened_key(branch: str, at: datetime) -> bytes:
    return _OPENED + f"{_NEWEST - unix_us(at):016x}/{branch}".encode()


def _due_key(branch: str, at: datetime) -> bytes:
    return _DUE + f"{unix_us(at):016x}/{branch}".encode()


def _branch_of(row: bytes) -> str:
    return read_key(row.split(b"/", 2)[-1], "row of a run")
