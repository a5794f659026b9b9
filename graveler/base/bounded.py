"""Readers of files: one that seeks, and bounded ones of what others wrote: CSV, Parquet, ORC and JSON.

Bounded readers refuse a file that expands to more than a multiple of its size, and a single row that is
too large, before they hold it in memory.
"""

import csv
import gzip
import io
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO

from graveler.errors import InvalidInputError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_FLOOR_BYTES = 64 << 20
_TIMES = 100
_LINE_CHARACTERS = 1 << 20
_ROW_CHARACTERS = 4 << 20
_JSON_BYTES = 32 << 20
_BATCH_ROWS = 500
_VALUE_BYTES = 8


def check_expanded(name: str, expanded: int, size: int) -> None:
    """Refuse content of more than 64 MiB that is more than a hundred times as large as its file."""
    most = max(_FLOOR_BYTES, _TIMES * size)
    if expanded > most:
        raise InvalidInputError(
            f"{name} has {size} bytes and expands to more than {most} in memory: write it with less "
            "compression, or in several files"
        )


def check_json(size: int) -> None:
    """Refuse a JSON file of more than 32 MiB, whose values may take many times as much memory."""
    if size > _JSON_BYTES:
        raise InvalidInputError(
            f"has {size} bytes of JSON, more than {_JSON_BYTES}: write several files"
        )


def gzip_content(name: str, raw: bytes) -> bytes:
    """Return the content of a file that is compressed by gzip."""
    most = max(_FLOOR_BYTES, _TIMES * len(raw))
    content = gzip.GzipFile(fileobj=io.BytesIO(raw)).read(most + 1)
    check_expanded(name, len(content), len(raw))
    return content


def csv_rows(
    stream: BinaryIO, name: str, *, packed: bool, strict: bool = False, errors: str = "strict"
) -> Iterator[list[str]]:
    """Yield the rows of a CSV file, empty ones too. The stream stays open."""
    binary: Any = gzip.GzipFile(fileobj=stream) if packed else stream
    text = io.TextIOWrapper(binary, encoding="utf-8-sig", errors=errors, newline="")
    used = 0
    csv.field_size_limit(max(csv.field_size_limit(), _ROW_CHARACTERS))  # of the process

    def lines() -> Iterator[str]:
        nonlocal used
        while line := text.readline(_LINE_CHARACTERS + 1):
            used += len(line)
            if len(line) > _LINE_CHARACTERS or used > _ROW_CHARACTERS:
                raise InvalidInputError(
                    f"{name} has a line of more than {_LINE_CHARACTERS} characters, or a row of more than "
                    f"{_ROW_CHARACTERS}: it is no table"
                )
            yield line
        if used:  # the reader asks for more within a row
            raise csv.Error("a field in quotes does not end")

    try:
        for row in csv.reader(lines(), strict=strict):
            used = 0
            yield row
    finally:
        with suppress(ValueError):  # closed already
            text.detach()


def parquet_batches(
    file: Any, name: str, size: int, columns: Sequence[str] | None = None
) -> Iterator[Any]:
    """Yield the rows of a ``ParquetFile`` in small batches. Its texts are read as dictionaries."""
    metadata, expanded = file.metadata, 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(metadata.num_columns)):
            path = f"{chunk.path_in_schema}."
            if columns is None or any(path.startswith(f"{each}.") for each in columns):
                expanded += max(chunk.total_uncompressed_size, chunk.num_values * _VALUE_BYTES)
    check_expanded(name, expanded, size)
    for batch in file.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False):
        yield _decoded(batch, name, size)


def _decoded(batch: Any, name: str, size: int) -> Any:
    """Return a batch without dictionaries, whose values are counted before they are repeated."""
    import pyarrow as pa
    import pyarrow.compute

    columns = []
    for column in batch.columns:
        if pa.types.is_dictionary(column.type):
            lengths = pa.compute.binary_length(column.dictionary).take(column.indices)
            check_expanded(f"a part of {name}", pa.compute.sum(lengths).as_py() or 0, size)
            column = column.cast(column.type.value_type)  # noqa: PLW2901
        columns.append(column)
    check_expanded(f"a part of {name}", sum(column.nbytes for column in columns), size)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def text_columns(schema: Any) -> list[str]:
    """Return the top-level columns of a Parquet schema that are read as dictionaries."""
    leaves = (schema.column(number) for number in range(len(schema)))
    return [
        leaf.path
        for leaf in leaves
        if leaf.path == leaf.name and leaf.physical_type == "BYTE_ARRAY"
    ]


def orc_batches(file: Any, name: str, size: int) -> Iterator[Any]:
    """Yield the rows of a ``pyarrow.orc.ORCFile`` in small Arrow batches."""
    check_expanded(name, file.nrows * len(file.schema.names) * _VALUE_BYTES, size)
    for number in range(file.nstripes):
        stripe = file.read_stripe(number)
        check_expanded(f"a part of {name}", stripe.nbytes, size)
        for start in range(0, stripe.num_rows, _BATCH_ROWS):
            yield stripe.slice(start, _BATCH_ROWS)


class SeekableFile(io.RawIOBase):
    """A file of known size, to read, which can seek. A subclass gets its bytes.

    Wrap it in :class:`io.BufferedReader`. Otherwise each read is a request.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, origin: int = io.SEEK_SET, /) -> int:
        """Move to `offset` from the start, the current position or the end."""
        origins = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}
        if origin not in origins or origins[origin] + offset < 0:
            raise ValueError(f"cannot seek to {offset} from {origin}: it is before the start")
        self._position = origins[origin] + offset
        return self._position

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Fill the buffer, or a part of it, from the current position."""
        target = memoryview(buffer).cast("B")
        piece = self._next(len(target))
        target[: len(piece)] = piece
        return len(piece)

    @abstractmethod
    def _next(self, most: int, /) -> bytes | memoryview:
        """Return at most so many bytes from the current position, and move behind them."""
