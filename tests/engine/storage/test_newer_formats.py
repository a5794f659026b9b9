"""A record that a newer graveler wrote is refused by name and not changed."""

import json

import pytest

from graveler.base.names import path_key
from graveler.committed.cache.range_cache import RangeCache
from graveler.committed.cache.table import TableKind, table_properties
from graveler.committed.ranges.range_store import RangeStore
from graveler.errors import (
    AlreadyExistsError,
    CorruptionError,
    GravelerError,
    NewerFormatError,
    OlderFormatError,
)
from graveler.fsck.check import fsck
from graveler.model import Entry, RangeInfo
from graveler.objects.local import LocalStore
from graveler.sstable.writer import TableWriter
from graveler.testing import World
from graveler.values import encode_entry, range_id, record_id, stage_entry


class FutureWorld:
    """A repository with a record of every kind, and the store below it."""

    def __init__(self):
        self.world = World()
        self.kv, self.lake = self.world.kv, self.world.open()
        self.repo = self.lake.create_repository("flights")
        self.main = self.repo.branch("main")
        self.main.put("a", b"1")
        self.first = self.main.commit("one")
        self.repo.create_branch("work").put("b", b"2")
        self.repo.branch("work").commit("two")
        self.repo.branch("work").put("staged", b"3")
        self.repo.tags.create("v1")
        self.repo.protection.add("release-*")
        self.handle = self.repo.runs.open("hourly")
        self.handle.step("work").__enter__().put("c", b"3")
        self.uid = self.repo.stores.uid

    def value(self, partition, key):
        """Return the value at the key."""
        stored = self.kv.get(partition, key)
        assert stored is not None
        return stored.value

    def make_newer(self, partition, key):
        """Write the record at the key as a newer graveler does; return the new value."""
        value = self.value(partition, key)
        fields = json.loads(value) if value.startswith(b"{") else {"commit": value.decode()}
        fields |= {"format": 3, "future": "thing"}
        raw = json.dumps(fields).encode()
        self.kv.set(partition, key, raw)
        return raw


RECORDS = {
    "repository": lambda world: ("lake", b"repository/flights"),
    "branch": lambda world: (f"refs:{world.uid}", b"branch/work"),
    "commit": lambda world: (f"refs:{world.uid}", f"commit/{world.first.id}".encode()),
    "tag": lambda world: (f"refs:{world.uid}", b"tag/v1"),
    "protection": lambda world: (f"refs:{world.uid}", b"settings/protection"),
    "run": lambda world: (
        f"runs:{world.uid}",
        next(key for key, _ in world.kv.scan(f"runs:{world.uid}", b"run/")),
    ),
    "step": lambda world: (
        f"runs:{world.uid}",
        next(key for key, _ in world.kv.scan(f"runs:{world.uid}", b"step/")),
    ),
}


def operations(world):
    """Yield every operation of a user. No operation needs an earlier one."""
    again = world.world.open()
    repo = world.repo  # opened before the newer graveler wrote
    yield lambda: again.repository("flights").branch("work").commit("x")
    yield lambda: again.create_repository("flights", exist_ok=True).branch("work").head
    yield lambda: repo.branch("work").put("b", b"4")
    yield lambda: list(repo.branch("work").list())
    yield lambda: repo.branch("work").commit("x")
    yield lambda: repo.branch("work").reset()
    yield lambda: repo.create_branch("work", exist_ok=True)
    yield lambda: repo.create_branch("more", "v1")
    yield lambda: repo.merge("work", into="main")
    yield lambda: repo.merge("main", into="work")
    yield lambda: repo.delete_branch("work")
    yield lambda: list(repo.log("work"))
    yield lambda: list(repo.diff("main", "work"))
    yield lambda: repo.tags.create("v1", "work")
    yield repo.tags.list
    yield lambda: repo.tags.delete("v1")
    yield lambda: repo.protection.remove("release-*")
    yield lambda: repo.branch("release-1").put("x", b"")
    yield repo.runs.list
    yield lambda: repo.runs.open("hourly")
    yield lambda: world.handle.step("work").__enter__()
    yield world.handle.publish
    yield lambda: world.handle.abandon("no")
    yield lambda: fsck(repo.stores)


@pytest.mark.parametrize("kind", RECORDS)
def test_no_operation_touches_a_record_of_a_newer_format(kind):
    refused = []
    number = 0
    while True:
        world = FutureWorld()
        place = RECORDS[kind](world)
        raw = world.make_newer(*place)
        todo = list(operations(world))
        if number == len(todo):
            break
        try:
            todo[number]()
        except NewerFormatError as error:
            refused.append(str(error))
        except CorruptionError:
            raise
        except GravelerError:
            pass  # not about the record: these errors have other reasons
        stored = world.kv.get(*place)
        assert stored is not None, number
        assert stored.value == raw, number
        number += 1
    assert refused
    for message in refused:
        assert kind in message
        assert "format 3" in message
        assert "formats up to 2" in message
        assert "upgrade graveler" in message


