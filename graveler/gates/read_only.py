"""A repository whose ports refuse every write, for gates that read more than the candidate."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, NoReturn

from graveler.base.background import Inline
from graveler.committed.range_store import RangeStore
from graveler.errors import ReadOnlyError
from graveler.kv.store import KVStore, Predicate, Stored
from graveler.objects.store import ANYTHING, Body, Expected, ObjectInfo, ObjectStore
from graveler.reads.stores import Stores
from graveler.refs.refs import Refs
from graveler.staging.area import StagingArea

# The ports document the methods.
# ruff: noqa: D102


def read_only(stores: Stores) -> Stores:
    """Return the repository with ports that refuse every write."""
    kv = ReadOnlyKVStore(stores.kv)
    objects = ReadOnlyObjects(stores.objects)
    ranges = RangeStore(objects, stores.ranges.cache)
    return replace(
        stores,
        kv=kv,
        objects=objects,
        ranges=ranges,
        staging=StagingArea(kv, stores.uid, Inline()),
        refs=Refs(kv, stores.uid, clock=stores.clock, ids=stores.ids),
        open_store=lambda root: ReadOnlyObjects(stores.open_store(root)),
    )


def _refuse(what: str) -> NoReturn:
    raise ReadOnlyError(
        f"a candidate can only be read, and this would write ({what}): let the run write what is "
        "to be published, and have the gate report numbers with candidate.report()"
    )


class ReadOnlyKVStore(KVStore):
    """A read-only view of a key-value store; closing the view leaves the store open."""

    def __init__(self, store: KVStore) -> None:
        self.__store = store

    def get(self, partition: str, key: bytes) -> Stored | None:
        return self.__store.get(partition, key)

    def get_many(self, keys: Sequence[tuple[str, bytes]]) -> list[Stored | None]:
        return self.__store.get_many(keys)

    def turn(self, name: str, patience: float) -> AbstractContextManager[bool]:
        _refuse(f"the turn {name!r}")

    def set(self, partition: str, key: bytes, value: bytes) -> None:
        _refuse(f"key {key!r} of {partition}")

    def set_many(self, partition: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        _refuse(f"keys of {partition}")

    def set_if(self, partition: str, key: bytes, value: bytes, predicate: Predicate) -> NoReturn:
        _refuse(f"key {key!r} of {partition}")

    def delete(self, partition: str, key: bytes) -> None:
        _refuse(f"key {key!r} of {partition}")

    def delete_if(self, partition: str, key: bytes, predicate: Predicate) -> None:
        _refuse(f"key {key!r} of {partition}")

    def drop(self, partition: str) -> None:
        _refuse(f"partition {partition}")

    def scan(self, partition: str, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        return self.__store.scan(partition, start)

    def partitions(self, prefix: str) -> Iterator[str]:
        return self.__store.partitions(prefix)

    def close(self) -> None:
        """Do nothing: the store has another owner."""


class ReadOnlyObjects(ObjectStore):
    """A read-only view of an object store; closing the view leaves the store open."""

    def __init__(self, store: ObjectStore) -> None:
        self.__store = store

    @property
    def root(self) -> str:
        return self.__store.root

    def local_file(self, key: str) -> Path | None:
        return self.__store.local_file(key)

    def put(self, key: str, body: Body) -> ObjectInfo:
        _refuse(f"object {key}")

    def put_if_absent(self, key: str, body: Body) -> bool:
        _refuse(f"object {key}")

    def put_if_match(self, key: str, body: Body, etag: str) -> ObjectInfo:
        _refuse(f"object {key}")

    def get(self, key: str, expected: Expected = ANYTHING) -> bytes:
        return self.__store.get(key, expected)

    def get_range(self, key: str, start: int, length: int, expected: Expected = ANYTHING) -> bytes:
        return self.__store.get_range(key, start, length, expected)

    def open(self, key: str, expected: Expected = ANYTHING) -> BinaryIO:
        return self.__store.open(key, expected)

    def head(self, key: str) -> ObjectInfo:
        return self.__store.head(key)

    def delete(self, key: str) -> bool:
        _refuse(f"object {key}")

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        return self.__store.list(prefix, after=after)

    def uri(self, key: str) -> str:
        return self.__store.uri(key)

    def close(self) -> None:
        """Do nothing: the store has another owner."""
