"""Reading a branch: staged writes over the head, with a second look at the branch record.

A commit moves staged writes into the head and then drops their partitions. Whoever read
the record before and the partitions after would miss them: so the record is read again,
and where it has changed, the reading is done again.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, TypeVar

from graveler.committed import get, scan
from graveler.errors import ThrottledError
from graveler.model import BranchRecord
from graveler.records import staged_value
from graveler.refs import backoff
from graveler.repository.listing import overlay, within
from graveler.repository.stores import Stores

__all__ = ["find", "newest_first", "scan_branch", "settled"]

_ATTEMPTS: Final = 100
_FIRST_CHUNK: Final = 512
_LARGEST_CHUNK: Final = 16_384

_T = TypeVar("_T")


def newest_first(record: BranchRecord) -> list[str]:
    """Return the branch's tokens in the order in which a read asks them."""
    return [record.staging_token, *reversed(record.sealed_tokens)]


def settled(stores: Stores, name: str, read: Callable[[BranchRecord], _T]) -> _T:
    """Return ``read(record)`` for a branch record that was the same after reading.

    Raises:
        RefNotFoundError: No such branch.
        ThrottledError: The branch moved during each of 100 readings.
    """
    record = stores.refs.branches.get(name)
    for attempt in range(_ATTEMPTS):
        result = read(record)
        now = stores.refs.branches.get(name)
        if (now.staging_token, now.sealed_tokens, now.commit_id) == (
            record.staging_token,
            record.sealed_tokens,
            record.commit_id,
        ):
            return result
        record = now
        if attempt > 1:
            backoff(stores.clock, stores.ids, attempt)
    raise ThrottledError(f"branch {name!r} moved during {_ATTEMPTS} readings; try again")


def find(stores: Stores, name: str, key: bytes) -> bytes | None:
    """Return the value record at the key on the branch, staged writes included, or None."""

    def read(record: BranchRecord) -> bytes | None:
        write = stores.staging.get(newest_first(record), key)
        if write is not None:
            return staged_value(write)
        commit = stores.refs.commits.get(record.commit_id)
        return get(stores.ranges, commit.metarange, key)

    return settled(stores, name, read)


def scan_branch(
    stores: Stores, name: str, start: bytes, prefix: bytes
) -> Iterator[tuple[bytes, bytes]]:
    """Yield (key, value record) of the branch, staged writes included.

    Read in chunks, each of them settled, so that a long listing beside a busy committer
    repeats a chunk, never the whole.
    """
    position, size = start, _FIRST_CHUNK

    def read(record: BranchRecord) -> list[tuple[bytes, bytes]]:
        commit = stores.refs.commits.get(record.commit_id)
        staged = stores.staging.scan(newest_first(record), position)
        committed = scan(stores.ranges, commit.metarange, position)
        return list(islice(overlay(within(prefix, staged), within(prefix, committed)), size))

    while True:
        chunk = settled(stores, name, read)
        yield from chunk
        if len(chunk) < size:
            return
        position = chunk[-1][0] + b"\0"
        size = min(size * 2, _LARGEST_CHUNK)
