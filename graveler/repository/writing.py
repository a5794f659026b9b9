"""Staging writes: write under the live token, look again, repeat where a commit began.

A write is acknowledged only if the branch still takes writes under the same token after
the write was made: then the next commit holds it. Else it is made again under the new
token; what was written under the old one has the same identity, so twice is once.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import PurePosixPath
from typing import Final

from graveler.errors import FencedError, InvalidInputError, RefNotFoundError, ThrottledError
from graveler.identity import unix_us
from graveler.judging import refuse_writes
from graveler.model import BranchRecord, Entry
from graveler.names import check_pairs, check_path, path_key
from graveler.objects.store import Body, ObjectInfo
from graveler.records import TOMBSTONE, stage_entry
from graveler.refs import backoff
from graveler.repository.stores import Stores

__all__ = [
    "check_fence",
    "check_writable",
    "delete_paths",
    "link_entries",
    "new_address",
    "owned",
    "put",
    "resolve_link",
    "stage",
    "staged_forms",
    "upload",
]

_ATTEMPTS: Final = 100
_CHUNK: Final = 20_000
_LONGEST_SUFFIX: Final = 24


def check_fence(record: BranchRecord, fence: str) -> None:
    """Raise FencedError unless a writer that holds `fence` may write to the branch."""
    if record.fence == fence:
        return
    if not fence:
        raise FencedError(
            f"branch {record.name!r} belongs to a run (attempt {record.attempt}): "
            "write through the run, or on a branch of your own"
        )
    raise FencedError(
        f"branch {record.name!r} (attempt {record.attempt} of its run) takes no more writes from "
        "here: a newer attempt was opened, or this one was published or set aside; nothing of "
        "the write was kept"
    )


@contextmanager
def owned(name: str, fence: str) -> Iterator[None]:
    """Turn a missing branch into FencedError for a writer that holds a fence: its time is over."""
    try:
        yield
    except RefNotFoundError:
        if not fence:
            raise
        raise FencedError(
            f"branch {name!r} of the run is gone: the run was published, taken over or given up"
        ) from None


def _branch(stores: Stores, name: str, fence: str) -> BranchRecord:
    with owned(name, fence):
        record = stores.refs.branches.get(name)
    check_fence(record, fence)
    return record


def stage(stores: Stores, name: str, fence: str, items: Sequence[tuple[bytes, bytes]]) -> None:
    """Stage writes (key, staged entry or tombstone), acknowledged all together."""
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
            return
        backoff(stores.clock, stores.ids, attempt)
    raise ThrottledError(
        f"branch {name!r} began a commit during each of {_ATTEMPTS} tries to write; try again"
    )


def check_writable(stores: Stores, name: str, fence: str) -> None:
    """Refuse a write before it costs anything, as far as can be known before."""
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


def resolve_link(
    stores: Stores, path: str, address: str, size: int | None, checksum: str | None
) -> Entry:
    """Return the entry of a file that is already in a store, asking it only for what is missing.

    Its time is the one that the store reports, never that of linking, so that linking it twice
    gives one record.

    Raises:
        ObjectNotFoundError: The size was not given and there is no such object.
    """
    if size is not None:
        return Entry(path=path, address=address, size=size, checksum=checksum or "")
    store, key = stores.locate(address)
    info = store.head(key)
    return Entry(
        path=path,
        address=address,
        size=info.size,
        checksum=info.checksum if checksum is None else checksum,
        mtime=info.mtime,
        version=_version(address, info),
    )


def _version(address: str, info: ObjectInfo) -> str:
    """Return what tells one content of a foreign file from the next; "" for an own one."""
    if "://" not in address:
        return ""
    if address.startswith("file:"):
        return f"mtime:{unix_us(info.mtime)}"
    return f"etag:{info.etag}"


def _checked(entry: Entry) -> tuple[bytes, bytes]:
    if not entry.address or entry.address.startswith(("_graveler/", "/")):
        raise InvalidInputError(
            f"entry {entry.path!r}: address {entry.address!r} is neither a full URI nor a key "
            "below the repository's data/"
        )
    if entry.size < 0:
        raise InvalidInputError(f"entry {entry.path!r}: size {entry.size} is negative")
    check_pairs(f"entry {entry.path!r}", entry.metadata)
    key = check_path(entry.path)
    return key, stage_entry(key, entry)


def _chunks(items: Iterable[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    source = iter(items)
    while chunk := list(islice(source, _CHUNK)):
        yield chunk


def staged_forms(entries: Iterable[Entry], deleted: Iterable[str]) -> dict[bytes, bytes]:
    """Return the staged form of each change by its key; a deletion of a path is the last word."""
    forms = dict(map(_checked, entries))
    forms.update((path_key(path), TOMBSTONE) for path in deleted)
    return forms


def link_entries(stores: Stores, name: str, entries: Iterable[Entry], *, fence: str) -> int:
    """Stage entries of files that are already in a store, many to a round trip.

    Not atomic: after an error some chunks of 20,000 are staged, and linking again is harmless.

    Returns:
        How many.
    """
    count = 0
    for chunk in _chunks(map(_checked, entries)):
        stage(stores, name, fence, chunk)
        count += len(chunk)
    return count


def delete_paths(stores: Stores, name: str, paths: Iterable[str], *, fence: str) -> int:
    """Stage the deletion of paths; one that is not there is no error. Return how many."""
    count = 0
    for chunk in _chunks((path_key(path), TOMBSTONE) for path in paths):
        stage(stores, name, fence, chunk)
        count += len(chunk)
    return count
