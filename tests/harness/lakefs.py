"""A small lakeFS repository, written from the byte layout without graveler's code.

Objects, ranges, metaranges and a dump of refs are put below the root of a storage namespace.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import md5, sha256
from typing import Any, NamedTuple

from tests.harness.pebble import pebble_table, uvarint

Tree = Mapping[str, "Obj"]
Records = list[tuple[bytes, bytes]]

EMPTY: Tree = {}


class Obj(NamedTuple):
    """An object of lakeFS, with the fields of its entry."""

    address: str
    size: int
    etag: str
    kind: int = 1  # 1 relative, 2 full, 0 by prefix
    metadata: Mapping[str, str] = EMPTY  # type: ignore[assignment]  # no pairs
    content_type: str = ""
    mtime: tuple[int, int] | None = (1_600_000_000, 123_456_789)


def svarint(value: int) -> bytes:
    """A signed number in zigzag encoding."""
    return uvarint(value << 1 if value >= 0 else (-value << 1) - 1)


def number_field(number: int, value: int) -> bytes:
    """A varint field of a message; 0 is left out."""
    return uvarint(number << 3) + uvarint(value % (1 << 64)) if value else b""


def bytes_field(number: int, value: bytes | str, *, always: bool = False) -> bytes:
    """A field of bytes, text or a message; empty ones are left out unless `always`."""
    raw = value.encode() if isinstance(value, str) else value
    return uvarint(number << 3 | 2) + uvarint(len(raw)) + raw if raw or always else b""


def pairs_field(number: int, pairs: Mapping[str, str]) -> bytes:
    """A map of texts."""
    return b"".join(
        bytes_field(number, bytes_field(1, key) + bytes_field(2, value), always=True)
        for key, value in pairs.items()
    )


def time_field(number: int, time: tuple[int, int] | None) -> bytes:
    """A Timestamp of seconds and nanoseconds."""
    if time is None:
        return b""
    return bytes_field(number, number_field(1, time[0]) + number_field(2, time[1]), always=True)


def value_record(identity: bytes, data: bytes) -> bytes:
    """A value record."""
    return svarint(len(identity)) + identity + svarint(len(data)) + data


def hashed_number(value: int) -> bytes:
    """A number in a hash."""
    return b"\x02\x08" + value.to_bytes(8, "big", signed=True)


def hashed_text(value: str) -> bytes:
    """A text in a hash."""
    return b"\x01" + hashed_number(len(value.encode())) + value.encode()


def hashed_pairs(pairs: Mapping[str, str]) -> bytes:
    """A map of texts in a hash."""
    keys = sorted(pairs, key=str.encode)
    items = (hashed_text(key) + hashed_text(pairs[key]) for key in keys)
    return b"\x04" + hashed_number(len(keys)) + b"".join(items)


def entry_record(found: Obj) -> bytes:
    """The value record of an object."""
    identity = sha256(
        hashed_number(found.size)
        + hashed_text(found.etag)
        + hashed_pairs(found.metadata)
        + (hashed_text(found.content_type) if found.content_type else b"")
    ).digest()
    data = (
        bytes_field(1, found.address)
        + time_field(2, found.mtime)
        + number_field(3, found.size)
        + bytes_field(4, found.etag)
        + pairs_field(5, found.metadata)
        + number_field(6, found.kind)
        + bytes_field(7, found.content_type)
    )
    return value_record(identity, data)


def file_id(records: Iterable[tuple[bytes, bytes]], metadata: Mapping[str, str]) -> str:
    """The id of a range or metarange."""
    digest = sha256()
    for key, value in records:
        digest.update(b"%d%b|%d%b|" % (len(key), key, len(value), value))
    digest.update(hashed_pairs(metadata))
    return digest.hexdigest()


@dataclass
class LakefsWriter:
    """Writes a repository.

    Attributes:
        put: Puts an object at a key below the root of the namespace.
        commits: The fields of each commit, by id.
        trees: The tree of each commit, by id.
        branches: Heads by name.
        tags: Commits by name.
        ranges: Ids of the ranges put so far.
        options: Options of the written tables.
    """

    put: Callable[[str, bytes], Any]
    commits: dict[str, dict[str, Any]] = field(default_factory=dict)
    trees: dict[str, Tree] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    ranges: set[str] = field(default_factory=set)
    options: dict[str, Any] = field(default_factory=dict)

    def upload(self, name: str, content: bytes, **fields: Any) -> Obj:
        """Put a file as lakeFS does for a client."""
        self.put(f"data/gp/{name}", content)
        digest = md5(content, usedforsecurity=False).hexdigest()
        return Obj(f"data/gp/{name}", len(content), digest, **fields)

    def file(self, records: Records, metadata: Mapping[str, str]) -> str:
        """Put a range or metarange; return its id."""
        identifier = file_id(records, metadata)
        properties = {
            **metadata,
            "min_key": records[0][0].decode("latin-1") if records else "",
            "max_key": records[-1][0].decode("latin-1") if records else "",
            "count": str(len(records)),
            "estimated_size_bytes": "123",
        }
        table = pebble_table(records, properties=properties, **self.options)
        self.put(f"_lakefs/{identifier}", table)
        return identifier

    def metarange(
        self,
        records: Records,
        extra: Mapping[str, str] = EMPTY,  # type: ignore[assignment]
    ) -> str:
        """Put the ranges of some records, and their metarange; return its id."""
        rows: Records = []
        current: Records = []
        for key, value in records:
            current.append((key, value))
            if sha256(key).digest()[0] % 4 == 0:
                rows.append(self._range(current))
                current = []
        if current:
            rows.append(self._range(current))
        return self.file(rows, {"type": "metaranges", **extra})

    def _range(self, records: Records) -> tuple[bytes, bytes]:
        identifier = self.file(records, {"type": "ranges"})
        self.ranges.add(identifier)
        data = (
            bytes_field(1, records[0][0])
            + bytes_field(2, records[-1][0])
            + number_field(3, 123)
            + number_field(4, len(records))
        )
        return records[-1][0], value_record(identifier.encode(), data)

    def commit(
        self,
        tree: Tree,
        parents: Iterable[str] = (),
        *,
        message: str = "",
        committer: str = "ana",
        time: tuple[int, int] = (1_700_000_000, 5_000),
        metadata: Mapping[str, str] = EMPTY,  # type: ignore[assignment]
        version: int = 1,
    ) -> str:
        """Put the tree of a commit and return the commit's id."""
        records = sorted(
            (path.encode("utf-8", "surrogateescape"), entry_record(found))
            for path, found in tree.items()
        )
        stored = list(parents)[:: 1 if version else -1]
        metarange = self.metarange(records) if records else ""
        digest = sha256(
            b"\x03" + hashed_number(len(stored)) + b"".join(map(hashed_text, stored))
        ).digest()
        identifier = sha256(
            hashed_text("commit:v1")
            + hashed_text(committer)
            + hashed_text(message)
            + hashed_text(metarange)
            + hashed_number(time[0])
            + hashed_pairs(metadata)
            + b"\x05\x00"
            + hashed_number(len(digest))
            + digest
        ).hexdigest()
        self.commits[identifier] = {
            "committer": committer,
            "message": message,
            "time": time,
            "metarange": metarange,
            "metadata": metadata,
            "parents": stored,
            "version": version,
        }
        self.trees[identifier] = tree
        return identifier

    def dump(self) -> bytes:
        """Put a dump of all refs, and its manifest; return the manifest."""
        kinds = {
            "commits": {name: self._commit(name) for name in self.commits},
            "branches": {name: self._ref(name, head) for name, head in self.branches.items()},
            "tags": {name: self._ref(name, head) for name, head in self.tags.items()},
        }
        manifest = {}
        for kind, rows in kinds.items():
            records = sorted(
                (name.encode(), value_record(name.encode(), data)) for name, data in rows.items()
            )
            schema = {"entity": kind, "schema_name": f"io.treeverse.{kind}"}
            manifest[f"{kind}_meta_range_id"] = self.metarange(records, schema)
        raw = json.dumps(manifest, indent=2).encode()
        self.put("_lakefs/refs_manifest.json", raw)
        return raw

    def _ref(self, name: str, head: str) -> bytes:
        return bytes_field(1, name) + bytes_field(2, head)

    def _commit(self, name: str) -> bytes:
        fields = self.commits[name]
        return (
            bytes_field(1, name)
            + bytes_field(2, fields["committer"])
            + bytes_field(3, fields["message"])
            + time_field(4, fields["time"])
            + bytes_field(5, fields["metarange"])
            + pairs_field(6, fields["metadata"])
            + b"".join(bytes_field(7, parent) for parent in fields["parents"])
            + number_field(8, fields["version"])
            + number_field(9, 1)
        )
