"""Claims: which writer wrote which path, what it wrote, and what stood there before.

They are a tree beside the files of a commit, built, compared and merged like it. Writers are
branches of runs and of their steps; other branches claim only paths of runs that they write again
with equal content, or delete again. The claims of a path lie on each other in the order of their
writes, and the file lies on the last one. ``docs/formats/claims.md`` has the keys and values.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from typing import NamedTuple, Self

from graveler.base.background import batches
from graveler.committed.apply import StagedChange, apply
from graveler.committed.diff import diff_ranges, record_diff, same_content
from graveler.committed.lookup import find_many
from graveler.committed.metarange import EMPTY_METARANGE, get, prefix_end, read, scan
from graveler.committed.ranges.range_store import RangeStore
from graveler.committed.splitting import Splitting
from graveler.model import CLAIMS, Commit
from graveler.values import RECORD_ID_BYTES, decode_value, encode_value, record_id, value_identity

_PATHS = b"="
_HALF = RECORD_ID_BYTES // 2
_NOTHING = bytes(_HALF)
_RUN = re.compile(r"run-.*?-[0-9a-f]{8}(?=\.|$)")
_NEAR = 64
"""The number of rows that are read over to reach the next path; farther ones are looked up."""


class Claim(NamedTuple):
    """What a writer wrote at a path.

    Attributes:
        record: The start of the record id that it wrote; zeros for a deletion.
        content: The start of its content identity; zeros for a deletion.
        before: The value record that stood there before, or None.
    """

    record: bytes
    content: bytes
    before: bytes | None

    @classmethod
    def of(cls, path: bytes, value: bytes | None, before: bytes | None) -> Self:
        """Return the claim of a writer that wrote `value` over `before`."""
        return cls(_record(path, value), _content(value), before)

    def is_at(self, path: bytes, value: bytes | None) -> bool:
        """Return whether the value is the one that the writer wrote."""
        return self.record == _record(path, value)

    def equals(self, value: bytes | None) -> bool:
        """Return whether the value has the content that the writer wrote."""
        return self.content == _content(value)


def _record(path: bytes, value: bytes | None) -> bytes:
    return _NOTHING if value is None else record_id(path, value)[:_HALF]


def _content(value: bytes | None) -> bytes:
    return _NOTHING if value is None else value_identity(value)[:_HALF]


def _encode(claim: Claim) -> bytes:
    ids = claim.record + claim.content
    if claim.before is None:
        return encode_value(ids, b"")
    data = ids + claim.before
    return encode_value(sha256(data).digest(), data)


@lru_cache(64)
def _encode_place(place: int) -> bytes:
    return encode_value(place.to_bytes(RECORD_ID_BYTES), b"")


def decode_claim(raw: bytes) -> Claim:
    """Return the claim of a value record, or raise CorruptionError."""
    ids, data = decode_value(raw)
    ids = data or ids
    return Claim(ids[:_HALF], ids[_HALF:RECORD_ID_BYTES], data[RECORD_ID_BYTES:] or None)


class Claims:
    """The claims of a commit and changes to them, which `tree` stores."""

    def __init__(self, store: RangeStore, splitting: Splitting, tree: str) -> None:
        self._store = store
        self._splitting = splitting
        self._tree = tree
        self._changes: dict[bytes, bytes | None] = {}
        self._places: dict[bytes, dict[str, int]] = {}  # of the paths that were looked up

    def tree(self) -> str:
        """Store the changed claims, and return the metarange id."""
        changes: Iterator[StagedChange] = (
            (key, None if value is None else record_id(key, value), value)
            for key, value in sorted(self._changes.items())
        )
        return apply(self._store, self._tree, changes, self._splitting).metarange

    def get(self, writer: str, path: bytes) -> Claim | None:
        """Return the claim of a writer at a path, or None."""
        raw = self.stored(writer, path)
        return None if raw is None else decode_claim(raw)

    def stored(self, writer: str, path: bytes) -> bytes | None:
        """Return the claim of a writer at a path in its stored form, or None."""
        key = _key(writer, path)
        return self._changes[key] if key in self._changes else get(self._store, self._tree, key)

    def of(self, writer: str) -> dict[bytes, Claim]:
        """Return the claims of a writer by path, in key order."""
        start = _key(writer, b"")
        rows: dict[bytes, bytes | None] = dict(
            scan(self._store, self._tree, start + b"\0", prefix_end(start))
        )
        rows |= {key: raw for key, raw in self._changes.items() if key.startswith(start)}
        return {
            key[len(start) :]: decode_claim(raw)
            for key, raw in sorted(rows.items())
            if raw and key != start
        }

    def look_up(self, paths: Iterable[bytes]) -> None:
        """Look up the writers of paths, which come in key order, at once."""
        stop = prefix_end(_PATHS)
        rows: Iterator[tuple[bytes, bytes]] = iter(())
        head: tuple[bytes, bytes] | None = (b"", b"")
        for path in paths:
            if path in self._places:
                continue
            start = _PATHS + path + b"\0"
            if head is not None and head[0] < start:
                head = next((row for row in islice(rows, _NEAR) if row[0] >= start), None)
                if head is None:
                    rows = scan(self._store, self._tree, start, stop)
                    head = next(rows, None)
            found = self._places.setdefault(path, {})
            while head is not None and head[0].startswith(start):
                found[head[0][len(start) :].decode()] = int.from_bytes(decode_value(head[1])[0])
                head = next(rows, None)

    def writers(self, path: bytes) -> list[str]:
        """Return the writers that claim a path, the oldest claim first."""
        if path not in self._places:
            self.look_up([path])
        places = self._places[path]
        return sorted(places, key=lambda writer: (places[writer], writer))

    def copy(self, path: bytes, other: "Claims") -> None:
        """Replace the claims of a path by those in another tree."""
        places = dict.fromkeys(self.writers(path)) | dict.fromkeys(other.writers(path))
        for writer in places:
            self.put_stored(writer, path, other.stored(writer, path))
            self._set_place(path, writer, other._places[path].get(writer))

    def put(self, writer: str, path: bytes, claim: Claim, over: str | None = None) -> None:
        """Set the claim of a writer. A new one lies on the others of the path, or beneath one."""
        self.put_stored(writer, path, _encode(claim))
        writers, places = self.writers(path), self._places[path]
        if writer in places:
            return
        above = writers[writers.index(over) :] if over else []
        place = places[over] if over else places[writers[-1]] + 1 if writers else 1
        self._set_place(path, writer, place)
        for other in above:
            if places[other] > place:
                break
            place += 1
            self._set_place(path, other, place)

    def write(self, writer: str, path: bytes, was: bytes | None, now: bytes | None) -> Claim | None:
        """Let a writer write, and return its claim; None if nothing is left of it."""
        before = was
        if self.writers(path):
            stack = Stack(self, path, was)
            stack.withdraw([writer])
            before = stack.value
        if now is None is before and not self._places[path]:
            return None
        claim = Claim.of(path, now, before)
        self.put(writer, path, claim)
        return claim

    def remove(self, writer: str, path: bytes) -> None:
        """Remove the claim of a writer at a path."""
        self.put_stored(writer, path, None)
        self._set_place(path, writer, None)

    def _set_place(self, path: bytes, writer: str, place: int | None) -> None:
        self._changes[_PATHS + path + b"\0" + writer.encode()] = (
            None if place is None else _encode_place(place)
        )
        if place is None:
            self._places[path].pop(writer, None)
        else:
            self._places[path][writer] = place

    def title(self, writer: str, step: str, claims: Mapping[bytes, Claim]) -> None:
        """Note the name of a step, and what identifies its work; nothing without claims."""
        title = None
        if claims:
            rows = sorted((path, claim.content) for path, claim in claims.items())
            work = b"".join(len(path).to_bytes(4) + path + content for path, content in rows)
            title = encode_value(sha256(work).digest(), step.encode("utf-8", "surrogatepass"))
        self.put_stored(writer, b"", title)

    def retitle(self, writer: str, other: "Claims") -> None:
        """Make the title of a step agree with its claims.

        Args:
            other: Claims that have the name of the step if these have none.
        """
        title = self.stored(writer, b"") or other.stored(writer, b"")
        if title is not None:
            name = decode_value(title)[1].decode("utf-8", "surrogatepass")
            self.title(writer, name, self.of(writer))

    def put_stored(self, writer: str, path: bytes, raw: bytes | None) -> None:
        """Set or remove a claim, or the title for the path b"", in its stored form."""
        self._changes[_key(writer, path)] = raw

    def same_at(self, path: bytes, other: "Claims") -> bool:
        """Return whether a path has the same claims in another tree."""
        writers = self.writers(path)
        return writers == other.writers(path) and all(
            self.stored(writer, path) == other.stored(writer, path) for writer in writers
        )


class Stack:
    """The claims of a path, each on what stood before it, and the value record on the last one."""

    def __init__(self, claims: Claims, path: bytes, value: bytes | None) -> None:
        self.value = value
        self._claims = claims
        self._path = path

    def writers(self) -> list[str]:
        """Return the writers, the oldest claim first."""
        return self._claims.writers(self._path)

    def get(self, writer: str) -> Claim | None:
        """Return the claim of a writer, or None."""
        return self._claims.get(writer, self._path)

    def over(self, writer: str) -> list[str]:
        """Return the writers whose claims lie above that of a writer."""
        writers = self.writers()
        return writers[writers.index(writer) + 1 :]

    def before(self, over: str | None) -> bytes | None:
        """Return what stood before a claim; for None, the value."""
        claim = None if over is None else self.get(over)
        return self.value if claim is None else claim.before

    def above(self, writer: str) -> bytes | None:
        """Return what came upon a claim: what stood before the next one, or the value."""
        return self.before(next(iter(self.over(writer)), None))

    def is_bare(self, writer: str) -> bool:
        """Return whether nothing came upon a claim but the next claim."""
        claim = self.get(writer)
        return claim is not None and claim.is_at(self._path, self.above(writer))

    def set_before(self, over: str | None, value: bytes | None) -> None:
        """Set what stood before a claim; for None, the value."""
        claim = None if over is None else self.get(over)
        if over is None or claim is None:
            self.value = value
        else:
            self._claims.put(over, self._path, claim._replace(before=value))

    def withdraw(self, writers: Collection[str]) -> None:
        """Remove claims, the latest first.

        What stood before each returns, unless something else came upon the claim, which then stays.
        """
        for writer in reversed(self.writers()):
            claim = self.get(writer) if writer in writers else None
            if claim is not None:
                if self.is_bare(writer):
                    self.set_before(next(iter(self.over(writer)), None), claim.before)
                self._claims.remove(writer, self._path)

    def insert(
        self, writer: str, claim: Claim, above: bytes | None, over: str | None = None
    ) -> None:
        """Put a claim on the others, or beneath one.

        Args:
            claim: What it wrote. What stands there already becomes what stood before.
        """
        before = self.before(over)
        if claim.equals(before):
            claim = Claim.of(self._path, before, before)
        claim = claim._replace(before=before)
        self._claims.put(writer, self._path, claim, over)
        if not same_content(above, before):
            self.set_before(over, above)

    def without(self, other: "Stack") -> tuple[bool, bytes | None]:
        """Return whether another stack has more claims, and the value without those that it has not."""
        theirs = {writer: claim for writer in other.writers() if (claim := other.get(writer))}
        value, lies_on_top = self.value, True
        for writer in reversed(self.writers()):
            claim, their = self.get(writer), theirs.get(writer)
            if claim is None or (their is not None and their.content == claim.content):
                lies_on_top = False
                theirs.pop(writer, None)
            elif lies_on_top and claim.is_at(self._path, value):
                value = claim.before
        return bool(theirs), value


def spans_of(writer: str, path: bytes) -> tuple[tuple[bytes, bytes], ...]:
    """Return where a claim and the writers of its path are: a first key, and the key after."""
    key, start = _key(writer, path), _PATHS + path
    return (key, key + b"\0"), (start + b"\0", start + b"\1")


def _key(writer: str, path: bytes) -> bytes:
    return writer.encode() + b"/" + path


def claimed(
    store: RangeStore,
    splitting: Splitting,
    known: str,
    *,
    writer: str,
    step: str | None,
    tree: str,
    before: str = "",
    equal: Sequence[bytes] = (),
) -> str:
    """Return the claims after a writer has made one tree of files from another.

    Args:
        step: The name of the writer's step, "" for a run. None for a writer that is neither, which
            claims only what runs claim, too.
        before: Metarange id of the files before; "" if no content differs.
        equal: Paths that were written, in key order. Those whose content did not change are claimed, too.
    """
    claims = Claims(store, splitting, known)
    stored = claims.of(writer) if step else None
    own: dict[bytes, Claim | None] = dict(stored or {})
    changed: set[bytes] = set()
    for rows in batches(record_diff(store, before, tree) if step is not None else (), _NEAR):
        claims.look_up(path for path, _, _ in rows)
        for path, was, now in rows:
            changed.add(path)
            own[path] = claims.write(writer, path, was, now)
    unchanged = [path for path in equal if path not in changed]
    claims.look_up(unchanged)
    if step is None:
        unchanged = [path for path in unchanged if set(claims.writers(path)) - {writer}]
    sides = (find_many(store, each, unchanged) for each in (before or tree, tree))
    for path, left, right in zip(unchanged, *sides, strict=True):
        was, now = (row and row[len(path) :] for row in (left, right))
        mine = claims.get(writer, path) if stored is None else own.get(path)
        if same_content(was, now) and (mine is None or not mine.is_at(path, now)):
            own[path] = claims.write(writer, path, was, now)
    kept = {path: claim for path, claim in own.items() if claim}
    if step and kept != stored:
        claims.title(writer, step, kept)
    return claims.tree()


def titles(store: RangeStore, tree: str, run: str) -> Iterator[tuple[str, str]]:
    """Yield the writer and the name of each step of a run that has claims."""
    start, stop = _of_run(run)
    for key, raw in scan(store, tree, start, stop):
        if is_title(key):
            yield key[:-1].decode(), decode_value(raw)[1].decode("utf-8", "surrogatepass")


def is_title(key: bytes) -> bool:
    """Return whether a key of a tree of claims has the title of a step."""
    return key.endswith(b"/") and key.count(b"/") == 1


def run_of(writer: str) -> str:
    """Return the branch of the run of a writer; "" for a writer that is no run and no step."""
    found = _RUN.match(writer)
    return "" if found is None else found[0]


def claims_of_run(store: RangeStore, tree: str, run: str) -> Iterator[tuple[str, bytes, Claim]]:
    """Yield writer, path and claim of a run and of its steps."""
    start, stop = _of_run(run)
    for key, raw in scan(store, tree, start, stop):
        writer, _, path = key.partition(b"/")
        if path:
            yield writer.decode(), path, decode_claim(raw)


def title_of(store: RangeStore, tree: str, writer: str) -> bytes | None:
    """Return what identifies the work of a writer, or None."""
    return value_identity(get(store, tree, _key(writer, b"")))


class ClaimChange(NamedTuple):
    """A claim that differs between two trees of claims.

    Attributes:
        path: The path; b"" for the title of a step.
        left: The claim on the left, or None; None for a title.
    """

    writer: str
    path: bytes
    left: Claim | None
    right: Claim | None
    same: bool


def claim_changes(store: RangeStore, left: str, right: str, run: str = "") -> Iterator[ClaimChange]:
    """Yield the claims that differ between two trees of claims, by writer and path."""
    if left == right:
        return
    start, stop = _of_run(run) if run else (b"", None)
    sides = (read(store, tree).within(start, stop) for tree in (left, right))
    for key, was, now in diff_ranges(store, *sides, start=start, stop=stop):
        writer, _, path = key.partition(b"/")
        if writer.startswith(_PATHS):
            continue
        left_claim, right_claim = (
            None if raw is None or not path else decode_claim(raw) for raw in (was, now)
        )
        contents = [claim and claim.content for claim in (left_claim, right_claim)]
        same = contents[0] == contents[1]
        yield ClaimChange(writer.decode(), path, left_claim, right_claim, same)


def same_work(store: RangeStore, left: str, right: str, run: str) -> bool:
    """Return whether a run and its steps claim the same paths with the same contents in two trees."""
    return all(change.same for change in claim_changes(store, left, right, run))


def _of_run(run: str) -> tuple[bytes, bytes]:
    # the writers of a run are its branch and those of its steps: "run-x/" and "run-x.step/"
    return run.encode() + b".", run.encode() + b"0"


def claims_of(commit: Commit) -> str:
    """Return the metarange id of the claims of a commit."""
    return commit.metadata.get(CLAIMS, EMPTY_METARANGE)
