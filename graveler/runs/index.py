"""The index of runs: by time of opening, and by the time at which a run must be checked.

Two kinds of rows beside the records of runs:

- ``opened/<16 hex digits>/<branch>``: when the present attempt was opened, counted backwards,
  so that a scan starts with the latest.
- ``due/<16 hex digits>/<branch>``: when to check whether a run is alive, the earliest first.

Rows are written before the record that needs them, and deleted after the record that no longer
needs them. So every run has a row of the first kind, and every run that is not over has one of the
second kind. A surplus row is harmless: a reader compares it with the record.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from graveler.clock import from_unix_us, unix_us
from graveler.errors import CorruptionError
from graveler.kv.store import KVStore
from graveler.records import read_key
from graveler.runs.record import RunRecord

_OPENED: Final = b"opened/"
_DUE: Final = b"due/"
_FIRST: Final = b"1"
_LAST: Final = b"2"
_NEWEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Appointment:
    """The time at which a run must be checked.

    Attributes:
        at: The time.
        branch: Branch of the run.
        last: Whether the run was already over at the previous check.
    """

    at: datetime
    branch: str
    last: bool


def opened_key(record: RunRecord) -> bytes:
    """Return the key of the row by which listings find a run; keys sort the latest run first."""
    return _OPENED + f"{_NEWEST - unix_us(record.opened):016x}/{record.branch}".encode()


def _due_key(branch: str, at: datetime) -> bytes:
    return _DUE + f"{unix_us(at):016x}/{branch}".encode()


def _read(key: bytes, prefix: bytes) -> tuple[int, str]:
    number, _, branch = read_key(key[len(prefix) :], "row of a run").partition("/")
    try:
        return int(number, 16), branch
    except ValueError as error:
        raise CorruptionError(f"row of a run: {key!r} names no time") from error


def _read_due(key: bytes) -> tuple[datetime, str]:
    us, branch = _read(key, _DUE)
    try:
        return from_unix_us(us), branch
    except (ValueError, OverflowError) as error:
        raise CorruptionError(f"row of a run: {key!r} names no time") from error


def _read_opened(key: bytes) -> str:
    return _read(key, _OPENED)[1]


def _rows(record: RunRecord) -> set[bytes]:
    rows = {opened_key(record)}
    return rows | {_due_key(record.branch, record.lease_until)} if record.live else rows


class RunIndex:
    """The rows of one repository's runs, in the partition of their records."""

    def __init__(self, kv: KVStore, partition: str) -> None:
        self._kv = kv
        self._partition = partition

    def prepare(self, old: RunRecord | None, new: RunRecord) -> None:
        """Write the rows that a record needs, before it replaces `old`."""
        missing = _rows(new) - (set() if old is None else _rows(old))
        if missing:
            self._kv.set_many(self._partition, [(key, _FIRST) for key in sorted(missing)])

    def clear(self, old: RunRecord | None, new: RunRecord) -> None:
        """Delete the rows that only `old` needed, after the record has replaced it.

        The appointment of a run that is now over stays until `forget`.
        """
        gone = set() if old is None else _rows(old) - _rows(new)
        for key in gone if new.live else ():
            self._kv.delete(self._partition, key)

    def forget(self, record: RunRecord) -> None:
        """Delete the appointment of a run that is over and has left no branch."""
        self._kv.delete(self._partition, _due_key(record.branch, record.lease_until))

    def due(self, now: datetime) -> Iterator[Appointment]:
        """Yield the appointments that are due, the earliest first."""
        until = _due_key("", now)
        for key, value in self._kv.scan(self._partition, _DUE):
            if key >= until or not key.startswith(_DUE):
                return
            yield Appointment(*_read_due(key), last=value == _LAST)

    def put_off(self, appointment: Appointment, to: datetime, *, last: bool = False) -> None:
        """Replace an appointment by a later one."""
        row = _LAST if last else _FIRST
        self._kv.set(self._partition, _due_key(appointment.branch, to), row)
        self.settle(appointment)

    def settle(self, appointment: Appointment) -> None:
        """Delete an appointment."""
        self._kv.delete(self._partition, _due_key(appointment.branch, appointment.at))

    def expected(self) -> set[str]:
        """Return the branches of the runs with an appointment, among them all that are not over."""
        found = set()
        for key, _ in self._kv.scan(self._partition, _DUE):
            if not key.startswith(_DUE):
                break
            found.add(_read_due(key)[1])
        return found

    def latest(self, after: RunRecord | None = None) -> Iterator[tuple[bytes, str]]:
        """Yield row and branch of each run, the latest opened first; some rows may be outdated.

        Args:
            after: Only runs after the row of this record.
        """
        return self._opened(_OPENED if after is None else opened_key(after) + b"\0")

    def older(self, than: datetime) -> Iterator[tuple[bytes, str]]:
        """Yield the rows of `latest` that were opened before a time."""
        return self._opened(_OPENED + f"{_NEWEST - unix_us(than):016x}/".encode())

    def _opened(self, start: bytes) -> Iterator[tuple[bytes, str]]:
        for key, _ in self._kv.scan(self._partition, start):
            if not key.startswith(_OPENED):
                return
            yield key, _read_opened(key)

    def drop(self, row: bytes) -> None:
        """Delete the row of a run that was opened again since."""
        self._kv.delete(self._partition, row)
