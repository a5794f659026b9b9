"""Value records (the values of keys in a range), their ids, and staged writes.

``docs/formats`` (range, metarange, identity, kv-layout) has the bytes. The record id covers every
byte of the value record, and is computed when a write is staged; all other ids are made from record
ids, so an id never names two sets of addresses. The content identity decides diffs, merges and
conflicts: equal files that are written on two branches are equal. A staged write is a kind (0
tombstone, 1 entry, 2 entry that replaces equal content, 3 borrowed entry), the epoch of sweeps of a
borrowed entry, the record id and the value record. Before it stands who staged it, and when.
"""

import gc
import sys
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from itertools import accumulate, chain, pairwise, repeat
from struct import Struct
from typing import Any, NamedTuple, overload

from graveler.base.background import growing_batches
from graveler.base.clock import unix_us
from graveler.base.records import MOMENT, PAIRS, decode_plain, encode_json
from graveler.errors import CorruptionError, NewerFormatError
from graveler.model import ENTRY_BYTES, RANGE_KEY_BYTES, Entry, RangeInfo

RECORD_ID_BYTES = 32
TOMBSTONE = b"\x00"
_LIVE = b"\x01"
_REPLACING = b"\x02"
_BORROWED = b"\x03"
_EPOCH_END = 9
UNKNOWN = (1 << 64) - 1
"""The epoch of a borrowing write whose bytes were not found. No sweep has this number."""
VOID = b"\x04\x00"
"""Replaces a staged write: older writes of its path do not count, and the path is as in the head.
It has two bytes, so that a reader of kinds 0 to 3 requires a newer graveler."""
_SIGNED = b"\x05"
_SIGNED_BYTE = 5
_SIGNATURE = Struct(">cBq")
"""Kind, the place at which the write begins, time. The author is behind it."""
_LONGEST_AUTHOR = 255 - _SIGNATURE.size
_HEADER = 1 + RECORD_ID_BYTES
_SHORT = 0x80
_MAX_VARINT_BYTES = 5
ENTRY_HEADER = Struct("<B4HIQq")
"""Flags, lengths of the five texts, size, time."""
_COMPUTED = 1
_TIMED = 2
_LARGEST = 2**63 - 1
_RANGE = Struct(">QQ?32s32s")
_NATURAL = 16
_TOTAL = (1 << 256) - 1
_PIECE = 256


def framed(*fields: str | int | Mapping[str, str] | tuple[str, ...]) -> bytes:
    """Return the fields of a hash.

    Text is ``t``, its length and UTF-8, a number ``n`` and 8 bytes with sign. Pairs are ``p``, their
    count, and the pairs by name. A list is ``l``, its count, and the texts.
    """
    out = b""
    for field in fields:
        if isinstance(field, str):
            raw = field.encode("utf-8", "surrogatepass")
            out += b"t" + len(raw).to_bytes(8, "big") + raw
        elif isinstance(field, int):
            out += b"n" + field.to_bytes(8, "big", signed=True)
        else:
            out += (b"l" if isinstance(field, tuple) else b"p") + len(field).to_bytes(8, "big")
            if field:
                texts = field if isinstance(field, tuple) else chain(*sorted(field.items()))
                out += framed(*texts)
    return out


def entry_identity(entry: Entry) -> bytes:
    """Return the content identity of an entry, 32 bytes.

    A declared checksum is not trusted. The address and the version from its store replace it.
    """
    content: tuple[str, ...] = ("checksum", entry.checksum)
    if not (entry.computed and entry.checksum):
        dated = entry.version.startswith("mtime:")  # and the inode
        version = entry.version.partition(" ")[0] if dated else entry.version
        content = ("address", entry.address, version)
    fields = framed(entry.size, *content, entry.content_type, entry.metadata)
    return sha256(b"entry:2" + fields).digest()


def record_id(key: bytes, value: bytes) -> bytes:
    """Return h(h(key) ‖ h(value record)), 32 bytes."""
    return sha256(sha256(key).digest() + sha256(value).digest()).digest()


