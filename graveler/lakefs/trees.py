"""Conversion of trees: each lakeFS range becomes one range, and each metarange one metarange.

Commits share ranges, so each range and each metarange is converted once. `ImportState` has the
results by lakeFS id.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Self, TypeVar

from graveler.base.background import Progress, Threads
from graveler.committed import metarange
from graveler.committed.flat import Record
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.table import FinishedTable, Scratch, TableKind, table_properties
from graveler.errors import (
    CorruptionError,
    InvalidInputError,
    ObjectNotFoundError,
    PermissionDeniedError,
)
from graveler.lakefs.entries import EntryMaker, odd_path
from graveler.lakefs.messages import LakefsEntry, LakefsRange, decode_entry, decode_value
from graveler.lakefs.namespace import RANGES, Namespace
from graveler.lakefs.state import NOTHING, ImportState
from graveler.model import RangeInfo
from graveler.reads.stores import Stores
from graveler.values import RECORD_ID_BYTES, RecordsDigest, encode_entry, range_id, record_id, total

_AHEAD_EACH = 2
_T = TypeVar("_T")
_R = TypeVar("_R")


class Trees:
    """Converts the trees of one import.

    Attributes:
        ranges: Number of converted ranges.
        objects: Number of converted entries.
        skipped: Number of entries that were omitted because of their paths.
        missing: Metarange to the error of its missing file.

    Args:
        skip_odd_paths: Omit entries with paths that graveler does not allow.
        expire_missing: Record metaranges with missing files in `missing`, and continue.
    """

    def __init__(
        self,
        stores: Stores,
        namespace: Namespace,
        maker: EntryMaker,
        state: ImportState,
        *,
        skip_odd_paths: bool,
        expire_missing: bool,
    ) -> None:
        self._stores = stores
        self._namespace = namespace
        self._maker = maker
        self._state = state
        self._skip_odd_paths = skip_odd_paths
        self._expire_missing = expire_missing
        self.ranges = 0
        self.objects = 0
        self.skipped = 0
        self.missing: dict[str, ObjectNotFoundError] = {}

    def convert(self, wanted: Mapping[str, str], progress: Progress) -> None:
        """Convert metaranges that were not converted before.

        Args:
            wanted: Metarange id to the object that refers to it, for errors.
            progress: Called after each metarange.
        """
        known = self._state.metaranges
        fresh = {name: by for name, by in wanted.items() if name not in known}
        threads = max(self._namespace.store.put_threads, self._stores.objects.put_threads)
        with _Workers(threads) as workers:
            listed = workers.map(self._listed, fresh.items())
            for done, (name, found) in enumerate(zip(fresh, listed, strict=True), 1):
                try:
                    self._convert(workers, name, found)
                except ObjectNotFoundError as error:
                    if not self._expire_missing:
                        raise
                    self.missing[name] = error
                progress("trees", done, len(fresh))

    def _convert(
        self,
        workers: "_Workers",
        name: str,
        found: tuple[LakefsRange, ...] | ObjectNotFoundError,
    ) -> None:
        if isinstance(found, ObjectNotFoundError):
            raise found
        known = self._state.ranges
        fresh = [info for info in found if info.id not in known]
        converted = workers.map(lambda info: self._range(info, name), fresh)
        for theirs, (ours, count, skipped) in zip(fresh, converted, strict=True):
            self._state.add_range(theirs.id, ours)
            self.ranges += 1
            self.objects += count
            self.skipped += skipped
        infos = [ours for info in found if (ours := known[info.id]) is not NOTHING]
        self._state.add_metarange(name, metarange.write(self._stores.ranges, infos))

    def _listed(self, wanted: tuple[str, str]) -> tuple[LakefsRange, ...] | ObjectNotFoundError:
        try:
            return self._namespace.ranges(wanted[0], needed_by=wanted[1])
        except ObjectNotFoundError as error:
            return error

    def _range(self, info: LakefsRange, needed_by: str) -> tuple[RangeInfo, int, int]:
        """Convert a range. Return it, its number of entries, and the number of omitted entries."""
        data = self._namespace.read(info.id, needed_by=f"metarange {needed_by}")
        rows = self._namespace.records(data, info.id, RANGES)
        skipped: list[bytes] = []
        ours = self._written(self._records(info, rows, skipped), len(data))
        if ours is not NOTHING and not info.min_key <= ours.min_key <= ours.max_key <= info.max_key:
            raise CorruptionError(
                f"{self._namespace.uri(info.id)} has keys from {ours.min_key!r} to "
                f"{ours.max_key!r}, and metarange {needed_by} says from {info.min_key!r} to "
                f"{info.max_key!r}"
            )
        return ours, ours.count, len(skipped)

    def _records(
        self, info: LakefsRange, rows: Iterable[tuple[bytes, bytes]], skipped: list[bytes]
    ) -> Iterator[Record]:
        for key, value in rows:
            found = self._namespace.decoded(info.id, _decode, key, value)
            odd = odd_path(key)
            if odd is not None:
                if not self._skip_odd_paths:
                    raise InvalidInputError(
                        f"{self._namespace.uri(info.id)}: {odd}; to leave out such entries, "
                        "import with skip_odd_paths=True or --skip-odd-paths"
                    )
                skipped.append(key)
                continue
            path = key.decode()
            try:
                record = encode_entry(self._maker.make(path, found))[1]
            except (InvalidInputError, PermissionDeniedError) as error:
                raise type(error)(f"{self._namespace.uri(info.id)}: {path!r}: {error}") from error
            yield key, record_id(key, record), record

    def _written(self, records: Iterator[Record], largest: int) -> RangeInfo:
        """Publish all records as one range, independent of the splitting policy."""
        store = self._stores.ranges
        scratch = Scratch(store.cache.scratch, largest=largest)
        ids, digest = bytearray(), RecordsDigest()
        first = last = b""
        size = 0
        try:
            file = scratch.file()
            with store.table_writer(file) as table:
                for key, identifier, value in records:
                    table.add(key, value)
                    ids += identifier
                    digest.add((key,), (value,))
                    first, last = first or key, key
                    size += len(key) + len(value)
                if not ids:
                    return NOTHING
                identifiers = bytes(ids)
                info = RangeInfo(
                    id=range_id((identifiers,)),
                    min_key=first,
                    max_key=last,
                    count=len(ids) // RECORD_ID_BYTES,
                    size=size,
                    total=total(identifiers),
                    digest=digest.digest(),
                )
                table.finish(info.id, table_properties(TableKind.RANGE, info))
            store.publish([FinishedTable(info.id, TableKind.RANGE, file, identifiers)])
        finally:
            scratch.close()
        return info


class _Workers:
    """Threads that make requests ahead of their use.

    Args:
        count: Number of threads, or 0 for none, for stores on the local disk.
    """

    def __init__(self, count: int) -> None:
        self._ahead = _AHEAD_EACH * count
        self._pool = Threads(count, "graveler-lakefs") if count else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def map(self, work: Callable[[_T], _R], items: Iterable[_T]) -> Iterator[_R]:
        """Yield ``work(item)`` for each item, in order."""
        if self._pool is None:
            yield from map(work, items)
            return
        waiting: deque[Future[_R]] = deque()
        for item in items:
            waiting.append(self._pool.submit(work, item))
            if len(waiting) > self._ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _decode(_key: bytes, value: bytes) -> LakefsEntry:
    return decode_entry(decode_value(value)[1])


def tree_of(state: ImportState, name: str) -> str:
    """Return the id of a converted metarange. "" is the empty tree."""
    return state.metaranges[name] if name else EMPTY_METARANGE
