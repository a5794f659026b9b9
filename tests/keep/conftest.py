"""Keep servers of the tests, and a client of them."""

import pytest

from graveler.keep.client import KeepClient
from graveler.testing.clock import FakeClock, SequenceIds
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
