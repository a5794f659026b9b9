"""Increments a number 25 times by compare-and-set: ``FOLDER``."""

import sys
from pathlib import Path

from graveler.errors import PreconditionFailedError
from graveler.objects.local import LocalStore

store = LocalStore(Path(sys.argv[1]))
done = 0
while done < 25:
    etag = store.head("n").etag
    value = int(store.get("n"))
    try:
        store.put_if_match("n", str(value + 1).encode(), etag)
    except PreconditionFailedError:
        continue
    done += 1
