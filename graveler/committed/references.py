"""What tables refer to: a metarange to ranges, a range to addresses in the repository's own storage.

Tables are read from the storage, never from a cache. The addresses of a range can be kept as a list, an
object that is named by the range's id: a range never changes, so its list is right as long as it is whole.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from graveler.committed.range_store import RangeStore
from graveler.committed.table import TableKind, checked
from graveler.errors import (
    CorruptionError,
    NewerFormatError,
    ObjectNotFoundError,
    OlderFormatError,
    PermissionDeniedError,
)
from graveler.model import RangeInfo
from graveler.objects.address import is_own
from graveler.records import FORMAT, Fields, decode_json, encode_json
from graveler.sstable.reader import TableReader
from graveler.values import decode_range_info, entry_address

_IDENTIFIER: Final = re.compile(r"[0-9a-f]{64}")
_UNFIT: Final = (ObjectNotFoundError, CorruptionError, NewerFormatError, OlderFormatError)


def opened(ranges: RangeStore, identifier: bytes) -> TableReader:
    """Return a table of the storage; its records are not verified against its id.

    Raises:
        ObjectNotFoundError: It is not there.
        CorruptionError: It is damaged.
    """
    key = ranges.key(identifier)
    return TableReader(ranges.objects.get(key), name=key)


def ranges_of(ranges: RangeStore, metarange: bytes) -> list[RangeInfo]:
    """Return the ranges of a metarange that a kept commit needs, in order.

    Raises:
        CorruptionError: It is missing, or its records are not those of its id.
    """
    return [
        decode_range_info(*record) for record in _needed(ranges, metarange, TableKind.METARANGE)
    ]


def addresses_of(ranges: RangeStore, identifier: bytes) -> Iterator[bytes]:
    """Yield the own addresses in a range that a kept commit needs; they are known to be its at the end.

    Raises:
        CorruptionError: While iterating: it is missing, or its records are not those of its id.
    """
    for key, value in _needed(ranges, identifier, TableKind.RANGE):
        yield from own_addresses(key, value)


def _needed(
    ranges: RangeStore, identifier: bytes, kind: TableKind
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the records of a table, which decide what is kept: known to be its own at the end."""
    try:
        for records in checked(opened(ranges, identifier), identifier, kind):
            yield from zip(records.keys, records.values, strict=True)
    except ObjectNotFoundError as error:
        raise CorruptionError(
            f"table {identifier.hex()} of a kept commit is missing; nothing is collected before it is "
            "mended: run `graveler fsck`"
        ) from error


def named_ranges(reader: TableReader) -> Iterator[bytes]:
    """Yield the ids of the ranges in a metarange, as far as it can be read."""
    return (decode_range_info(key, value).id for key, value in reader.items())


def named_addresses(reader: TableReader) -> Iterator[bytes]:
    """Yield the own addresses in a range, as far as it can be read."""
    return (own for key, value in reader.items() for own in own_addresses(key, value))


def own_addresses(key: bytes, value: bytes) -> tuple[bytes, ...]:
    """Return the key that an entry names, if its bytes are in the repository's own storage.

    Addresses are stored in one form: an own one is a key, and a full URI is never an own one.

    Args:
        key: The entry's path.
        value: Its value record.
    """
    address = entry_address(key, value)
    return (address,) if is_own(address) else ()


Ranges = Iterable[tuple[RangeInfo, bool]]
"""Ranges that kept commits name, and of each whether the list of its addresses is in the storage."""


@dataclass(frozen=True, slots=True)
class AddressLists:
    """The addresses in ranges, each range read once: later calls read the list that is kept.

    Attributes:
        ranges: Where the ranges are.
        folder: Start of the keys of the lists in the same storage, with a slash at its end.
    """

    ranges: RangeStore
    folder: str

    def addresses(self, identifier: bytes, *, kept: bool) -> list[bytes]:
        """Return what `addresses_of` yields of a range, ascending, each once.

        Args:
            identifier: Of the range.
            kept: Whether its list is there; else the range is read, and the list is kept.

        Raises:
            CorruptionError: The range is missing or damaged, and there is no list of it.
        """
        if kept:
            with suppress(*_UNFIT):
                return self._read(identifier)
        found = sorted(set(addresses_of(self.ranges, identifier)))
        with suppress(PermissionDeniedError):  # of a read-only storage the next call reads it again
            self.ranges.objects.put(self.key(identifier), _encode(identifier, found))
        return found

    def key(self, identifier: bytes) -> str:
        """Return the key of the list of a range."""
        return f"{self.folder}{identifier.hex()}"

    def identifier(self, key: str) -> bytes:
        """Return the id of the range whose list has that key; b"" for a key of no list."""
        name = key.removeprefix(self.folder)
        return bytes.fromhex(name) if name != key and _IDENTIFIER.fullmatch(name) else b""

    def _read(self, identifier: bytes) -> list[bytes]:
        what = f"list of the addresses in range {identifier.hex()}"
        fields = Fields(
            decode_json(self.ranges.objects.get(self.key(identifier)), what, stamped=True), what
        )
        found = [_bytes(text) for text in fields.texts("addresses")]
        if fields.digest("digest") != _digest(identifier, found):
            raise fields.wrong("digest", "that of the addresses")
        return found


def _encode(identifier: bytes, addresses: list[bytes]) -> bytes:
    texts = [address.decode("utf-8", "surrogatepass") for address in addresses]
    digest = _digest(identifier, addresses)
    return encode_json({"format": FORMAT, "addresses": texts, "digest": digest})


def _bytes(address: str) -> bytes:
    return address.encode("utf-8", "surrogatepass")


def _digest(identifier: bytes, addresses: list[bytes]) -> str:
    return sha256(b"\0".join((identifier, *addresses))).hexdigest()


ReadRanges = Callable[[AddressLists, Ranges], Iterable[bytes]]
"""Yields the addresses in ranges, in any order; raises CorruptionError if one is missing or damaged."""


def by_one_process(lists: AddressLists, ranges: Ranges) -> Iterator[bytes]:
    """Yield the addresses in ranges; each range is read and verified, and no list is."""
    for info, _ in ranges:
        yield from addresses_of(lists.ranges, info.id)
