"""Races with other processes for the same keys, and prints the keys that it won: ``FOLDER NAME``."""

import sys
from pathlib import Path

from graveler.errors import PreconditionFailedError
from graveler.objects.local import LocalStore

store, name = LocalStore(Path(sys.argv[1])), sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
for number in range(50):
    if store.put_if_absent(f"f{number}/a", name.encode() * 1000):
        print(number)
done = 0
while done < 25:
    etag = store.head("n").etag
    value = int(store.get("n"))
    try:
        store.put_if_match("n", str(value + 1).encode(), etag)
    except PreconditionFailedError:
        continue
    done += 1
for _ in range(60):  # the folders appear and disappear
    store.put(f"folder/deep/{name}", b"x")
    assert store.get(f"folder/deep/{name}") == b"x"
    store.delete(f"folder/deep/{name}")
