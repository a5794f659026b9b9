"""Keep servers and stores of the tests, and clients of servers."""

from typing import Any

import pytest

from graveler.keep.client import KeepClient
from graveler.keep.store import BlockStore
from graveler.server.keep.service import KeepServer
from graveler.testing import World
from graveler.testing.clock import FakeClock, SequenceIds
from tests.harness.keep import DRIVERS, made, role
from tests.harness.keep_server import USER, Client
from tests.harness.keep_store import LIFE, TTL, Traced
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


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def trace():
    return []


@pytest.fixture
def make(clock, trace):
    """Make a store of volumes by their names and classes, and remember it."""

    def make(volumes, **options):
        made = [
            Traced(name, trace, clock, role=each if hasattr(each, "classes") else role(*each))
            for name, each in volumes.items()
        ]
        store: Any = BlockStore(made, ttl=TTL, trash_life=LIFE, clock=clock, **options)
        store.named = {each.name: each for each in made}
        return store

    return make


@pytest.fixture(params=DRIVERS)
def pair(request, tmp_path, clock):
    """A store of two volumes of a driver."""
    volumes = [made(request.param, tmp_path, clock, name) for name in "12"]
    return BlockStore(volumes, ttl=TTL, trash_life=LIFE, clock=clock)
