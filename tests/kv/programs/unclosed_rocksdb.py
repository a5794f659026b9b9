"""Sets a hundred keys, and ends without closing the store: ``FOLDER``."""

import os
import sys
from pathlib import Path

from graveler.kv.drivers.rocksdb import RocksDBKVStore

store = RocksDBKVStore(Path(sys.argv[1]))
for number in range(100):
    store.set("p", b"%03d" % number, b"v" * 100)
os._exit(0)
