"""Real histories: of a bucket by the times of its files, and of a branch by its commits."""

import csv
import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import chain, islice, pairwise
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO

from graveler.base.arguments import count, duration
from graveler.base.bounded import csv_rows
from graveler.base.names import check_path
from graveler.committed import metarange
from graveler.committed.apply import StagedChange
from graveler.committed.diff import record_diff
from graveler.committed.merge import staged
from graveler.errors import ExpiredError, InvalidInputError, UnsortedKeysError
from graveler.model import Commit, Entry
from graveler.reads.stores import Stores
from graveler.refs.history import log
from graveler.repository.imports.files import plain, rows_of_table
from graveler.repository.imports.found import Found
from graveler.repository.imports.inventory import InventoryRows
from graveler.simulation.history import History, sorted_changes, written
from graveler.values import encode_entry, record_id

S3_COLUMNS = "Bucket, Key, Size, LastModifiedDate, ETag"
"""The columns of an inventory that has only the current versions, as its manifest lists them."""
HOUR = timedelta(hours=1)
MOST_COMMITS = 720
"""Default number of replayed commits: 30 days, hour by hour."""
_GZIP = b"\x1f\x8b"
_PARQUET = b"PAR1"


def listed_history(
    files: Sequence[Path],
    *,
    columns: str = "",
    sort: bool = False,
    every: timedelta = HOUR,
    commits: int = MOST_COMMITS,
) -> History:
    """Return the history of a bucket: each span of time in which files were written is a commit.

    Files that are no longer in the bucket are not in the history. A file that was written again
    counts only at its last time.
    """
    span = duration(every, "every", zero=False).total_seconds()
    listed = list(read_listings(files, columns=columns, sort=sort))
    name = ", ".join(file.name for file in files)
    if not listed:
        raise InvalidInputError(f"listing {name} has no files: give one that has")
    spans: dict[float, list[StagedChange]] = {}
    for each in listed:
        if each.mtime is None:
            raise InvalidInputError(
                f"listing {name}: path {each.path!r} has no time: give a listing with the column "
                "LastModifiedDate, or change the listed tree by a pattern (--pattern updates)"
            )
        spans.setdefault(each.mtime.timestamp() // span, []).append(_change(each))
    times = sorted(spans)
    old, new = times[:-commits], times[-commits:]
    base = sorted_changes(change for time in old for change in spans[time])
    return History(
        name,
        f"{len(listed):,} files, {len(new):,} commits, from {len(base):,} files",
        lambda: iter(base),
        lambda: (spans[time] for time in new),
    )


def listed_tree(files: Sequence[Path], *, columns: str = "", sort: bool = False) -> History:
    """Return the tree of a bucket, without commits; arguments and errors as for `listed_history`."""
    tree = [_change(each) for each in read_listings(files, columns=columns, sort=sort)]
    name = ", ".join(file.name for file in files)
    return History(name, f"{len(tree):,} files", lambda: iter(tree), lambda: iter(()))


def _change(found: Found) -> StagedChange:
    """Return the link to a file, with a value record as large as the product's."""
    entry = Entry(found.path, found.address, found.size, mtime=found.mtime, version=found.version)
    return written(found.path.encode(), size=len(encode_entry(entry)[1]))


def read_listings(
    files: Sequence[Path], *, columns: str = "", sort: bool = False
) -> Iterator[Found]:
    """Yield the files of listings, in key order.

    Rows of older versions and of delete markers are left out. An inventory in CSV has no column names,
    and its keys are percent-encoded. A CSV file whose first row has a cell `Key` names its columns, and
    its keys are not decoded.

    Args:
        files: CSV, plain or compressed by gzip, or Parquet; the first bytes decide. Without `sort`,
            each file must begin after the last key of the file before.
        columns: Names of the columns of a CSV file that does not name them, as the `fileSchema` of
            an inventory's manifest lists them; "" for those of `S3_COLUMNS`.
    """
    rows = chain.from_iterable(_rows(file, (columns or S3_COLUMNS).split(",")) for file in files)
    last = ""
    for found in sorted(rows, key=attrgetter("path")) if sort else rows:
        if found.path == last:
            raise InvalidInputError(
                f"{found.where}: path {last!r} is listed twice: leave one of the rows out; in a listing "
                "of all versions the column IsLatest says which one counts"
            )
        if found.path < last:
            raise UnsortedKeysError(
                f"{found.where}: path {found.path!r} comes after {last!r}: sort the listing by the bytes "
                "of the path, or let it be sorted (--sort)"
            )
        last = found.path
        yield found


def _rows(file: Path, columns: Sequence[str]) -> Iterator[Found]:
    """Yield the files of a listing."""
    reader = InventoryRows("", verify=True)
    try:
        with file.open("rb") as stream:
            start = stream.read(len(_PARQUET))
            ending = ".parquet" if start == _PARQUET else ".gz" if start[:2] == _GZIP else ""
            name = str(file) if str(file).endswith(ending) else f"{file}{ending}"
            named = ending != ".parquet" and _names_columns(stream, name)
            stream.seek(0)
            for number, row in rows_of_table(stream, name, None if named else columns):
                where = f"{file}, row {number}"
                if not {"key", "size"} <= row.keys():
                    raise InvalidInputError(
                        f"{file} has the columns {', '.join(row)}, and needs key and size: name the "
                        "columns (--columns), as the fileSchema of the inventory's manifest does"
                    )
                found = reader.found({"bucket": "bucket", **row}, where)
                if found is not None:
                    try:
                        check_path(found.path)
                        count(found.size, "size", least=0)
                    except InvalidInputError as error:
                        raise InvalidInputError(f"{where}: {error}") from error
                    yield found
    except OSError as error:
        raise InvalidInputError(f"listing {file}: {error.strerror or error}") from error


def _names_columns(stream: BinaryIO, name: str) -> bool:
    """Return whether the first row of a CSV file names its columns."""
    stream.seek(0)
    with suppress(EOFError, zlib.error, gzip.BadGzipFile, csv.Error):
        rows = csv_rows(stream, name, packed=name.endswith(".gz"), errors="replace")
        return "key" in map(plain, next(rows, []))
    return False


def branch_history(stores: Stores, head: Commit, name: str, commits: int = MOST_COMMITS) -> History:
    """Return the history of a branch, along first parents.

    Args:
        commits: Number of commits to replay, the latest; the tree before them is the initial tree.
            Commits whose trees are collected as garbage are left out.
    """
    line = list(islice(_kept(stores, head), commits + 1))[::-1]
    trees = [commit.metarange for commit in line]
    if len(line) <= commits and not line[0].parents:
        trees.insert(0, metarange.EMPTY_METARANGE)
    store = stores.ranges

    def base() -> Iterator[StagedChange]:
        for key, value in metarange.scan(store, trees[0]):
            yield key, record_id(key, value), value

    def changes() -> Iterator[list[StagedChange]]:
        for before, after in pairwise(trees):
            yield list(map(staged, record_diff(store, before, after)))

    files = sum(info.count for info in metarange.read(store, trees[-1]))
    return History(name, f"{files:,} files, {len(trees) - 1:,} commits", base, changes)


def _kept(stores: Stores, head: Commit) -> Iterator[Commit]:
    """Yield a commit and its first parents while their trees exist."""
    for commit in log(stores.refs.commits, head.id, first_parent=True):
        try:
            stores.refs.expired.check_readable(commit.id)
        except ExpiredError:
            return
        yield commit
