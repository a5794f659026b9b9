from pathlib import Path

import pytest

from graveler.errors import InvalidInputError
from graveler.kv.registry import DRIVERS, open_kv
from graveler.kv.store import KVStore
from tests.harness.programs import ROOT, output_of
from tests.harness.servers import DATABASES


def _written(store: KVStore) -> KVStore:
    with store:
        store.set("p", b"k", b"v")
    return store


def test_memory_is_a_new_store_each_time() -> None:
    with open_kv("mem://") as first, open_kv("mem://") as second:
        first.set("p", b"k", b"v")
        assert second.get("p", b"k") is None


def found_again(uri: str) -> bool:
    _written(open_kv(uri))
    with open_kv(uri) as store:
        return list(store.scan("p")) == [(b"k", b"v")]


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg"])
def test_a_store_on_postgresql_is_found_again(scheme: str, postgres_url: str) -> None:
    assert found_again(postgres_url.replace("postgresql", scheme, 1))


@pytest.mark.parametrize("scheme", ["mysql", "mysql+pymysql", "mariadb"])
def test_a_store_on_mysql_is_found_again(scheme: str, mysql_url: str) -> None:
    assert found_again(mysql_url.replace("mysql", scheme, 1))


@pytest.mark.parametrize("name", ["with space", "100%", "a?b=c", "a#b", "über"])
@pytest.mark.parametrize("scheme", ["sqlite", "rocksdb"])
def test_a_store_on_disk_is_found_again_at_any_path(scheme: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "made/on/the/way" / name
    assert found_again(path.as_uri().replace("file", scheme, 1))
    assert path.exists()


@pytest.mark.parametrize(
    "uri", ["mongodb://root:secret@host/db", "/lake/kv.sqlite3", "", "sqlite:/kv", "mem:"]
)
def test_an_unknown_driver_is_answered_with_those_known(uri: str) -> None:
    known = "mem://, sqlite://, rocksdb://, postgresql://, .*mysql://, .*mariadb://, dynamodb://"
    with pytest.raises(InvalidInputError, match=known) as caught:
        open_kv(uri)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "uri", ["sqlite://kv.sqlite3", "rocksdb://", "sqlite://./kv", "sqlite:///", "mem://a"]
)
def test_what_follows_the_scheme_must_fit_it(uri: str) -> None:
    with pytest.raises(InvalidInputError):
        open_kv(uri)


@pytest.mark.parametrize(
    ("uri", "module", "message"),
    [
        ("postgresql://localhost/db", "psycopg", "PostgreSQL needs {}: {}[postgres]"),
        ("mysql://localhost/db", "sqlalchemy", "MySQL needs {}: {}[mysql]"),
        ("dynamodb://table", "boto3", "DynamoDB needs {}: {}[dynamodb]"),
    ],
)
def test_a_missing_extra_is_named(uri: str, module: str, message: str) -> None:
    output = output_of("kv.programs.missing_extra", uri, module)
    assert output == message.format(module, 'pip install "graveler') + '"\n'


def test_each_driver_is_in_the_guide_and_in_the_table_of_servers() -> None:
    guide = (ROOT / "docs/guides/refs-store.md").read_text()
    assert all(f"`{name}://" in guide for name in DRIVERS if "+" not in name and name != "mariadb")
    servers = {driver.module for driver in DRIVERS.values() if driver.server}
    assert servers == {*DATABASES}


def test_a_driver_is_loaded_when_it_is_asked_for() -> None:
    assert output_of("kv.programs.no_driver") == "[]\n"
