"""Objects on Keep: a storage whose bytes are blocks, and whose names are in the key-value store.

Partition ``objects:<system>``: key ``<root>/<key>`` has the list of an object's blocks. Equal content is stored
once. The blocks of an object are needed as long as its record is there, and one time to live longer:
partition ``gone:<system>`` has the record of each object that was deleted or replaced, by the time.
"""

# `ObjectStore` documents the methods.
# ruff: noqa: D102

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

from graveler.base.background import batches
from graveler.base.clock import Clock, IdSource, RandomIds, SystemClock, unix_us
from graveler.base.records import Schema
from graveler.collections.systems import Systems
from graveler.errors import (
    BackendUnavailableError,
    InvalidInputError,
    ObjectNotFoundError,
    PreconditionFailedError,
)
from graveler.keep.files import BlockList, BlockWriter, list_block, open_runs
from graveler.keep.locators import Locator
from graveler.keep.manifests import Run
from graveler.kv.record_store import RecordStore, Version
from graveler.kv.registry import open_kv
from graveler.kv.store import ABSENT, KVStore
from graveler.objects.store import (
    ANYTHING,
    Body,
    BodyReader,
    Expected,
    ObjectInfo,
    ObjectStore,
    check_key,
    check_prefix,
    check_range,
)


@dataclass(frozen=True, slots=True)
class Named:
    """The record of an object.

    Attributes:
        blocks: The list of its blocks, or ``*`` and the locator of the block that has the list.
        nonce: Its etag, which differs with every write.
    """

    size: int
    checksum: str
    mtime: datetime
    blocks: str
    nonce: str


_FEW = 4
_PART = 4
_AT_ONCE = 256
_NAMED = Schema(Named, "object on Keep", states_format=True)


def names_of(kv: KVStore, system: str, root: str = "") -> RecordStore[Named]:
    """Return the records of the objects of a system, or of those below a root."""
    prefix = f"{root}/".encode() if root else b""
    return RecordStore(
        kv, f"objects:{system}", prefix=prefix, encode=_NAMED.encode, decode=_NAMED.decode
    )


def gone_of(kv: KVStore, system: str) -> RecordStore[Named]:
    """Return the records of deleted and replaced objects, whose `mtime` is the time of that."""
    return RecordStore(kv, f"gone:{system}", encode=_NAMED.encode, decode=_NAMED.decode)


