"""Inventories: rows that name files, from an S3 inventory, or a CSV, Parquet or ORC file.

A row has ``size`` and ``address``, or ``size``, ``bucket`` and ``key``. It may have ``path``,
``etag``, ``last_modified_date`` or ``mtime``, ``checksum``, ``content_type`` and ``metadata``. If
an inventory has versions, the latest version of each object is imported.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from graveler.base.arguments import whole_number
from graveler.base.clock import unix_us
from graveler.base.local_files import inode_of
from graveler.base.records import decode_json
from graveler.errors import CorruptionError, InvalidInputError
from graveler.objects.address import AddressBook
from graveler.reads.stores import Stores
from graveler.repository.imports.files import (
    Located,
    fetched,
    is_table,
    local_path,
    located,
    rows_of_table,
)
from graveler.repository.imports.found import Found, Piece, Source
from graveler.repository.imports.listing import relative

_ENDINGS = {"CSV": ".csv.gz", "PARQUET": ".parquet", "ORC": ".orc"}
_MANIFEST_BYTES = 16 << 20
_TRUE = ("true", True)
_FALSE = ("false", False)


@dataclass(frozen=True, slots=True)
class _File:
    """A file of an inventory: its location, its name (which decides its format), size and MD5."""

    place: Located
    name: str
    size: int
    digest: str = ""
    columns: Sequence[str] | None = None


def inventory(stores: Stores, uri: str, below: str, *, verify: bool) -> Source:
    """Return an inventory as the source of an import.

    Args:
        below: Normalized place: only files below it, with paths relative to it. "" for all files:
            then the path of an object is its key.
    """
    reader = InventoryRows(below, verify=verify, uri=AddressBook(stores.storage).uri)

    def pieces() -> list[Piece]:
        return [partial(_found, file, reader) for file in _files(stores, uri)]

    def read() -> Iterator[Found]:
        return chain.from_iterable(piece() for piece in pieces())

    def size() -> int:
        return sum(file.size for file in _files(stores, uri))

    return Source(uri, read, pieces, size)


def _found(file: _File, reader: "InventoryRows") -> Iterator[Found]:
    """Yield the files that an inventory file names."""
    uri = file.place.uri
    with fetched(file.place, file.digest) as stream:
        known = False
        for number, row in rows_of_table(stream, file.name, file.columns):
            if not known:
                reader.check_columns(uri, row)
                known = True
            found = reader.found(row, f"{uri}, row {number}")
            if found is not None:
                yield found


def _files(stores: Stores, uri: str) -> list[_File]:
    if not uri.endswith(".json"):
        place = located(stores, uri)
        return [_File(place, uri, place.size())]
    with fetched(located(stores, uri)) as stream:
        try:
            manifest = decode_json(stream.read(_MANIFEST_BYTES), f"manifest {uri}")
            schema, kind = str(manifest["fileSchema"]), str(manifest["fileFormat"]).upper()
            listed = [
                (str(file["key"]), int(file.get("size") or 0), str(file.get("MD5checksum") or ""))
                for file in manifest["files"]
            ]
        except (CorruptionError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidInputError(
                f"{uri} is not the manifest of an S3 inventory ({error!r}): give the manifest.json, or "
                "a CSV, Parquet or ORC file"
            ) from error
    if kind not in _ENDINGS:
        raise InvalidInputError(f"{uri}: fileFormat {kind!r}: CSV, Parquet and ORC are read")
    columns = [column.strip() for column in schema.split(",")] if kind == "CSV" else None
    return [
        _File(
            located(stores, _beside(stores, uri, key)),
            key if is_table(key) else key + _ENDINGS[kind],
            size,
            digest,
            columns,
        )
        for key, size, digest in listed
    ]


def _beside(stores: Stores, manifest: str, key: str) -> str:
    """Return the location of a manifest's file: in the same bucket, or beside a local manifest."""
    local = local_path(stores, manifest)
    if local is None:
        scheme, _, rest = manifest.partition("://")
        return f"{scheme}://{rest.partition('/')[0]}/{key}"
    name = key.rpartition("/")[2]
    folder = local.parent
    beneath = not Path(key).is_absolute() and ".." not in Path(key).parts
    for file in (
        folder / (key if beneath else name),
        folder / name,
        folder / "data" / name,
        folder.parent / "data" / name,
    ):
        if os.path.isfile(file):  # noqa: PTH113 - pathlib's own raises errors for long names
            return str(file)
    raise InvalidInputError(
        f"{manifest} names {key!r}, which is not here: put the file {name!r} beside the manifest"
    )


