"""Trees written as text, for tests: ``forest.tree("a b | c=2")`` has two ranges that end naturally.

A key without ``=`` has content ``1``. ``c=2@x`` is content 2 at address x. Only the
content enters the content identity; both enter the ids.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256

from graveler.committed import metarange
from graveler.committed.cache.flat import FlatTable
from graveler.committed.cache.range_cache import RangeCache
from graveler.committed.ranges.range_store import RangeStore
from graveler.committed.ranges.range_writer import RangeWriter
from graveler.committed.splitting import Splitting
from graveler.committed.verify import Problem, verify_range, verify_tree
from graveler.model import RangeInfo
from graveler.objects.memory import MemoryStore
from graveler.objects.store import ObjectStore
from graveler.values import decode_value, encode_value, record_id

WHOLE = Splitting(raggedness=1 << 62)
"""Ranges end only where the walk ends them."""
CRUMBS = Splitting(max_bytes=400, raggedness=3)
"""A policy that makes ranges of two or three records, some of them cut by size."""

Change = tuple[bytes, bytes | None, bytes | None]


def value(text: str) -> bytes:
    """Return the value record of ``content`` or ``content@address``."""
    return encode_value(sha256(text.partition("@")[0].encode()).digest(), text.encode())


def record(key: str, text: str = "1") -> tuple[bytes, bytes, bytes]:
    raw = value(text)
    return key.encode(), record_id(key.encode(), raw), raw


def rows_of(table: FlatTable) -> Iterator[tuple[bytes, bytes]]:
    for run in table.runs():
        yield from zip(*run.columns(), strict=True)


def parse(line: str) -> dict[str, str]:
    pairs = (item.partition("=") for item in line.split())
    return {key: text or "1" for key, _, text in pairs}


def changes(line: str) -> list[Change]:
    """Return sorted changes; ``-key`` stands for a tombstone."""
    found: list[Change] = []
    for key, text in parse(line).items():
        found.append((key[1:].encode(), None, None) if key.startswith("-") else record(key, text))
    return sorted(found, key=lambda change: change[0])


def between(before: Mapping[str, str], after: Mapping[str, str]) -> list[Change]:
    """Return the changes that turn `before` into `after`."""
    found: list[Change] = []
    for key in sorted(before.keys() | after.keys(), key=str.encode):
        if key not in after:
            found.append((key.encode(), None, None))
        elif before.get(key) != after[key]:
            found.append(record(key, after[key]))
    return found


def text_of(raw: bytes | None) -> str | None:
    return None if raw is None else decode_value(raw)[1].decode()


def new_store(objects: ObjectStore | None = None) -> RangeStore:
    return RangeStore(objects or MemoryStore(), RangeCache(None, 1 << 26))


def write_ranges(store: RangeStore, ranges: Iterable[str]) -> str:
    infos: list[RangeInfo] = []
    for line in ranges:
        with RangeWriter(store, WHOLE) as writer:
            writer.add_all(record(key, text) for key, text in parse(line).items())
            infos += [replace(info, natural=True) for info in writer.finish()]
    return metarange.write(store, infos)


class Forest:
    """Trees over one object store. The counters of each `fresh` store start at zero."""

    def __init__(self, objects: ObjectStore | None = None) -> None:
        self.objects = objects or MemoryStore()

    def fresh(self) -> RangeStore:
        return new_store(self.objects)

    def tree(self, *lines: str) -> str:
        """Return a tree of ranges, which are separate lines or have ``|`` between them."""
        ranges = [line for some in lines for line in some.split("|") if line.strip()]
        return write_ranges(self.fresh(), ranges)

    def ranges(self, tree: str) -> list[str]:
        """Return a tree with the given contents, in the format of `tree`."""
        store = self.fresh()
        return [
            " ".join(_line(rows_of(store.open(info.id)))) for info in metarange.read(store, tree)
        ]

    def text(self, tree: str) -> str:
        """Return the ranges of a tree on one line."""
        return " | ".join(self.ranges(tree))

    def contents(self, tree: str) -> dict[str, str]:
        return contents(self.fresh(), tree)


def contents(store: RangeStore, tree: str) -> dict[str, str]:
    return {key.decode(): text_of(raw) or "" for key, raw in metarange.scan(store, tree)}


def problems_of(store: RangeStore, tree: str) -> list[Problem]:
    """Return the problems of a stored metarange and of each of its ranges."""
    found: list[Problem] = []
    for info in verify_tree(store, tree, found):
        verify_range(store, info, found)
    return found


def _line(items: Iterator[tuple[bytes, bytes]]) -> Iterator[str]:
    for key, raw in items:
        text = text_of(raw)
        yield key.decode() if text == "1" else f"{key.decode()}={text}"
