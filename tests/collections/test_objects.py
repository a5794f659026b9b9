"""Objects on Keep: the suite of all drivers on real servers, and a lake whose storage is Keep."""

import pickle
from contextlib import closing
from datetime import timedelta

import pytest

from graveler.collections.objects import KeepObjects
from graveler.errors import BackendUnavailableError, InvalidInputError, NotFoundError
from graveler.server.keep.service import KeepServer
from graveler.testing import World
from tests.objects.suite import ObjectStoreSuite


@pytest.fixture
def world():
    return World()


@pytest.fixture
def servers(world, tmp_path, monkeypatch):
    """Two servers of the system ``main`` of a lake."""
    monkeypatch.setattr("graveler.server.server._POLL_SECONDS", 0.01)
    with world.open() as lake:
        lake.keep.create("main")
        opened = [KeepServer(lake, "main", [tmp_path / f"volume{at}"]) for at in range(2)]
        for server in opened:
            lake.keep.add_server("main", server.address)
        yield opened
        for server in opened:
            server.cut()


@pytest.fixture
def lake(world, servers):
    with world.open() as opened:
        yield opened


@pytest.fixture
def store(lake):
    store = lake._open_store("keep://main/flights")
    yield store
    store.close()


class TestKeepObjects(ObjectStoreSuite):
    @pytest.fixture
    def store(self, store):
        return store

    def test_a_pickled_store_reaches_the_same_objects(self, store):
        with pytest.raises(InvalidInputError, match="rights tasks do not have"):
            pickle.dumps(store)


def blocks(server):
    return [line.split()[0] for line in server.store.index()]


def test_equal_content_is_stored_once_and_on_each_server(store, servers):
    store.put("a", b"foo")
    store.put("b", b"foo")
    assert [blocks(server) for server in servers] == [["acbd18db4cc2f85cedef654fccc4a4d8+3"]] * 2


def test_a_large_object_is_cut_into_blocks(store, servers):
    content = bytes(range(256)) * (280 << 10)
    store.put("large", content)
    assert len(blocks(servers[0])) == 2
    assert store.get_range("large", (64 << 20) - 2, 4) == content[(64 << 20) - 2 :][:4]
    assert store.get("large") == content


def test_objects_outlive_one_server(store, servers):
    store.put("a", b"foo")
    servers[0].cut()
    assert store.get("a") == b"foo"


def test_a_storage_of_an_unknown_system_is_refused(lake):
    with pytest.raises(NotFoundError, match="no system 'other' of Keep"):
        lake.create_repository("flights", storage="keep://other/flights")
    with pytest.raises(InvalidInputError, match="give keep://SYSTEM/FOLDER"):
        lake.create_repository("flights", storage="keep://main")


def test_a_repository_keeps_its_files_and_its_history_on_keep(lake, world):
    repo = lake.create_repository("flights", storage="keep://main/flights")
    with repo.run("hour 05", into="main") as run:
        run.put("input/2013/01/01/05:00/part-0.csv", b"a,b\n1,2\n")
    with world.open() as again:
        main = again.repository("flights").branch("main")
        assert main.get("input/2013/01/01/05:00/part-0.csv") == b"a,b\n1,2\n"
        with main.open("input/2013/01/01/05:00/part-0.csv") as file:
            assert file.readline() == b"a,b\n"
        again.repository("flights").gc.run()
        assert main.get("input/2013/01/01/05:00/part-0.csv") == b"a,b\n1,2\n"


@pytest.fixture
def kept(lake):
    """The store itself, which a world watches."""
    keep = lake.keep
    with closing(
        KeepObjects("keep://main/flights", keep.kv, keep, clock=keep.clock, ids=keep.ids)
    ) as opened:
        yield opened


def test_what_a_task_stores_has_no_name_until_it_is_recorded(kept, tmp_path):
    (tmp_path / "file").write_bytes(b"foo")
    sent = pickle.loads(pickle.dumps(kept.sent()))
    records = sent.put({"a": tmp_path / "file"})
    assert not [*kept.list()]
    kept.record(records, sent)
    assert kept.get("a") == b"foo"
    [(info, record)] = kept.records(["a"])
    with closing(sent.open({info.key: record})) as task:
        assert task.get("a") == b"foo"
    assert kept._client._token not in repr(sent)


def test_blocks_of_a_long_job_are_touched_before_they_have_names(kept, servers, world, tmp_path):
    (tmp_path / "file").write_bytes(b"foo")
    sent = kept.sent()
    records = sent.put({"a": tmp_path / "file"})
    before = [[*server.store.index()] for server in servers]
    world.clock.advance(timedelta(days=5))
    kept.record(records, sent)
    assert all([*server.store.index()] != old for server, old in zip(servers, before, strict=True))
    kept.delete("a")
    world.clock.advance(timedelta(days=15))
    for server in servers:
        server.store.trash("acbd18db4cc2f85cedef654fccc4a4d8")
    with pytest.raises(BackendUnavailableError, match="took longer than the time to live"):
        kept.record(records, sent)
    assert not [*kept.list()]
