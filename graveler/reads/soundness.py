"""Checking ranges, and the files of their entries, for ``graveler fsck``."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Literal, NamedTuple, Protocol

from graveler.base.background import batches
from graveler.committed.ranges.range_store import RangeStore
from graveler.committed.verify import Problem, verify_range
from graveler.errors import (
    CorruptionError,
    InvalidInputError,
    MissingDependencyError,
    NotFoundError,
    PermissionDeniedError,
)
from graveler.model import Entry, RangeInfo
from graveler.objects.store import PIECE_BYTES
from graveler.objects.verified import new_hash
from graveler.reads.files import change_of
from graveler.reads.stores import FilePlaces
from graveler.values import decode_entry, entry_identity, value_identity

Depth = Literal["none", "exist", "checksum"]
"""The depth of the check of an object: none, its presence and size, or its bytes."""

RANGE = "range"
OBJECT = "object"
"""The kinds of findings."""

MARK_BYTES = 16
_CHUNK = 1_000


class Finding(NamedTuple):
    """A missing or damaged range or object.

    Attributes:
        holder: Id of the range, or name of the branch with the staged write.
        id: The hex id of the range, or the URI of the object.
        paths: The paths that need the object, or the first and the last path of the range.
    """

    holder: bytes | str
    kind: str
    id: str
    message: str
    paths: tuple[str, ...]


Staged = tuple[str, Entry]
"""A branch, and an entry that is staged on it."""


class FileCheck(Protocol):
    """Checks ranges and objects, each once."""

    looked_at: int
    hashed: int
    resumed: int

    def __call__(self, ranges: Iterable[RangeInfo], staged: Iterable[Staged]) -> Iterable[Finding]:
        """Yield the findings in the order of the ranges and the staged entries. Exhaust both."""


Faults = Callable[[Sequence[Entry]], Iterable[tuple[Entry, str]]]
"""Yields the entries with a missing or wrong object, each with a description, in their order."""


def check_range(
    ranges: RangeStore, info: RangeInfo, uri: Callable[[str], str], faults: Faults | None
) -> Iterator[Finding]:
    """Yield the problems of a range and of the objects of its entries."""
    ends = (shown(info.min_key), shown(info.max_key))
    problems: list[Problem] = []
    reader = verify_range(ranges, info, problems)
    for kind, identifier, message in problems:
        yield Finding(info.id, kind.value, identifier, message, ends)
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


def bad_objects(
    holder: bytes | str, entries: Iterable[Entry], uri: Callable[[str], str], faults: Faults
) -> Iterator[Finding]:
    """Yield the problems of the objects of entries."""
    for chunk in batches(entries, _CHUNK):
        for entry, fault in faults(chunk):
            yield Finding(holder, OBJECT, uri(entry.address), fault, (entry.path,))


def sound_entry(key: bytes, value: bytes) -> Entry:
    """Return an entry. Raise CorruptionError if its content identity does not match its fields."""
    entry = decode_entry(key, value)
    stated, computed = value_identity(value), entry_identity(entry)
    if stated != computed:
        raise CorruptionError(
            f"entry at {key!r} has the content identity {stated.hex()}, its fields give {computed.hex()}"
        )
    return entry


def mark_of(entry: Entry) -> bytes:
    """Return a digest of the address and the fields of an entry's object."""
    text = "\0".join((entry.address, str(entry.size), entry.checksum, entry.version))
    return sha256(text.encode("utf-8", "surrogatepass")).digest()[:MARK_BYTES]


def fault_of(
    files: FilePlaces, entry: Entry, depth: Depth, take: Callable[[int], object] = int
) -> tuple[str, int]:
    """Return a description of the fault of an entry's object, or "", and the number of bytes read."""
    try:
        store, key = files.locate(entry.address)
        info = store.head(key)
        if info.size != entry.size:
            return f"has {info.size} bytes, its entry says {entry.size}", 0
        if problem := change_of(files, entry, store, key, info):
            return problem, 0
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
    """Return a key as text. Any bytes are allowed."""
    return key.decode("utf-8", "backslashreplace")
