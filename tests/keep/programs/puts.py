"""Put blocks into a volume until killed; print each digest when it is acknowledged."""

import io
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import md5
from pathlib import Path

from graveler.base.clock import SystemClock
from graveler.keep.store import BlockStore
from graveler.keep.volumes.folder import FolderVolume

store = BlockStore([FolderVolume(Path(sys.argv[1]))], ttl=9, trash_life=9, clock=SystemClock())


def put(number):
    size = 5_000_000 if number % 10 == 0 else 4096
    content = (b"%08d" % number) * (size // 8)
    digest = md5(content, usedforsecurity=False).hexdigest()
    store.put(digest, io.BytesIO(content), size)
    sys.stdout.write(f"{digest}\n")
    sys.stdout.flush()


with ThreadPoolExecutor(3) as threads:
    list(threads.map(put, range(10_000)))
