"""A lake on the local disk, its server, and catalogs of its refs by both ways in."""

import pytest

import graveler
from graveler.lake.shared import lend_lake
from graveler.server import Server
from graveler.testing import World
from tests.harness.iceberg import TOKEN, own_catalog, rest_catalog


@pytest.fixture
def lake(tmp_path):
    with graveler.init(tmp_path / "lake") as opened, lend_lake(opened):
        yield opened


@pytest.fixture
def repo(lake):
    return lake.create_repository("flights")


@pytest.fixture
def server(lake, monkeypatch):
    monkeypatch.setattr("graveler.server.server._POLL_SECONDS", 0.01)
    with Server(lake, token=TOKEN) as opened:
        yield opened


@pytest.fixture(params=["process", "rest"])
def catalog(request, lake, repo):
    """Opens the catalog of a ref: in this process, or by the server."""
    opened = []

    def open_catalog(ref="main"):
        if request.param == "process":
            return own_catalog(lake, f"flights@{ref}")
        client = rest_catalog(request.getfixturevalue("server"), f"flights@{ref}")
        opened.append(client)
        return client

    yield open_catalog
    for client in opened:
        client.close()


@pytest.fixture
def main(catalog):
    return catalog()


@pytest.fixture
def timed(monkeypatch):
    """A lake with a user and a clock that tests move, and its server."""
    monkeypatch.setattr("graveler.server.server._POLL_SECONDS", 0.01)
    world = World()
    with world.open() as lake:
        lake.create_repository("flights")
        with Server(lake, token=TOKEN) as server:
            yield world, lake, server
