"""What is done to files of Spark's before entries may name them."""

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from graveler.objects.local_files import DurableFolders, storage_errors
from graveler.objects.store import ObjectInfo, ObjectStore

__all__ = ["settle"]

_LOCAL: Final = "file://"
_THREADS: Final = 4


def settle(store: ObjectStore, files: Sequence[ObjectInfo]) -> list[str]:
    """Make the files survive a power cut; return the checksum computed of each, or "".

    On a disk Spark leaves both undone. An object store has made them durable itself; their
    addresses are their own, so no file need be read again, and the checksums there are "".
    """
    if not store.root.startswith(_LOCAL):
        return [""] * len(files)
    root = Path(store.root.removeprefix(_LOCAL))
    paths = [root / info.key for info in files]
    with storage_errors(f"read what Spark wrote below {store.root}"):
        with ThreadPoolExecutor(_THREADS) as pool:
            checksums = list(pool.map(_settle, paths))
        for folder in {path.parent for path in paths}:
            DurableFolders(root).sync(folder)
    return checksums


def _settle(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
    return f"sha256:{digest}"
