"""Moving files and folders: a copy under new paths and the deletion of the old ones.

The live token is sealed first, and the move lands beneath the new one: a write to an old path that
was acknowledged before is moved, a later one stays. What other processes commit, merge or seal
meanwhile is moved as well.
"""

from itertools import takewhile

from graveler.base.background import batches
from graveler.committed.diff import diff
from graveler.errors import ThrottledError
from graveler.model import BranchRecord
from graveler.publishing.landing import RetryLanding
from graveler.reads.stores import Stores
from graveler.repository.writes.borrowed import Row
from graveler.repository.writes.bundles import Bundle, bundling, committed_since, seal
from graveler.repository.writes.copies import CHUNK, Place, Reading, nothing_at, relocated, rows_at
from graveler.repository.writes.staged import StagedWrites
from graveler.values import TOMBSTONE

_ATTEMPTS = 20


def move(stores: Stores, writes: StagedWrites, place: Place) -> int:
    """Stage the files of the branch under other paths, and the deletion of the old ones."""
    for _ in range(_ATTEMPTS):
        with bundling(stores, writes) as bundle:
            moving = _Move(stores, bundle, place, seal(stores, writes.name, writes.fence))
            moving.collect()
            if not moving.count:
                raise nothing_at(writes.name, place)
            try:
                bundle.land_beneath(moving.catch_up)
            except RetryLanding:
                bundle.discard()
                continue
            return moving.count
    raise ThrottledError(f"branch {writes.name!r} changed during {_ATTEMPTS} attempts; try again")


class _Move:
    """A move that has not landed: it is built from the sealed and committed writes of a record."""

    def __init__(self, stores: Stores, bundle: Bundle, place: Place, record: BranchRecord) -> None:
        self._stores = stores
        self._bundle = bundle
        self._place = place
        self._record = record
        self._reading = self._read(record)
        self._overlaps = place.to.startswith(place.source) or place.source.startswith(place.to)
        self.count = 0

    def _read(self, record: BranchRecord) -> Reading:
        head = self._stores.refs.commits.get(record.commit_id)
        return Reading(self._stores, head, record.sealed_tokens[::-1])

    def collect(self) -> None:
        """Fill the bundle with all files."""
        for chunk in batches(self._reading.rows(self._place), CHUNK):
            self.count += len(chunk)
            for row in rows_at(self._stores, self._reading.head, relocated(chunk, self._place)):
                self._bundle.add(row)
            for key, _ in chunk:
                origin = self._place.came_from(key) if self._overlaps else None
                if origin is None or self._reading.find(origin) is None:
                    self._bundle.add(Row(key, TOMBSTONE))

    def catch_up(self, record: BranchRecord) -> None:
        """Adjust the bundle to the sealed and committed writes of a newer record."""
        before, self._record = self._record, record
        if before.voided != record.voided:
            raise RetryLanding  # writes that gave way are no longer moved, and may be removed
        if (before.commit_id, before.sealed_tokens) == (record.commit_id, record.sealed_tokens):
            return
        stores = self._stores
        known = {*record.sealed_tokens, *committed_since(stores, record, before)}
        if self._overlaps or not known.issuperset(before.sealed_tokens):
            raise RetryLanding  # or the moved writes were discarded
        reading, old = self._read(record), self._reading.head.metarange
        fresh = [token for token in record.sealed_tokens if token not in before.sealed_tokens]
        prefix = self._place.source
        changed = {
            item.key for item in diff(stores.ranges, old, reading.head.metarange, prefix=prefix)
        }
        if fresh:
            staged = stores.staging.keys(fresh, prefix)
            changed.update(takewhile(lambda key: key.startswith(prefix), staged))
        self._reading = reading
        for keys in batches(sorted(filter(self._place.covers, changed)), CHUNK):
            present = [(key, value) for key in keys if (value := reading.find(key)) is not None]
            for row in rows_at(stores, reading.head, relocated(present, self._place)):
                self._bundle.add(row)
            for key in keys:
                self._bundle.add(Row(key, TOMBSTONE))
            for key in {*keys}.difference(key for key, _ in present):
                self._bundle.remove(self._place.moved(key))
        self.count = self._bundle.files()
        if not self.count:
            raise nothing_at(record.name, self._place)
