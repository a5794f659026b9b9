"""The suite of the key-value port on PostgreSQL and MariaDB servers."""

from collections.abc import Iterator

import pytest

from graveler.kv import KVStore, open_kv
from graveler.testing.kv_suite import KVStoreSuite


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
