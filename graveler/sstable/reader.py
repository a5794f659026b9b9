"""Reading a table that may be damaged or hostile."""

from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property
from itertools import chain

from graveler.errors import CorruptionError
from graveler.sstable.block import Batch, batches, bounds, run_of
from graveler.sstable.blockfile import BlockFile, Data
from graveler.sstable.format import DamageError
from graveler.sstable.index import Index, read_index
from graveler.sstable.properties import (
    check_readable,
    index_form,
    record_count,
    user_properties,
)


class TableReader:
    """The records of a table, in order or by key.

    Opening reads the footer, the metaindex, the properties and the index. Whatever is
    read is verified first: checksums, sizes before memory is taken, keys that ascend
    over the whole table and lie in the block that the index names. What does not fit
    raises CorruptionError with the table's name, the place and the reason, and nothing
    else is raised for any input.

    A checksum says that a block is the one that was written, not that its writer is trusted: verify
    the records against the range id before trusting a table from elsewhere.

    Any number of threads may use one reader.

    Attributes:
        name: What messages call the table.
        properties: All properties as stored, RocksDB's and graveler's.
        count: Records, as the properties have it; a whole scan checks it.
    """

    def __init__(self, data: Data, *, name: str = "table") -> None:
        """Open the table in `data`, the whole file in memory or mapped."""
        self.name = name
        try:
            self._blocks = BlockFile(data)
            self.properties: dict[str, bytes] = self._blocks.properties()
            check_readable(self._blocks.metaindex, self.properties)
            self.count: int = record_count(self.properties)
            self._index: Index = read_index(
                self._blocks.read, self._blocks.index, index_form(self.properties)
            )
        except DamageError as error:
            raise self._corruption(str(error)) from error

    @cached_property
    def user_properties(self) -> dict[str, str]:
        """The properties that graveler set, without their prefix."""
        try:
            return user_properties(self.properties)
        except DamageError as error:
            raise self._corruption(str(error)) from error

    def items(self, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Return the records (key, value) in the order of their keys.

        Args:
            start: The first key wanted; it need not be there.

        Raises:
            CorruptionError: While iterating; what came before was right.
        """
        return chain.from_iterable(self._batches(start))

    def get(self, key: bytes) -> bytes | None:
        """Return the value under `key`, None where there is none.

        Raises:
            CorruptionError: The block that could hold it is damaged.
        """
        position = bisect_left(self._index.separators, key)
        if position == len(self._index.separators):
            return None
        found = chain.from_iterable(self._block(position, key, most=1))
        return next((value for candidate, value in found if candidate == key), None)

    def _batches(self, start: bytes) -> Iterator[Batch]:
        first = bisect_left(self._index.separators, start)
        total = 0
        for position in range(first, len(self._index.separators)):
            for batch in self._block(position, start if position == first else b""):
                total += len(batch)
                # a tuple of the key alone sorts before the record of that key
                yield batch[bisect_left(batch, (start,)) :] if position == first else batch
        if not start and total != self.count:
            raise self._corruption(f"{total} records, but its properties say {self.count}")

    def _block(self, position: int, start: bytes, most: int | None = None) -> Iterator[Batch]:
        """Yield the records of one data block, from `most` runs, the one of `start` first."""
        separators, handles = self._index
        before = separators[position - 1] if position else None
        try:
            block = self._blocks.read(handles[position])
            runs = bounds(block)
            first = run_of(block, runs, start) if start else 0
            for batch in batches(block, runs[first : first + most + 1 if most else None], before):
                if batch[-1][0] > separators[position]:
                    raise DamageError(f"key {batch[-1][0]!r} is past its index entry")  # noqa: TRY301
                yield batch
        except DamageError as error:
            place = f"data block at {handles[position].offset}"
            raise self._corruption(f"{place}: {error}") from error

    def _corruption(self, reason: str) -> CorruptionError:
        return CorruptionError(
            f"{self.name}: {reason}; keep the file; `graveler fsck` shows what needs it"
        )
