"""Reads a store and tries to write to it, without write permission: ``FILE``."""

import os
import sys
from pathlib import Path

from graveler.errors import ReadOnlyError
from graveler.kv.drivers.sqlite import SQLiteKVStore

if os.geteuid() == 0:  # root can write to every file
    os.setuid(65534)
store = SQLiteKVStore(Path(sys.argv[1]))
stored = store.get("p", b"k")
assert stored is not None
print(stored.value)
try:
    store.set("p", b"k", b"v")
except ReadOnlyError as error:
    print(error)
store.close()
