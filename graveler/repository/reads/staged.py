"""Reading a branch: staged writes over the head, with a second look at the branch record.

A commit moves staged writes into the head and then drops their partitions. A reader that read the
record before and the partitions after would miss them. So a read ends with a second look at the
record, and is repeated if the record has changed.

A listing copies the staged writes first, and repeats only the copy. The commit that the settled
record names is immutable, so the listing streams its tree under the copy without another look.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from graveler.committed import get, scan
from graveler.errors import ThrottledError
from graveler.model import BranchRecord
from graveler.records import staged_value
from graveler.repository.reads.listing import Scan, Spool, overlay, within
from graveler.repository.stores import Stores
from graveler.retries import backoff

_ATTEMPTS: Final = 100

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


def first_below(stores: Stores, name: str, prefix: bytes) -> bytes | None:
    """Return the first key below `prefix` on the branch, or None; nothing else is read."""

    def read(record: BranchRecord) -> bytes | None:
        commit = stores.refs.commits.get(record.commit_id)
        staged = within(prefix, stores.staging.scan(newest_first(record), prefix))
        committed = within(prefix, scan(stores.ranges, commit.metarange, prefix))
        return next((key for key, _ in overlay(staged, committed)), None)

    return settled(stores, name, read)


@contextmanager
def snapshot(stores: Stores, name: str, start: bytes, prefix: bytes) -> Iterator[Scan]:
    """Give one version of the branch below `prefix`: a commit and the writes staged on it.

    Args:
        stores: The repository.
        name: Of the branch.
        start: Nothing before this key is wanted.
        prefix: Start of the keys.

    Raises:
        RefNotFoundError: No such branch.
        ThrottledError: The branch moved during each of 100 copies of what is staged.
    """
    with Spool() as spool:

        def copy(record: BranchRecord) -> str:
            spool.fill(within(prefix, stores.staging.scan(newest_first(record), start)))
            return record.commit_id

        tree = stores.refs.commits.get(settled(stores, name, copy)).metarange

        def rows(position: bytes) -> Iterator[tuple[bytes, bytes]]:
            committed = within(prefix, scan(stores.ranges, tree, position))
            return overlay(spool.rows(position), committed)

        yield rows
