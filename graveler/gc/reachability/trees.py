"""Follows trees to ranges and addresses; reads each table once, from the storage."""

from collections.abc import Iterable

from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.references import (
    AddressLists,
    Ranges,
    ReadRanges,
    by_one_process,
    named_addresses,
    named_ranges,
    opened,
    ranges_of,
)
from graveler.committed.table import TableKind
from graveler.errors import CorruptionError, ObjectNotFoundError
from graveler.gc.marks import FOLDER
from graveler.gc.reachability.scratch import Scratch
from graveler.reads.stores import Stores


class Trees:
    """Notes the objects that trees name; reads the store, never the cache.

    Attributes:
        lists: The addresses in ranges, by lists that are kept.

    Args:
        read: Reads the ranges that kept commits name.
    """

    def __init__(self, stores: Stores, scratch: Scratch, read: ReadRanges = by_one_process) -> None:
        self._ranges = stores.ranges
        self._scratch = scratch
        self._read = read
        self.lists = AddressLists(stores.ranges, address_lists(stores))

    def reach_trees(self, metaranges: Iterable[str]) -> None:
        """Note trees that kept commits name, their ranges, and the addresses in them."""
        self._scratch.add_addresses(self._read(self.lists, self._new_ranges(metaranges)))

    def reach_claims(self, metaranges: Iterable[str]) -> None:
        """Note trees of claims and their ranges. The earlier files that claims name are not kept."""
        for _ in self._new_ranges(metaranges):
            pass

    def _new_ranges(self, metaranges: Iterable[str]) -> Ranges:
        for metarange in metaranges:
            identifier = bytes.fromhex(metarange)
            if metarange == EMPTY_METARANGE or not self._scratch.see(identifier):
                continue
            for info in ranges_of(self._ranges, identifier):
                if self._scratch.see(info.id):
                    yield info, self._scratch.has_list(info.id)

    def reach_stray(self, identifier: bytes) -> None:
        """Note a table that is kept although no kept commit names it, and the objects it names.

        A writer of the same table reuses it with all that it names. A table that was deleted in
        the meantime, or cannot be read, names nothing.
        """
        if not self._scratch.see(identifier):
            return
        try:
            reader = opened(self._ranges, identifier)
            if reader.user_properties.get("type") == TableKind.METARANGE:
                for range_id in list(named_ranges(reader)):
                    self.reach_stray(range_id)
            else:
                self._scratch.add_addresses(list(named_addresses(reader)))
        except (ObjectNotFoundError, CorruptionError):
            return


def address_lists(stores: Stores) -> str:
    """Return the start of the keys of the lists of addresses of a repository."""
    return f"{FOLDER}/{stores.uid}/addresses/"
