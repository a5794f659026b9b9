"""The state of imports: the converted ranges and metaranges of lakeFS, in ``lakefs:<uid>``.

The key is ``range/<source>/<id>`` or ``metarange/<source>/<id>``, with the id of lakeFS. The source
is a digest of the namespace and of the options that affect entries. So the same range with other
options has another key. A record never changes. A lost record is made again.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256

from graveler.base.records import FORMAT, Fields, decode_json, encode_json, read_key
from graveler.kv.store import KVStore
from graveler.model import RangeInfo
from graveler.values import decode_range_info, encode_range_info

_RANGE = "range"
_METARANGE = "metarange"
_FLUSHED = 64

NOTHING = RangeInfo(b"", b"", b"", 0, 0)
"""The result of converting a range without any kept entry."""


class ImportState:
    """The converted ranges and metaranges of one source.

    Attributes:
        ranges: lakeFS id to the range of graveler.
        metaranges: lakeFS id to the hex id of graveler's metarange.

    Args:
        source: Texts that identify the namespace and the options.
    """

    def __init__(self, kv: KVStore, uid: str, source: Iterable[str]) -> None:
        self._kv = kv
        self._partition = f"lakefs:{uid}"
        self._source = sha256("\n".join(source).encode()).hexdigest()[:16]
        self.ranges: dict[str, RangeInfo] = {
            name: _read_range(fields) for name, fields in self._scan(_RANGE)
        }
        self.metaranges: dict[str, str] = {
            name: fields.digest("metarange") for name, fields in self._scan(_METARANGE)
        }
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
        self._waiting.append((self._key(kind) + name.encode(), _encoded(fields)))
        if len(self._waiting) >= _FLUSHED:
            self.flush()

    def _key(self, kind: str) -> bytes:
        return f"{kind}/{self._source}/".encode()

    def _scan(self, kind: str) -> Iterator[tuple[str, Fields]]:
        prefix = self._key(kind)
        for key, value in self._kv.scan_below(self._partition, prefix):
            name = read_key(key[len(prefix) :], f"{kind} of an import")
            what = f"{kind} {name} of an import"
            yield name, Fields(decode_json(value, what), what)


def _encoded(fields: dict[str, str]) -> bytes:
    return encode_json({"format": FORMAT, **fields})


def _read_range(fields: Fields) -> RangeInfo:
    record = fields.binary("range")
    return decode_range_info(fields.binary("last"), record) if record else NOTHING
