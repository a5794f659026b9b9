"""Condemned tables: their records, and how a writer keeps such a table.

The key is ``file/<64 hex>`` in the partition ``gc:<uid>``. A record has one of three states:

- *condemned*: Nothing named the table when it was marked. A writer that needs it removes the
  record, and the sweep keeps the table.
- *deleting*: A sweep is about to delete the table. A writer that needs it waits.
- *deleted*: A writer that needs the table puts it again, and then removes the record.

Each step is a compare-and-set on one record.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from graveler.base.clock import Clock
from graveler.base.records import HEX, Schema, read_key
from graveler.base.retries import longest_pause
from graveler.errors import ThrottledError
from graveler.gc.lease import LEASE_SECONDS
from graveler.kv.record_store import RecordStore
from graveler.kv.store import KVStore

_PREFIX = b"file/"
_PATIENCE_S = 1.25 * LEASE_SECONDS  # after a lost reply, a sweep waits for a lease
_FIRST_WAIT_S = 0.01
_LONGEST_WAIT_S = 1.0


class FileState(StrEnum):
    """The state of a condemned table."""

    CONDEMNED = "condemned"
    DELETING = "deleting"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class FileRecord:
    """The record of a condemned table."""

    mark: str
    state: FileState


_FILE = Schema(FileRecord, "record of a condemned table", states_format=True)


class FileRecords(RecordStore[FileRecord]):
    """The records of condemned tables of one repository, by id; a table without one is kept."""

    def __init__(self, kv: KVStore, uid: str) -> None:
        super().__init__(kv, f"gc:{uid}", prefix=_PREFIX, encode=_FILE.encode, decode=_FILE.decode)

    def key(self, name: str | bytes) -> bytes:
        """Return the key of the record of a table."""
        return super().key(name if isinstance(name, str) else name.hex())

    def list(self) -> Iterator[tuple[bytes, FileRecord]]:
        """Yield the tables that have a record, by id."""
        for name, record in self.scan():
            yield HEX.read(read_key(name, _FILE.what), f"key of the {_FILE.what}"), record


class Rescuer:
    """Keeps a table that a writer found in the storage.

    Costs one read of the key-value store if the table was not condemned.
    """

    def __init__(self, kv: KVStore, uid: str, *, clock: Clock) -> None:
        self._files = FileRecords(kv, uid)
        self._clock = clock

    def __call__(self, identifier: bytes, put: Callable[[], bool]) -> bool:
        """Keep the table, and return whether it had to be put again."""
        written = False
        waited, looks = 0.0, 0
        while True:
            current = self._files.find(identifier)
            if current is None:
                return written
            record, predicate = current
            if record.state is FileState.DELETING:
                # only the sweep may finish the deletion: its request may still arrive
                if waited > _PATIENCE_S:
                    raise ThrottledError(
                        f"table {identifier.hex()} is being deleted, by a sweep that seems to have "
                        f"died: `graveler gc sweep {record.mark}` finishes it; then repeat"
                    )
                pause = longest_pause(looks, _FIRST_WAIT_S, _LONGEST_WAIT_S)
                self._clock.sleep(pause)
                waited, looks = waited + pause, looks + 1
                continue
            if record.state is FileState.DELETED:
                # put the table before removing the record: a writer without a record needs it
                written = put() or written
            if self._files.remove(identifier, predicate):
                return written
