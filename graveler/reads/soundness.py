"""Whether ranges, and the files of their entries, are sound: what ``graveler fsck`` asks of each."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Final, Literal, NamedTuple, Protocol

from graveler.committed import RangeStore, verify_range
from graveler.errors import (
    CorruptionError,
    InvalidInputError,
    MissingDependencyError,
    NotFoundError,
    PermissionDeniedError,
)
from graveler.model import Entry, RangeInfo
from graveler.objects.store import PIECE_BYTES, version_of
from graveler.objects.verified import new_hash
from graveler.process import batches
from graveler.reads.stores import FilePlaces
from graveler.sstable.reader import TableReader
from graveler.values import decode_entry, entry_identity, value_identity

Depth = Literal["none", "exist", "checksum"]
"""How much of an object is checked: nothing, its presence and size, or its bytes."""

RANGE: Final = "range"
OBJECT: Final = "object"
"""Kinds of what is found."""

MARK_BYTES: Final = 16
_CHUNK: Final = 1_000


class Finding(NamedTuple):
    """Something that is missing or damaged.

    Attributes:
        holder: Id of the range, or name of the branch whose staged write it is.
        kind: `RANGE` or `OBJECT`.
        id: Of the range in hex; the object's URI.
        message: What is wrong with it.
        paths: The paths that need it; of a range the first and the last one.
    """

    holder: bytes | str
    kind: str
    id: str
    message: str
    paths: tuple[str, ...]


Staged = tuple[str, Entry]
"""A branch, and an entry that is staged on it."""


class FileCheck(Protocol):
    """Checks ranges and objects, each once.

    Attributes:
        looked_at: Objects checked so far.
        hashed: Bytes read to compare checksums.
        resumed: Objects that were not read, because an earlier check has found them sound.
    """

    looked_at: int
    hashed: int
    resumed: int

    def __call__(self, ranges: Iterable[RangeInfo], staged: Iterable[Staged]) -> Iterable[Finding]:
        """Yield what is wrong, in the order of the ranges and the staged entries; take all of both."""


Faults = Callable[[Sequence[Entry]], Iterable[tuple[Entry, str]]]
"""Yields the entries whose object is missing or wrong, with a description, in their order."""


def check_range(
    ranges: RangeStore, info: RangeInfo, uri: Callable[[str], str], faults: Faults | None
) -> Iterator[Finding]:
    """Yield what is wrong with a range and with the objects of its entries.

    Args:
        ranges: Where it is.
        info: Its record in a metarange.
        uri: Returns the URI of an address.
        faults: Looks at the objects; None: they are left out.
    """
    ends = (shown(info.min_key), shown(info.max_key))
    reader = yield from _read(ranges, info, ends)
    if reader is None or faults is None:
        return
    wrong: list[Finding] = []

    def entries() -> Iterator[Entry]:
        for key, value in reader.items():
            try:
                yield sound_entry(key, value)
            except CorruptionError as error:
                wrong.append(Finding(info.id, RANGE, info.id.hex(), str(error), ends))

    yield from bad_objects(info.id, entries(), uri, faults)
    yield from wrong


def _read(
    ranges: RangeStore, info: RangeInfo, ends: tuple[str, ...]
) -> Generator[Finding, None, TableReader | None]:
    problems = verify_range(ranges, info.id, info)
    while True:
        try:
            problem = next(problems)
        except StopIteration as end:
            reader: TableReader | None = end.value
            return reader
        yield Finding(info.id, problem.kind.value, problem.id, problem.message, ends)


def bad_objects(
    holder: bytes | str, entries: Iterable[Entry], uri: Callable[[str], str], faults: Faults
) -> Iterator[Finding]:
    """Yield what is wrong with the objects of entries."""
    for chunk in batches(entries, _CHUNK):
        for entry, fault in faults(chunk):
            yield Finding(holder, OBJECT, uri(entry.address), fault, (entry.path,))


def sound_entry(key: bytes, value: bytes) -> Entry:
    """Return an entry whose content identity follows from its fields, or raise CorruptionError."""
    entry = decode_entry(key, value)
    stated, computed = value_identity(value), entry_identity(entry)
    if stated != computed:
        raise CorruptionError(
            f"entry at {key!r} has the content identity {stated.hex()}, its fields give {computed.hex()}"
        )
    return entry


def mark_of(entry: Entry) -> bytes:
    """Return a digest of an entry's object: its address, and its fields in the entry."""
    text = "\0".join((entry.address, str(entry.size), entry.checksum, entry.version))
    return sha256(text.encode("utf-8", "surrogatepass")).digest()[:MARK_BYTES]


def fault_of(
    files: FilePlaces, entry: Entry, depth: Depth, take: Callable[[int], object] = int
) -> tuple[str, int]:
    """Return a description of the fault of an entry's object, "" if it has none, and the bytes read.

    Args:
        files: Where it is.
        entry: The entry.
        depth: How much of it is checked.
        take: Called with the number of bytes of each piece that was read.
    """
    try:
        store, key = files.locate(entry.address)
        info = store.head(key)
        if info.size != entry.size:
            return f"has {info.size} bytes, its entry says {entry.size}", 0
        if entry.version and (version := version_of(info, entry.version)) != entry.version:
            return f"is at {version}, and was at {entry.version} when it was linked", 0
        algorithm, _, expected = entry.checksum.partition(":")
        fresh = new_hash(algorithm)
        if depth != "checksum" or fresh is None:
            return "", 0
        with store.open(key) as stream:
            while piece := stream.read(PIECE_BYTES):
                take(len(piece))
                fresh.update(piece)
    except NotFoundError:
        return "is missing", 0
    except (InvalidInputError, MissingDependencyError, PermissionDeniedError) as error:
        return f"cannot be looked at: {error}", 0
    found = fresh.hexdigest()
    sound = found == expected.lower()
    fault = "" if sound else f"has {algorithm}:{found}, its entry says {expected}"
    return fault, info.size


def shown(key: bytes) -> str:
    """Return a key as text, whatever its bytes are."""
    return key.decode("utf-8", "backslashreplace")
