"""Opens all ranges of a tree through one cache, in an endless loop: ``OBJECTS CACHE TREE``."""

import sys
from pathlib import Path

from graveler.committed import metarange
from graveler.committed.cache.range_cache import RangeCache
from graveler.committed.ranges.range_store import RangeStore
from graveler.objects.local import LocalStore

objects, folder, tree = sys.argv[1:]
while True:
    store = RangeStore(LocalStore(Path(objects)), RangeCache(Path(folder), 40_000))
    for info in metarange.read(store, tree):
        store.open_range(info)
        store.open_range(info, numbered=True)
        print("opened", flush=True)
