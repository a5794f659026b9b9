"""Condemned tables: key ``file/<64 hex>`` in the partition ``gc:<uid>``.

*condemned*: a mark found that nothing names it; a writer that needs the table removes the
record, and the sweep keeps the table. *deleting*: a sweep is about to delete it; a writer that
needs it waits. *deleted*: it was deleted; a writer that needs it puts the table again, and then
removes the record. Each step is a compare-and-set on the one record.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final

from graveler.fields import Fields
from graveler.kv.record_store import RecordStore
from graveler.kv.store import KVStore
from graveler.records import FORMAT, decode_json, encode_json, read_key

_PREFIX: Final = b"file/"


class FileState(StrEnum):
    """The state of a condemned table."""

    CONDEMNED = "condemned"
    DELETING = "deleting"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class FileRecord:
    """The record of a condemned table.

    Attributes:
        mark: Id of the mark that condemned it.
        state: Its state.
    """

    mark: str
    state: FileState


class FileRecords(RecordStore[bytes, FileRecord]):
    """The records of condemned tables of one repository, by id; a table without one is kept."""

    def __init__(self, kv: KVStore, uid: str) -> None:
        super().__init__(kv, f"gc:{uid}", key=_key, encode=_encode, decode=_decode)

    def list(self) -> Iterator[tuple[bytes, FileRecord]]:
        """Yield the tables that have a record, by id."""
        for name, record in self.scan(_PREFIX):
            yield _identifier(name), record


def _key(identifier: bytes) -> bytes:
    return _PREFIX + identifier.hex().encode()


def _encode(record: FileRecord) -> bytes:
    return encode_json({"format": FORMAT, **asdict(record)})


def _decode(raw: bytes) -> FileRecord:
    what = "record of a condemned table"
    fields = Fields(decode_json(raw, what), what)
    return FileRecord(fields.text("mark"), fields.one_of("state", FileState))


def _identifier(key: bytes) -> bytes:
    name = read_key(key, "record of a condemned table")
    return Fields({"key": name}, "record of a condemned table").binary("key")
