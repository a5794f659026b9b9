"""The state of imports: the converted ranges and metaranges of lakeFS, in ``lakefs:<uid>``.

The key is ``range/<source>/<id>`` or ``metarange/<source>/<id>``, with the id of lakeFS. The source
is a digest of the namespace and of the options that affect entries. So the same range with other
options has another key. A record never changes. A lost record is made again.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any

from graveler.base.records import (
    DIGEST,
    FORMAT,
    HEX,
    FieldType,
    decode_json,
    encode_json,
    read_fields,
    read_key,
)
from graveler.kv.store import KVStore
from graveler.model import RangeInfo
from graveler.values import decode_range_info, encode_range_info

_RANGE = "range"
_METARANGE = "metarange"
_FLUSHED = 64

NOTHING = RangeInfo(b"", b"", b"", 0, 0)
"""The result of converting a range without any kept entry."""


class ImportState:
    """The converted ranges and metaranges of one source."""

    def __init__(self, kv: KVStore, uid: str, source: Iterable[str]) -> None:
        self._kv = kv
        self._partition = f"lakefs:{uid}"
        self._source = sha256("\n".join(source).encode()).hexdigest()[:16]
        self.ranges: dict[str, RangeInfo] = {
            name: decode_range_info(last, info) if info else NOTHING
            for name, last, info in self._scan(_RANGE, last=HEX, range=HEX)
        }
        self.metaranges: dict[str, str] = dict(self._scan(_METARANGE, metarange=DIGEST))
        self._waiting: list[tuple[bytes, bytes]] = []

    def add_range(self, name: str, info: RangeInfo) -> None:
        """Record a converted range."""
        record = b"" if info is NOTHING else encode_range_info(info)
        self.ranges[name] = info
        self._add(_RANGE, name, {"last": info.max_key.hex(), "range": record.hex()})

    def add_metarange(self, name: str, metarange: str) -> None:
        """Record a converted metarange."""
        self.metaranges[name] = metarange
        self._add(_METARANGE, name, {"metarange": metarange})

    def flush(self) -> None:
        """Write the pending records."""
        if self._waiting:
            self._kv.set_many(self._partition, self._waiting)
            self._waiting = []

    def _add(self, kind: str, name: str, fields: dict[str, str]) -> None:
        record = encode_json({"format": FORMAT, **fields})
        self._waiting.append((self._key(kind) + name.encode(), record))
        if len(self._waiting) >= _FLUSHED:
            self.flush()

    def _key(self, kind: str) -> bytes:
        return f"{kind}/{self._source}/".encode()

    def _scan(self, kind: str, **types: FieldType[Any]) -> Iterator[list[Any]]:
        prefix = self._key(kind)
        for key, value in self._kv.scan_below(self._partition, prefix):
            name = read_key(key[len(prefix) :], f"{kind} of an import")
            what = f"{kind} {name} of an import"
            yield [name, *read_fields(decode_json(value, what), what, **types)]
