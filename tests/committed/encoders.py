"""Writes whose ranges other processes encode, however small they are."""

from graveler.committed import range_writer
from graveler.committed.range_cache import RangeCache
from graveler.committed.range_store import RangeStore
from graveler.committed.splitting import Splitting
from graveler.objects.memory import MemoryStore
from graveler.values import record_id

LARGE = {"_LARGE": 0, "spare_cores": lambda most: most}
"""Of the range writer: every write is a large one, and there is a core for every process."""
SMALL = Splitting("directory", max_bytes=20_000, raggedness=50)
VALUES = [b"", b"v", bytes(range(256)) * 3]


def records(count, start=0):
    for number in range(start, start + count):
        key = b"%02d/%03d/%06d" % (number // 500, number // 40, number) + b"k" * (number % 50)
        value = VALUES[number % 3] + b"%d" % number
        yield key, record_id(key, value), value


def new_store(processes):
    return RangeStore(MemoryStore(), RangeCache(None, 1 << 26), encoding_processes=processes)


def stored(store):
    return {info.key: store.objects.get(info.key) for info in store.objects.list()}


def write_by_processes():
    """Let this program write all its ranges so."""
    vars(range_writer).update(LARGE)
