"""Lakes of a given size, as an hourly pipeline fills them."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import ClassVar
from uuid import UUID

from graveler.base.background import OneThread
from graveler.base.clock import RandomIds, SystemClock
from graveler.config import LakeConfig, load_config
from graveler.kv.registry import open_kv
from graveler.kv.store import KVStore
from graveler.lake import Lake, Repository
from graveler.lake.factory import connect, write_default_config
from graveler.model import Entry
from graveler.objects.store import ObjectStore
from graveler.testing.process import Process, WatchedKV, WatchedObjects

START = datetime(2013, 1, 1, tzinfo=UTC)


def new_repository(folder: Path, name: str) -> tuple[Lake, Repository]:
    """Make a lake on SQLite and local files with one repository, with default settings."""
    write_default_config(folder)
    lake = connect(load_config(folder))
    return lake, lake.create_repository(name)


class _WatchedObjects(WatchedObjects):
    """A watched object store with parallel requests, as on S3."""

    put_threads: ClassVar[int] = ObjectStore.put_threads


class _WatchedLake(Lake):
    """A lake whose object stores are watched."""

    def __init__(self, config: LakeConfig, kv: KVStore, process: Process) -> None:
        self._process = process
        clock = SystemClock()
        super().__init__(
            config,
            WatchedKV(kv, process),
            clock=clock,
            ids=RandomIds(clock),
            background=OneThread(),
            witnessed=True,
        )

    def _open_store(self, uri: str) -> ObjectStore:
        return _WatchedObjects(super()._open_store(uri), self._process)


def watched_lake(folder: Path, process: Process) -> Lake:
    """Open the lake in a folder; the process sees every call to its stores."""
    config = load_config(folder)
    return _WatchedLake(config, open_kv(config.kv_uri), process)


def entry(path: str) -> Entry:
    """Return the entry of a file as a Spark job writes it."""
    digest = blake2b(path.encode(), digest_size=32).hexdigest()
    return Entry(
        path=path,
        address=f"data/{digest[:32]}/part-00000.snappy.parquet",
        size=1_000_000 + int(digest[:4], 16),
        checksum=f"sha256:{digest}",
        mtime=START,
    )


def hour_entries(root: str, hour: datetime, count: int) -> Iterator[Entry]:
    """Yield the files of one hour, sorted, under the names that a Spark job gives them."""
    prefix = f"{root}/{hour:%Y/%m/%d/%H:%M}"
    job = UUID(bytes=blake2b(prefix.encode(), digest_size=16).digest(), version=4)
    for number in range(count):
        yield entry(f"{prefix}/part-{number:05d}-{job}-c000.snappy.parquet")


def entries(root: str, count: int, per_hour: int = 2_000) -> Iterator[Entry]:
    """Yield `count` files in hours of `per_hour`, sorted."""
    for number in range(0, count, per_hour):
        hour = START + timedelta(hours=number // per_hour)
        yield from hour_entries(root, hour, min(per_hour, count - number))
