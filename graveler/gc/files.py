"""Tables on their way out: key ``file/<64 hex>`` in the partition ``gc:<uid>``.

*condemned*: a mark found that nothing names it; a writer that takes the table over removes
the record, and the sweep leaves the table. *deleting*: a sweep is about to delete it; who
needs it waits. *deleted*: it was deleted; who finds this puts the table again, and then
removes the record. Each step is a compare-and-set on the one record.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final

from graveler.errors import OutcomeUnknownError, PreconditionFailedError
from graveler.fields import Fields
from graveler.kv.store import ABSENT, KVStore, Predicate
from graveler.records import FORMAT, decode_json, encode_json, read_key

__all__ = ["FileRecord", "FileRecords", "FileState"]

_PREFIX: Final = b"file/"


class FileState(StrEnum):
    """How far a table is on its way out."""

    CONDEMNED = "condemned"
    DELETING = "deleting"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class FileRecord:
    """What is known of a table that is on its way out.

    Attributes:
        mark: Id of the mark that condemned it.
        state: How far it is.
    """

    mark: str
    state: FileState


class FileRecords:
    """The tables of one repository that are on their way out."""

    def __init__(self, kv: KVStore, uid: str) -> None:
        self._kv = kv
        self._partition = f"gc:{uid}"

    def find(self, identifier: bytes) -> tuple[FileRecord, Predicate] | None:
        """Return the record and what stands for it, or None: the table stays."""
        stored = self._kv.get(self._partition, _key(identifier))
        return None if stored is None else (_decode(stored.value), stored.predicate)

    def list(self) -> Iterator[tuple[bytes, FileRecord]]:
        """Yield the tables that have a record, by id."""
        for key, value in self._kv.scan(self._partition, _PREFIX):
            if not key.startswith(_PREFIX):
                return
            yield _identifier(key), _decode(value)

    def write(self, identifier: bytes, record: FileRecord, predicate: Predicate = ABSENT) -> bool:
        """Write the record if it is as `predicate` says; return whether it is written."""
        value = encode_json({"format": FORMAT, **asdict(record)})
        try:
            self._kv.set_if(self._partition, _key(identifier), value, predicate)
        except PreconditionFailedError:
            return False
        except OutcomeUnknownError:
            stored = self._kv.get(self._partition, _key(identifier))
            return stored is not None and stored.value == value
        return True

    def remove(self, identifier: bytes, predicate: Predicate) -> bool:
        """Remove the record if it is as `predicate` says; return whether it is gone."""
        try:
            self._kv.delete_if(self._partition, _key(identifier), predicate)
        except PreconditionFailedError:
            return False
        except OutcomeUnknownError:
            return self._kv.get(self._partition, _key(identifier)) is None
        return True


def _key(identifier: bytes) -> bytes:
    return _PREFIX + identifier.hex().encode()


def _decode(raw: bytes) -> FileRecord:
    what = "record of a condemned table"
    fields = Fields(decode_json(raw, what), what)
    return FileRecord(fields.text("mark"), fields.one_of("state", FileState))


def _identifier(key: bytes) -> bytes:
    name = read_key(key[len(_PREFIX) :], "record of a condemned table")
    return Fields({"key": name}, "record of a condemned table").binary("key")
