"""Bundles: many writes of one operation that become visible on the branch together, or not at all.

Several rows are staged under their own token, a hold, which no branch names. One compare-and-set
puts it after the sealed tokens of the branch, together with the older live one; or *beneath* the
live token, whose writes are then newer. Before that step the branch is unchanged. Garbage
collection removes the rows of a dead process.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from graveler.errors import OutcomeUnknownError, StateError
from graveler.model import BranchRecord
from graveler.reads.stores import Stores
from graveler.refs.branches import check_fence, owned
from graveler.refs.history import line_above
from graveler.refs.mover import move
from graveler.repository.writes import unfinished
from graveler.repository.writes.borrowed import Hold, Row, confirm, holding
from graveler.repository.writes.staged import CHUNK, StagedWrites
from graveler.values import staged_value

_MOST_SEALED = 63
"""The maximum number of sealed tokens after a bundle. A commit seals one more and contains all."""


class Bundle:
    """The rows of one operation. `bundling` makes it."""

    def __init__(self, stores: Stores, writes: StagedWrites, hold: Hold) -> None:
        self._stores = stores
        self._writes = writes
        self._hold = hold
        self._rows: dict[bytes, Row] = {}
        self.count = 0

    def add(self, row: Row) -> None:
        """Add a row. It replaces an earlier row of its key."""
        self._rows[row.key] = row
        unfinished.settle(self._stores, self._writes.name, self._writes.fence, (row.key,))
        self.count += 1
        if len(self._rows) >= CHUNK:
            self._spill()

    def remove(self, key: bytes) -> None:
        """Remove a row."""
        self._rows.pop(key, None)
        if self._hold.token:
            self._stores.staging.remove_many(self._hold.token, [key])

    def files(self) -> int:
        """Return the number of rows that are not deletions."""
        self._spill()
        staged = self._stores.staging.scan([self._hold.token]) if self._hold.token else ()
        return sum(staged_value(write) is not None for _, write in staged)

    def keys(self) -> Iterator[bytes]:
        """Yield the keys of the rows, ascending, each once."""
        if not self._hold.token:
            yield from sorted(self._rows)
            return
        self._spill()
        for key, _ in self._stores.staging.scan([self._hold.token]):
            yield key

    def land(self) -> None:
        """Make the rows visible on the branch, above all writes that were acknowledged before."""
        if self._hold.token or len(self._rows) > 1:
            self._spill()
            self._attach(lambda _: None, beneath=False)
        elif self._rows:
            rows = list(self._rows.values())
            token = self._writes.stage_rows(rows)
            confirm(self._stores, [token], rows)

    def land_beneath(self, settle: Callable[[BranchRecord], None]) -> None:
        """Make the rows visible on the branch, beneath the writes under its live token.

        Args:
            settle: Called with the branch's record before each attempt. It adapts the rows to the
                sealed and committed writes of the record.
        """
        self._spill()
        if self._hold.token:
            self._attach(settle, beneath=True)

    def discard(self) -> None:
        """Remove all rows."""
        self._rows = {}
        self._hold.release()
        self._hold.token = ""

    def _spill(self) -> None:
        if self._rows:
            signed = self._writes.signature()
            self._hold.add([row._replace(value=signed + row.value) for row in self._rows.values()])
            self._rows = {}

    def _attach(self, settle: Callable[[BranchRecord], None], *, beneath: bool) -> None:
        stores, token = self._stores, self._hold.token
        first: BranchRecord | None = None

        def change(record: BranchRecord) -> BranchRecord:
            nonlocal first
            first = first or record
            if token in record.sealed_tokens:
                return record
            check_fence(record, self._writes.fence)
            self._writes.check_protection()
            check_room(record)
            settle(record)
            self._spill()
            live, sealed = record.staging_token, record.sealed_tokens
            if beneath or stores.staging.is_empty(live):
                return replace(record, sealed_tokens=(*sealed, token))
            return replace(
                record, staging_token=stores.ids.unique(), sealed_tokens=(*sealed, live, token)
            )

        def landed(now: BranchRecord) -> bool:
            if first is not None and not self._is_named(now, first):
                raise OutcomeUnknownError(
                    f"branch {now.name!r}: the reply was lost and the branch has moved since; look "
                    "whether the files are there: doing it again does no harm"
                )
            return True

        with owned(self._writes.name, self._writes.fence):
            move(stores.refs, self._writes.name, change, landed=landed)
        self._hold.token = ""  # the token now belongs to the branch

    def _is_named(self, now: BranchRecord, first: BranchRecord) -> bool:
        """Return whether the branch has the token, sealed or committed since `first`."""
        return self._hold.token in {*now.sealed_tokens, *committed_since(self._stores, now, first)}


def committed_since(stores: Stores, now: BranchRecord, before: BranchRecord) -> Iterator[str]:
    """Yield the staging tokens of the commits that the branch got since the record `before`."""
    commits = stores.refs.commits
    floor = commits.get(before.commit_id).generation
    for commit in line_above(commits, commits.get(now.commit_id), floor):
        yield from commit.tokens


def seal(
    stores: Stores, name: str, fence: str, *, keys: Sequence[bytes] | None = None
) -> BranchRecord:
    """Seal the staged writes of the branch, if there are any, and return its record.

    Args:
        keys: Seal only if one of these keys is staged under the live token. None: any key.
    """
    live = ""

    def change(record: BranchRecord) -> BranchRecord:
        nonlocal live
        check_fence(record, fence)
        live = record.staging_token
        staged = stores.staging
        if staged.is_empty(live) if keys is None else not staged.get_many((live,), keys):
            return record
        check_room(record)
        sealed = (*record.sealed_tokens, live)
        return replace(record, staging_token=stores.ids.unique(), sealed_tokens=sealed)

    with owned(name, fence):
        return move(stores.refs, name, change, landed=lambda now: now.staging_token != live)


def check_room(record: BranchRecord) -> None:
    """Raise StateError if the branch has too many sealed tokens for one more."""
    if len(record.sealed_tokens) + 2 > _MOST_SEALED:
        raise StateError(
            f"branch {record.name!r}: {len(record.sealed_tokens)} tokens are sealed: commit or "
            "discard what is staged, and repeat"
        )


@contextmanager
def bundling(stores: Stores, writes: StagedWrites) -> Iterator[Bundle]:
    """Yield a bundle for a branch. The end of the block removes rows that have not landed.

    After an error with an unknown outcome the rows stay, because they may belong to the branch.
    """
    writes.check()
    with holding(stores) as hold:
        yield Bundle(stores, writes, hold)
