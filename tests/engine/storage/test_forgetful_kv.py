"""A key-value store restored from an old backup is detected, named, and not written to."""

import re
import shutil
from datetime import timedelta

import psycopg
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
from graveler.kv.memory import MemoryKVStore
from graveler.kv.store import KVStore
from graveler.lake.factory import write_default_config
from graveler.lake.lake import Lake
from graveler.repository.witness.marker import MARKER, read_marker
from graveler.repository.witness.witness import WitnessedKVStore
from graveler.testing.clock import FakeClock, SequenceIds
from tests.harness.commands import cli  # noqa: F401 - a fixture
from tests.harness.servers.postgres import for_libpq


class FileBackup:
    """Backs up a key-value store in a file or a folder, while no process has it open."""

    def __init__(self, folder, place):
        self.folder, self.place = folder, place

    def _files(self, folder):
        return sorted(folder.glob(f"{self.place}*"))

    def take(self):
        kept = self.folder / "backup"
        kept.mkdir()
        for file in self._files(self.folder):
            copy = shutil.copytree if file.is_dir() else shutil.copy2
            copy(file, kept / file.name)

    def wipe(self):
        for file in self._files(self.folder):
            shutil.rmtree(file) if file.is_dir() else file.unlink()

    def restore(self):
        self.wipe()
        for file in self._files(self.folder / "backup"):
            shutil.move(file, self.folder / file.name)


class PostgresBackup:
    """Backs up the tables of a schema as copies in the same schema."""

    def __init__(self, url):
        self.url = url

    def _run(self, *statements):
        with psycopg.connect(for_libpq(self.url), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def _tables(self):
        with psycopg.connect(for_libpq(self.url)) as connection:
            rows = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
            ).fetchall()
        return [name for (name,) in rows if not name.startswith("backup_")]

    def take(self):
        self._run(*(f"CREATE TABLE backup_{one} AS TABLE {one}" for one in self._tables()))

    def wipe(self):
        self._run(*(f"TRUNCATE {one} CASCADE" for one in self._tables()))

    def restore(self):
        self.wipe()
        self._run(*(f"INSERT INTO {one} TABLE backup_{one}" for one in self._tables()))


@pytest.fixture(params=["sqlite", "rocksdb", "postgres"])
def place(request, tmp_path):
    """The folder of a lake, and the backup of its key-value store."""
    folder = tmp_path / "lake"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
        write_default_config(folder, kv_uri=url)
        return folder, PostgresBackup(url)
    write_default_config(folder, kv_uri=f"{request.param}://kv")
    return folder, FileBackup(folder, "kv")


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


def test_a_lake_without_repositories_lists_none(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        assert lake.repositories() == []
        lake.create_repository("flights")
        lake.delete_repository("flights")
        assert lake.repositories() == []


def test_the_command_line_names_it_and_goes_on_when_told(forgetful, cli, monkeypatch):  # noqa: F811
    folder, kept, _ = forgetful
    monkeypatch.chdir(folder)
    found = cli("fsck")
    assert found.code == 1
    assert "outdated: the key-value store of repository 'flights'" in found.out
    assert cli("fsck", "--json").json["sound"] is False
    assert len(cli("fsck", "--json").json["outdated"]) == 1
    assert cli("log", "-n", "1").code == 0
    refused = cli("branch", "create", "dev", "--json")
    assert refused.code == 1
    assert refused.error["code"] == "kv-outdated"
    assert cli("repo", "accept", "flights").code == 0
    assert cli("fsck", "--json").json["outdated"] == []
    assert cli("branch", "create", "dev").code == 0
    assert cli("log", "dev", "--json").lines[0]["id"] == kept.id


def test_an_emptied_store_is_not_found_sound(place, cli, monkeypatch):  # noqa: F811
    folder, backup = place
    with graveler.open(folder, create=True) as lake:
        lake.create_repository("flights")
    committed(folder, "lost")
    backup.wipe()
    monkeypatch.chdir(folder)
    assert cli("fsck").code == 1
    assert cli("repo", "create", "flights", "--json").error["code"] == "kv-outdated"
    assert cli("log", "--repo", "flights", "--json").error["code"] == "kv-outdated"
    assert cli("repo", "create", "flights", "--take-over").code == 0
    assert cli("fsck").code == 0


def test_a_lake_that_is_as_it_was_is_never_named(place):
    folder, backup = place
    with graveler.open(folder, create=True) as lake:
        lake.create_repository("flights")
        lake.check_kv()
        with pytest.raises(LookupError):
            lake.repository("other")
    for number in range(3):
        committed(folder, f"{number}")
    with graveler.open(folder, create=True) as lake:
        lake.repository("flights").check_kv()
        lake.create_repository("other")
    backup.take()
    backup.restore()
    assert committed(folder, "again").message == "again"


class CountingKV(WitnessedKVStore):
    """Counts calls."""

    def __init__(self, store):
        super().__init__(store, lambda: None)
        self.calls = []
        for name in ("get", "set_if", "set"):
            setattr(self, name, self._counted(name, getattr(self, name)))

    def _counted(self, name, call):
        def counted(partition, *given):
            self.calls.append((name, partition.partition(":")[0]))
            return call(partition, *given)

        return counted


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


def test_moves_are_counted_at_once_each_minute_and_at_the_end(world):
    _, clock, opened = world
    lake = opened()
    repo = lake.repository("flights")
    assert moved(repo, "a") == 2  # count 1 was the creation of the repository
    assert moved(repo, "b") == 2
    clock.sleep(59)
    assert moved(repo, "c") == 2
    clock.sleep(2)
    assert moved(repo, "d") == 3
    clock.sleep(11)
    assert moved(lake.repository("flights"), "e") == 3
    lake.close()
    marker = read_marker(repo.stores.objects)
    assert marker is not None
    assert marker.count == 4


@pytest.mark.parametrize("jump", [timedelta(days=2), timedelta(days=-2)])
def test_a_clock_that_jumps_makes_it_count_and_nothing_else(world, jump):
    _, clock, opened = world
    repo = opened().repository("flights")
    assert moved(repo, "a") == 2
    clock.sleep(jump.total_seconds())
    assert moved(repo, "b") == 3
    assert moved(repo, "c") == 3
    assert moved(opened().repository("flights"), "d") == 4


def test_between_two_counts_a_move_costs_no_call(world):
    kv, _, opened = world
    counting = CountingKV(kv)
    repo = opened(counting).repository("flights")
    repo.create_branch("a")
    assert ("set_if", "witness") in counting.calls
    counting.calls.clear()
    repo.create_branch("b")
    assert [partition for _, partition in counting.calls if partition == "witness"] == []


def test_reading_asks_for_no_count_once_the_storage_is_known(world):
    kv, _, opened = world
    counting = CountingKV(kv)
    lake = opened(counting)
    repo = lake.repository("flights")
    assert counting.calls.count(("get", "witness")) <= 2
    counting.calls.clear()
    repo = lake.repository("flights")
    list(repo.log("main"))
    list(repo.branch("main").list())
    assert [partition for _, partition in counting.calls if partition == "witness"] == []


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


def test_a_storage_is_marked_when_its_repository_is_made(tmp_path):
    with graveler.init(tmp_path / "lake") as lake:
        lake.create_repository("flights")
    assert (tmp_path / "lake" / "objects" / "flights" / MARKER).is_file()
