"""Conversion of trees: each lakeFS range becomes one range, and each metarange one metarange.

Commits share ranges, so each range and each metarange is converted once. `ImportState` has the
results by lakeFS id.
"""

from array import array
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

from graveler.base.background import Progress, batches
from graveler.base.parallel import Bounds, in_order
from graveler.committed import metarange
from graveler.committed.cache.flat import Record
from graveler.committed.cache.table import Scratch
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.ranges.encoder import RangeEncoder, columns
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
from graveler.values import encode_entry, record_id

_AHEAD_EACH = 2
_RECORDS = 1_024
_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True, slots=True)
class Terms:
    """The options of an import."""

    etags: bool = True
    skip_odd_paths: bool = False
    expire_missing: bool = False


class Trees:
    """Converts the trees of one import."""

    def __init__(
        self,
        stores: Stores,
        namespace: Namespace,
        maker: EntryMaker,
        state: ImportState,
        terms: Terms,
    ) -> None:
        self._stores = stores
        self._namespace = namespace
        self._maker = maker
        self._state = state
        self._terms = terms
        self.ranges = 0
        self.objects = 0
        self.skipped = 0
        self.missing: dict[str, ObjectNotFoundError] = {}

    def convert(self, wanted: Mapping[str, str], progress: Progress) -> None:
        """Convert metaranges that were not converted before."""
        known = self._state.metaranges
        fresh = {name: by for name, by in wanted.items() if name not in known}
        with closing(self._ahead(self._listed, fresh.items())) as listed:
            for done, (name, found) in enumerate(zip(fresh, listed, strict=True), 1):
                try:
                    self._convert(name, found)
                except ObjectNotFoundError as error:
                    if not self._terms.expire_missing:
                        raise
                    self.missing[name] = error
                progress("trees", done, len(fresh))

    def _ahead(self, work: Callable[[_T], _R], items: Iterable[_T]) -> Generator[_R, None, None]:
        """Yield ``work(item)`` for each item, in order; threads make the requests ahead."""
        threads = max(self._namespace.store.put_threads, self._stores.objects.put_threads)
        return in_order(work, items, Bounds(threads, _AHEAD_EACH * threads, lambda _: 0))

    def _convert(self, name: str, found: tuple[LakefsRange, ...] | ObjectNotFoundError) -> None:
        if isinstance(found, ObjectNotFoundError):
            raise found
        known = self._state.ranges
        fresh = [info for info in found if info.id not in known]
        with closing(self._ahead(lambda info: self._range(info, name), fresh)) as converted:
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
                if not self._terms.skip_odd_paths:
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
        size = 0
        try:
            file = scratch.file()
            with store.table_writer(file) as table:
                encoder = RangeEncoder(table, file)
                for batch in batches(records, _RECORDS):
                    parts, ids = columns(batch)
                    lengths = array("I", map(len, parts))
                    encoder.add(parts, lengths, b"".join(ids))
                    size += sum(lengths)
                if not size:
                    return NOTHING
                info, finished = encoder.finish(size, natural=False)
            store.publish([finished])
        finally:
            scratch.close()
        return info


def _decode(_key: bytes, value: bytes) -> LakefsEntry:
    return decode_entry(decode_value(value)[1])


def tree_of(state: ImportState, name: str) -> str:
    """Return the id of a converted metarange. "" is the empty tree."""
    return state.metaranges[name] if name else EMPTY_METARANGE
