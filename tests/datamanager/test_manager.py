"""The data manager on real servers, which keep a lake whose storage is Keep."""

import io
from datetime import timedelta
from threading import Event
from unittest.mock import Mock

import pytest

from graveler.datamanager.manager import DataManager, SystemRoots
from graveler.errors import BackendUnavailableError, CorruptionError, StateError, StorageFullError
from graveler.keep.client import KeepClient
from graveler.keep.locators import Locator
from graveler.server.keep import surface
from graveler.server.messages import Answer
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


def test_a_dump_of_refs_on_keep_is_refused(repo, tmp_path):
    repo.branch("main").put("foo", b"foo")
    with pytest.raises(StateError, match=r"keep://main/flights .*back up the key-value store"):
        repo.dump_refs(tmp_path / "refs")
    assert not (tmp_path / "refs").exists()


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


def test_a_system_without_servers_names_the_way_out(lake):
    lake.keep.create("main")
    for work in (DataManager(lake, "main").sweep, lambda: DataManager(lake, "main").explain(FOO)):
        with pytest.raises(StateError, match="`graveler keep servers add main URL`"):
            work()


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


def test_only_one_data_manager_sweeps_at_a_time(system, repo, monkeypatch, world):
    repo.branch("main").put("foo", b"foo")
    other = DataManager(system.lake, "main")
    errors = []

    def sweep_beside(self):
        with pytest.raises(StateError, match="another data manager sweeps the system 'main'"):
            other.sweep()
        errors.append(self)

    monkeypatch.setattr(DataManager, "_collect", sweep_beside)
    system.sweep()
    assert len(errors) == 1
    monkeypatch.undo()
    other.sweep()
    other._begin()  # it dies
    world.clock.advance(hours=1)
    system.sweep()
    world.clock.advance(days=365)
    other._begin()  # and its clock was ahead
    world.clock.advance(days=-365)
    system.sweep()


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"format":1}'])
@pytest.mark.parametrize("name", [b"last", b"turn"])
def test_a_damaged_record_of_sweeps_is_replaced_by_force(system, repo, name, raw):
    repo.branch("main").put("foo", b"foo")
    system.lake.keep.kv.set("keep:main", b"sweeps/" + name, raw)
    with pytest.raises(CorruptionError, match="`graveler keep balance main --force` begins again"):
        system.sweep()
    system.sweep(force=True, dry_run=True)
    system.sweep(force=True)
    assert system.sweep() == DataManager(system.lake, "main").last()


def test_force_takes_a_turn_and_the_other_sweep_trashes_nothing(system, repo, monkeypatch):
    repo.branch("main").put("foo", b"foo")
    DataManager(system.lake, "main")._begin()  # it dies
    with pytest.raises(StateError, match=r"take its turn \(--force\)"):
        system.sweep()
    newer, receipts = SystemRoots.newer, []

    def beside(self, generation):
        monkeypatch.undo()
        receipts.append(system.sweep(force=True))
        return newer(self, generation)

    monkeypatch.setattr(SystemRoots, "newer", beside)
    assert "or another sweep took the turn" in system.sweep(force=True).withheld
    assert [each.withheld for each in receipts] == [""]


@pytest.mark.parametrize("change", ["add_server", "remove_server", "drain_server"])
def test_servers_that_change_meanwhile_withhold_trash(system, repo, monkeypatch, change):
    repo.branch("main").put("foo", b"foo")
    [uuid, *_] = [each.uuid for each in system.lake.keep.servers("main")]
    given = "http://127.0.0.1:1/" if change == "add_server" else uuid
    newer = SystemRoots.newer

    def changed(self, generation):
        getattr(system.lake.keep, change)("main", given)
        return newer(self, generation)

    monkeypatch.setattr(SystemRoots, "newer", changed)
    assert "was added, removed or drained meanwhile" in system.sweep().withheld


def test_pulls_that_failed_are_in_the_next_report(system, repo, monkeypatch):
    repo.branch("main").put("foo", b"foo")
    first = system.copies()[0]
    uuid = system.lose(first)
    system.start(first, uuid)
    refuse = StorageFullError("volume x is full")
    monkeypatch.setattr(system.servers[first][0].store, "write", Mock(side_effect=refuse))
    assert "failed" not in system.sweep().report()
    assert f"server {uuid}: pulls of the sweep before that failed: " in system.sweep().report()


def test_a_lost_manifest_withholds_trash_only(system, repo):
    repo.branch("main").put("foo", b"foo")
    made = system.lake.keep.collections("main").create(f". {FOO} 0:3:foo\n")
    kv = system.lake.keep.kv
    for key, _ in list(kv.scan_below("collections:main", b"text/")):
        kv.delete("collections:main", key)
    first = system.copies()[0]
    system.start(first, system.lose(first))
    receipt = system.sweep()
    assert f"version 1 of {made.uuid} is gone" in receipt.withheld
    assert receipt.pulls.sent > 0


