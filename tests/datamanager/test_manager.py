"""The data manager on real servers, which keep a lake whose storage is Keep."""

import shutil
from datetime import timedelta

import pytest

from graveler.datamanager.manager import DataManager
from graveler.errors import BackendUnavailableError, StateError
from graveler.keep.locators import Locator
from graveler.server.keep.service import KeepServer
from graveler.testing import World

TTL = timedelta(days=14)
FOO = Locator.of(b"foo")


class System:
    """Servers of the system ``main`` that a test loses and replaces."""

    def __init__(self, lake, folder, names="abc", ttl=TTL):
        self.lake = lake
        self.folder = folder
        self.servers = {}
        lake.keep.create("main", ttl=ttl)
        for name in names:
            self.start(name)

    def start(self, name, uuid=""):
        server = KeepServer(self.lake, "main", [self.folder / name])
        record = self.lake.keep.add_server("main", server.address, uuid)
        self.servers[name] = server, record.uuid

    def lose(self, name):
        server, uuid = self.servers.pop(name)
        server.cut()
        shutil.rmtree(self.folder / name)
        return uuid

    def sweep(self, **options):
        receipt = DataManager(self.lake, "main").sweep(**options)
        for server, _ in self.servers.values():
            server.pulls.wait()
            server.trash.wait()
        return receipt

    def copies(self, locator=FOO):
        return [
            name
            for name, (server, _) in self.servers.items()
            if any(line.split()[0] == locator.bare for line in server.store.index())
        ]


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


def a_day(system, repo, world):
    """Run 24 hours, of which three fail; lose and replace servers. Return the failed and the others."""
    failed, published = {}, {}
    for hour in range(24):
        path, content = f"input/2013/01/01/{hour:02}:00/part-0.csv", b"%d\n" % hour * 5_000
        if hour == 8:
            system.start("b", system.lose("b"))
        if hour == 16:
            system.sweep()
            system.lake.keep.remove_server("main", system.lose("d"))
            system.start("f")
        try:
            with repo.run(f"hour {hour}", into="main") as run:
                run.put(path, content)
                run.commit("part")
                if hour in {3, 9, 14}:
                    raise LookupError(hour)
            published[path] = content
        except LookupError:
            failed[hour] = path, content
        world.clock.advance(hours=1)
        if hour % 6 == 5:
            system.sweep()
    return failed, published


def swept_until_gone(system, world, blocks):
    """Sweep until no server has any of the blocks, and return when each one went."""
    gone = {}
    for _ in range(160):
        world.clock.advance(hours=6)
        assert not system.sweep().lost
        now = world.clock.now()
        for name, locator in blocks.items():
            if name not in gone and not system.copies(locator):
                gone[name] = now
        if len(gone) == len(blocks):
            break
    return gone


def test_a_fortnight_of_hourly_runs_on_servers_that_are_lost(world, lake, tmp_path, monkeypatch):
    """Published bytes keep their copies; those of failed runs go after their time, and not before."""
    monkeypatch.setattr("graveler.server.server._POLL_SECONDS", 0.01)
    system = System(lake, tmp_path, names="abcde", ttl=timedelta(days=7))
    repo = lake.create_repository("flights", storage="keep://main/flights")
    started = world.clock.now()
    failed, published = a_day(system, repo, world)
    world.clock.advance(days=10)  # longer than the time to live
    system.sweep()
    path, content = failed.pop(14)
    with repo.run("hour 14", into="main") as run:
        assert run.get(path) == content
    published[path] = content
    blocks = {hour: Locator.of(content) for hour, (_, content) in failed.items()}
    assert [len(system.copies(each)) for each in blocks.values()] == [2, 2]
    gone = swept_until_gone(system, world, blocks)
    for hour in blocks:
        # parked for two weeks, then reaped, and kept for one time to live
        age = gone[hour] - started - timedelta(hours=hour)
        assert timedelta(days=21) <= age <= timedelta(days=35), hour
    for path, content in published.items():
        assert repo.branch("main").get(path) == content
        assert len(system.copies(Locator.of(content))) == 2, path
    report = system.sweep().report()
    assert "lost" not in report
    assert "keep://main/flights" in report
    for server, _ in system.servers.values():
        server.cut()
