"""How records become bytes and come back.

Value record (what a range stores behind a key, and a staged write after its header)::

    varint  length of identity
    bytes   identity (content identity of an entry, 32; id of a range in a metarange, 32)
    varint  length of data
    bytes   data

Entry data is a JSON array: address, size, checksum, content type, mtime (µs since 1970
or null), metadata, version, whether graveler computed the checksum. Range data is
``[min key (hex), count, size]``. Staged write::

    byte    0 tombstone, 1 entry, 2 entry that replaces one of equal content too
    bytes   record id, 32                 (not of a tombstone)
    bytes   value record                  (not of a tombstone)

The record id is computed when a write is staged, so that a commit of a million entries
hashes nothing but their ids.

Branches, commits and the like are JSON objects. Decoders trust nothing: whatever does
not parse is a CorruptionError.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple, overload

from graveler.clock import unix_us
from graveler.errors import CorruptionError, NewerFormatError, OlderFormatError
from graveler.fields import Fields, row
from graveler.identity import entry_identity, record_id
from graveler.model import ENTRY_BYTES, RECORD_BYTES, BranchRecord, Commit, Entry, Move, RangeInfo

FORMAT: Final = 2
"""Of every record, table and dump written here, and the only one that is read.

Repository records, tables and dumps name it; so do other records from the first that differs
from its repository's format on."""
RECORD_ID_BYTES: Final = 32
TOMBSTONE: Final = b"\x00"
_LIVE: Final = b"\x01"
_LIVE_BYTE: Final = 1
_REPLACING: Final = b"\x02"
_BORROWED: Final = b"\x03"
_EPOCH_END: Final = 9
_HEADER: Final = 1 + RECORD_ID_BYTES
_SHORT: Final = 0x80
_MAX_VARINT_BYTES: Final = 5
_UNSTAMPED: Final = 1
_ENTRY: Final = (
    "address", "size", "checksum", "content_type", "mtime", "metadata", "version", "computed",
)  # fmt: skip
_RANGE: Final = ("min_key", "count", "size")
_SEALED_ORDER: Final = "oldest-first"

_to_json = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False
).encode