def range_id(record_ids: Iterable[bytes]) -> bytes:
    """Return the id of the range with these records in this order, 32 bytes."""
    return sha256(b"".join(record_ids)).digest()


def total(record_ids: bytes) -> bytes:
    """Return the sum of the consecutive ids modulo 2**256 - 1, 32 bytes."""
    return (_sum(record_ids) % _TOTAL).to_bytes(RECORD_ID_BYTES)


def _sum(record_ids: bytes) -> int:
    """Return a number that is congruent to the sum of the ids modulo 2**256 - 1."""
    if "numpy" in sys.modules:
        import numpy

        number = 0
        for column in numpy.frombuffer(record_ids, ">u4").reshape(-1, 8).T:
            number = (number << 32) + int(column.sum(dtype="u8"))
        return number
    step = _PIECE * RECORD_ID_BYTES
    number, lanes = 0, _PIECE + 1
    for start in range(0, len(record_ids), step):
        number += int.from_bytes(record_ids[start : start + step].ljust(step, b"\0"))
    while lanes > 1:  # 2**256 - 1 divides 2**(256 * n) - 1, so that halves may be added
        lanes = (lanes + 1) // 2
        bits = lanes * 256
        number = (number >> bits) + (number & ((1 << bits) - 1))
    return number


def add_totals(totals: Iterable[bytes]) -> bytes:
    """Return the total of the records of several ranges."""
    return (sum(map(int.from_bytes, totals)) % _TOTAL).to_bytes(RECORD_ID_BYTES)


