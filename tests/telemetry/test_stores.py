"""If a program sets a meter provider, its stores behave like their drivers and are measured."""

import io
import os
import pickle
import sys

import pytest
from opentelemetry import metrics

import graveler
from graveler.base import telemetry
from graveler.errors import ObjectNotFoundError, PreconditionFailedError
from graveler.kv.metered import MeteredKVStore
from graveler.kv.registry import open_kv
from graveler.kv.store import ABSENT
from graveler.objects.metered import MeteredObjects
from graveler.objects.registry import open_store
from graveler.reads import versions


def of(driver, operation, **others):
    return frozenset({"db.system.name": driver, "db.operation.name": operation, **others}.items())


def test_a_measured_key_value_store_answers_as_its_driver(collected):
    """The wrappers' own test shows that every call is forwarded."""
    with open_kv("mem://") as store:
        assert isinstance(store, MeteredKVStore)
        store.set_many("p", [(key, key * 2) for key in (b"a", b"b", b"ba")])
        assert [key for key, _ in store.scan("p", b"b")] == [b"b", b"ba"]
        assert list(store.scan_below("p", b"ba")) == [(b"ba", b"baba")]
        assert [value for _, value in store.scan_all("p")] == [b"aa", b"bb", b"baba"]
        assert [found and found.value for found in store.get_many([("p", b"a"), ("p", b"x")])] == [
            b"aa",
            None,
        ]
        assert list(store.partitions("")) == ["p"]
        with store.turn("main", 1.0) as held:
            assert held
    direction = ("graveler.io.direction", "read")
    read = {
        dict(key)["db.operation.name"]: n
        for key, n in collected.sums(telemetry.KV_BYTES).items()
        if direction in key
    }
    assert read == {"scan": 6 + 4 + 8, "get_many": 2, "partitions": 1}


def test_a_measured_object_store_answers_as_its_driver(collected, tmp_path):
    store = pickle.loads(pickle.dumps(open_store(str(tmp_path))))
    assert isinstance(store, MeteredObjects)
    assert store.put_all_if_absent([("a/1", b"123"), ("a/1", b"4")]) == [True, False]
    store.put("b", b"0123456789")
    assert [info.key for info in store.list()] == ["a/1", "b"]
    assert [getattr(found, "key", found) for found in store.level()] == ["a/", "b"]
    with store.open("b") as stream:
        assert (stream.readable(), stream.seekable(), stream.read(2)) == (True, True, b"01")
        assert (stream.seek(8), stream.tell(), stream.read(), stream.read()) == (8, 8, b"89", b"")
    with pytest.raises(ObjectNotFoundError):
        store.open("none")


def test_calls_and_bytes_of_the_key_value_store_are_counted(collected):
    with open_kv("mem://") as store:
        store.set("p", b"a", b"12345")
        store.set_many("p", [(b"b", b"123"), (b"c", b"12")])
        store.get("p", b"a")
        store.get("p", b"nothing")
        assert len(list(store.scan("p"))) == 3
        with pytest.raises(PreconditionFailedError):
            store.set_if("p", b"a", b"9", ABSENT)
    assert collected.sums(telemetry.KV_CALLS) == {
        of("memory", "set"): 1,
        of("memory", "set_many"): 1,
        of("memory", "get"): 2,
        of("memory", "scan"): 1,
        of("memory", "set_if", **{"error.type": "PreconditionFailedError"}): 1,
    }
    read, write = {"graveler.io.direction": "read"}, {"graveler.io.direction": "write"}
    assert collected.sums(telemetry.KV_BYTES) == {
        of("memory", "set", **write): 5,
        of("memory", "set_many", **write): 5,
        of("memory", "get", **read): 5,
        of("memory", "scan", **read): 10,
    }


def test_calls_and_bytes_of_the_object_store_are_counted(collected, tmp_path):
    store = open_store(str(tmp_path))
    store.put("a", io.BytesIO(b"x" * 100))
    (tmp_path / "file").write_bytes(b"y" * 50)
    assert store.put_if_absent("b", tmp_path / "file")
    assert not store.put_if_absent("b", b"never")
    assert store.get("a") == b"x" * 100
    assert store.get_range("a", 10, 20) == b"x" * 20
    with store.open("a") as stream:
        stream.seek(-30, os.SEEK_END)
        assert stream.read() == b"x" * 30
    with pytest.raises(ObjectNotFoundError):
        store.get("nothing")
    calls = {
        (attributes["graveler.operation.name"], attributes.get("error.type", "")): count
        for key, count in collected.sums(telemetry.OBJECT_CALLS).items()
        for attributes in [dict(key)]
    }
    assert calls == {
        ("put", ""): 1,
        ("put_if_absent", ""): 2,
        ("get", ""): 1,
        ("get", "ObjectNotFoundError"): 1,
        ("get_range", ""): 1,
        ("open", ""): 1,
        ("read", ""): 1,
    }
    moved = {
        (attributes["graveler.operation.name"], attributes["graveler.io.direction"]): count
        for key, count in collected.sums(telemetry.OBJECT_BYTES).items()
        for attributes in [dict(key)]
    }
    assert moved == {
        ("put", "write"): 100,
        ("put_if_absent", "write"): 50,
        ("get", "read"): 100,
        ("get_range", "read"): 20,
        ("read", "read"): 30,
    }


def test_a_store_is_not_wrapped_where_no_provider_is_set(tmp_path):
    assert metrics.get_meter_provider() is not None  # the loaded API has its own provider
    assert not telemetry.is_metered()
    with open_kv("mem://") as store:
        assert not isinstance(store, MeteredKVStore)
    assert not isinstance(open_store(str(tmp_path)), MeteredObjects)


def test_a_stat_runs_no_code_of_telemetry_without_a_provider(tmp_path):
    with graveler.init(tmp_path / "lake") as lake:
        main = lake.create_repository("flights").branch("main")
        main.put("a", b"1")
        main.commit("a")
        ran = set()

        def profile(frame, event, _argument):
            if event == "call":
                ran.add(frame.f_code.co_filename)

        sys.setprofile(profile)
        try:
            main.stat("a")
            main.list("")
        finally:
            sys.setprofile(None)
    assert versions.__file__ in ran
    assert telemetry.__file__ not in ran