def _finite(text: str) -> float:
    """Return a number of JSON; what is none, or too large to be one, could not be written again."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number


_from_json = json.JSONDecoder(parse_float=_finite, parse_constant=_finite).decode


def encode_json(value: Any) -> bytes:
    """Return the shortest JSON of `value`, keys sorted, in UTF-8."""
    return _to_json(value).encode("utf-8", "surrogatepass")


def decode_json(raw: bytes, what: str, *, stamped: bool = False) -> Any:
    """Return the value; `what` names it in the errors.

    Args:
        raw: The bytes.
        what: Names it in the errors.
        stamped: A record of this kind always names its format: without one it is of the first.

    Raises:
        CorruptionError: The bytes are not JSON.
        NewerFormatError: It is a record, and its ``format`` is one we do not know yet.
        OlderFormatError: It is a record, and its ``format`` is one we do not read any more.
    """
    try:
        value = _from_json(raw.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise CorruptionError(f"{what} is not JSON: {raw[:60]!r}") from error
    if type(value) is dict and ("format" in value or stamped):
        name = value.get("name", value.get("key"))
        stated = value.pop("format", _UNSTAMPED)
        check_format(stated, what if name is None else f"{what} of {name!r}")
    return value


def read_key(key: bytes, what: str) -> str:
    """Return the text of a stored key, or raise CorruptionError."""
    try:
        return key.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptionError(f"{what}: its key {key!r} is not UTF-8") from error


def check_format(found: Any, what: str) -> None:
    """Refuse what another graveler wrote: reading it would be guessing, writing it a loss.

    Raises:
        NewerFormatError: Its format is greater than ours.
        OlderFormatError: Its format is less than ours.
        CorruptionError: It is no format at all.
    """
    if type(found) is not int or found < 1:
        raise CorruptionError(f"{what} has the format {found!r}: formats are 1, 2 and so on")
    if found < FORMAT:
        raise OlderFormatError(
            f"{what} has format {found}, and this graveler reads format {FORMAT} alone: make a new "
            "repository with it and put or link the files there; the data files of the old one "
            "stay readable where they are, and nothing was changed"
        )
    if found > FORMAT:
        raise NewerFormatError(
            f"{what} has format {found}, and this graveler knows formats up to {FORMAT}: "
            "upgrade graveler; the record was left as it is"
        )


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
    """Return the identity of a value record, which diff and merge compare; None of no record."""
    if raw is None:
        return None
    if len(raw) > RECORD_ID_BYTES and raw[0] == RECORD_ID_BYTES:
        return raw[1:_HEADER]
    return decode_value(raw)[0]


def encode_entry(entry: Entry) -> tuple[bytes, bytes]:
    """Return (identity, value record) of an entry; the path is not part of either."""
    identity = entry_identity(entry)
    mtime = None if entry.mtime is None else unix_us(entry.mtime)
    data = encode_json(
        [
            entry.address,
            entry.size,
            entry.checksum,
            entry.content_type,
            mtime,
            dict(entry.metadata),
            entry.version,
            entry.computed,
        ]
    )
    return identity, encode_value(identity, data)


def decode_entry(key: bytes, raw: bytes) -> Entry:
    """Return the entry of a key and its value record, or raise CorruptionError."""
    what = f"entry at {key!r}"
    if len(raw) > ENTRY_BYTES:
        raise CorruptionError(f"{what} has a record of {len(raw)} bytes: at most {ENTRY_BYTES}")
    fields = row(decode_json(decode_value(raw)[1], what), _ENTRY, what)
    return Entry(
        path=read_key(key, what),
        address=fields.text("address"),
        size=fields.number("size"),
        checksum=fields.text("checksum"),
        content_type=fields.text("content_type"),
        mtime=None if fields.value("mtime") is None else fields.moment("mtime"),
        metadata=fields.pairs("metadata"),
        version=fields.text("version"),
        computed=fields.flag("computed"),
    )


def encode_range_info(info: RangeInfo) -> bytes:
    """Return the value record of a range in its metarange (its key there: the last key)."""
    return encode_value(info.id, encode_json([info.min_key.hex(), info.count, info.size]))


def decode_range_info(key: bytes, raw: bytes) -> RangeInfo:
    """Return the range of a metarange's key and value, or raise CorruptionError."""
    what = f"range ending at {key!r}"
    identity, data = decode_value(raw)
    if len(identity) != RECORD_ID_BYTES:
        raise CorruptionError(f"{what} has an id of {len(identity)} bytes")
    fields = row(decode_json(data, what), _RANGE, what)
    return RangeInfo(
        identity, fields.binary("min_key"), key, fields.number("count"), fields.number("size")
    )


class Replacement(NamedTuple):
    """A staged write that lands also where a record of equal content is.

    Attributes:
        key: The path.
        record_id: Of key and value record.
        value: The value record.
    """

    key: bytes
    record_id: bytes
    value: bytes


def stage_entry(
    key: bytes, entry: Entry, *, replaces: bool = False, epoch: int | None = None
) -> bytes:
    """Return the staged form of an entry, record id included.

    Args:
        key: Its path.
        entry: The entry.
        replaces: It lands also where the head has an entry of equal content.
        epoch: Where it borrows bytes: the epoch of sweeps under which they were looked up.
    """
    value = encode_entry(entry)[1]
    kind = _REPLACING if replaces else _LIVE
    if epoch is not None:
        kind = _BORROWED + epoch.to_bytes(_EPOCH_END - 1)
    return b"".join((kind, record_id(key, value), value))


def is_replacement(raw: bytes) -> bool:
    """Return whether a staged write lands also where the head has an entry of equal content."""
    return raw[:1] == _REPLACING


def staged_value(raw: bytes) -> bytes | None:
    """Return the value record of a staged write, None for a tombstone."""
    if raw[:1] in {_LIVE, _REPLACING}:
        return raw[_HEADER:]
    if raw[:1] == _BORROWED:
        return raw[_HEADER + _EPOCH_END - 1 :]
    if raw == TOMBSTONE:
        return None
    raise _unknown_write(raw)


def staged_epoch(raw: bytes) -> int | None:
    """Return the epoch of a staged write that borrows bytes, None for any other."""
    return int.from_bytes(raw[1:_EPOCH_END]) if raw[:1] == _BORROWED else None


def _unknown_write(raw: bytes) -> CorruptionError | NewerFormatError:
    if len(raw) > 1 and raw[:1] > _BORROWED:
        return NewerFormatError(
            f"a staged write is of kind {raw[0]}, and this graveler knows 0 to 3: upgrade "
            "graveler; the write was left as it is"
        )
    return CorruptionError(f"staged write starts with {raw[:2]!r}: expected 00 alone, or 01 to 03")


