"""A key-value store restored from an old backup is detected, named, and not written to."""

import re
import shutil
from datetime import timedelta

import pytest

import graveler
from graveler.base.background import Inline
from graveler.config import LakeConfig
from graveler.errors import (
    BackendUnavailableError,
    CorruptionError,
    KVOutdatedError,
    NewerFormatError,
)
from graveler.kv.drivers.memory import MemoryKVStore
from graveler.kv.store import KVStore
from graveler.lake.factory import write_default_config
from graveler.lake.lake import Lake
from graveler.repository.witness.marker import MARKER, read_marker
from graveler.testing.clock import FakeClock, SequenceIds
from tests.harness.commands import cli  # noqa: F401 - a fixture


class Backup:
    """The key-value store of a lake in a folder, while no process has it open."""

    def __init__(self, folder):
        self.folder, self.kept = folder, folder.with_name("backup")

    def take(self):
        self.kept.mkdir()
        for file in self.folder.glob("kv*"):
            copy = shutil.copytree if file.is_dir() else shutil.copy2
            copy(file, self.kept / file.name)

    def wipe(self):
        for file in self.folder.glob("kv*"):
            shutil.rmtree(file) if file.is_dir() else file.unlink()

    def restore(self):
        self.wipe()
        for file in self.kept.iterdir():
            shutil.move(file, self.folder / file.name)


@pytest.fixture(params=["sqlite", "rocksdb"])
def place(request, tmp_path):
    """The folder of a lake, and the backup of its key-value store."""
    folder = tmp_path / "lake"
    write_default_config(folder, kv_uri=f"{request.param}://kv")
    return folder, Backup(folder)


def committed(folder, path):
    with graveler.open(folder) as lake:
        repo = lake.repository("flights")
        repo.branch("main").put(path, path.encode())
        return repo.branch("main").commit(path)


@pytest.fixture
def forgetful(place):
    """A lake whose key-value store was restored to a state without the last commit."""
    folder, backup = place
    with graveler.open(folder, create=True) as lake:
        lake.create_repository("flights")
    kept = committed(folder, "kept")
    backup.take()
    lost = committed(folder, "lost")
    backup.restore()
    return folder, kept, lost


def test_a_restored_old_backup_is_named_and_nothing_is_written(forgetful):
    folder, kept, lost = forgetful
    with graveler.open(folder) as lake:
        repo = lake.repository("flights")
        main = repo.branch("main")
        main.put("more", b"1")
        for write in (
            lambda: main.commit("no"),
            lambda: repo.create_branch("no"),
            lambda: repo.tags.create("no"),
            lambda: repo.runs.open("no"),
            lambda: repo.protection.add("no"),
            lambda: repo.gc,
        ):
            with pytest.raises(KVOutdatedError) as told:
                write()
            for part in ("'flights'", "old backup", "graveler repo accept flights"):
                assert part in str(told.value)
            known, witnessed = re.findall(r"is (\d+) \(last at \S+ \S+ UTC\)", str(told.value))
            assert int(known) < int(witnessed)
        assert main.head == kept
        assert [entry.path for entry in repo.ref("main").list()] == ["kept"]
        assert main.get("kept") == b"kept"
    assert lost.id != kept.id


def test_what_is_there_can_be_accepted(forgetful):
    folder, kept, _ = forgetful
    with graveler.open(folder) as lake:
        lake.accept("flights")
        lake.repository("flights").check_kv()
    assert committed(folder, "next").parents == (kept.id,)
    assert committed(folder, "after").message == "after"


def test_an_emptied_store_under_a_storage_with_history_is_named(place):
    folder, backup = place
    with graveler.open(folder, create=True) as lake:
        lake.create_repository("flights")
    committed(folder, "lost")
    backup.wipe()
    with graveler.open(folder, create=True) as lake:
        for ask in (
            lambda: lake.repository("flights"),
            lambda: lake.create_repository("flights"),
            lake.repositories,
            lake.check_kv,
        ):
            with pytest.raises(KVOutdatedError, match=r"emptied.*[Rr]estore") as told:
                ask()
            assert "flights" in str(told.value)
        repo = lake.create_repository("flights", take_over=True)
        repo.branch("main").put("new", b"1")
        repo.branch("main").commit("new")
        lake.check_kv()
    assert committed(folder, "newer").message == "newer"


