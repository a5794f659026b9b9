"""A lake in memory, its pages and their clients."""

import pytest

from graveler.server.pages import PageServer
from graveler.testing import World
from tests.harness.pages import TOKEN, Client, filled


@pytest.fixture
def world():
    return World()


@pytest.fixture
def lake(world):
    with world.open() as opened:
        yield opened


@pytest.fixture
def flights(lake):
    """A repository with branches, tags, runs of every end, gates and staged files."""
    return filled(lake.create_repository("flights"))


@pytest.fixture
def server(lake, world, monkeypatch):
    monkeypatch.setattr("graveler.server.server._POLL_SECONDS", 0.01)
    with PageServer(lake, token=TOKEN, clock=world.clock) as opened:
        yield opened


@pytest.fixture
def client(server):
    return Client(server, TOKEN)


@pytest.fixture
def client_of(server):
    """Returns a client with another token, or none."""
    return lambda token="": Client(server, token)