@pytest.mark.parametrize("found", [0, -1, 1.0, "2", None, True, [2]])
def test_a_format_that_is_none_is_damage(found):
    world = FutureWorld()
    place = RECORDS["branch"](world)
    fields = json.loads(world.value(*place))
    world.kv.set(*place, json.dumps({**fields, "format": found}).encode())
    with pytest.raises(CorruptionError, match="format"):
        world.repo.branch("work")


def test_a_staged_write_of_a_newer_kind_is_kept_uncommitted():
    world = FutureWorld()
    work = world.repo.branch("work")
    record = world.repo.stores.refs.branches.get("work")
    entry = Entry(path="new", address="data/x", size=1)
    key = path_key("new")
    raw = b"\x7f" + stage_entry(key, entry)[1:]
    world.repo.stores.staging.set(record.staging_token, key, raw)
    for operation in (
        lambda: work.stat("new"),
        lambda: list(work.list()),
        lambda: work.commit("x"),
        lambda: work.commit("again"),
    ):
        with pytest.raises(NewerFormatError, match="upgrade graveler"):
            operation()
    now = world.repo.stores.refs.branches.get("work")
    assert now.commit_id == record.commit_id
    tokens = [now.staging_token, *now.sealed_tokens]
    assert world.repo.stores.staging.get(tokens, key) == raw


def table_of(path, kind, items, identifier, stated):
    with TableWriter(path) as table:
        for key, value in items:
            table.records[key] = value
        size = sum(len(key) + len(value) for key, value in items)
        info = RangeInfo(identifier, items[0][0], items[-1][0], len(items), size)
        properties = table_properties(kind, info)
        del properties["format"]
        table.finish(identifier, properties | ({} if stated is None else {"format": stated}))
    return path.read_bytes()


@pytest.mark.parametrize("kind", list(TableKind))
def test_a_table_of_a_newer_format_is_refused_and_kept(tmp_path, kind):
    store, identifier, raw = stored_table(tmp_path, kind, "3")
    for _ in range(2):  # the table is not kept in the cache either
        with pytest.raises(NewerFormatError, match=f"{kind} {identifier.hex()} has format 3"):
            store.open(identifier, kind)
    assert store.objects.get(store.key(identifier)) == raw


def stored_table(folder, kind, stated):
    store = RangeStore(LocalStore(folder / "objects"), RangeCache(folder / "cache", 1 << 20))
    value = encode_entry(Entry(path="a", address="data/a", size=1))[1]
    identifier = range_id([record_id(b"a", value)])
    raw = table_of(folder / "t.sst", kind, [(b"a", value)], identifier, stated)
    store.objects.put(store.key(identifier), raw)
    return store, identifier, raw


@pytest.mark.parametrize("stated", [None, "1"])
@pytest.mark.parametrize("kind", list(TableKind))
def test_a_table_of_an_older_format_is_refused(tmp_path, kind, stated):
    store, identifier, _ = stored_table(tmp_path, kind, stated)
    with pytest.raises(
        OlderFormatError, match=rf"{kind} {identifier.hex()} has format 1.*reads only format 2"
    ):
        store.open(identifier, kind)


@pytest.mark.parametrize("stated", [{}, {"format": 1}])
def test_a_repository_of_an_older_format_is_refused_with_remedy(stated):
    world = FutureWorld()
    place = RECORDS["repository"](world)
    fields = json.loads(world.value(*place))
    del fields["format"]
    raw = json.dumps(fields | stated).encode()
    world.kv.set(*place, raw)
    for operation in (
        lambda: world.lake.repository("flights"),
        lambda: world.lake.create_repository("flights", exist_ok=True),
    ):
        with pytest.raises(OlderFormatError) as caught:
            operation()
        for part in ("repository flights", "format 1", "format 2", "make a new repository"):
            assert part in str(caught.value)
    with pytest.raises(AlreadyExistsError):
        world.lake.create_repository("flights")
    assert world.value(*place) == raw


@pytest.mark.parametrize("storage", ["file:///a\ud800", "file:///a\0b"])
def test_a_repository_whose_storage_no_store_takes_is_damaged(storage):
    world = FutureWorld()
    place = RECORDS["repository"](world)
    fields = json.loads(world.value(*place))
    world.kv.set(*place, json.dumps(fields | {"storage": storage}).encode())
    with pytest.raises(CorruptionError, match="'storage'"):
        world.lake.repository("flights")
