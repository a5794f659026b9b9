"""A gateway for a lake in memory, and its client on the branch ``dev``."""

import pytest

from graveler.server import Server
from graveler.testing import World
from tests.harness.webhdfs import WebHdfs

TOKEN = "grav-of-the-tests"


@pytest.fixture
def world():
    return World()


@pytest.fixture
def lake(world):
    with world.open() as opened:
        yield opened


@pytest.fixture
def repo(lake):
    return lake.create_repository("flights")


@pytest.fixture
def dev(repo):
    return repo.create_branch("dev")


@pytest.fixture(autouse=True)
def _closed_soon(monkeypatch):
    """Let a gateway end at once: it looks for the request to do so from time to time."""
    monkeypatch.setattr("graveler.server.server._POLL_SECONDS", 0.01)


@pytest.fixture
def serve(lake):
    """Starts a gateway with options, and returns a client on the branch ``dev``."""
    opened = []

    def start(**options):
        gateway = Server(options.pop("lake", lake), token=TOKEN, **options)
        client = WebHdfs(gateway.address, TOKEN, "/flights/dev")
        opened.append((gateway, client))
        return client

    yield start
    for gateway, client in opened:
        client.close()
        gateway.cut()
        assert gateway.close(seconds=120)


@pytest.fixture
def client(serve, dev):
    return serve()
