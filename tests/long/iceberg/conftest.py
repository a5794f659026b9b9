"""Spark, DuckDB and PyIceberg, and a lake whose catalogs they use over REST."""

import pytest
from pyiceberg.catalog import load_catalog

import graveler
from graveler.iceberg import RestCatalog
from graveler.lake.shared import lend_lake
from graveler.server import Server
from tests.harness.iceberg_engines import SPARK, running


@pytest.fixture(scope="session")
def spark():
    """Spark; one for all tests of a process, because it takes ten seconds to start."""
    with running("spark", SPARK) as engine:
        yield engine


@pytest.fixture(scope="session")
def duckdb():
    with running("duckdb", {}) as engine:
        yield engine


@pytest.fixture
def pyiceberg():
    """Opens catalogs with PyIceberg."""
    opened = []

    def open_catalog(catalog, **more):
        given = {**catalog.pyiceberg(), **more}
        opened.append(load_catalog("lake", **{key: given[key] for key in given if given[key]}))
        return opened[-1]

    yield open_catalog
    for each in opened:
        each.close()


@pytest.fixture
def lake(tmp_path):
    with graveler.init(tmp_path / "a lake") as opened, lend_lake(opened):
        yield opened


@pytest.fixture
def repo(lake):
    return lake.create_repository("flights")


@pytest.fixture
def server(lake):
    with Server(lake) as opened:
        yield opened


@pytest.fixture
def catalog(repo, server):
    """Returns the catalog of a ref for engines."""

    def of(view):
        return RestCatalog.of(view, server.iceberg, server.token)

    return of
