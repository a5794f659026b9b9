from collections.abc import Iterator
from pathlib import Path

import pytest

from graveler.kv import KVStore, open_kv
from graveler.testing.kv_suite import KVStoreSuite


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


class TestDynamoDB(KVStoreSuite):
    # A request takes moto milliseconds; pages have 1,024 items, batches 25 and 100.
    many = 1_300
    examples = 5

    @pytest.fixture
    def store(self, dynamodb_uri: str) -> Iterator[KVStore]:
        with open_kv(dynamodb_uri) as store:
            yield store
