"""Systems of Keep on real servers: addresses, certificates, and blocks that come back."""

import pytest

from graveler.errors import BackendUnavailableError
from graveler.testing import World
from tests.harness.keep_system import FOO, System


@pytest.fixture
def world():
    return World()


@pytest.fixture
def system(world, tmp_path, monkeypatch):
    """The system ``main`` with one server."""
    monkeypatch.setattr("graveler.server.server._POLL_SECONDS", 0.01)
    with world.open() as lake:
        made = System(lake, tmp_path, "a")
        yield made
        for server, _ in made.servers.values():
            server.cut()


@pytest.fixture
def client(system):
    client = system.lake.keep.client("main")
    yield client
    client.close()


def second_address(system):
    """Add the only server again, by another name of this machine."""
    url = system.servers["a"][0].address.replace("127.0.0.1", "localhost")
    system.lake.keep.add_server("main", url)


def test_two_addresses_of_one_server_have_one_copy(system, client):
    second_address(system)
    with pytest.raises(BackendUnavailableError, match=r"1 of 2 copies.+same volume as another"):
        client.put(b"foo")
    assert client.have([FOO]) == {FOO.digest: 1}
    system.start("b")
    client.put(b"foo")
    assert system.copies() == ["a", "b"]
    assert client.have([FOO], touch=False) == {FOO.digest: 2}