class RecordsDigest:
    """The digest of a range: SHA-256 of its records in key order, at a tenth of the cost of ids.

    The hash covers all keys and value records in turn, then the length of each key and each value
    record (4 bytes each), then the number of records (8 bytes). Numbers are little-endian. The
    lengths at the end ensure that no two lists of records give the same bytes.
    """

    def __init__(self) -> None:
        self._hash = sha256()
        self._lengths = array("I")

    def add(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Add records."""
        parts = [b""] * (2 * len(keys))
        parts[::2], parts[1::2] = keys, values
        self.add_rows((b"".join(parts),), map(len, parts))

    def add_rows(self, rows: Iterable[bytes | memoryview], lengths: Iterable[int]) -> None:
        """Add joined records in any number of pieces, and the lengths of each key and value."""
        for piece in rows:
            self._hash.update(piece)
        self._lengths.extend(lengths)

    def digest(self) -> bytes:
        """Return the digest of the records so far, 32 bytes."""
        lengths = self._lengths
        if sys.byteorder == "big":
            lengths = lengths[:]
            lengths.byteswap()
        done = self._hash.copy()
        done.update(lengths)
        done.update((len(lengths) // 2).to_bytes(8, "little"))
        return done.digest()


@lru_cache(1_024)
def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= _SHORT:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    for position in range(at, min(at + _MAX_VARINT_BYTES, len(raw))):
        byte = raw[position]
        value |= (byte & 0x7F) << shift
        if byte < _SHORT:
            return value, position + 1
        shift += 7
    raise CorruptionError(f"value record: no length at byte {at} of {len(raw)}")


def encode_value(identity: bytes, data: bytes) -> bytes:
    """Return the value record of `identity` and `data`."""
    return b"".join((_varint(len(identity)), identity, _varint(len(data)), data))


def decode_value(raw: bytes) -> tuple[bytes, bytes]:
    """Return (identity, data) of a value record, or raise CorruptionError."""
    size, at = _read_varint(raw, 0)
    identity = raw[at : at + size]
    length, start = _read_varint(raw, at + size)
    if len(identity) != size or start + length != len(raw):
        raise CorruptionError(f"value record of {len(raw)} bytes: lengths {size} and {length}")
    return identity, raw[start:]


@overload
def value_identity(raw: bytes) -> bytes: ...


@overload
def value_identity(raw: bytes | None) -> bytes | None: ...


def value_identity(raw: bytes | None) -> bytes | None:
    """Return the identity of a value record, which diff and merge compare, or None for None."""
    if raw is None:
        return None
    if len(raw) > RECORD_ID_BYTES and raw[0] == RECORD_ID_BYTES:
        return raw[1:_HEADER]
    return decode_value(raw)[0]


def encode_entry(entry: Entry) -> tuple[bytes, bytes]:
    """Return (identity, value record) of an entry. Neither contains the path."""
    identity = entry_identity(entry)
    texts = [
        text.encode("utf-8", "surrogatepass")
        for text in (entry.address, entry.checksum, entry.content_type, entry.version)
    ]
    texts.append(encode_json(dict(entry.metadata)) if entry.metadata else b"")
    flags, mtime = _COMPUTED * entry.computed, 0
    if entry.mtime is not None:
        flags, mtime = flags | _TIMED, unix_us(entry.mtime)
    header = ENTRY_HEADER.pack(flags, *map(len, texts), entry.size, mtime)
    return identity, encode_value(identity, b"".join((header, *texts)))


def decode_entry(key: bytes, raw: bytes, origin: str = "") -> Entry:
    """Return the entry of a key and its value record, or raise CorruptionError."""
    values = entry_fields(key, raw)
    return Entry(*(*values, origin, values[1:4]))


def deferred_entry(key: bytes, raw: bytes, origin: str) -> Entry:
    """Return the entry of a key and its value record. It is decoded when a field is read."""
    entry = _new(Entry)
    _set_stored(entry, (entry_fields, key, raw, origin))
    return entry


def deferred_entries(keys: Sequence[bytes], values: Sequence[bytes], origin: str) -> list[Entry]:
    """Return the result of `deferred_entry` for each key and its value record."""
    return _deferred(entry_fields, keys, values, origin)


def deferred_rows(keys: Sequence[bytes], rows: Sequence[bytes], origin: str) -> list[Entry]:
    """Return the result of `deferred_entry` for each key. Rows are a key and its value, joined."""
    return _deferred(_row_fields, keys, rows, origin)


def _row_fields(key: bytes, row: bytes) -> tuple[Any, ...]:
    return entry_fields(key, row[len(key) :])


def _deferred(
    decode: Callable[[bytes, bytes], tuple[Any, ...]],
    keys: Sequence[bytes],
    raws: Sequence[bytes],
    origin: str,
) -> list[Entry]:
    # No Python frame for each entry: a listing has many. Without a pause, the garbage collector
    # would scan the same objects several times, and take longer than their creation.
    collecting = gc.isenabled()
    gc.disable()
    try:
        entries = list(map(_new, repeat(Entry, len(keys))))
        deque(map(_set_stored, entries, zip(repeat(decode), keys, raws, repeat(origin))), maxlen=0)
    finally:
        if collecting:
            gc.enable()
    return entries


_new = Entry.__new__
# stores the bytes from which an empty entry is decoded
_set_stored = Entry._stored.__set__  # type: ignore[attr-defined]


def entry_fields(key: bytes, raw: bytes) -> tuple[Any, ...]:
    """Return the fields of an entry, in the order of `Entry`, or raise CorruptionError."""
    data, flags, size, mtime, ends = _laid_out(key, raw)
    try:
        address, checksum, content_type, version = (
            data[start:stop].decode("utf-8", "surrogatepass") if stop > start else ""
            for start, stop in pairwise(ends[:-1])
        )
        path = key.decode()
    except UnicodeDecodeError as error:
        raise CorruptionError(f"entry at {key!r} cannot be read: {error}") from error
    what = f"entry at {key!r}"
    metadata: Mapping[str, str] = {}
    if ends[-1] > ends[-2]:
        pairs = decode_plain(data[ends[-2] :], what)
        metadata = PAIRS.read(pairs, f"metadata of the {what}")
    moment = MOMENT.read(mtime, f"time of the {what}") if flags & _TIMED else None
    computed = bool(flags & _COMPUTED)
    return path, address, size, checksum, content_type, moment, metadata, version, computed


def entry_address(key: bytes, raw: bytes) -> bytes:
    """Return the address of an entry in UTF-8. Nothing else is decoded."""
    data, _, _, _, ends = _laid_out(key, raw)
    return data[ends[0] : ends[1]]


def _laid_out(key: bytes, raw: bytes) -> tuple[bytes, int, int, int, list[int]]:
    """Return data, flags, size, time and the ends of header and texts of an entry's record."""
    try:
        data = decode_value(raw)[1]
    except CorruptionError as error:
        raise CorruptionError(f"entry at {key!r}: {error}") from None
    if len(data) < ENTRY_HEADER.size:
        raise CorruptionError(f"entry at {key!r} has {len(data)} bytes of data")
    flags, *lengths, size, mtime = ENTRY_HEADER.unpack_from(data)
    ends = list(accumulate(lengths, initial=ENTRY_HEADER.size))
    if ends[-1] != len(data) or len(raw) > ENTRY_BYTES:
        raise CorruptionError(
            f"entry at {key!r}: texts of {lengths} bytes in a record of {len(raw)}, which has up "
            f"to {ENTRY_BYTES}"
        )
    if flags > _COMPUTED | _TIMED or size > _LARGEST or (mtime and not flags & _TIMED):
        raise CorruptionError(f"entry at {key!r} has flags {flags}, size {size}, time {mtime}")
    return data, flags, size, mtime, ends


def encode_range_info(info: RangeInfo) -> bytes:
    """Return the value record of a range in its metarange (its key there: the last key)."""
    data = _RANGE.pack(info.count, info.size, info.natural, info.total, info.digest) + info.min_key
    return encode_value(info.id, data)


def decode_range_info(key: bytes, raw: bytes) -> RangeInfo:
    """Return the range of a metarange's key and value, or raise CorruptionError."""
    what = f"range ending at {key!r}"
    identity, data = decode_value(raw)
    if len(identity) != RECORD_ID_BYTES:
        raise CorruptionError(f"{what} has an id of {len(identity)} bytes")
    if not _RANGE.size < len(data) <= _RANGE.size + RANGE_KEY_BYTES or data[_NATURAL] > 1:
        raise CorruptionError(f"{what} cannot be read: {data[:60]!r} ({len(data)} bytes)")
    return RangeInfo(identity, data[_RANGE.size :], key, *_RANGE.unpack_from(data))


class Replacement(NamedTuple):
    """A staged write that is committed even if the head has equal content."""

    key: bytes
    record_id: bytes
    value: bytes


def stage_entry(
    key: bytes, entry: Entry, *, replaces: bool = False, epoch: int | None = None
) -> bytes:
    """Return the staged form of an entry, including the record id.

    Args:
        epoch: For an entry that borrows bytes, the epoch of sweeps in which they were looked up.
    """
    value = encode_entry(entry)[1]
    if replaces and epoch is None:
        return b"".join((_REPLACING, record_id(key, value), value))
    return stage_value(key, value, epoch=epoch)


def stage_value(key: bytes, value: bytes, *, epoch: int | None = None) -> bytes:
    """Return the staged form of an entry's value record. `epoch` is as for `stage_entry`."""
    kind = _LIVE if epoch is None else _BORROWED + epoch.to_bytes(_EPOCH_END - 1)
    return b"".join((kind, record_id(key, value), value))


def author_text(author: str) -> str:
    """Return the form in which `signed_by` returns an author."""
    return _author(author).decode("utf-8", "replace")


def _author(author: str) -> bytes:
    return author.encode("utf-8", "surrogatepass")[:_LONGEST_AUTHOR]


def signature(author: str, at: datetime) -> bytes:
    """Return the bytes that stand before a staged write of an author."""
    name = _author(author)
    return _SIGNATURE.pack(_SIGNED, _SIGNATURE.size + len(name), unix_us(at)) + name


def signed_by(raw: bytes) -> tuple[str, datetime | None]:
    """Return the author of a staged write and its time, or ("", None) if they are unknown."""
    start = write_start(raw)
    if not start:
        return "", None
    at = MOMENT.read(_SIGNATURE.unpack_from(raw)[2], "time of a staged write")
    return raw[_SIGNATURE.size : start].decode("utf-8", "replace"), at


def write_start(raw: bytes) -> int:
    """Return the place at which a staged write begins, behind who staged it."""
    if raw[:1] != _SIGNED:
        return 0
    if len(raw) <= _SIGNATURE.size or not _SIGNATURE.size <= raw[1] < len(raw):
        raise CorruptionError(f"staged write starts with {raw[:2]!r} and has {len(raw)} bytes")
    return raw[1]


def is_replacement(raw: bytes) -> bool:
    """Return whether a staged write is committed even if the head has equal content."""
    return raw[write_start(raw) :][:1] == _REPLACING


def staged_value(raw: bytes) -> bytes | None:
    """Return the value record of a staged write, or None for a tombstone."""
    if raw[:1] == _SIGNED:
        raw = raw[write_start(raw) :]
    if raw[:1] in {_LIVE, _REPLACING}:
        return raw[_HEADER:]
    if raw[:1] == _BORROWED:
        return raw[_HEADER + _EPOCH_END - 1 :]
    if raw == TOMBSTONE:
        return None
    raise _unknown_write(raw)


def staged_epoch(raw: bytes) -> int | None:
    """Return the epoch of a staged write that borrows bytes, or None for any other write."""
    raw = raw[write_start(raw) :]
    return int.from_bytes(raw[1:_EPOCH_END]) if raw[:1] == _BORROWED else None


def _unknown_write(raw: bytes) -> CorruptionError | NewerFormatError:
    if len(raw) > 1 and raw[:1] > _SIGNED:
        return NewerFormatError(
            f"a staged write is of kind {raw[0]}, and this graveler reads kinds 0 to 5: upgrade "
            "graveler; the write was left as it is"
        )
    return CorruptionError(f"staged write starts with {raw[:2]!r}: expected 00 alone, or 01 to 05")


def _rare_change(
    key: bytes, raw: bytes, on_borrowed: Callable[[bytes, bytes], None] | None
) -> tuple[bytes, bytes | None, bytes | None]:
    raw = raw[write_start(raw) :]
    if raw[:1] == _LIVE:
        return key, raw[1:_HEADER], raw[_HEADER:]
    if raw == TOMBSTONE:
        return key, None, None
    if is_replacement(raw):
        return Replacement(key, raw[1:_HEADER], raw[_HEADER:])
    if raw[:1] == _BORROWED:
        if on_borrowed is not None:
            on_borrowed(key, raw)
        return key, raw[_EPOCH_END : _HEADER + _EPOCH_END - 1], raw[_HEADER + _EPOCH_END - 1 :]
    raise _unknown_write(raw)


def staged_changes(
    items: Iterable[tuple[bytes, bytes]],
    on_borrowed: Callable[[bytes, bytes], None] | None = None,
) -> Iterator[tuple[bytes, bytes | None, bytes | None]]:
    """Return (key, record id, value record) of staged writes. The last two are None for a deletion.

    A write that replaces equal content is a `Replacement`. `on_borrowed` is called with each write
    that borrows bytes, before it is yielded.
    """
    # a commit has many entries: slices are written out, and no frame is made for each
    return chain.from_iterable(
        [
            (key, raw[at + 1 : at + _HEADER], raw[at + _HEADER :])
            if len(raw) > _HEADER
            and raw[0] == _SIGNED_BYTE
            and raw[(at := raw[1]) : at + 1] == _LIVE
            and at >= _SIGNATURE.size
            else _rare_change(key, raw, on_borrowed)
            for key, raw in batch
        ]
        for batch in growing_batches(items)
    )
