"""Staged writes: write under the live token, read the branch again, repeat if a commit began.

A write is acknowledged only if the branch has the same live token after it: then the next commit
holds it. Otherwise the write is repeated under the new token. Both rows have the same identity, so
the repetition changes nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Final

from graveler.errors import ThrottledError
from graveler.model import BranchRecord, Entry
from graveler.names import check_pairs, check_path, path_key
from graveler.objects.store import Body
from graveler.process import batches, refuse_writes
from graveler.reads.stores import Stores
from graveler.records import TOMBSTONE, stage_entry
from graveler.refs.branches import check_fence, owned
from graveler.repository.borrowed import confirm, held, rows_of
from graveler.repository.links import linked
from graveler.retries import backoff

_ATTEMPTS: Final = 100
_CHUNK: Final = 20_000
_LOOK_UP: Final = 100_000
_LONGEST_SUFFIX: Final = 24


def _branch(stores: Stores, name: str, fence: str) -> BranchRecord:
    with owned(name, fence):
        record = stores.refs.branches.get(name)
    check_fence(record, fence)
    return record


def stage(stores: Stores, name: str, fence: str, items: Sequence[tuple[bytes, bytes]]) -> str:
    """Stage writes (key, staged entry or tombstone) and acknowledge them together.

    Returns:
        The token they are staged under.
    """
    record = _branch(stores, name, fence)
    if not fence:
        stores.refs.protection.check(name, "write")
    for attempt in range(_ATTEMPTS):
        token = record.staging_token
        if len(items) == 1:
            stores.staging.set(token, *items[0])
        else:
            stores.staging.set_many(token, items)
        record = _branch(stores, name, fence)
        if record.staging_token == token:
            return token
        backoff(stores.clock, stores.ids, attempt)
    raise ThrottledError(
        f"branch {name!r} began a commit during each of {_ATTEMPTS} tries to write; try again"
    )


def check_writable(stores: Stores, name: str, fence: str) -> None:
    """Refuse, before any bytes are stored, a write that the branch would not take."""
    refuse_writes(f"branch {name!r}")
    _branch(stores, name, fence)
    if not fence:
        stores.refs.protection.check(name, "write")


def new_address(stores: Stores) -> str:
    """Return a fresh key prefix in the repository's storage: ``data/<unique>``."""
    return f"data/{stores.ids.unique()}"


def _suffix(path: str) -> str:
    """Return the extensions of a path, which readers of the bare object go by."""
    suffix = "".join(PurePosixPath(path).suffixes[-2:]).lower()
    plain = suffix.replace(".", "")
    return suffix if plain.isascii() and plain.isalnum() and len(suffix) <= _LONGEST_SUFFIX else ""


def put(  # noqa: PLR0913 - what an upload has
    stores: Stores,
    name: str,
    path: str,
    body: Body,
    *,
    fence: str,
    content_type: str,
    metadata: dict[str, str],
    replaces: bool,
) -> Entry:
    """Store the bytes under a new address and stage their entry."""
    entry = upload(
        stores, name, path, body, fence=fence, content_type=content_type, metadata=metadata
    )
    key = check_path(path)
    stage(stores, name, fence, [(key, stage_entry(key, entry, replaces=replaces))])
    return entry


def upload(  # noqa: PLR0913 - what an upload has
    stores: Stores,
    name: str,
    path: str,
    body: Body,
    *,
    fence: str,
    content_type: str,
    metadata: dict[str, str],
) -> Entry:
    """Store the bytes under a new address and return their entry, which nothing names yet."""
    check_path(path)
    check_pairs(f"entry {path!r}", metadata)
    check_writable(stores, name, fence)
    address = new_address(stores) + _suffix(path)
    info = stores.objects.put(address, body)
    return Entry(
        path=path,
        address=address,
        size=info.size,
        checksum=info.checksum,
        content_type=content_type,
        mtime=stores.clock.now(),
        metadata=metadata,
        computed=True,
    )


def link_entries(stores: Stores, name: str, entries: Iterable[Entry], *, fence: str) -> int:
    """Stage entries of files that are in a store already, many to a round trip.

    Each is looked up. Not atomic: after an error some chunks of 20,000 are staged, and linking
    again is harmless.

    Returns:
        How many.
    """
    check_writable(stores, name, fence)
    count = 0
    for group in batches(entries, _LOOK_UP):
        looked_up, epoch = linked(stores, group)
        for rows in batches(rows_of(looked_up, epoch), _CHUNK):
            token = stage(stores, name, fence, [(row.key, row.value) for row in rows])
            confirm(stores, [token], rows)
            count += len(rows)
    return count


def link_one(  # noqa: PLR0913 - what a link has
    stores: Stores,
    name: str,
    path: str,
    *,
    fence: str,
    address: str,
    size: int | None,
    checksum: str | None,
) -> Entry:
    """Stage the entry of a file that is in a store already, and return it."""
    check_writable(stores, name, fence)
    wanted = Entry(path, address, size or 0, checksum or "")
    entries, epoch = linked(stores, [wanted], sized=size is not None)
    rows = rows_of(entries, epoch)
    confirm(stores, [stage(stores, name, fence, [rows[0][:2]])], rows)
    return entries[0]


def stage_written(stores: Stores, name: str, entries: Iterable[Entry], *, fence: str) -> int:
    """Stage entries of files that the caller has just written below `new_address`, and listed.

    They are as good as put: nothing is looked up. Returns how many.
    """
    rows = ((check_path(entry.path), entry) for entry in entries)
    count = 0
    for chunk in batches(rows, _CHUNK):
        stage(stores, name, fence, [(key, stage_entry(key, entry)) for key, entry in chunk])
        count += len(chunk)
    return count


@contextmanager
def held_forms(
    stores: Stores, entries: Iterable[Entry], deleted: Iterable[str]
) -> Iterator[dict[bytes, bytes]]:
    """Give the staged form of each change by its key, for a block that commits them.

    Each entry is looked up, and what it borrows stays while the block runs. A deletion of a path
    is the last word on it.
    """
    tombstones = {path_key(path): TOMBSTONE for path in deleted}
    looked_up, epoch = linked(stores, entries)
    rows = rows_of(looked_up, epoch)
    with held(stores, rows):
        yield {row.key: row.value for row in rows} | tombstones


def delete_paths(stores: Stores, name: str, paths: Iterable[str], *, fence: str) -> int:
    """Stage the deletion of paths; one that is not there is no error. Return how many."""
    count = 0
    for chunk in batches(((path_key(path), TOMBSTONE) for path in paths), _CHUNK):
        stage(stores, name, fence, chunk)
        count += len(chunk)
    return count
