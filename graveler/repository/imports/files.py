"""The files of an inventory: fetched whole, verified by their checksum, and read row by row.

A row is a mapping of column to value. Column names are compared without case and underscores, so
that ``LastModifiedDate`` of a CSV is ``last_modified_date`` of a Parquet file.
"""

import csv
import gzip
import os
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import md5
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import unquote_plus

from graveler.base.arguments import expand_home
from graveler.base.bounded import csv_rows, orc_batches, parquet_batches, text_columns
from graveler.errors import (
    CorruptionError,
    InvalidInputError,
    MissingDependencyError,
    SourceChangedError,
)
from graveler.objects.address import AddressBook
from graveler.objects.store import PIECE_BYTES, ObjectStore, file_state, local_failure
from graveler.reads.stores import Stores

Row = Mapping[str, Any]
_TABLES = (".csv", ".csv.gz", ".parquet", ".orc")


def is_table(name: str) -> bool:
    """Return whether the name is that of a table that can be read."""
    return name.lower().endswith(_TABLES)


def local_path(stores: Stores, uri: str) -> Path | None:
    """Return the local file of a URI or a path, or None for a file elsewhere."""
    if "://" in uri and not uri.startswith("file://"):
        return None
    return expand_home(AddressBook(stores.storage).uri(uri).removeprefix("file://"))


class Located(NamedTuple):
    """A file, with its location for any process."""

    uri: str
    store: ObjectStore | None
    key: str

    def size(self) -> int:
        """Return the size of the file."""
        return (
            Path(self.key).stat().st_size if self.store is None else self.store.head(self.key).size
        )


def located(stores: Stores, uri: str) -> Located:
    """Return where a file is."""
    file = local_path(stores, uri)
    if file is not None:
        return Located(uri, None, str(file))
    return Located(uri, *stores.locate_foreign(uri, stores.refs.links.list()))


@contextmanager
def fetched(file: Located, digest: str = "") -> Iterator[BinaryIO]:
    """Yield a temporary copy of one version of a file."""
    with TemporaryFile() as copy:
        hashed = md5(usedforsecurity=False)
        with _opened(file) as (stream, size):
            while copy.tell() <= size and (piece := stream.read(PIECE_BYTES)):
                hashed.update(piece)
                copy.write(piece)
        if digest and hashed.hexdigest() != digest.lower():
            raise CorruptionError(
                f"{file.uri}: its MD5 is {hashed.hexdigest()}, and the manifest has {digest}: fetch the "
                "inventory again, or take another one"
            )
        copy.seek(0)
        yield copy


@contextmanager
def _opened(located_file: Located) -> Iterator[tuple[BinaryIO, int]]:
    """Yield a stream of a file, and its size."""
    if located_file.store is not None:
        with located_file.store.open(located_file.key) as stream:
            yield stream, located_file.size()
        return
    file = Path(located_file.key)
    try:
        with file.open("rb") as stream:
            before = file.stat()
            yield stream, before.st_size
            after = file.stat()
    except OSError as error:
        raise local_failure(error, f"cannot read {file}: {error.strerror or error}") from error
    if file_state(before) != file_state(after):
        raise SourceChangedError(f"{file} changed while it was read: import it again")


def plain(column: str) -> str:
    """Return the name of a column without case and underscores."""
    return column.strip().lower().replace("_", "").replace("-", "")


def rows_of_table(
    file: BinaryIO, name: str, columns: Sequence[str] | None = None
) -> Iterator[tuple[int, Row]]:
    """Yield the rows of a table with their numbers, from 1.

    Args:
        columns: The columns of a CSV file without a header line. Its keys are URL-encoded.
    """
    lower = name.lower()
    if lower.endswith(".parquet"):
        yield from enumerate(_parquet(file, name), 1)
    elif lower.endswith(".orc"):
        yield from enumerate(_orc(file, name), 1)
    else:
        yield from _csv(file, name, columns)


def _csv(file: BinaryIO, name: str, columns: Sequence[str] | None) -> Iterator[tuple[int, Row]]:
    number = 0
    try:
        packed = name.lower().endswith(".gz")
        lines = csv_rows(file, name, packed=packed, strict=True, errors="surrogateescape")
        given = columns if columns is not None else next(lines, [])
        names = [plain(column) for column in given]
        if twice := sorted(each for each, times in Counter(names).items() if each and times > 1):
            raise InvalidInputError(
                f"{name} has more than one column {', '.join(map(repr, twice))}: give each once; case, "
                "'_' and '-' make no difference"
            )
        for number, values in enumerate(lines, 1):
            if not values:
                continue
            if len(values) != len(names):
                raise InvalidInputError(
                    f"{name}, row {number}: {len(values)} values for {len(names)} columns "
                    f"({', '.join(given)})"
                )
            row = dict(zip(names, values, strict=True))
            if columns is not None and "key" in row:
                row["key"] = unquote_plus(row["key"], errors="surrogateescape")
            yield number, row
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidInputError(
            f"{name} ends or breaks off after row {number} ({error}): fetch the file again"
        ) from error
    except csv.Error as error:
        raise InvalidInputError(f"{name}, row {number + 1}: {error}") from error


def _parquet(file: BinaryIO, name: str) -> Iterator[Row]:
    pyarrow = _pyarrow(name)
    from pyarrow import parquet

    try:
        table = parquet.ParquetFile(file)
        texts = text_columns(table.schema)
        table = parquet.ParquetFile(file, metadata=table.metadata, read_dictionary=texts)
        for batch in parquet_batches(table, name, _length(file)):
            yield from named_rows(batch)
    except (pyarrow.ArrowException, OSError) as error:
        raise InvalidInputError(f"{name} is not a whole Parquet file: {error}") from error


def _orc(file: BinaryIO, name: str) -> Iterator[Row]:
    pyarrow = _pyarrow(name)
    from pyarrow import orc

    try:
        for batch in orc_batches(orc.ORCFile(file), name, _length(file)):
            yield from named_rows(batch)
    except (pyarrow.ArrowException, OSError) as error:
        raise InvalidInputError(f"{name} is not a whole ORC file: {error}") from error


def _length(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def named_rows(batch: Any) -> Iterator[Row]:
    """Yield the rows of an Arrow batch."""
    names = [plain(name) for name in batch.schema.names]
    try:
        columns = [column.to_pylist() for column in batch.columns]
    except (ValueError, OverflowError, LookupError) as error:  # a time that Python lacks
        raise InvalidInputError(f"a value of the table cannot be read: {error}") from error
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def _pyarrow(name: str) -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise MissingDependencyError(
            f"{name} is read with pyarrow: install graveler[gates], or give the inventory as CSV"
        ) from error
    return pyarrow
