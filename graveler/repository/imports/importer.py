"""Importing entries of the files of a source, which become visible on the branch together.

An import trusts its source for sizes and versions. A later read detects a file that has changed
since. The rows of a large import are kept apart from the branch until all of them are staged, so
that an error in the last row leaves the branch unchanged.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any

from graveler.base.arguments import expand_home, text
from graveler.base.background import batches
from graveler.errors import (
    GravelerError,
    InvalidInputError,
    ObjectNotFoundError,
    SourceChangedError,
)
from graveler.model import Entry
from graveler.objects.address import AddressBook
from graveler.reads.stores import Stores
from graveler.repository.imports.files import is_table, local_path
from graveler.repository.imports.found import Entries, Found, Source, matcher
from graveler.repository.imports.inventory import inventory
from graveler.repository.imports.listing import base_of, listing
from graveler.repository.writes.borrowed import Row
from graveler.repository.writes.bundles import Bundle, bundling
from graveler.repository.writes.copies import delete_others
from graveler.repository.writes.links import LinkRules, linked
from graveler.repository.writes.staged import StagedWrites
from graveler.values import stage_entry

_CHUNK = 5_000


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import.

    Attributes:
        files: Number of files.
        size: Total size of the files in bytes.
        removed: Number of deleted paths.
        commit: Id of the commit, or "" if the files are only staged.
    """

    files: int
    size: int
    removed: int = 0
    commit: str = ""


def import_files(
    stores: Stores,
    writes: StagedWrites,
    source: str,
    prefix: str,
    *,
    below: str = "",
    exclude: Sequence[str] = (),
    replaces: bool = False,
    verify: bool = False,
) -> Imported:
    """Stage entries of the files that a source names, below `prefix`, all together.

    Args:
        prefix: The start of the paths: "", or a text with a slash at its end.
    """
    if prefix and not prefix.endswith("/"):
        raise InvalidInputError(f"prefix={prefix!r}: give a folder, as in {prefix + '/'!r}, or ''")
    leaves_out = matcher(exclude)
    found = source_of(stores, source, below, verify=verify, leaves_out=leaves_out)
    if not found.is_listing:
        read = found.read
        found = replace(found, read=lambda: (each for each in read() if not leaves_out(each.path)))
    rows = _Rows(stores, prefix, verify=verify)
    with bundling(stores, writes) as bundle:
        last, ascending = b"", True
        for row in rows.of(found):
            ascending = ascending and last < row.key
            last = row.key
            bundle.add(row)
        if not bundle.count:
            raise ObjectNotFoundError(f"{found.name} names no files: nothing was imported")
        if not ascending and not found.is_listing:
            _check_distinct(bundle, found)
        removed = 0
        if replaces:
            removed = delete_others(stores, writes.name, bundle, prefix.encode())
        bundle.land()
        return Imported(rows.entries.files, rows.entries.size, removed)


def source_text(source: Any) -> str:
    """Return the text of a source, with a relative path made absolute."""
    named = text(str(source) if isinstance(source, PurePath) else source, "source")
    if "://" in named or named.startswith(("/", "file:")):
        return named
    return f"{expand_home(named).absolute()}{'/' * named.endswith('/')}"


def source_of(
    stores: Stores,
    source: str,
    below: str = "",
    *,
    verify: bool = False,
    leaves_out: Callable[[str], bool] = lambda _: False,
) -> Source:
    """Return the source that a text names."""
    below = base_of(stores, below) if below else ""
    local = local_path(stores, source) if not source.endswith("/") else None
    is_file = local.is_file() if local is not None else not source.endswith("/")
    if is_file and (is_table(source) or source.endswith(".json")):
        uri = AddressBook(stores.storage).uri(source)
        return inventory(stores, uri, below, verify=verify)
    if local is not None and is_file:
        raise InvalidInputError(
            f"source={source!r}: give a folder, a prefix of a bucket, a manifest.json, or a file "
            "that ends with .csv, .csv.gz, .parquet or .orc"
        )
    if below:
        raise InvalidInputError(
            f"below={below!r}: it is for inventories; the paths of a folder begin in the folder"
        )
    if local is not None and not local.is_dir():
        raise ObjectNotFoundError(f"source={source!r}: there is no such folder or file")
    return listing(stores, source, leaves_out)


class _Rows:
    """Makes staged rows of files."""

    def __init__(self, stores: Stores, prefix: str, *, verify: bool) -> None:
        self._stores = stores
        self._verify = verify
        self.entries = Entries(LinkRules.of(stores), prefix)

    def of(self, source: Source) -> Iterator[Row]:
        """Yield the rows of all files."""
        for chunk in batches(source.read(), _CHUNK):
            entries = [self.entries.of(found) for found in chunk]
            if self._verify and not source.is_listing:
                entries = self._verified(chunk, entries)
            for entry in entries:
                key = entry.path.encode()
                yield Row(key, stage_entry(key, entry))

    def _verified(self, chunk: list[Found], entries: list[Entry]) -> list[Entry]:
        try:
            stored, _ = linked(self._stores, entries)
        except (InvalidInputError, ObjectNotFoundError):
            self._find_fault(chunk, entries)
            raise
        for found, entry in zip(chunk, stored, strict=True):
            if found.version not in {"", entry.version, entry.version.partition(" ")[0]}:
                raise SourceChangedError(
                    f"{found.where}: {entry.address} is at {entry.version}, and the inventory has "
                    f"{found.version}: make a new inventory"
                )
        return [replace(entry, computed=False) for entry in stored]

    def _find_fault(self, chunk: list[Found], entries: list[Entry]) -> None:
        """Look up the files one by one, so that the error has the row."""
        for found, entry in zip(chunk, entries, strict=True):
            try:
                linked(self._stores, [entry])
            except GravelerError as error:
                raise SourceChangedError(f"{found.where}: {error}") from error


def _check_distinct(bundle: Bundle, source: Source) -> None:
    """Refuse a source in which a path comes twice."""
    if sum(1 for _ in bundle.keys()) == bundle.count:  # noqa: SIM118 - no mapping
        return
    with TemporaryDirectory() as folder:
        seen = sqlite3.connect(Path(folder) / "paths", isolation_level=None)
        try:
            seen.execute("PRAGMA journal_mode = OFF")
            seen.execute("CREATE TABLE paths (path TEXT PRIMARY KEY, place TEXT) WITHOUT ROWID")
            for found in source.read():
                try:
                    seen.execute("INSERT INTO paths VALUES (?, ?)", (found.path, found.where))
                except sqlite3.IntegrityError:
                    query = "SELECT place FROM paths WHERE path = ?"
                    (first,) = seen.execute(query, (found.path,)).fetchone()
                    raise InvalidInputError(
                        f"{found.where}: path {found.path!r} is in {first}, too: a path has one file"
                    ) from None
        finally:
            seen.close()
    raise SourceChangedError(f"{source.name} changed while it was read: import it again")
