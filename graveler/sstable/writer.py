"""Writing a table, with RocksDB's own writer."""

import errno
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from graveler.errors import (
    BackendUnavailableError,
    GravelerError,
    InvalidInputError,
    NotFoundError,
    StateError,
    StorageFullError,
    UnsortedKeysError,
)
from graveler.sstable.finalize import finalize
from graveler.sstable.properties import check_identity, encode_user_properties

COMPRESSIONS: Final = ("none", "snappy", "lz4", "zstd")
_FORMAT_VERSION: Final = 5  # 6 has random checksums: equal records would not give equal bytes
_BLOCK_BYTES: Final = 32 * 1024
_RESTART_INTERVAL: Final = 16
_ZSTD_OPTIONS: Final = (-14, 1, 0, 0)  # level 1: a third faster than 3, as small within 2 %
_FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_FREE_SPACE: Final = "no space left; free some and repeat"
_TRANSLATIONS: Final[tuple[tuple[str, type[GravelerError], str], ...]] = (
    ("strict ascending order", UnsortedKeysError, "a key is not after the one before; sort them"),
    ("raw mode only support bytes", InvalidInputError, "keys and values are bytes"),
    ("with no entries", InvalidInputError, "no record was added; write no empty table"),
    ("File is not opened", StateError, "it is finished or aborted; write another one"),
    ("No space left on device", StorageFullError, _FREE_SPACE),
    ("Disk quota exceeded", StorageFullError, _FREE_SPACE),
    ("File too large", StorageFullError, _FREE_SPACE),
    ("IO error: No such file", NotFoundError, "its folder is missing; create it"),
    ("IO error", BackendUnavailableError, "the disk does not take it"),
)
"""Part of RocksDB's text, our error, the way out; the first that fits counts."""


class TableWriter:
    """One table, from the first key to the durable file.

    Use it as a context manager: what `add` raises is RocksDB's until it leaves the
    ``with`` block, where it becomes an error of graveler and the file is removed. So it
    is when the block is left before `finish`.

        with TableWriter(path) as table:
            add = table.add
            for key, value in records:
                add(key, value)
            table.finish(range_id, {"type": "range"})

    Keys are bytes that ascend strictly, of up to 4096 bytes; that paths have 1 to 1024
    is for the caller to check. One thread at a time.

    Attributes:
        path: The file; what was there is replaced.
        add: Takes a key and its value. RocksDB's own method: a call of ours around it
            would take a third of the time that the rest takes.
    """

    add: Callable[[bytes, bytes], None]

    def __init__(self, path: Path, *, compression: str = "snappy") -> None:
        """Create the file.

        Args:
            path: Where, in a folder that exists.
            compression: ``none``, ``snappy``, ``lz4`` or ``zstd``.

        Raises:
            InvalidInputError: The compression is another one.
            NotFoundError: The folder is missing.
            StorageFullError: No space.
        """
        if compression not in COMPRESSIONS:
            raise InvalidInputError(f"compression {compression!r}: use one of {COMPRESSIONS}")
        self.path = path
        self._sst = _open(path, compression)
        self.add = self._sst.__setitem__

    @property
    def records(self) -> MutableMapping[bytes, bytes]:
        """RocksDB's writer itself, for loops: ``records[key] = value`` is `add`, a tenth faster."""
        if self._sst is None:
            raise StateError(f"table {self.path} is finished or aborted: write another one")
        records: MutableMapping[bytes, bytes] = self._sst
        return records

    def finish(self, identity: bytes, properties: Mapping[str, str]) -> None:
        """Complete the file and make its content durable; the folder is the caller's to sync.

        Equal records, compression, identity and properties give equal bytes, under one
        version of RocksDB. On any error the file is removed.

        Args:
            identity: What identifies these records, such as their range id.
                Two tables that share it may serve each other's records from a cache.
            properties: The user's, stored as ``graveler.<name>``.

        Raises:
            InvalidInputError: The table is empty, or so is the identity, or a property
                has a name that is not allowed.
            StateError: Finished or aborted before.
            StorageFullError: No space.
        """
        if self._sst is None:
            raise StateError(f"table {self.path} is finished or aborted: write another one")
        try:
            check_identity(identity)
            encoded = encode_user_properties(properties)
            self._sst.finish()
            finalize(self.path, identity, encoded)
        except BaseException as error:
            self.abort()
            translated = _translated_by_system(error, self.path)
            if translated is error:
                raise
            raise translated from error
        self._close()

    def abort(self) -> None:
        """Remove the file, unless it is finished; may be called again."""
        if self._sst is not None:
            self._close()
            with suppress(OSError):  # gone already, or of a kind that has no name of its own
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

    def _close(self) -> None:
        self._sst = None
        self.add = self._refuse

    def _refuse(self, key: bytes, value: bytes) -> None:
        raise StateError(f"table {self.path} is finished or aborted: {key!r} was not added")


def _open(path: Path, compression: str) -> Any:
    import rocksdict  # noqa: PLC0415 - heavy: loaded with the first table written

    blocks = rocksdict.BlockBasedOptions()
    blocks.set_format_version(_FORMAT_VERSION)
    blocks.set_block_size(_BLOCK_BYTES)
    blocks.set_block_restart_interval(_RESTART_INTERVAL)
    blocks.set_checksum_type(rocksdict.ChecksumType.xxh3())
    # raw mode: without it each key and value would get a byte for its Python type
    options = rocksdict.Options(raw_mode=True)
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(getattr(rocksdict.DBCompressionType, compression)())
    if compression == "zstd":
        options.set_compression_options(*_ZSTD_OPTIONS)
    writer = rocksdict.SstFileWriter(options)
    try:
        writer.open(str(path))
    except Exception as error:
        translated = _translated(error, path)
        if translated is error:
            raise
        raise translated from error
    return writer


def _translated(error: BaseException, path: Path) -> BaseException:
    """Return graveler's error for one of rocksdict's, and any other as it is."""
    # rocksdict raises the bare Exception, or KeyError and ValueError for what is not bytes,
    # so its text is the only way to recognise it
    if type(error) not in (Exception, KeyError, ValueError):
        return error
    text = str(error)
    for part, kind, advice in _TRANSLATIONS:
        if part in text:
            return kind(f"table {path}: {advice} ({text})")
    return error


def _translated_by_system(error: BaseException, path: Path) -> BaseException:
    """Return graveler's error for one that the system raised while the file was completed."""
    if not isinstance(error, OSError) or isinstance(error, GravelerError):
        return _translated(error, path)
    if error.errno in _FULL:
        return StorageFullError(f"table {path}: {_FREE_SPACE} ({error})")
    if isinstance(error, FileNotFoundError):
        return NotFoundError(f"table {path} was removed while it was written: write it again")
    return BackendUnavailableError(f"table {path}: the disk does not take it ({error})")
