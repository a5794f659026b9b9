"""The files of a lakeFS repository: ranges and metaranges in the folder ``_lakefs`` of its storage.

The name of a file is its id, which is computed again from its records.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import TypeVar

from graveler.errors import CorruptionError, ObjectNotFoundError
from graveler.lakefs.messages import LakefsRange, decode_range, framed_pairs, framed_record
from graveler.lakefs.wire import WireError
from graveler.objects.store import ObjectStore
from graveler.sstable.reader import TableReader

FILE_BYTES = 512 << 20
"""Largest file that is read. By default, lakeFS ends a range at 20 MiB."""
RANGES = "ranges"
METARANGES = "metaranges"
"""The kinds of files, as their properties state them."""

_STATS = frozenset({"min_key", "max_key", "count", "estimated_size_bytes"})
_FOREIGN = ("rocksdb.", "pebble.")
_T = TypeVar("_T")


class Namespace:
    """The storage namespace of a lakeFS repository."""

    def __init__(self, store: ObjectStore, *, prefix: str = "_lakefs") -> None:
        self.store = store
        self._prefix = prefix

    def uri(self, name: str) -> str:
        """Return the address of a file in the folder."""
        return self.store.uri(f"{self._prefix}/{name}")

    def read(self, name: str, *, needed_by: str) -> bytes:
        """Return a file of the folder."""
        try:
            data = self.store.get_range(f"{self._prefix}/{name}", 0, FILE_BYTES + 1)
        except ObjectNotFoundError:
            raise ObjectNotFoundError(
                f"{self.uri(name)} is missing, and {needed_by} needs it: put the file back, from a "
                "backup or a replica of the namespace"
            ) from None
        if len(data) > FILE_BYTES:
            raise CorruptionError(f"{self.uri(name)} has more than {FILE_BYTES} bytes")
        return data

    def ranges(self, metarange: str, *, needed_by: str) -> tuple[LakefsRange, ...]:
        """Return the ranges of a metarange in key order, none for ""."""
        if not metarange:
            return ()
        data = self.read(metarange, needed_by=needed_by)
        records = self.records(data, metarange, METARANGES)
        found = tuple([self.decoded(metarange, decode_range, *record) for record in records])
        last = b""
        for info in found:
            if not last < info.min_key <= info.max_key:
                raise CorruptionError(
                    f"{self.uri(metarange)}: range {info.id} of {info.min_key!r} to "
                    f"{info.max_key!r} does not come after {last!r}"
                )
            last = info.max_key
        return found

    def records(self, data: bytes, identifier: str, kind: str) -> list[tuple[bytes, bytes]]:
        """Return the records of a file that matches its id."""
        uri = self.uri(identifier)
        with self._damage(identifier):
            table = TableReader(data, name=uri)
            stated = {
                name: value.decode()
                for name, value in table.properties.items()
                if not name.startswith(_FOREIGN) and name not in _STATS
            }
        if stated.get("type") != kind:
            raise CorruptionError(
                f"{uri} says that it holds {stated.get('type', 'nothing')!r}, not {kind!r}: it is "
                "no such file of lakeFS, or of a version that is not read"
            )
        rows = list(table.items())
        digest = sha256()
        for key, value in rows:
            digest.update(framed_record(key, value))
        digest.update(framed_pairs(stated))
        if digest.hexdigest() != identifier:
            raise CorruptionError(
                f"{uri} holds the records of {digest.hexdigest()}: it was damaged or replaced; "
                "put the right file back"
            )
        return rows

    def values(self, metarange: str, *, needed_by: str) -> Iterator[tuple[str, bytes, bytes]]:
        """Yield range id, key and value record of a whole metarange, in key order."""
        for info in self.ranges(metarange, needed_by=needed_by):
            data = self.read(info.id, needed_by=f"metarange {metarange}")
            for key, value in self.records(data, info.id, RANGES):
                yield info.id, key, value

    def decoded(
        self, identifier: str, decode: Callable[[bytes, bytes], _T], key: bytes, value: bytes
    ) -> _T:
        """Return the decoded record of a file."""
        with self._damage(identifier, key):
            return decode(key, value)

    @contextmanager
    def _damage(self, identifier: str, key: bytes | None = None) -> Iterator[None]:
        try:
            yield
        except (WireError, UnicodeDecodeError) as error:
            where = "" if key is None else f", record {key[:80]!r}"
            raise CorruptionError(
                f"{self.uri(identifier)}{where}: {error}; it is damaged, or of a version of lakeFS "
                "that is not read"
            ) from error
