"""Settings that let other processes encode the ranges of every write, also of a small one."""

from graveler.committed import range_writer
from graveler.committed.range_cache import RangeCache
from graveler.committed.range_store import RangeStore
from graveler.committed.splitting import Splitting
from graveler.objects.memory import MemoryStore
from graveler.values import record_id

LARGE = {"_LARGE": 0, "spare_cores": lambda most: most}
"""Settings of the range writer: every write is a large one, and every process has a core."""
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
    """Let other processes encode all ranges of this program."""
    vars(range_writer).update(LARGE)
