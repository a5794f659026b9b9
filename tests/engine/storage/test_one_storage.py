"""A lake has one storage: ids are compared, and the storage of another lake is refused."""

import shutil

import pytest

import graveler
from graveler.base.background import Inline
from graveler.config import LakeConfig
from graveler.errors import (
    GravelerError,
    KVOutdatedError,
    StorageMismatchError,
)
from graveler.kv.drivers.memory import MemoryKVStore
from graveler.lake.lake import Lake
from graveler.objects.memory import MemoryStore
from graveler.repository.witness.marker import MARKER, read_marker
from graveler.testing.clock import FakeClock, SequenceIds
from tests.harness.commands import cli  # noqa: F401 - a fixture


def settings(folder, kv, storage):
    """Write another graveler.toml."""
    folder.mkdir(exist_ok=True)
    (folder / "graveler.toml").write_text(
        f'format = 1\n[kv]\nuri = "sqlite://{kv}/kv.sqlite3"\n[storage]\nuri = "{storage}"\n'
    )
    return folder


def put(repo, path, branch="main"):
    repo.branch(branch).put(path, path.encode())
    return repo.branch(branch).commit(path)


@pytest.fixture
def home(tmp_path):
    """The folder of a lake with one commit."""
    with graveler.init(tmp_path / "lake") as lake:
        put(lake.create_repository("flights"), "one")
    return tmp_path / "lake"


def test_settings_that_name_another_storage_are_refused(home, tmp_path, cli):  # noqa: F811
    second = settings(tmp_path / "second", home, f"file://{tmp_path}/elsewhere")
    for _ in range(2):
        with graveler.open(second) as lake:
            with pytest.raises(StorageMismatchError) as refused:
                lake.repository("flights")
            for part in (f"{tmp_path}/elsewhere/flights", f"{home}/objects/flights", "[storage]"):
                assert part in str(refused.value)
            assert "accept" not in str(refused.value)
        assert "is not the storage" in cli("-C", second, "repo", "accept", "flights").err
    assert not (tmp_path / "elsewhere").exists()
    with graveler.open(home) as lake:
        put(lake.repository("flights"), "two")


def test_the_storage_of_another_lake_is_refused_with_both(home, tmp_path):
    with graveler.init(tmp_path / "other") as lake:
        put(lake.create_repository("flights"), "other")
    second = settings(tmp_path / "second", home, f"file://{tmp_path}/other/objects")
    with graveler.open(second) as lake:
        for call in (lambda: lake.repository("flights"), lambda: lake.accept("flights")):
            with pytest.raises(StorageMismatchError, match="belongs to lake") as refused:
                call()
            for part in (str(tmp_path / "other"), f"{home}/objects/flights"):
                assert part in str(refused.value)


def test_another_spelling_of_the_storage_is_the_storage(home, tmp_path):
    (tmp_path / "link").symlink_to(home / "objects")
    second = settings(tmp_path / "second", home, f"file://{tmp_path}/link")
    for folder, path in ((second, "two"), (home, "three"), (second, "four")):
        with graveler.open(folder) as lake:
            put(lake.repository("flights"), path)
    with graveler.open(home) as lake:
        assert len(list(lake.repository("flights").ref("main").list())) == 4


def test_a_copied_storage_is_refused_once_the_original_moved(home, tmp_path):
    shutil.copytree(home / "objects", tmp_path / "copy")
    with graveler.open(home) as lake:
        put(lake.repository("flights"), "two")
    second = settings(tmp_path / "second", home, f"file://{tmp_path}/copy")
    with graveler.open(second) as lake:
        for call in (lambda: lake.repository("flights"), lambda: lake.accept("flights")):
            with pytest.raises(StorageMismatchError, match=f"{home}/objects"):
                call()


def test_a_copied_key_value_store_is_noticed_when_both_are_used(tmp_path):
    with graveler.init(tmp_path / "lake") as lake:
        put(lake.create_repository("flights", storage=str(tmp_path / "far")), "one")
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    with graveler.open(tmp_path / "copy") as lake:
        put(lake.repository("flights"), "two")
    for _ in range(3):  # every time
        with graveler.open(tmp_path / "lake") as lake:
            repo = lake.repository("flights")
            with pytest.raises(KVOutdatedError, match=f"opened as {tmp_path}/copy"):
                put(repo, "three")
            assert repo.ref("main").get("one") == b"one"


def test_a_lake_moved_or_copied_whole_goes_on(home, tmp_path):
    shutil.copytree(home, tmp_path / "copy")
    home.rename(tmp_path / "moved")
    for folder in ("copy", "moved", "copy"):
        with graveler.open(tmp_path / folder) as lake:
            repo = lake.repository("flights")
            put(repo, f"{folder} {len(list(repo.log('main')))}")
            lake.repository("flights").check_kv()


