"""Follows trees to ranges and addresses; reads each table once, from the storage."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from graveler.committed import EMPTY_METARANGE
from graveler.committed.table import TableKind, checked
from graveler.errors import CorruptionError, ObjectNotFoundError
from graveler.gc.reachability.scratch import Scratch
from graveler.objects.address import is_own
from graveler.reads import Stores
from graveler.sstable.reader import TableReader
from graveler.values import decode_range_info, entry_address

_WHAT: Final = "nothing is collected before it is mended: run `graveler fsck`"


class Trees:
    """Notes what trees name; reads the store, never the cache.

    Attributes:
        read: Tables read so far.
    """

    def __init__(self, stores: Stores, scratch: Scratch) -> None:
        self._stores = stores
        self._scratch = scratch
        self.read = 0

    def reach_tree(self, metarange: str) -> None:
        """Note a tree that a kept commit names, its ranges, and the addresses in them.

        Raises:
            CorruptionError: A part of it is missing or damaged.
        """
        if metarange == EMPTY_METARANGE or not self._scratch.see(bytes.fromhex(metarange)):
            return
        reader = self._needed(bytes.fromhex(metarange), TableKind.METARANGE)
        for identifier in self._ranges(reader):
            self._reach_range(identifier)

    def reach_stray(self, identifier: bytes) -> None:
        """Note a table that is kept although no kept commit names it, and what it names.

        A writer of the same table reuses it with all that it names. A table that was deleted in
        the meantime, or cannot be read, names nothing.
        """
        if not self._scratch.see(identifier):
            return
        try:
            reader = self._open(identifier)
            if reader.user_properties.get("type") == TableKind.METARANGE:
                for range_id in list(self._ranges(reader)):
                    self.reach_stray(range_id)
            else:
                self._scratch.add_addresses(list(self._addresses(reader)))
        except (ObjectNotFoundError, CorruptionError):
            return

    def _reach_range(self, identifier: bytes) -> None:
        if self._scratch.see(identifier):
            reader = self._needed(identifier, TableKind.RANGE)
            self._scratch.add_addresses(self._addresses(reader))

    def _needed(self, identifier: bytes, kind: TableKind) -> TableReader:
        """Return a table that is verified against its id, because it decides what is kept."""
        try:
            reader = self._open(identifier)
            deque(checked(reader, identifier, kind), maxlen=0)
        except ObjectNotFoundError as error:
            raise CorruptionError(
                f"table {identifier.hex()} of a kept commit is missing; {_WHAT}"
            ) from error
        return reader

    def _open(self, identifier: bytes) -> TableReader:
        self.read += 1
        key = self._stores.ranges.key(identifier)
        return TableReader(self._stores.objects.get(key), name=key)

    @staticmethod
    def _ranges(reader: TableReader) -> Iterator[bytes]:
        return (decode_range_info(key, value).id for key, value in reader.items())

    @staticmethod
    def _addresses(reader: TableReader) -> Iterator[bytes]:
        for key, value in reader.items():
            yield from keys_of_entry(key, value)


def keys_of_entry(key: bytes, value: bytes) -> Iterable[bytes]:
    """Return the key that an entry names, if its bytes are in the repository's own storage.

    Addresses are stored in one form: an own one is a key, and a full URI is never an own one.

    Args:
        key: The entry's path.
        value: Its value record.
    """
    address = entry_address(key, value)
    return (address,) if is_own(address) else ()