class KeepObjects(ObjectStore):
    """The objects below ``keep://system/root``."""

    def __init__(
        self,
        uri: str,
        kv: KVStore,
        systems: Systems,
        *,
        clock: Clock,
        ids: IdSource,
    ) -> None:
        system, _, root = uri.removeprefix("keep://").strip("/").partition("/")
        if not (system and root):
            raise InvalidInputError(f"{uri!r}: give keep://SYSTEM/FOLDER")
        check_key(root)
        self._root = f"keep://{system}/{root}"
        self._kv = kv
        self._partition = f"objects:{system}"
        self._names = names_of(kv, system, root)
        self._gone = gone_of(kv, system)
        self._client = systems.client(system)
        self._ttl = systems.get(system).ttl
        self._clock = clock
        self._ids = ids
        self._wanted: Counter[Locator] = Counter()

    def __reduce__(self) -> tuple[Any, ...]:
        raise InvalidInputError(
            f"{self._root} cannot be sent to other processes: the names of its objects are in the "
            "key-value store, whose rights tasks do not have"
        )

    def sent(self) -> "SentObjects":
        """Return what opens the storage in a task."""
        settings = self._kv.scan_all(self._partition.replace("objects:", "keep:"))
        return SentObjects(self._root, tuple(settings), self._clock.now())

    def records(self, keys: Iterable[str]) -> Sequence[tuple[ObjectInfo, bytes]]:
        """Return objects and their stored records, for a task that reads them."""
        found = ((key, self._find(key, ANYTHING).record) for key in keys)
        return [(_info(key, named), _NAMED.encode(named)) for key, named in found]

    def record(self, records: Mapping[str, bytes], sent: "SentObjects") -> None:
        """Record objects whose blocks tasks have stored."""
        found = [_NAMED.decode(record) for record in records.values()]
        lists = filter(None, (list_block(named.blocks) for named in found))
        runs = (run for named in found for run in self._runs(named))
        self._refresh(sent.began, chain(lists, (run.locator for run in runs)))
        self._load(records)

    def _load(self, records: Mapping[str, bytes]) -> None:
        pairs = ((self._names.key(key), record) for key, record in records.items())
        self._kv.set_many(self._partition, pairs)

    @property
    def root(self) -> str:
        return self._root

    def put(self, key: str, body: Body) -> ObjectInfo:
        [named] = self._stored([(key, body)])
        self._bury(self._names.get(key))
        self._kv.set(self._partition, self._names.key(key), _NAMED.encode(named))
        return _info(key, named)

    def put_if_absent(self, key: str, body: Body) -> bool:
        [stored] = self.put_all_if_absent([(key, body)])  # type: ignore[list-item] # any body
        return stored

    def put_all_if_absent(self, objects: Sequence[tuple[str, bytes]]) -> Sequence[bool]:
        return [
            self._names.write(key, named, ABSENT)
            for (key, _), named in zip(objects, self._stored(objects), strict=True)
        ]

    def put_if_match(self, key: str, body: Body, etag: str) -> ObjectInfo:
        [named] = self._stored([(key, body)])
        found = self._names.find(key)
        self._bury(found.record if found is not None else None)
        written = (
            found is not None
            and found.record.nonce == etag
            and self._names.write(key, named, found.predicate)
        )
        if not written:
            raise PreconditionFailedError(
                f"{self.uri(key)} is not at {etag}: read it again and repeat"
            )
        return _info(key, named)

    def get(self, key: str, expected: Expected = ANYTHING) -> bytes:
        with self.open(key, expected) as file:
            return file.read()

    def get_range(self, key: str, start: int, length: int, expected: Expected = ANYTHING) -> bytes:
        check_range(start, length)
        named = self._find(key, expected).record
        length = min(length, max(0, named.size - start))
        with open_runs(self._client, self._runs(named), ahead=0, verify=False) as file:
            file.seek(start)
            return file.read(length)

    def open(self, key: str, expected: Expected = ANYTHING) -> BinaryIO:
        named = self._find(key, expected).record
        runs = self._runs(named)
        # a small file in a shared block is read alone: readers verify its checksum
        wanted = max(named.size, sum(self._wanted[run.locator] for run in runs))
        whole = _FEW * wanted >= sum(run.locator.size or 0 for run in runs)
        return open_runs(self._client, runs, verify=whole) if named.size else io.BytesIO()

    def head(self, key: str) -> ObjectInfo:
        return _info(key, self._find(key, ANYTHING).record)

    def delete(self, key: str) -> bool:
        check_key(key)
        self._bury(self._names.get(key))
        self._kv.delete(self._partition, self._names.key(key))
        return False

    def _bury(self, named: Named | None) -> None:
        """Keep the blocks of an object that goes for another time to live."""
        if named is not None:
            now = self._clock.now()
            self._gone.write(f"{unix_us(now):020}/{self._ids.unique()}", replace(named, mtime=now))

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        check_prefix(prefix)
        check_prefix(after)
        rows = self._kv.scan_below(
            self._partition, self._names.key(prefix), self._names.key(after) if after else b""
        )
        skipped = len(self._names.key(""))
        for raw, value in rows:
            key = raw[skipped:].decode()
            if key != after or not after:
                yield _info(key, _NAMED.decode(value))

    def close(self) -> None:
        self._client.close()

    def _stored(self, objects: Sequence[tuple[str, Body]]) -> Sequence[Named]:
        """Store the blocks of bodies, of which small ones share blocks."""
        began = self._clock.now()
        with ExitStack() as stack:
            readers = []
            for key, body in objects:
                check_key(key)
                readers.append(stack.enter_context(BodyReader(body)))
            written = dict(BlockWriter(self._client).write(enumerate(readers)))
            self._refresh(began, (run.locator for runs in written.values() for run in runs))
            now = self._clock.now()
            return [
                Named(
                    reader.size,
                    reader.checksum,
                    now,
                    BlockList.of(written[at]).store(self._client),
                    self._ids.unique(),
                )
                for at, reader in enumerate(readers)
            ]

    def _refresh(self, began: datetime, blocks: Iterable[Locator]) -> None:
        """Keep blocks for another time to live if a time is long ago."""
        if self._clock.now() - began <= self._ttl / _PART:
            return
        found = self._client.have({block.digest: block for block in blocks}.values())
        if gone := sorted(digest for digest, servers in found.items() if not servers):
            raise BackendUnavailableError(
                f"block {gone[0]} was trashed while the rest was uploaded, which took longer than the "
                f"time to live of {self._ttl}: repeat, or give the system a longer one"
            )

    def _runs(self, named: Named) -> Sequence[Run]:
        return BlockList.load(self._client, named.blocks).runs

    def _find(self, key: str, expected: Expected) -> Version[Named]:
        check_key(key)
        found = self._names.find(key)
        if found is None:
            raise ObjectNotFoundError(f"nothing at {self.uri(key)}")
        expected.check(self.uri(key), _info(key, found.record))
        return found


@dataclass(frozen=True, slots=True)
class SentObjects:
    """A storage on Keep for a task, with the key of its system, and without the lake's key-value store.

    The task's storage has only objects whose records it is given, and those that it stores. The driver
    records the latter: blocks of a failed task have no names.
    """

    uri: str
    settings: tuple[tuple[bytes, bytes], ...] = field(repr=False)
    began: datetime

    def open(self, records: Mapping[str, bytes] = MappingProxyType({})) -> KeepObjects:
        """Return the storage with the objects of these records, by their keys."""
        system = self.uri.removeprefix("keep://").partition("/")[0]
        kv, clock = open_kv("mem://"), SystemClock()
        ids = RandomIds(clock)
        kv.set_many(f"keep:{system}", self.settings)
        made = KeepObjects(self.uri, kv, Systems(kv, clock=clock, ids=ids), clock=clock, ids=ids)
        made._load(records)
        for record in records.values():
            for run in made._runs(_NAMED.decode(record)):
                made._wanted[run.locator] += run.size
        return made

    def put(self, files: Mapping[str, Path]) -> Mapping[str, bytes]:
        """Store files in blocks, and return their records for the driver."""
        with closing(self.open()) as objects:
            return {
                key: _NAMED.encode(named)
                for some in batches(files.items(), _AT_ONCE)
                for (key, _), named in zip(some, objects._stored(some), strict=True)
            }


def _info(key: str, named: Named) -> ObjectInfo:
    return ObjectInfo(key, named.size, named.nonce, named.mtime, named.checksum)