def test_refs_are_not_restored_over_a_storage_that_a_lake_uses(home, tmp_path, cli):  # noqa: F811
    with graveler.open(home) as lake:
        lake.repository("flights").dump_refs(tmp_path / "dump")
    other = settings(tmp_path / "other", tmp_path / "other", f"file://{home}/objects")
    with graveler.open(other) as lake:
        with pytest.raises(StorageMismatchError, match="nothing was written") as refused:
            lake.restore_repository(tmp_path / "dump")
        assert str(home) in str(refused.value)
        with pytest.raises(KVOutdatedError, match="knows nothing"):
            lake.repositories()
    with graveler.open(home) as lake:
        put(lake.repository("flights"), "two")
    assert "belongs to lake" in cli("-C", other, "refs", "restore", tmp_path / "dump").err
    assert cli("-C", other, "refs", "restore", tmp_path / "dump", "--take-over").code == 0
    with (
        graveler.open(home) as lake,
        pytest.raises(StorageMismatchError, match="taken over") as why,
    ):
        lake.repository("flights")
    assert str(other) in str(why.value)
    assert "accept" not in str(why.value)


def test_who_has_it_open_notices_that_the_storage_was_taken_over(home, tmp_path):
    with graveler.open(home) as lake:
        repo = lake.repository("flights")
        repo.dump_refs(tmp_path / "dump")
        other = settings(tmp_path / "other", tmp_path / "other", f"file://{home}/objects")
        with graveler.open(other) as theirs:
            theirs.restore_repository(tmp_path / "dump", take_over=True)
        with pytest.raises(StorageMismatchError, match="taken over"):
            put(repo, "two")


class CountingStore(MemoryStore):
    """Counts the requests for the marker."""

    def __init__(self):
        super().__init__("counted")
        self.requests = []
        for name in ("put", "put_if_absent", "put_if_match", "get", "head", "delete"):
            setattr(self, name, self._counted(name, getattr(self, name)))

    def _counted(self, name, call):
        def counted(key, *given):
            if key == MARKER:
                self.requests.append(name)
            return call(key, *given)

        return counted


class Cloud:
    """A lake on a storage without a folder, opened by each process."""

    def __init__(self, monkeypatch):
        self.store, self.kv, self.clock, self.ids = (
            CountingStore(),
            MemoryKVStore(),
            FakeClock(),
            SequenceIds(),
        )
        monkeypatch.setattr("graveler.lake.drivers.open_store", lambda *_, **__: self.store)
        self.config = LakeConfig("x", "mem://", "mem://counted", cache_folder=None)
        with self.process() as lake:
            lake.create_repository("flights")
        self.store.requests.clear()

    def process(self):
        return Lake(
            self.config,
            KeptOpen(self.kv),
            clock=self.clock,
            ids=self.ids,
            background=Inline(),
            witnessed=True,
        )


class KeptOpen(MemoryKVStore):
    """A store that shares the data of another store, and stays open."""

    def __init__(self, store):
        vars(self).update(vars(store))

    def close(self):
        pass


@pytest.fixture
def cloud(monkeypatch):
    return Cloud(monkeypatch)


def test_a_process_that_moves_refs_reads_the_marker_once(cloud):
    for number in range(3):
        with cloud.process() as lake:
            repo = lake.repository("flights")
            for move in range(5):
                put(repo, f"{number} {move}")
        assert cloud.store.requests == ["put_if_match"]
        cloud.store.requests.clear()


def test_a_process_that_reads_sends_none(cloud):
    with cloud.process() as lake:
        put(lake.repository("flights"), "a")
    cloud.store.requests.clear()
    with cloud.process() as lake:
        assert lake.repository("flights").ref("main").get("a") == b"a"
    assert cloud.store.requests == []


def test_a_long_process_counts_once_a_minute_and_at_its_end(cloud):
    with cloud.process() as lake:
        repo = lake.repository("flights")
        for second in range(0, 151, 15):
            put(repo, str(second))
            cloud.clock.sleep(15)
    assert cloud.store.requests == ["put_if_match"] * 4  # at seconds 0, 60, 120 and at the end


def test_processes_that_count_at_once_raise_no_alarm(cloud):
    lakes = [cloud.process() for _ in range(8)]
    witnesses = [lake.repository("flights")._witness for lake in lakes]
    issued = [(witness, witness._issue()) for witness in witnesses]
    for witness, known in issued:  # each has read the same marker
        etag = witness._replace(known, witness._marker(known))
        witness._acknowledge_later(witness._marker(known), etag)
    for lake in lakes:
        lake.repository("flights").check_kv()
        put(lake.repository("flights"), "a" + str(id(lake)))


def test_a_process_that_dies_between_its_calls_raises_no_alarm(cloud):
    for death in ("_replace", "_acknowledge", "_update"):
        lake = cloud.process()
        witness = lake.repository("flights")._witness
        vars(witness)[death] = _dies
        with pytest.raises(SystemExit):
            put(lake.repository("flights"), death)
        with cloud.process() as after:
            put(after.repository("flights"), f"after {death}")
            after.repository("flights").check_kv()
    cloud.store.requests.clear()
    with cloud.process() as lake:
        put(lake.repository("flights"), "again")
    assert cloud.store.requests == ["put_if_match"]


def _dies(*_):
    raise SystemExit


def test_a_storage_without_a_marker_is_not_written_to(cloud):
    cloud.store.delete(MARKER)
    with cloud.process() as lake, pytest.raises(GravelerError, match="is not there"):
        put(lake.repository("flights"), "a")
    assert read_marker(cloud.store) is None
