from collections.abc import Iterator
from pathlib import Path

import pytest

from graveler.kv.registry import open_kv
from graveler.kv.store import KVStore
from tests.kv.suite import KVStoreSuite


class TestMemory(KVStoreSuite):
    @pytest.fixture
    def store(self) -> Iterator[KVStore]:
        with open_kv("mem://") as store:
            yield store


class TestSQLite(KVStoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[KVStore]:
        with open_kv(f"sqlite://{tmp_path}/kv.sqlite3") as store:
            yield store


class TestRocksDB(KVStoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[KVStore]:
        with open_kv(f"rocksdb://{tmp_path}/kv") as store:
            yield store