def _rare_change(
    key: bytes, raw: bytes, on_borrowed: Callable[[bytes, bytes], None] | None
) -> tuple[bytes, bytes | None, bytes | None]:
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
    """Return (key, record id, value record) of staged writes; None twice for a deletion.

    One that replaces is a `Replacement`.

    Args:
        items: Keys and staged writes.
        on_borrowed: Called with each that borrows bytes, when it is reached.
    """
    # slices written out: a commit passes here once for every entry
    return (
        (key, raw[1:_HEADER], raw[_HEADER:])
        if raw and raw[0] == _LIVE_BYTE
        else _rare_change(key, raw, on_borrowed)
        for key, raw in items
    )


def encode_branch(record: BranchRecord) -> bytes:
    """Return the branch record's JSON."""
    return encode_json(
        {
            "name": record.name,
            "commit": record.commit_id,
            "staging": record.staging_token,
            "sealed": record.sealed_tokens,
            "sealed_order": _SEALED_ORDER,
            "attempt": record.attempt,
            "fence": record.fence,
            "hidden": record.hidden,
            "nonce": record.nonce,
            "born": record.born,
            "moves": record.moves,
            "pages": record.pages,
        }
    )


def decode_branch(raw: bytes) -> BranchRecord:
    """Return the branch record, or raise CorruptionError."""
    fields = Fields(decode_json(raw, "branch record"), "branch record")
    if fields.text("sealed_order") != _SEALED_ORDER:
        raise fields.wrong("sealed_order", f"{_SEALED_ORDER!r}, unless a newer graveler wrote it")
    return BranchRecord(
        name=fields.name("name"),
        commit_id=fields.digest("commit"),
        staging_token=fields.name("staging"),
        sealed_tokens=fields.names("sealed"),
        attempt=fields.number("attempt"),
        fence=fields.text("fence"),
        hidden=fields.flag("hidden"),
        nonce=fields.text("nonce"),
        born=fields.text("born"),
        moves=read_moves(fields),
        pages=fields.number("pages"),
    )


def encode_moves(moves: Iterable[Move]) -> bytes:
    """Return the JSON of one page of the log of moves."""
    return encode_json(list(moves))


def decode_moves(raw: bytes) -> tuple[Move, ...]:
    """Return one page of the log of moves, or raise CorruptionError."""
    what = "page of moves"
    return read_moves(Fields({"moves": decode_json(raw, what)}, what))


def read_moves(fields: Fields) -> tuple[Move, ...]:
    """Return the field ``moves`` of a record, or raise CorruptionError."""
    return tuple(
        Move(
            unix_us(move.moment("at_us")),
            move.text("action"),
            move.digest("commit"),
            move.text("actor"),
        )
        for move in fields.rows("moves", Move._fields)
    )


def encode_commit(commit: Commit) -> bytes:
    """Return the commit record's JSON; the id is its key."""
    spans = commit.spans
    return encode_json(
        {
            "metarange": commit.metarange,
            "parents": commit.parents,
            "generation": commit.generation,
            "message": commit.message,
            "committer": commit.committer,
            "created": unix_us(commit.created),
            "metadata": dict(commit.metadata),
            "tokens": commit.tokens,
            "spans": None if spans is None else [[one.hex(), last.hex()] for one, last in spans],
        }
    )


def decode_commit(identifier: str, raw: bytes) -> Commit:
    """Return the commit stored under `identifier`, or raise CorruptionError."""
    what = f"commit {identifier}"
    if len(raw) > RECORD_BYTES:
        raise CorruptionError(f"{what} has a record of {len(raw)} bytes: at most {RECORD_BYTES}")
    return read_commit(identifier, Fields(decode_json(raw, what), what))


def read_commit(identifier: str, fields: Fields) -> Commit:
    """Return the commit of a record's fields, or raise CorruptionError."""
    spans = None
    if fields.value("spans") is not None:
        pairs = fields.rows("spans", ("first", "last"))
        spans = tuple((span.binary("first"), span.binary("last")) for span in pairs)
    return Commit(
        id=identifier,
        metarange=fields.digest("metarange"),
        parents=fields.digests("parents"),
        generation=fields.number("generation", least=1),
        message=fields.text("message"),
        committer=fields.text("committer"),
        created=fields.moment("created"),
        metadata=fields.pairs("metadata"),
        tokens=fields.names("tokens", ()),
        spans=spans,
    )
