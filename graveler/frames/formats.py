"""The formats of files, by the suffixes of their names."""

import json
from collections.abc import Mapping
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from graveler.errors import InvalidInputError
from graveler.reads.partitions import Files

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET = "parquet"
SUFFIX = ".parquet"


class Format(NamedTuple):
    """A format of tables."""

    title: str
    media_type: str
    suffixes: tuple[str, ...]


FORMATS: Mapping[str, Format] = {
    PARQUET: Format("Parquet", "application/vnd.apache.parquet", (SUFFIX, ".pq")),
    "csv": Format("CSV", "text/csv", (".csv",)),
    "json": Format("JSON lines", "application/x-ndjson", (".jsonl", ".ndjson", ".json")),
    "arrow": Format("Arrow", "application/vnd.apache.arrow.file", (".arrow", ".feather")),
}
_TEXTS = ("csv", "json")


def format_of(name: str) -> str | None:
    """Return the format that the suffix of a file's name says; texts may be packed."""
    plain = name.lower().removesuffix(".gz")
    for format, terms in FORMATS.items():
        if plain.endswith(terms.suffixes) and (format in _TEXTS or len(plain) == len(name)):
            return format
    return None


def of_one_format(path: str, files: Files, format: str | None) -> tuple[str, Files]:
    """Return the format of a table's files, and the files of it.

    A file without a known suffix is of the given format, else Parquet. A given format leaves out the
    files whose suffixes say another, unless all do.
    """
    forms = [format_of(name) for name, _ in files]
    if format is not None:
        own = [file for file, form in zip(files, forms, strict=True) if form in {format, None}]
        return format, own or files
    examples = {form or PARQUET: name for form, (name, _) in zip(forms, files, strict=True)}
    if len(examples) > 1:
        raise InvalidInputError(
            f"{path!r} has files of several formats ({', '.join(examples.values())}): choose one by "
            f"format=, such as format={min(examples)!r}"
        )
    return next(iter(examples), PARQUET), files


def write_rows(table: "pa.Table", file: Path, format: str) -> None:
    """Write a table to a local file of CSV with a header, of JSON lines, or of Arrow."""
    if format == "csv":
        from pyarrow import csv

        if table.num_columns == 1 and table.column(0).null_count:  # an empty line is no row
            texts = table.column(0).cast("string").fill_null("")
            table = table.set_column(0, table.column_names[0], texts)
        csv.write_csv(table, file)
    elif format == "arrow":
        from pyarrow import feather

        feather.write_feather(table, str(file))
    else:
        with file.open("w", encoding="utf-8") as out:
            for batch in table.to_batches():
                for row in batch.to_pylist():
                    line = json.dumps(row, default=_plain, ensure_ascii=False, allow_nan=False)
                    out.write(f"{line}\n")


def _plain(value: Any) -> str:
    """Return a value of a row as text, or refuse one that JSON cannot hold."""
    if isinstance(value, date | time | Decimal):  # a time is a date with hours
        return str(value)
    raise TypeError(f"no JSON for {value!r}")
