r"""Claims: which writer wrote which path. They are a tree beside the files of a commit.

A *claim* of a writer at a path has the content that the writer wrote and the content that stood
there before. A write of equal content is a claim, too. The writers are branches of runs and of
their steps, by name. Other branches claim only paths of runs that they write again with equal
content.

A commit names its tree of claims, which is built, compared and merged like its tree of files. So
a fork has the claims, a merge brings them, a revert withdraws them, and a reset drops them with
the commits. Keys and values, where ``h`` is SHA-256::

    <writer>/<path>       a claim. Identity: 16 bytes of the record id that was written and 16 of its
                          content identity, zeros for a deletion. A path that existed before has its
                          value record as data, after these 32 bytes, and h of the data as identity
    <writer>/             identity: h of the writer's paths and contents, data: name of the step
    =<path>\0<writer>      finds the writers of a path. Identity: 32 zeros

The record id tells whose write stands at a path, because it covers address and time. A write of
equal content leaves the record of the first writer in place.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from operator import eq
from typing import Final, NamedTuple, Self

from graveler.committed.apply import StagedChange, apply
from graveler.committed.diff import RawChange, diff_ranges, same_content
from graveler.committed.lookup import find_many
from graveler.committed.metarange import EMPTY_METARANGE, get, prefix_end, read, scan
from graveler.committed.range_store import RangeStore
from graveler.committed.splitting import Splitting
from graveler.model import CLAIMS, Commit
from graveler.values import RECORD_ID_BYTES, decode_value, encode_value, record_id, value_identity

_PATHS: Final = b"="
_HALF: Final = RECORD_ID_BYTES // 2
_NOTHING: Final = bytes(_HALF)
_PRESENT: Final = encode_value(bytes(RECORD_ID_BYTES), b"")
_RUN: Final = re.compile(r"run-.*?-[0-9a-f]{8}(?=\.|$)")
_NEAR: Final = 64
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


def decode_claim(raw: bytes) -> Claim:
    """Return the claim of a value record, or raise CorruptionError."""
    ids, data = decode_value(raw)
    ids = data or ids
    return Claim(ids[:_HALF], ids[_HALF:RECORD_ID_BYTES], data[RECORD_ID_BYTES:] or None)


class Claims:
    """The claims of a commit and changes to them, which `tree` stores.

    Args:
        store: Where the trees are.
        splitting: Where new ranges end.
        tree: Metarange id of the claims.
    """

    def __init__(self, store: RangeStore, splitting: Splitting, tree: str) -> None:
        self._store = store
        self._splitting = splitting
        self._tree = tree
        self._changes: dict[bytes, bytes | None] = {}
        self._writers: dict[bytes, set[str]] = {}  # of the paths that were looked up or changed

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
        head: bytes | None = b""
        for path in paths:
            if path in self._writers:
                continue
            start = _PATHS + path + b"\0"
            if head is not None and head < start:
                near = (key for key, _ in islice(rows, _NEAR) if key >= start)
                head = next(near, b"")
                if not head:
                    rows = scan(self._store, self._tree, start, stop)
                    head = next((key for key, _ in rows), None)
            found = self._writers.setdefault(path, set())
            while head is not None and head.startswith(start):
                found.add(head[len(start) :].decode())
                head = next((key for key, _ in rows), None)

    def writers(self, path: bytes) -> set[str]:
        """Return the writers that claim a path."""
        self.look_up([path])
        return self._writers[path]

    def put(self, writer: str, path: bytes, claim: Claim) -> None:
        """Set the claim of a writer at a path."""
        self.put_stored(writer, path, _encode(claim))

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
            writer: The branch of the step.
            other: Claims that have the name of the step if these have none.
        """
        title = self.stored(writer, b"") or other.stored(writer, b"")
        if title is not None:
            name = decode_value(title)[1].decode("utf-8", "surrogatepass")
            self.title(writer, name, self.of(writer))

    def put_stored(self, writer: str, path: bytes, raw: bytes | None) -> None:
        """Set or remove a claim, or the title for the path b"", in its stored form."""
        self._changes[_key(writer, path)] = raw
        if path:
            present = None if raw is None else _PRESENT
            self._changes[_PATHS + path + b"\0" + writer.encode()] = present
            if path in self._writers:
                change = self._writers[path].discard if raw is None else self._writers[path].add
                change(writer)

    def withdraw(self, writer: str, path: bytes, now: bytes | None) -> bytes | None:
        """Remove a claim, and return the value record that is at the path afterwards.

        If other writers claim the content of the path, too, it stays. If others have changed it, it
        stays. A claim above the removed one gets what stood before the latter.

        Args:
            writer: The writer.
            path: The path.
            now: The value record at the path.
        """
        claim = self.get(writer, path)
        if claim is None:
            return now
        others = self._others(path, {writer})
        beneath = _beneath(path, claim, others)
        heirs = {
            other
            for other, theirs in others.items()
            if other not in beneath
            and theirs.content == claim.content
            and (claim.equals(theirs.before) or theirs.before == claim.before)
        }
        for other, theirs in others.items():
            if other in heirs:
                record = theirs.record if theirs.is_at(path, now) else claim.record
                before = claim.before if claim.equals(theirs.before) else theirs.before
                self.put(other, path, Claim(record, claim.content, before))
            elif not heirs and other not in beneath and claim.is_at(path, theirs.before):
                self.put(other, path, theirs._replace(before=claim.before))
        self.put_stored(writer, path, None)
        return claim.before if claim.is_at(path, now) and not heirs else now

    def withdraw_all(self, writers: Iterable[str], path: bytes, now: bytes | None) -> bytes | None:
        """Remove the claims of some writers at a path, the latest first; see `withdraw`."""
        left = {writer: claim for writer in writers if (claim := self.get(writer, path))}
        while left:
            latest = max(
                sorted(left), key=lambda each: (left[each].is_at(path, now), left[each].equals(now))
            )
            now = self.withdraw(latest, path, now)
            del left[latest]
        return now

    def stack(
        self,
        path: bytes,
        under: bytes | None,
        value: bytes | None,
        claims: Sequence[tuple[str, Claim]],
    ) -> None:
        """Put claims on top of those of a path.

        Args:
            path: The path.
            under: The value record on which they stand.
            value: The value record that they leave at the path.
            claims: Writers and claims. The last one to write has the content of `value`.
        """
        for writer, claim in sorted(claims, key=lambda each: each[1].equals(value)):
            beneath = (other.is_at(path, claim.before) for _, other in claims if other != claim)
            before = claim.before if claim.before is not None and any(beneath) else under
            final = claim.equals(value)
            self.put(
                writer,
                path,
                Claim.of(path, value, before) if final else claim._replace(before=before),
            )

    def pass_on(
        self, path: bytes, now: bytes | None, to: bytes | None, earlier: Collection[str]
    ) -> bool:
        """Let later equal claims of a path stand on another value; return whether there are any.

        Args:
            path: The path.
            now: The value record at the path.
            to: The value record on which they stand from now on.
            earlier: Writers whose claims are not later.
        """
        others = self._others(path, earlier)
        later = {writer: claim for writer, claim in others.items() if claim.equals(now)}
        for writer, claim in later.items():
            self.put(writer, path, claim._replace(before=to))
        return bool(later)

    def lost(self, path: bytes, value: bytes | None, now: bytes | None, later: "Claims") -> bool:
        """Return whether a path is as it was before a claim that was withdrawn.

        Args:
            path: The path.
            value: The content that the claim has.
            now: The present value record.
            later: The present claims.
        """
        return any(
            claim.equals(value)
            and same_content(claim.before, now)
            and later.get(writer, path) is None
            for writer, claim in self._others(path, set()).items()
        )

    def value_of(self, path: bytes, claim: Claim, top: bytes | None) -> bytes | None:
        """Return the value record of a claim: that at the path, or the one before a later claim."""
        if claim.equals(top):
            return top
        others = self._others(path, set()).values()
        return next((other.before for other in others if claim.equals(other.before)), top)

    def top(
        self, path: bytes, claims: Mapping[str, Claim], top: bytes | None, now: "Claims"
    ) -> str | None:
        """Return which of some claims is the latest; None if a later one of others still stands.

        Args:
            path: The path.
            claims: The claims, by writer.
            top: The value record at the path.
            now: The present claims.
        """
        others = self._others(path, claims)
        for writer, claim in sorted(claims.items(), key=lambda each: not each[1].equals(top)):
            above = [
                other
                for other, theirs in others.items()
                if claim.is_at(path, theirs.before) and not theirs.equals(theirs.before)
            ]
            standing = (now.get(other, path) for other in above)
            if not any(
                theirs is not None and theirs.content == others[other].content
                for other, theirs in zip(above, standing, strict=True)
            ):
                return writer
        return None

    def insert(self, writer: str, path: bytes, claim: Claim, value: bytes | None) -> None:
        """Put a claim beneath those that stood on what it wrote."""
        for other, theirs in self._others(path, {writer}).items():
            if same_content(theirs.before, claim.before):
                self.put(other, path, theirs._replace(before=value))
        self.put(writer, path, claim)

    def same_at(self, path: bytes, other: "Claims") -> bool:
        """Return whether a path has the same claims in another tree."""
        writers = self.writers(path)
        return writers == other.writers(path) and all(
            self.stored(writer, path) == other.stored(writer, path) for writer in writers
        )

    def is_claimed(self, path: bytes, value: bytes | None) -> bool:
        """Return whether any writer claims this content of a path."""
        return any(claim.equals(value) for claim in self._others(path, set()).values())

    def _others(self, path: bytes, writers: Collection[str]) -> dict[str, Claim]:
        return {
            other: theirs
            for other in sorted(self.writers(path).difference(writers))
            if (theirs := self.get(other, path)) is not None
        }


