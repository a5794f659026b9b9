"""Airflow's provider for Iceberg on a branch: its hook, unmodified, with the REST surface of the server."""

import json

import pytest
from airflow.providers.apache.iceberg.hooks.iceberg import IcebergHook

from graveler.iceberg import GravelerCatalog
from graveler.server import Server
from tests.harness.iceberg import TOKEN, delays, rest_catalog, rows, with_table


@pytest.fixture(scope="module")
def server(own):
    with Server(own, token=TOKEN) as opened:
        yield opened


@pytest.fixture(scope="module")
def dev(repo):
    """A branch with a table of one row."""
    with_table(GravelerCatalog.of(repo.branch("main")), 1)
    return repo.create_branch("dev", "main")


@pytest.fixture
def hook(server, dev, variables):
    """The hook of a connection to the branch, as its form makes one."""
    connection = {
        "conn_type": "iceberg",
        "host": server.iceberg,
        "login": "airflow",
        "password": TOKEN,
        "extra": {
            "warehouse": "flights@dev",
            "oauth2-server-uri": f"{server.iceberg}/v1/oauth/tokens",
        },
    }
    variables.setenv("AIRFLOW_CONN_ICEBERG_DEFAULT", json.dumps(connection))
    return IcebergHook()


def test_the_hook_reads_what_a_branch_has(hook):
    assert hook.test_connection() == (True, "Connected. Found 1 namespace(s).")
    assert (hook.list_namespaces(), hook.list_tables("db")) == (["db"], ["db.flights"])
    assert hook.table_exists("db.flights")
    assert not hook.table_exists("db.none")
    assert hook.get_table_schema("db.flights") == [
        {"name": "hour", "type": "string"},
        {"name": "delay", "type": "long"},
    ]
    assert hook.get_partition_spec("db.flights") == []
    assert hook.get_table_properties("db.flights")["gc.enabled"] == "false"
    assert [each["operation"] for each in hook.get_snapshots("db.flights")] == ["append"]


def test_its_catalog_writes_to_the_branch_alone(hook, repo):
    hook.get_conn().load_table("db.flights").append(rows(2))
    assert delays(GravelerCatalog.of(repo.branch("dev"))) == [1, 2]
    assert delays(GravelerCatalog.of(repo.branch("main"))) == [1]


def test_its_token_is_good_for_other_clients(hook, server):
    with rest_catalog(server, "flights@dev", token=hook.get_token()) as other:
        assert other.list_namespaces() == [("db",)]