def test_the_command_line_names_it_and_goes_on_when_told(forgetful, cli, monkeypatch):  # noqa: F811
    folder, kept, _ = forgetful
    monkeypatch.chdir(folder)
    found = cli("fsck")
    assert found.code == 1
    assert "outdated: the key-value store of repository 'flights'" in found.out
    assert cli("fsck", "--json").json["sound"] is False
    assert len(cli("fsck", "--json").json["outdated"]) == 1
    refused = cli("branch", "create", "dev", "--json")
    assert refused.code == 1
    assert refused.error["code"] == "kv-outdated"
    assert cli("repo", "accept", "flights").code == 0
    assert cli("fsck", "--json").json["outdated"] == []
    assert cli("branch", "create", "dev").code == 0
    assert cli("log", "dev", "--json").lines[0]["id"] == kept.id


@pytest.fixture
def world(tmp_path):
    """A key-value store, a storage, a clock, and a function that opens lakes on them."""
    kv, clock, ids = MemoryKVStore(), FakeClock(), SequenceIds()
    config = LakeConfig("x", "mem://", f"file://{tmp_path}/objects", cache_folder=None)

    def opened(store: KVStore = kv, **named):
        return Lake(
            config, store, clock=clock, ids=ids, background=Inline(), witnessed=True, **named
        )

    opened().create_repository("flights")
    return kv, clock, opened


def moved(repo, name):
    repo.create_branch(name)
    marker = read_marker(repo.stores.objects)
    assert marker is not None
    return marker.count


@pytest.mark.parametrize("jump", [timedelta(days=2), timedelta(days=-2)])
def test_a_clock_that_jumps_makes_it_count_and_nothing_else(world, jump):
    _, clock, opened = world
    repo = opened().repository("flights")
    assert moved(repo, "a") == 2
    clock.sleep(jump.total_seconds())
    assert moved(repo, "b") == 3
    assert moved(repo, "c") == 3
    assert moved(opened().repository("flights"), "d") == 4


def test_a_store_that_forgets_is_noticed_within_a_minute(world):
    kv, clock, opened = world
    repo = opened().repository("flights")
    before = {p: dict(kv.scan(p)) for p in kv.partitions("")}
    repo.create_branch("a")
    for partition in list(kv.partitions("")):
        kv.drop(partition)
    for partition, records in before.items():
        kv.set_many(partition, records.items())
    clock.sleep(61)
    repo.create_branch("b")  # the count is checked after the move
    with pytest.raises(KVOutdatedError):
        repo.create_branch("c")
    with pytest.raises(KVOutdatedError):
        opened().repository("flights").check_kv()


def test_a_count_by_another_process_between_reads_is_no_alarm(world, monkeypatch):
    _, clock, opened = world
    repo, other = opened().repository("flights"), opened().repository("flights")

    def interrupted(objects):
        found = read_marker(objects)
        if counting:
            counting.pop()
            other._witness._count()
        return found

    monkeypatch.setattr("graveler.repository.witness.witness.read_marker", interrupted)
    for number in range(5):
        counting = [1]
        repo._witness.check()
        counting = [1]
        repo.create_branch(f"b{number}")
        clock.sleep(61)


def test_a_storage_that_does_not_answer_stops_no_reader(world, monkeypatch):
    _, _, opened = world
    repo = opened().repository("flights")

    def unavailable(*given):
        raise BackendUnavailableError(given[0])

    monkeypatch.setattr(repo.stores.objects, "put_if_match", unavailable)
    assert list(repo.log("main"))
    with pytest.raises(BackendUnavailableError):
        repo.create_branch("a")


def test_a_damaged_marker_is_damage(world):
    _, _, opened = world
    repo = opened().repository("flights")
    repo.create_branch("a")
    repo.stores.objects.put(MARKER, b'{"format":2}')
    with pytest.raises(CorruptionError, match="marker"):
        opened().repository("flights")


def test_a_marker_of_the_future_is_refused_and_stays(world):
    _, _, opened = world
    repo = opened().repository("flights")
    repo.create_branch("a")
    raw = b'{"at":0,"count":9,"format":3}'
    repo.stores.objects.put(MARKER, raw)
    with pytest.raises(NewerFormatError):
        repo.check_kv()
    with pytest.raises(NewerFormatError):
        opened().repository("flights").create_branch("b")
    assert repo.stores.objects.get(MARKER) == raw
