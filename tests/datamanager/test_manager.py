"""The data manager on real servers, which keep a lake whose storage is Keep."""

from datetime import timedelta

import pytest

from graveler.datamanager.manager import DataManager
from graveler.errors import BackendUnavailableError, StateError
from graveler.testing import World
from tests.harness.keep_system import FOO, TTL, System


@pytest.fixture
def world():
    return World()


@pytest.fixture
def lake(world):
    with world.open() as opened:
        yield opened


@pytest.fixture
def system(lake, tmp_path, monkeypatch):
    monkeypatch.setattr("graveler.server.server._POLL_SECONDS", 0.01)
    made = System(lake, tmp_path)
    yield made
    for server, _ in made.servers.values():
        server.cut()


@pytest.fixture
def repo(lake, system):
    return lake.create_repository("flights", storage="keep://main/flights")


def test_a_replaced_server_gets_its_copies_back(system, repo):
    repo.branch("main").put("foo", b"foo")
    first, second = system.copies()
    system.start(first, system.lose(first))
    assert system.copies() == [second]
    receipt = system.sweep()
    assert receipt.pulls.sent > 0
    assert sorted(system.copies()) == sorted([first, second])
    assert system.sweep().pulls.sent == 0


def test_blocks_of_a_draining_server_move_to_the_others(system, repo):
    repo.branch("main").put("foo", b"foo")
    name = system.copies()[0]
    system.lake.keep.drain_server("main", system.servers[name][1])
    system.sweep()
    assert len({*system.copies()} - {name}) == 2


def test_what_nothing_names_goes_after_its_time_and_not_before(system, repo, world):
    main = repo.branch("main")
    main.put("bar", b"bar" * 1000)
    client = system.lake.keep.client("main")
    client.put(b"foo")
    client.close()
    world.clock.advance(TTL - timedelta(hours=1))
    system.sweep()
    assert len(system.copies()) == 2
    world.clock.advance(hours=2)
    assert system.sweep(dry_run=True).trash.deferred == 2
    assert len(system.copies()) == 2
    assert system.sweep().trash.sent == 2
    assert system.copies() == []
    assert main.get("bar") == b"bar" * 1000


def test_a_collection_keeps_its_blocks_and_learns_of_its_copies(system, repo, world):
    collections = system.lake.keep.collections("main")
    client = system.lake.keep.client("main")
    client.put(b"foo")
    made = collections.create(f". {FOO} 0:3:foo\n", persisted=True, replicas=3)
    world.clock.advance(3 * TTL)
    system.sweep()
    system.sweep()
    assert len(system.copies()) == 3
    assert collections.get(made.uuid).confirmed == 3
    collections.delete(made.uuid)
    repo.branch("main").put("bar", b"bar" * 1000)
    system.sweep()
    assert len(system.copies()) == 3
    world.clock.advance(TTL)
    system.sweep()
    assert system.copies() == []
    client.close()


def test_without_all_servers_nothing_is_trashed(system, repo, world):
    repo.branch("main").put("bar", b"bar" * 1000)
    client = system.lake.keep.client("main")
    client.put(b"foo")
    client.close()
    world.clock.advance(TTL + timedelta(hours=1))
    absent = next(name for name in system.servers if name not in system.copies())
    system.servers[absent][0].cut()
    with pytest.raises(BackendUnavailableError, match="no copy is trashed without all servers"):
        system.sweep()
    assert len(system.copies()) == 2


def test_a_system_without_roots_is_not_swept(system):
    with pytest.raises(StateError, match="would trash all"):
        system.sweep()


def test_a_block_is_explained(system, repo):
    repo.branch("main").put("foo", b"foo")
    lines = DataManager(system.lake, "main").explain(FOO)
    assert len(lines) >= 3
    assert any("keep" in line for line in lines)


def test_the_last_receipt_is_kept(system, repo):
    repo.branch("main").put("foo", b"foo")
    receipt = system.sweep()
    assert DataManager(system.lake, "main").last() == receipt
    assert "balanced" in receipt.report()
