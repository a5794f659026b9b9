"""Stores around other stores: they forward every call, and a read-only one refuses every write."""

from collections.abc import Iterator
from inspect import Parameter, signature
from typing import Any

import pytest

from graveler.errors import ReadOnlyError
from graveler.gates.source import ReadOnlyKVStore, ReadOnlyObjects
from graveler.kv.drivers.memory import MemoryKVStore
from graveler.kv.store import KVStore, KVWrapper
from graveler.objects.memory import MemoryStore
from graveler.objects.store import ObjectStore, ObjectsWrapper

KV_WRITES = {"turn", "set", "set_many", "set_if", "delete", "delete_many", "delete_if", "drop"}
KV_READS = {"get", "get_many", "scan", "scan_all", "partitions"}
KV_VALUES: dict[str, Any] = {
    "partition": "p",
    "key": b"k",
    "keys": [],
    "value": b"v",
    "items": [],
    "name": "t",
}
KV_VALUES |= {"predicate": b"v", "patience": 0.0, "prefix": ""}
OBJECT_WRITES = {"put", "put_if_absent", "put_all_if_absent", "put_if_match", "delete"}
OBJECT_READS = {"get", "get_range", "open", "head", "list", "level", "local_file", "uri"}
OBJECT_VALUES = {"key": "k", "body": b"v", "objects": [], "etag": "1", "start": 0, "length": 1}
APART = {"close", "root", "put_threads", "scan_below"}


def of_port(port):
    return {name for name in vars(port) if not name.startswith("_")}


@pytest.mark.parametrize(("port", "wrapper"), [(KVStore, KVWrapper), (ObjectStore, ObjectsWrapper)])
def test_a_wrapper_forwards_everything_of_its_port(port, wrapper):
    assert sorted(of_port(port) - set(vars(wrapper))) == []


def call(store, port, name, values):
    """Call a method of a port with a value for each argument without a default."""
    asked = [*signature(getattr(port, name)).parameters.values()][1:]
    return getattr(store, name)(*(values[p.name] for p in asked if p.default is Parameter.empty))


def plain(found):
    if hasattr(found, "read"):
        return found.read()
    return list(found) if isinstance(found, Iterator) else found


def assert_writes_are_refused(store, inner, port, reads, writes, values):
    assert of_port(port) - APART == reads | writes
    for name in reads:
        expected = plain(call(inner, port, name, values))
        assert plain(call(store, port, name, values)) == expected
    for name in writes:
        with pytest.raises(ReadOnlyError, match=f"would write \\({name} of "):
            call(store, port, name, values)


def test_a_read_only_store_refuses_writes_only():
    inner = MemoryKVStore()
    inner.set("p", b"k", b"v")
    store = ReadOnlyKVStore(inner)
    assert_writes_are_refused(store, inner, KVStore, KV_READS, KV_WRITES, KV_VALUES)
    assert list(inner.scan("p")) == [(b"k", b"v")]
    objects = MemoryStore()
    objects.put("k", b"v")
    read_only = ReadOnlyObjects(objects)
    rules = OBJECT_READS, OBJECT_WRITES, OBJECT_VALUES
    assert_writes_are_refused(read_only, objects, ObjectStore, *rules)
    assert objects.get("k") == b"v"
    assert (read_only.put_threads, read_only.root) == (objects.put_threads, objects.root)
