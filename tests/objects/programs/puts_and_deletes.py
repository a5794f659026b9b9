"""Puts and deletes a key, so that its folders appear and disappear: ``FOLDER NAME``."""

import sys
from pathlib import Path

from graveler.objects.local import LocalStore

store = LocalStore(Path(sys.argv[1]))
key = f"folder/deep/{sys.argv[2]}"
for _ in range(150):
    store.put(key, b"x")
    assert store.get(key) == b"x"
    store.delete(key)
