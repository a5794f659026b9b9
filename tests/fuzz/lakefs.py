"""The decoders for files of lakeFS: whole files, and each kind of record in them."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from graveler.kv.drivers.memory import MemoryKVStore
from graveler.lakefs import messages
from graveler.lakefs.namespace import RANGES, Namespace
from graveler.lakefs.state import NOTHING, ImportState
from graveler.model import RangeInfo
from graveler.objects.memory import MemoryStore
from tests.harness.lakefs import LakefsWriter

Decoder = tuple[str, tuple[tuple[bytes, bytes], ...], Callable[[bytes, bytes], Any], bool]
"""A name, sound records, what returns the content of a record, and whether an id covers each byte."""


def decoders() -> Iterator[Decoder]:
    """Yield the decoders, with the records of a small repository."""
    store = MemoryStore("lakefs-fuzz")
    lakefs = LakefsWriter(store.put)
    files = {
        f"in/{number}.csv": lakefs.upload(
            str(number), b"%d" % number, metadata={"k": "v"}, content_type="text/csv"
        )
        for number in range(40)
    }
    root = lakefs.commit({}, message="root")
    head = lakefs.commit(files, [root], message="in", metadata={"source": "bts"})
    lakefs.branches["main"] = lakefs.tags["v1"] = head
    lakefs.dump()
    namespace = Namespace(store)
    tree = lakefs.commits[head]["metarange"]

    def whole(key: bytes, raw: bytes) -> Any:
        return namespace.records(raw, key.decode(), RANGES)

    def metarange(key: bytes, raw: bytes) -> Any:
        store.put(f"_lakefs/{key.decode()}", raw)
        return namespace.ranges(key.decode(), needed_by="the fuzzer")

    names = [info.id for info in namespace.ranges(tree, needed_by="the fuzzer")]
    files_of = tuple(
        (name.encode(), namespace.read(name, needed_by="the fuzzer")) for name in names
    )
    yield "lakeFS range", files_of, whole, True
    sound = ((tree.encode(), namespace.read(tree, needed_by="the fuzzer")),)
    yield "lakeFS metarange", sound, metarange, True
    kinds: dict[str, tuple[Callable[[bytes, bytes], Any], str]] = {
        "entry": (lambda _, raw: messages.decode_entry(messages.decode_value(raw)[1]), tree),
        "commit": (messages.decode_commit, _part(store, "commits")),
        "ref": (messages.decode_ref, _part(store, "branches")),
    }
    for name, (decode, place) in kinds.items():
        rows = tuple(
            (key, value) for _, key, value in namespace.values(place, needed_by="the fuzzer")
        )
        yield f"lakeFS {name}", rows, _located(namespace, tree, decode), False
    rows = tuple(namespace.records(sound[0][1], tree, "metaranges"))
    decode = _located(namespace, tree, messages.decode_range)
    yield "state of an import", _states(), _state, False
    yield "lakeFS range in a metarange", rows, decode, False


_SOURCE = ("mem://ns",)


def _states() -> tuple[tuple[bytes, bytes], ...]:
    kv = MemoryKVStore()
    state = ImportState(kv, "u", _SOURCE)
    state.add_range("0" * 64, RangeInfo(bytes(32), b"a", b"b", 2, 20))
    state.add_range("1" * 64, NOTHING)
    state.add_metarange("2" * 64, "3" * 64)
    state.flush()
    return tuple(kv.scan("lakefs:u"))


def _state(key: bytes, raw: bytes) -> Any:
    kv = MemoryKVStore()
    kv.set("lakefs:u", key, raw)
    state = ImportState(kv, "u", _SOURCE)
    return state.ranges, state.metaranges


def _part(store: MemoryStore, part: str) -> str:
    found: str = json.loads(store.get("_lakefs/refs_manifest.json"))[f"{part}_meta_range_id"]
    return found


def _located(
    namespace: Namespace, identifier: str, decode: Callable[[bytes, bytes], Any]
) -> Callable[[bytes, bytes], Any]:
    return lambda key, raw: namespace.decoded(identifier, decode, key, raw)
