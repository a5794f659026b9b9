"""The references of tables: a metarange names ranges, a range names addresses.

Only addresses in the repository's own storage count. Tables are read from the storage, never from a
cache. The addresses of a range can be kept as a list, an object named by the range's id. A range
never changes, so an undamaged list is always right.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256

from graveler.base.records import (
    DIGEST,
    FORMAT,
    TEXT,
    array,
    decode_json,
    encode_json,
    read_fields,
)
from graveler.committed.cache.table import TableKind, checked
from graveler.committed.ranges.range_store import RangeStore
from graveler.errors import (
    CorruptionError,
    NewerFormatError,
    ObjectNotFoundError,
    OlderFormatError,
    PermissionDeniedError,
)
from graveler.model import RangeInfo
from graveler.objects.address import is_own
from graveler.sstable.reader import TableReader
from graveler.values import decode_range_info, entry_address

_IDENTIFIER = re.compile(r"[0-9a-f]{64}")
_UNFIT = (ObjectNotFoundError, CorruptionError, NewerFormatError, OlderFormatError)


def ranges_of(ranges: RangeStore, metarange: bytes) -> list[RangeInfo]:
    """Return the ranges of a metarange that a kept commit needs, in order."""
    return [
        decode_range_info(*record) for record in _needed(ranges, metarange, TableKind.METARANGE)
    ]


def addresses_of(ranges: RangeStore, identifier: bytes) -> Iterator[bytes]:
    """Yield the own addresses in a range that a kept commit needs. They are verified at the end."""
    for key, value in _needed(ranges, identifier, TableKind.RANGE):
        yield from own_addresses(key, value)


def _needed(
    ranges: RangeStore, identifier: bytes, kind: TableKind
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the records of a table that a kept commit needs. They are verified at the end."""
    try:
        for some, _ in checked(ranges.stored(identifier), identifier, kind):
            yield from zip(some.keys, some.values, strict=True)
    except ObjectNotFoundError as error:
        raise CorruptionError(
            f"table {identifier.hex()} of a kept commit is missing; nothing is collected until it is "
            "restored: run `graveler fsck`"
        ) from error


def named_ranges(reader: TableReader) -> Iterator[bytes]:
    """Yield the ids of the ranges in a metarange, as far as it can be read."""
    return (decode_range_info(key, value).id for key, value in reader.items())


def named_addresses(reader: TableReader) -> Iterator[bytes]:
    """Yield the own addresses in a range, as far as it can be read."""
    return (own for key, value in reader.items() for own in own_addresses(key, value))


def own_addresses(key: bytes, value: bytes) -> tuple[bytes, ...]:
    """Return the object key of an entry if its bytes are in the repository's own storage."""
    address = entry_address(key, value)
    return (address,) if is_own(address) else ()


Ranges = Iterable[tuple[RangeInfo, bool]]
"""Ranges that kept commits name, each with whether the storage has the list of its addresses."""


@dataclass(frozen=True, slots=True)
class AddressLists:
    """The addresses in ranges. Each range is read once, and later calls read its kept list."""

    ranges: RangeStore
    folder: str

    def addresses(self, identifier: bytes, *, kept: bool) -> list[bytes]:
        """Return the own addresses in a range, ascending, each once.

        Args:
            kept: Whether the storage has its list. If not, the range is read and the list is put.
        """
        if kept:
            with suppress(*_UNFIT):
                return self._read(identifier)
        found = sorted(set(addresses_of(self.ranges, identifier)))
        with suppress(
            PermissionDeniedError
        ):  # with a read-only storage, the next call reads the range again
            self.ranges.objects.put(self.key(identifier), _encode(identifier, found))
        return found

    def key(self, identifier: bytes) -> str:
        """Return the key of the list of a range."""
        return f"{self.folder}{identifier.hex()}"

    def identifier(self, key: str) -> bytes:
        """Return the id of the range whose list has this key, or b"" if it is not a list's key."""
        name = key.removeprefix(self.folder)
        return bytes.fromhex(name) if name != key and _IDENTIFIER.fullmatch(name) else b""

    def _read(self, identifier: bytes) -> list[bytes]:
        what = f"list of the addresses in range {identifier.hex()}"
        value = decode_json(self.ranges.objects.get(self.key(identifier)), what, stamped=True)
        texts, digest = read_fields(value, what, addresses=array(TEXT), digest=DIGEST)
        found = [_bytes(text) for text in texts]
        if digest != _digest(identifier, found):
            raise CorruptionError(f"{what} cannot be read: its digest is not that of the addresses")
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
"""Yields the addresses in ranges, in any order. Raises CorruptionError for a damaged range."""


def by_one_process(lists: AddressLists, ranges: Ranges) -> Iterator[bytes]:
    """Yield the addresses in ranges. Every range is read and verified. Lists are not used."""
    for info, _ in ranges:
        yield from addresses_of(lists.ranges, info.id)
