"""Writing a table with RocksDB's own writer, so that equal records give equal bytes.

RocksDB writes a random session id, the host's name and a number into the properties: the end of the
file is rewritten. The session id must differ between tables, because RocksDB's caches name blocks
by it: it is a hash of the identity and of the index.
"""

import errno
import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from hashlib import sha256
from mmap import ACCESS_READ, MADV_RANDOM, mmap
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from graveler.base.forks import NO_DESCRIPTOR
from graveler.base.privacy import PRIVATE_FILE
from graveler.errors import (
    BackendUnavailableError,
    GravelerError,
    InternalError,
    InvalidInputError,
    NotFoundError,
    StateError,
    StorageFullError,
    UnsortedKeysError,
)
from graveler.sstable.block import encode_block
from graveler.sstable.compression import NO_COMPRESSION
from graveler.sstable.format import (
    TRAILER_BYTES,
    XXH3,
    Footer,
    Handle,
    encode_footer,
    varints,
    xxh3,
)
from graveler.sstable.metadata import (
    HOST,
    ORIGINAL_FILE_NUMBER,
    ROCKSDB_PROPERTIES,
    SESSION,
    encode_user_properties,
)
from graveler.sstable.reader import BlockFile

_FORMAT_VERSION = 5  # the checksums of 6 are random: equal records give unequal bytes


_SESSION_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SESSION_LENGTH = 20
_ONE_RUN = 1 << 31


def finalize(path: Path, identity: bytes, properties: Mapping[str, bytes]) -> None:
    """Rewrite the end of the table at `path` and make the file durable.

    Args:
        path: A table that RocksDB has finished, in version 5 with XXH3.
    """
    path.chmod(PRIVATE_FILE)
    with path.open("r+b") as file:
        with mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            # RocksDB drops its writes from the page cache: read only the end, without read-ahead
            data.madvise(MADV_RANDOM)
            blocks = BlockFile(data)
            start, tail = _tail(blocks, identity, properties)
        file.seek(start)
        file.write(tail)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())


def _tail(blocks: BlockFile, identity: bytes, properties: Mapping[str, bytes]) -> tuple[int, bytes]:
    footer = blocks.footer
    start, size = blocks.properties_handle
    if (footer.version, footer.kind) != (_FORMAT_VERSION, XXH3):
        raise InternalError(f"RocksDB wrote version {footer.version}, checksum {footer.kind}")
    if footer.metaindex.offset != start + size + TRAILER_BYTES:
        raise InternalError(f"RocksDB's properties at {start} are not before the metaindex")
    _, index = blocks.stored(blocks.index)
    merged = {
        **blocks.properties(),
        **properties,
        SESSION: _session(identity, index),
        HOST: b"",
        ORIGINAL_FILE_NUMBER: varints(1),
    }
    pairs = sorted((name.encode("latin-1"), value) for name, value in merged.items())
    property_block = encode_block(pairs, _ONE_RUN)
    named = blocks.metaindex | {ROCKSDB_PROPERTIES: Handle(start, len(property_block))}
    metaindex = encode_block(
        ((name, varints(*handle)) for name, handle in sorted(named.items())), 1
    )
    metaindex_handle = Handle(start + len(property_block) + TRAILER_BYTES, len(metaindex))
    end = metaindex_handle.offset + len(metaindex) + TRAILER_BYTES
    renewed = Footer(XXH3, _FORMAT_VERSION, metaindex_handle, blocks.index, 0, end)
    return start, _sealed(property_block) + _sealed(metaindex) + encode_footer(renewed)


def _sealed(block: bytes) -> bytes:
    checksum = xxh3(block, NO_COMPRESSION)
    return block + bytes((NO_COMPRESSION,)) + checksum.to_bytes(4, "little")


def _session(identity: bytes, index: bytes) -> bytes:
    """Return 20 digits of base 36, the form of RocksDB's session ids."""
    digest = sha256(len(identity).to_bytes(8, "big") + identity + index).digest()
    number = int.from_bytes(digest, "big")
    digits = []
    for _ in range(_SESSION_LENGTH):
        number, digit = divmod(number, len(_SESSION_DIGITS))
        digits.append(_SESSION_DIGITS[digit])
    return "".join(digits).encode()


_COMPRESSION = "snappy"
_BLOCK_BYTES = 32 * 1024
_RESTART_INTERVAL = 16
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_FREE_SPACE = "no space left; free some and repeat"
_TRANSLATIONS: tuple[tuple[str, type[GravelerError], str], ...] = (
    (
        "strict ascending order",
        UnsortedKeysError,
        "a key is not after the one before; sort the keys",
    ),
    ("raw mode only support bytes", InvalidInputError, "keys and values must be bytes"),
    ("with no entries", InvalidInputError, "no record was added; add at least one"),
    ("File is not opened", StateError, "it is finished or aborted; write another one"),
    ("No space left on device", StorageFullError, _FREE_SPACE),
    ("Disk quota exceeded", StorageFullError, _FREE_SPACE),
    ("File too large", StorageFullError, _FREE_SPACE),
    ("IO error: No such file", NotFoundError, "its folder is missing; create it"),
    ("Too many open files", BackendUnavailableError, NO_DESCRIPTOR),
    ("IO error", BackendUnavailableError, "the disk refused the write"),
)
"""Part of RocksDB's text, graveler's error, the way out. The first part that matches decides."""


