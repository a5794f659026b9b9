"""Keep servers of the tests, and a client of them."""

import pytest

from graveler.keep.client import KeepClient
from graveler.server.keep.service import KeepServer
from graveler.testing import World
from graveler.testing.clock import FakeClock, SequenceIds
from tests.harness.keep_server import USER, Client
from tests.keep.stub import stub_servers


@pytest.fixture(scope="module")
def all_servers():
    with stub_servers(4) as servers:
        yield servers


@pytest.fixture
def servers(all_servers):
    """Three servers, all of them working."""
    for server in all_servers:
        server.reset()
    return all_servers[:3]


@pytest.fixture
def client_of():
    """Return clients of servers, on a clock that does not wait."""
    clients = []

    def make(servers, **options):
        options = {"clock": FakeClock(), "ids": SequenceIds(), **options}
        clients.append(KeepClient(lambda: [each.server for each in servers], "token", **options))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(client_of, servers):
    return client_of(servers)


@pytest.fixture
def world():
    return World()


@pytest.fixture
def lake(world):
    with world.open() as opened:
        opened.keep.create("main")
        yield opened


@pytest.fixture
def serve(lake, tmp_path, monkeypatch):
    """Start servers of the system main, each with a client."""
    monkeypatch.setattr("graveler.server.server._POLL_SECONDS", 0.01)
    opened: list[KeepServer] = []

    def start(*, volumes=1, **options):
        folders = [tmp_path / f"volume{len(opened)}{at}" for at in range(volumes)]
        server = KeepServer(lake, "main", folders, token=USER, **options)
        opened.append(server)
        return Client(lake, server)

    yield start
    for server in opened:
        server.cut()
