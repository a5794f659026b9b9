"""The suite of the key-value port on PostgreSQL, MariaDB and DynamoDB servers."""

from collections.abc import Iterator

import pytest

from graveler.kv.registry import open_kv
from graveler.kv.store import KVStore
from tests.kv.suite import KVStoreSuite


class TestPostgreSQL(KVStoreSuite):
    @pytest.fixture
    def store(self, postgres_url: str) -> Iterator[KVStore]:
        with open_kv(postgres_url) as store:
            yield store


class TestMySQL(KVStoreSuite):
    @pytest.fixture
    def store(self, mysql_url: str) -> Iterator[KVStore]:
        with open_kv(mysql_url) as store:
            yield store


class TestDynamoDB(KVStoreSuite):
    # moto takes milliseconds for a request. Pages have 1,024 items, and batches 25 and 100.
    many = 1_300
    steps = 200

    @pytest.fixture
    def store(self, dynamodb_uri: str) -> Iterator[KVStore]:
        with open_kv(dynamodb_uri) as store:
            yield store
