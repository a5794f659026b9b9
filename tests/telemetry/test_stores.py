"""If a program sets a meter provider, its stores behave like their drivers and are measured."""

import io
import os
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
from tests.kv.suite import KVStoreSuite
from tests.objects.suite import ObjectStoreSuite


class TestMeteredKV(KVStoreSuite):
    @pytest.fixture
    def store(self, tmp_path, collected):
        with open_kv(f"sqlite://{tmp_path}/kv.sqlite3") as store:
            assert isinstance(store, MeteredKVStore)
            yield store


class TestMeteredObjects(ObjectStoreSuite):
    @pytest.fixture
    def store(self, tmp_path, collected):
        store = open_store(str(tmp_path / "objects"))
        assert isinstance(store, MeteredObjects)
        yield store
        store.close()


def of(driver, operation, **others):
    return frozenset({"db.system.name": driver, "db.operation.name": operation, **others}.items())


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
