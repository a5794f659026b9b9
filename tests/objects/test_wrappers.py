"""Stores around other stores: they forward every call, and a read-only one refuses every write."""

import pytest

from graveler.errors import ReadOnlyError
from graveler.gates.source import ReadOnlyKVStore, ReadOnlyObjects
from graveler.kv.memory import MemoryKVStore
from graveler.kv.store import ABSENT, KVStore, KVWrapper
from graveler.objects.memory import MemoryStore
from graveler.objects.store import ObjectStore, ObjectsWrapper

KV_WRITES = {
    "turn": ("t", 0.0),
    "set": ("p", b"k", b"v"),
    "set_many": ("p", [(b"k", b"v")]),
    "set_if": ("p", b"k", b"v", ABSENT),
    "delete": ("p", b"k"),
    "delete_many": ("p", [b"k"]),
    "delete_if": ("p", b"k", b"v"),
    "drop": ("p",),
}
KV_READS = {
    "get": ("p", b"k"),
    "get_many": ([("p", b"k")],),
    "scan": ("p",),
    "scan_all": ("p",),
    "scan_below": ("p", b""),
    "partitions": ("",),
}
OBJECT_WRITES = {
    "put": ("k", b"v"),
    "put_if_absent": ("k", b"v"),
    "put_all_if_absent": ([("k", b"v")],),
    "put_if_match": ("k", b"v", "1"),
    "delete": ("k",),
}
OBJECT_READS = {
    "get": ("k",),
    "get_range": ("k", 0, 1),
    "open": ("k",),
    "head": ("k",),
    "list": ("",),
    "level": ("",),
    "local_file": ("k",),
    "uri": ("k",),
}
APART = {"close", "root", "put_threads"}


def of_port(port):
    return {name for name in vars(port) if not name.startswith("_")}


@pytest.mark.parametrize(("port", "wrapper"), [(KVStore, KVWrapper), (ObjectStore, ObjectsWrapper)])
def test_a_wrapper_forwards_everything_of_its_port(port, wrapper):
    assert sorted(of_port(port) - set(vars(wrapper))) == []


def test_the_calls_here_are_those_of_the_ports():
    assert of_port(KVStore) - APART == set(KV_WRITES) | set(KV_READS)
    assert of_port(ObjectStore) - APART == set(OBJECT_WRITES) | set(OBJECT_READS)


@pytest.mark.parametrize("name", [*KV_WRITES, *KV_READS])
def test_a_read_only_store_refuses_writes_only(name):
    inner = MemoryKVStore()
    inner.set("p", b"k", b"v")
    store = ReadOnlyKVStore(inner)
    if name in KV_READS:
        getattr(store, name)(*KV_READS[name])
    else:
        with pytest.raises(ReadOnlyError, match=f"would write \\({name} of "):
            getattr(store, name)(*KV_WRITES[name])
    assert list(inner.scan("p")) == [(b"k", b"v")]


@pytest.mark.parametrize("name", [*OBJECT_WRITES, *OBJECT_READS])
def test_read_only_objects_refuse_writes_only(name):
    inner = MemoryStore()
    inner.put("k", b"v")
    store = ReadOnlyObjects(inner)
    if name in OBJECT_READS:
        getattr(store, name)(*OBJECT_READS[name])
    else:
        with pytest.raises(ReadOnlyError, match=f"would write \\({name} of "):
            getattr(store, name)(*OBJECT_WRITES[name])
    assert inner.get("k") == b"v"
    assert store.put_threads == inner.put_threads
    assert store.root == inner.root
