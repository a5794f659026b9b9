"""Versions of a branch, for readers: its head with its staged writes.

A commit moves staged writes into the head and then drops their partitions. A reader of the record before
the commit and of the partitions after it would miss these writes, so a read ends with a second read of
the record, and is repeated if the record has changed. A listing and a lookup of many paths repeat only
the copy of the staged writes, so both end even if other writers move the branch all the time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from graveler.base.names import is_of_run
from graveler.base.retries import backoff
from graveler.committed.diff import same_content
from graveler.committed.metarange import prefix_end, scan
from graveler.errors import ThrottledError
from graveler.model import BranchRecord, Change
from graveler.reads.changes import change_of
from graveler.reads.listing import Scan, Spool, overlay, within
from graveler.reads.stores import Stores
from graveler.reads.view import Ref, find_rows, find_value, readable, snapshot
from graveler.values import is_replacement, signed_by, staged_value

_ATTEMPTS = 100
_T = TypeVar("_T")


def newest_first(record: BranchRecord) -> list[str]:
    """Return the branch's tokens in the order in which a read searches them."""
    return [record.staging_token, *reversed(record.sealed_tokens)]


def settled(stores: Stores, name: str, read: Callable[[BranchRecord], _T]) -> _T:
    """Return ``read(record)`` for a branch record that was unchanged after the read."""
    record = stores.refs.branches.get(name)
    for attempt in range(_ATTEMPTS):
        result = read(record)
        now = stores.refs.branches.get(name)
        if _shown(now) == _shown(record):
            return result
        record = now
        if attempt > 1:
            backoff(stores.clock, stores.ids, attempt)
    raise ThrottledError(f"branch {name!r} moved during {_ATTEMPTS} readings; try again")


def _shown(record: BranchRecord) -> tuple[object, ...]:
    """Return the fields of a record that decide about the branch's content. Others do not count.

    If staged writes give way because the head has equal content, only `voided` changes.
    """
    return record.staging_token, record.sealed_tokens, record.commit_id, record.voided


def value_on_branch(stores: Stores, name: str, key: bytes) -> bytes | None:
    """Return the value record at the key on the branch, including staged writes, or None."""

    def read(record: BranchRecord) -> bytes | None:
        write = stores.staging.get(newest_first(record), key)
        if write is not None:
            return staged_value(write)
        return find_value(Ref(stores, stores.refs.commits.get(record.commit_id)), key)

    return settled(stores, name, read)


def rows_on_branch(stores: Stores, name: str, keys: Sequence[bytes]) -> Sequence[bytes | None]:
    """Return the joined key and value record of each key on the branch, including staged writes."""

    def read(record: BranchRecord) -> tuple[str, Mapping[bytes, bytes]]:
        return record.commit_id, stores.staging.get_many(newest_first(record), keys)

    head, staged = settled(stores, name, read)
    found = find_rows(Ref(stores, stores.refs.commits.get(head)), keys)
    if not staged:
        return found
    rows = list(found)
    for number, key in enumerate(keys):
        if key in staged:
            value = staged_value(staged[key])
            rows[number] = None if value is None else key + value
    return rows


def first_on_branch(stores: Stores, name: str, prefix: bytes) -> bytes | None:
    """Return the first key below `prefix` on the branch, or None. No further key is read."""

    def read(record: BranchRecord) -> bytes | None:
        commit = stores.refs.commits.get(record.commit_id)
        staged = within(prefix, stores.staging.scan(newest_first(record), prefix))
        committed = scan(stores.ranges, commit.metarange, prefix, prefix_end(prefix))
        with readable(stores, commit.id):
            return next((key for key, _ in overlay(staged, committed)), None)

    return settled(stores, name, read)


@contextmanager
def branch_snapshot(stores: Stores, name: str, start: bytes, prefix: bytes) -> Iterator[Scan]:
    """Return one version of the branch below `prefix`: a commit and its staged writes."""
    with Spool() as spool:

        def copy(record: BranchRecord) -> str:
            spool.fill(within(prefix, stores.staging.scan(newest_first(record), start)))
            return record.commit_id

        head = Ref(stores, stores.refs.commits.get(settled(stores, name, copy)))
        origin = name if is_of_run(name) else head.commit.id
        with snapshot(head, start, prefix) as committed:
            if spool.is_empty:
                yield Scan(committed, committed.runs, origin)
            else:
                yield Scan(lambda at: overlay(spool.rows(at), committed(at)), origin=origin)


def uncommitted(stores: Stores, name: str) -> Iterator[Change]:
    """Yield the changes that a commit of the branch would make, in byte order of the paths."""
    yield from settled(stores, name, lambda record: list(uncommitted_in(stores, record)))


def uncommitted_in(stores: Stores, record: BranchRecord, prefix: bytes = b"") -> Iterator[Change]:
    """Yield the changes that a commit would make to a branch whose record stays `record`.

    Args:
        prefix: Start of the keys.
    """
    head = Ref(stores, stores.refs.commits.get(record.commit_id))
    for key, write in stores.staging.scan(newest_first(record), prefix):
        if not key.startswith(prefix):
            return
        before, after = find_value(head, key), staged_value(write)
        if before is None and after is None:
            continue
        if same_content(before, after) and not is_replacement(write):
            continue
        author, at = signed_by(write)
        change = change_of(key, before, after, (record.commit_id, record.name))
        yield replace(change, author=author, at=at)