class TableWriter:
    """The writer of one table, from the first key to the durable file.

    Use it as a context manager. Adding a record raises errors of RocksDB. The end of the ``with``
    block turns them into errors of graveler and removes the file. Leaving the block before `finish`
    also removes the file.

        with TableWriter(path) as table:
            added = table.records
            for key, value in records:
                added[key] = value
            table.finish(range_id, {"type": "range"})

    Keys ascend strictly and have up to 4096 bytes. The caller checks that paths have 1 to 1024
    bytes. One thread at a time.
    """

    def __init__(self, path: Path) -> None:
        """Create the file, in a folder that exists."""
        self.path = path
        self._sst = _open(path)

    @property
    def records(self) -> MutableMapping[bytes, bytes]:
        """RocksDB's writer: a method of our own would take a third of the time of the rest."""
        if self._sst is None:
            raise StateError(f"table {self.path} is finished or aborted: write another one")
        records: MutableMapping[bytes, bytes] = self._sst
        return records

    def finish(self, identity: bytes, properties: Mapping[str, str]) -> None:
        """Complete the file and make its content durable. The caller syncs the folder.

        With the same version of RocksDB, equal records, identity and properties give equal bytes. Any error removes the file.

        Args:
            identity: The identity of the records, such as their range id. Two tables with the
                same identity may serve each other's records from a cache.
        """
        if self._sst is None:
            raise StateError(f"table {self.path} is finished or aborted: write another one")
        try:
            with _named(self.path):
                self._sst.finish()
                finalize(self.path, identity, encode_user_properties(properties))
        except BaseException:
            self.abort()
            raise
        self._sst = None

    def abort(self) -> None:
        """Remove the file unless it is finished. The call may be repeated."""
        if self._sst is not None:
            self._sst = None
            with suppress(OSError):  # removed already, or not a file that can be removed
                self.path.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.abort()
        if error is not None:
            translated = _translated(error, self.path)
            if translated is not error:
                raise translated from error


def _rocksdict() -> Any:
    try:
        import rocksdict
    except NameError:  # a signal interrupted the first import, and the package cannot repeat it
        return sys.modules["rocksdict.rocksdict"]
    return rocksdict


def _open(path: Path) -> Any:
    writer = _rocksdict().SstFileWriter(_options(_COMPRESSION))
    with _named(path):
        writer.open(str(path))
    return writer


@lru_cache
def _options(compression: str) -> Any:
    rocksdict = _rocksdict()
    blocks = rocksdict.BlockBasedOptions()
    blocks.set_format_version(_FORMAT_VERSION)
    blocks.set_block_size(_BLOCK_BYTES)
    blocks.set_block_restart_interval(_RESTART_INTERVAL)
    blocks.set_checksum_type(rocksdict.ChecksumType.xxh3())
    # without raw mode, each key and value would get a byte for its Python type
    options = rocksdict.Options(raw_mode=True)
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(getattr(rocksdict.DBCompressionType, compression)())
    return options


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Raise graveler's error in place of one of rocksdict or of the system."""
    try:
        yield
    except BaseException as error:
        translated = _translated_by_system(error, path)
        if translated is error:
            raise
        raise translated from error


def _translated(error: BaseException, path: Path) -> BaseException:
    """Return graveler's error for one of rocksdict's, and any other error unchanged."""
    # rocksdict raises a bare Exception, or KeyError and ValueError for values that are not bytes:
    # only the text tells them apart
    if type(error) not in (Exception, KeyError, ValueError):
        return error
    text = str(error)
    for part, kind, advice in _TRANSLATIONS:
        if part in text:
            return kind(f"table {path}: {advice} ({text})")
    return error


def _translated_by_system(error: BaseException, path: Path) -> BaseException:
    """Return graveler's error for an error of the system while the file is completed."""
    if not isinstance(error, OSError) or isinstance(error, GravelerError):
        return _translated(error, path)
    if error.errno in _FULL:
        return StorageFullError(f"table {path}: {_FREE_SPACE} ({error})")
    if isinstance(error, FileNotFoundError):
        return NotFoundError(f"table {path} was removed while it was written: write it again")
    none_left = error.errno in {errno.EMFILE, errno.ENFILE}
    advice = NO_DESCRIPTOR if none_left else "the disk refused the write"
    return BackendUnavailableError(f"table {path}: {advice} ({error})")
