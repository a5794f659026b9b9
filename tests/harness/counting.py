"""A key-value store in memory that counts its calls."""

from itertools import count

from graveler.base.background import Inline
from graveler.config import LakeConfig
from graveler.kv.drivers.memory import MemoryKVStore
from graveler.lake.lake import Lake
from graveler.testing.clock import FakeClock, SequenceIds

_numbers = count(1)


class CountingKV(MemoryKVStore):
    """Counts calls and the rows that scans returned.

    Attributes:
        calls: The names of the calls since the last `reset`; a scan counts when it begins.
        rows: Number of rows that scans returned.
    """

    def __init__(self):
        super().__init__()
        self.reset()

    def reset(self):
        """Count from zero."""
        self.calls, self.rows = [], 0

    def get(self, partition, key):
        self.calls.append("get")
        return super().get(partition, key)

    def get_many(self, keys):
        self.calls.append("get_many")
        return super().get_many(keys)

    def set(self, partition, key, value):
        self.calls.append("set")
        super().set(partition, key, value)

    def set_many(self, partition, items):
        self.calls.append("set_many")
        super().set_many(partition, items)

    def set_if(self, partition, key, value, predicate):
        self.calls.append("set_if")
        return super().set_if(partition, key, value, predicate)

    def delete(self, partition, key):
        self.calls.append("delete")
        super().delete(partition, key)

    def delete_many(self, partition, keys):
        self.calls.append("delete_many")
        super().delete_many(partition, keys)

    def delete_if(self, partition, key, predicate):
        self.calls.append("delete_if")
        super().delete_if(partition, key, predicate)

    def drop(self, partition):
        self.calls.append("drop")
        super().drop(partition)

    def scan(self, partition, start=b""):
        self.calls.append("scan")
        for row in super().scan(partition, start):
            self.rows += 1
            yield row


def counted_repo():
    """A repository on such a store, and the store."""
    kv = CountingKV()
    config = LakeConfig("x", "mem://", f"mem://counted{next(_numbers)}", cache_folder=None)
    lake = Lake(config, kv, clock=FakeClock(), ids=SequenceIds(), background=Inline())
    return lake.create_repository("flights"), kv