def spans_of(writer: str, path: bytes) -> tuple[tuple[bytes, bytes], ...]:
    """Return where a claim and the writers of its path are: a first key, and the key after."""
    key, start = _key(writer, path), _PATHS + path
    return (key, key + b"\0"), (start + b"\0", start + b"\1")


def _key(writer: str, path: bytes) -> bytes:
    return writer.encode() + b"/" + path


def _beneath(path: bytes, claim: Claim, others: Mapping[str, Claim]) -> set[str]:
    """Return the writers whose claims lie below a claim, by what stood before each."""
    found: set[str] = set()
    below = [claim.before]
    while below:
        before = below.pop()
        for name, theirs in others.items():
            # a deletion of what the claim wrote lies above it, although nothing is left of both
            above = before is None and claim.is_at(path, theirs.before)
            if name not in found and theirs.is_at(path, before) and not above:
                found.add(name)
                below.append(theirs.before)
    return found


def claimed(  # noqa: PLR0913 - who wrote, and what
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
        store: Where the trees are.
        splitting: Where new ranges end.
        known: Metarange id of the claims before.
        writer: The writer.
        step: The name of the writer's step, "" for a run. None for a writer that is neither, which
            claims only what runs claim, too.
        tree: Metarange id of the files after.
        before: Metarange id of the files before; not for a writer that is neither.
        equal: Paths that were written, in key order. Those that did not change are claimed, too.
    """
    claims = Claims(store, splitting, known)
    stored = claims.of(writer) if step else None
    own: dict[bytes, Claim] = dict(stored or {})
    changed: set[bytes] = set()
    for path, was, now in record_diff(store, before, tree) if step is not None else ():
        changed.add(path)
        mine = claims.get(writer, path) if stored is None else own.get(path)
        under = was
        if mine is not None:
            under = claims.withdraw(writer, path, was)
        if now is not None or under is not None:
            own[path] = Claim.of(path, now, under)
            claims.put(writer, path, own[path])
        else:
            own.pop(path, None)
    unchanged = [path for path in equal if path not in changed]
    if step is None:
        claims.look_up(unchanged)
        unchanged = [path for path in unchanged if claims.writers(path) - {writer}]
        sides = (find_many(store, each, unchanged) for each in (before or tree, tree))
        unchanged = [path for path, was, now in zip(unchanged, *sides, strict=True) if was == now]
    for path, row in zip(unchanged, find_many(store, tree, unchanged), strict=True):
        mine = claims.get(writer, path) if stored is None else own.get(path)
        value = None if row is None else row[len(path) :]
        if value is not None and (mine is None or not mine.is_at(path, value)):
            if mine is not None:
                claims.withdraw(writer, path, value)
            own[path] = Claim.of(path, value, value)
            claims.put(writer, path, own[path])
    if step and own != stored:
        claims.title(writer, step, own)
    return claims.tree()


def record_diff(store: RangeStore, left: str, right: str) -> Iterator[RawChange]:
    """Yield the keys whose records differ, even if their content is equal."""
    return diff_ranges(store, read(store, left), read(store, right), same=eq)


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
        writer: The writer.
        path: The path; b"" for the title of a step.
        left: The claim on the left, or None; None for a title.
        right: The same on the right.
        same: Whether both sides claim the same content.
    """

    writer: str
    path: bytes
    left: Claim | None
    right: Claim | None
    same: bool


def claim_changes(store: RangeStore, left: str, right: str, run: str = "") -> Iterator[ClaimChange]:
    """Yield the claims that differ between two trees of claims, by writer and path.

    Args:
        store: Where the trees are.
        left: Metarange id.
        right: Metarange id.
        run: Only the claims of this run and of its steps.
    """
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
