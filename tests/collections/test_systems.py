"""Systems of Keep on real servers: addresses, certificates, and blocks that come back."""

import re

import pytest

from graveler.datamanager.manager import DataManager
from graveler.errors import (
    BackendUnavailableError,
    InvalidInputError,
    ObjectNotFoundError,
    PermissionDeniedError,
)
from graveler.testing import World
from tests.harness.certificates import of_localhost
from tests.harness.keep_system import FOO, TTL, System


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


def test_own_certificates_are_trusted_by_all_that_asks(system, tmp_path):
    keep, certificate = system.lake.keep, of_localhost(tmp_path)
    keep.remove_server("main", system.lose("a"))
    stranger = keep.client("main")
    keep.trust("main", certificate[0].read_text())
    for name in "bc":
        system.start(name, tls=certificate)
    with pytest.raises(PermissionDeniedError, match="`graveler keep trust"):
        stranger.put(b"foo", replicas=1)
    assert {each.url.partition(":")[0] for each in keep.servers("main")} == {"https"}
    client = keep.client("main")
    client.put(b"foo", replicas=1)
    keep.collections("main").create(f". {FOO} 0:3:foo\n")
    assert system.sweep().pulls.sent == 1
    assert system.copies() == ["b", "c"]
    for each in (stranger, client):
        each.close()


def test_certificates_are_verified_when_they_are_given(system):
    with pytest.raises(InvalidInputError, match="has no certificates as PEM"):
        system.lake.keep.trust("main", "-----BEGIN NOTHING-----")


def test_a_needed_block_in_trash_is_named_and_comes_back(system, client, world):
    client.put(b"foo", replicas=1)
    world.clock.advance(TTL)
    server = system.servers["a"][0]
    server.store.trash(FOO.digest)
    system.lake.keep.collections("main").create(f". {FOO} 0:3:foo\n", persisted=True)
    named = "in trash until .+ UTC: `graveler keep untrash` brings it back"
    with pytest.raises(ObjectNotFoundError, match=named):
        client.get(FOO)
    assert re.search(named, DataManager(system.lake, "main").explain(FOO)[-1])
    dry = system.sweep(dry_run=True)
    assert (list(dry.lost), dry.untrashed) == ([str(FOO)], 0)
    receipt = system.sweep()
    assert (list(receipt.lost), receipt.untrashed) == ([], 1)
    assert "untrashed: 1 of the lost blocks" in receipt.report()
    assert client.get(FOO) == b"foo"


def test_a_block_that_is_nowhere_stays_lost(system, client):
    system.lake.keep.collections("main").create(f". {FOO} 0:3:foo\n", persisted=True)
    assert list(system.sweep().lost) == [str(FOO)]
    with pytest.raises(ObjectNotFoundError, match="404"):
        client.untrash(FOO)