class InventoryRows:
    """Converts rows of an inventory to files.

    Args:
        below: Normalized place: only files below it. "" for all.
        verify: Whether the files are looked up, so that their versions may be unknown.
    """

    def __init__(self, below: str, *, verify: bool, uri: Callable[[str], str] = str) -> None:
        self._uri = uri
        self._below = below
        self._verify = verify

    def check_columns(self, name: str, row: dict[str, Any] | Any) -> None:
        """Refuse a table that lacks a column."""
        missing = [] if "size" in row else ["size"]
        if "address" not in row and not {"bucket", "key"} <= row.keys():
            missing.append("address, or bucket and key")
        if not self._verify and not row.keys() & {"etag", "lastmodifieddate", "mtime", "version"}:
            missing.append("etag (or look the files up, with verify=True)")
        if missing:
            raise InvalidInputError(
                f"{name} has no column {' and no column '.join(missing)}; its columns are "
                f"{', '.join(row)}"
            )

    def found(self, row: Any, where: str) -> Found | None:
        """Return the file of a row, or None if it is not imported."""
        if row.get("islatest") in _FALSE or row.get("isdeletemarker") in _TRUE:
            return None
        address = row.get("address") or f"s3://{row.get('bucket')}/{row.get('key')}"
        if not (row.get("address") or (row.get("bucket") and row.get("key"))):
            raise InvalidInputError(f"{where}: the address, or bucket and key, is missing")
        for column in ("address", "path", "bucket", "key"):
            if row.get(column) is not None and not isinstance(row[column], str):
                raise InvalidInputError(f"{where}: {column} {row[column]!r}: give text")
        if address.endswith("/"):
            return None  # a folder marker
        try:
            path = self._path(row, address)
            if path is None:
                return None
            mtime = _moment(row.get("mtime") or row.get("lastmodifieddate"))
            return Found(
                address=address,
                path=path,
                size=_size(row["size"]),
                version=self._version(row, address, mtime),
                mtime=mtime,
                checksum=row.get("checksum") or "",
                content_type=row.get("contenttype") or "",
                metadata=_pairs(row.get("metadata") or {}),
                where=where,
            )
        except (InvalidInputError, TypeError, ValueError) as error:
            raise InvalidInputError(f"{where}: {error}") from error

    def _path(self, row: Any, address: str) -> str | None:
        if path := row.get("path"):
            return path  # type: ignore[no-any-return]
        if self._below:
            return relative(self._below, self._uri(address))
        bucket, _, key = address.removeprefix("s3://").partition("/")
        if address.startswith("s3://") and bucket and key:
            return key
        raise InvalidInputError(
            f"{address!r} has no path: give a column path, or below='file:///folder'"
        )

    def _version(self, row: Any, address: str, mtime: datetime | None) -> str:
        if version := row.get("version"):
            return str(version)
        if "://" not in address or address.startswith("file:"):
            if mtime is not None:
                return self._local_version(address, unix_us(mtime))
        elif etag := row.get("etag"):
            return "etag:" + (etag if etag.startswith(('"', "W/")) else f'"{etag}"')
        if self._verify:
            return ""
        raise ValueError(
            f"{address!r} has no etag, or mtime of a local file, by which a reader sees that it "
            "changed: look the files up, with verify=True"
        )

    def _local_version(self, address: str, written: int) -> str:
        """Return the time of a local file, and its inode if the file has that time."""
        version = f"mtime:{written}"
        with suppress(OSError):
            status = Path(self._uri(address).removeprefix("file://")).stat()
            if status.st_mtime_ns // 1000 == written:
                version += f" {inode_of(status)}"
        return version


def _size(value: Any) -> int:
    try:
        return whole_number(value)
    except ValueError as error:
        raise ValueError(f"size {value!r}: give a whole number of bytes") from error


def _pairs(value: Any) -> dict[str, str]:
    """Return metadata. A table with only text columns has it as JSON."""
    pairs = value
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):
            pairs = json.loads(value)
        if not isinstance(pairs, dict):
            raise TypeError(f'metadata {value!r}: give a JSON object, as in {{"source": "bts"}}')
    return dict(pairs)


def _moment(value: Any) -> datetime | None:
    if value in {None, ""}:
        return None
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"time {value!r}: give ISO 8601, as in 2013-01-01T05:00:00Z") from error