def test_an_unreadable_list_of_blocks_withholds_trash_only(system, repo, world, monkeypatch):
    monkeypatch.setattr("graveler.keep.files.LIST_CHARACTERS", 10)
    main = repo.branch("main")
    for number in range(8):
        main.put(f"{number}", b"%d" % number)
    main.put("foo", b"foo")
    client = system.lake.keep.client("main")
    client.put(b"bar")
    client.close()
    world.clock.advance(TTL + timedelta(hours=1))
    held = Locator.of(FOO.bare.encode())
    for server, _ in system.servers.values():
        for file in (server.folders[0] / held.digest[:3]).glob(f"{held.digest}*"):
            file.unlink()
    first = system.copies()[0]
    system.start(first, system.lose(first))
    receipt = system.sweep()
    assert "a list of blocks cannot be read" in receipt.withheld
    assert receipt.trash.sent == 0
    assert receipt.pulls.sent > 0
    assert held.bare in receipt.lost


LARGE = Locator.of(bytes(64 << 20))


@pytest.fixture
def slow(monkeypatch):
    """Return bodies of two blocks, with work to do once the first one is stored."""
    stored, put = Event(), KeepClient.put

    def noted(client, content):
        try:
            return put(client, content)
        finally:
            stored.set()

    class Slow:
        def __init__(self, work):
            self.file, self.work = io.BytesIO(bytes(64 << 20)), work

        def read(self, size):
            piece = self.file.read(size)
            if piece or not size or self.work is None:
                return piece
            assert stored.wait(20)
            self.work()
            self.file, self.work = io.BytesIO(b"end"), None
            return self.read(size)

    monkeypatch.setattr(KeepClient, "put", lambda client, content, **_: noted(client, content))
    return Slow


def trash_large(system):
    for server, _ in system.servers.values():
        server.store.trash(LARGE.digest)


def test_a_long_upload_touches_its_first_blocks(system, repo, world, slow):
    """A sweep that began before the upload ended knows no root of them."""
    repo.branch("main").put("large", slow(lambda: world.clock.advance(TTL / 2)))
    world.clock.advance(TTL - timedelta(hours=1))
    trash_large(system)
    assert len(system.copies(LARGE)) == 2


def test_an_upload_whose_blocks_are_gone_fails(system, repo, world, slow):
    def work():
        world.clock.advance(TTL)
        trash_large(system)

    with pytest.raises(BackendUnavailableError, match="was trashed while the rest was uploaded"):
        repo.branch("main").put("large", slow(work))


@pytest.mark.parametrize("way", ["delete", "replace"])
def test_blocks_of_a_gone_object_stay_for_a_signature(system, repo, world, way):
    repo.branch("main").put("bar", b"bar" * 1000)
    objects = system.lake._open_store("keep://main/objects")
    objects.put("foo", b"foo")
    world.clock.advance(3 * TTL)
    objects.delete("foo") if way == "delete" else objects.put("foo", b"bar")
    world.clock.advance(TTL - timedelta(hours=1))
    system.sweep()
    assert len(system.copies()) == 2
    world.clock.advance(hours=2)
    system.sweep()
    assert system.copies() == []
    objects.close()


def test_a_sweep_sees_what_was_named_since_it_began(system, repo):
    """Of objects and of collections."""
    collections = system.lake.keep.collections("main")
    client = system.lake.keep.client("main")
    roots = SystemRoots(system.lake.keep.kv, "main", collections, client)
    collections.create(f". {FOO} 0:3:foo\n")
    began, _ = roots.read()
    assert list(roots.newer(began)) == []
    made = collections.create(f". {FOO} 0:3:foo\n")
    repo.branch("main").put("bar", b"bar" * 1000)
    new = {source.root for source in roots.newer(began)}
    assert new == {made.uuid, "keep://main/flights"}
    client.close()


def test_a_part_of_an_index_that_ends_too_early_ends_the_sweep(system, repo, monkeypatch):
    repo.branch("main").put("foo", b"foo")
    line = f"{FOO} 1\n".encode()
    monkeypatch.setattr(surface, "_pieces", lambda lines: (line for _ in [*lines, ""]))
    with pytest.raises(BackendUnavailableError, match="without the blank line"):
        system.sweep()


def test_a_sweep_deletes_what_repositories_need_no_more(system, repo, world):
    main = repo.branch("main")
    main.put("foo", b"foo")
    main.reset()
    main.put("bar", b"bar" * 1000)
    main.commit("bar")
    for _ in range(3):
        world.clock.advance(TTL + timedelta(hours=1))
        system.sweep()
    assert system.copies() == []


@pytest.mark.parametrize("at", [0, 1500])
def test_an_index_that_breaks_off_stops_the_sweep(system, repo, monkeypatch, at):
    repo.branch("main").put("foo", b"foo")
    server, uuid = system.servers["a"]

    def lines(*_):
        yield from [f"{FOO} 1"] * at
        raise BackendUnavailableError("the disk is gone")

    monkeypatch.setattr(server.store, "index", lines)
    with pytest.raises(BackendUnavailableError, match=f"server {uuid} .*no copy is trashed"):
        system.sweep()


def test_a_server_that_is_something_else_is_named(system, repo, monkeypatch):
    repo.branch("main").put("foo", b"foo")
    server, uuid = system.servers["a"]
    monkeypatch.setattr(server.surface, "answer", lambda _: Answer(content=b"<html>"))
    with pytest.raises(BackendUnavailableError, match=f"server {uuid}.*is no server of Keep"):
        system.sweep()
