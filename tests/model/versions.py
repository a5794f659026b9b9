"""The core of the model: files, the claims of their writers, and how both are merged and withdrawn.

A value is a content with a number that tells which write made it. A write of equal content leaves
the value of the first writer in place. The claims of a path lie on each other in the order of the
writes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

Writer = tuple[str, str]
"""A run and its step, "" for work outside of steps; or "" and a branch."""


class Value(NamedTuple):
    """A content, or None for a deletion, and the number of the write that made it."""

    content: str | None
    number: int


class Claim(NamedTuple):
    """What a writer wrote at a path, and what stood there before; None is no file."""

    value: Value | None
    before: Value | None

    def equals(self, value: Value | None) -> bool:
        """Return whether a value has the content that was written."""
        return content(self.value) == content(value)


Files = Mapping[str, Value]
Stack = tuple[tuple[Writer, Claim], ...]
"""The claims of a path, the oldest first."""
_numbers = count(1)


class Conflict(Exception):  # noqa: N818 - an outcome of the model
    """Both sides changed these paths differently."""


def content(value: Value | None) -> str | None:
    """Return the content of a value."""
    return None if value is None else value.content


@dataclass(frozen=True)
class Version:
    """What a commit has: files by path, and claims."""

    files: Files = field(default_factory=dict)
    claims: Mapping[str, Stack] = field(default_factory=dict)

    def of(self, key: str, step: str | None = None) -> dict[tuple[Writer, str], Claim]:
        """Return the claims of a run, or of one of its steps."""
        return {
            (writer, path): claim
            for path, stack in self.claims.items()
            for writer, claim in stack
            if writer[0] == key and step in (None, writer[1])
        }

    def work(self, key: str, step: str | None = None) -> dict[tuple[Writer, str], str | None]:
        """Return what the claims of a run, or of one of its steps, have written."""
        return {place: content(claim.value) for place, claim in self.of(key, step).items()}

    def at(self, path: str) -> dict[Writer, Claim]:
        """Return the claims at a path, the oldest first."""
        return dict(self.claims.get(path, ()))

    def place(self, path: str) -> "Place":
        """Return a path, to change."""
        return Place(self.files.get(path), self.claims.get(path, ()))

    def writers(self) -> set[Writer]:
        """Return all writers with claims."""
        return {writer for stack in self.claims.values() for writer, _ in stack}

    def changed(self, other: "Version", path: str) -> list[Writer]:
        """Return the writers who claim another content of a path in another version."""
        sides = self.at(path), other.at(path)
        return sorted(
            writer
            for writer in sides[0].keys() | sides[1].keys()
            if any(writer not in side for side in sides)
            or not sides[0][writer].equals(sides[1][writer].value)
        )

    def runs(self, other: "Version") -> set[str]:
        """Return the runs whose work differs in another version."""
        keys = {writer[0] for writer in self.writers() | other.writers()} - {""}
        return {key for key in keys if self.work(key) != other.work(key)}

    def same(self, other: "Version") -> bool:
        """Return whether both have the same content and claims."""
        sides = (
            {
                path: [
                    (writer, *(value if content(value) else None for value in claim))
                    for writer, claim in stack
                ]
                for path, stack in side.claims.items()
            }
            for side in (self, other)
        )
        return self.same_files(other) and next(sides) == next(sides)

    def same_files(self, other: "Version") -> bool:
        """Return whether both have the same content."""
        return contents(self.files) == contents(other.files)


def contents(files: Files) -> dict[str, str]:
    """Return the content by path."""
    return {path: value.content for path, value in files.items() if value.content is not None}


def tree(files: Files) -> frozenset[tuple[str, Value]]:
    """Return the files without the deletions."""
    return frozenset((path, value) for path, value in files.items() if value.content is not None)


def written(files: Files, writes: Mapping[str, str | None]) -> Files:
    """Return the files after writes; None deletes, and an equal content leaves the value."""
    made = dict(files)
    for path, text in writes.items():
        if content(made.get(path)) != text:
            made[path] = Value(text, next(_numbers))
    return made


class Place:
    """A path: its value, and the claims beneath it, the oldest first."""

    def __init__(self, value: Value | None, claims: Iterable[tuple[Writer, Claim]]) -> None:
        self.value = value
        self.claims = dict(claims)

    def over(self, writer: Writer | None) -> list[Writer]:
        """Return the writers whose claims lie above that of a writer."""
        names = list(self.claims)
        return names[names.index(writer) + 1 :] if writer else []

    def before(self, over: Writer | None) -> Value | None:
        """Return what stood before a claim, or the value."""
        return self.claims[over].before if over else self.value

    def above(self, writer: Writer) -> Value | None:
        """Return what came upon a claim: what stood before the next one, or the value."""
        return self.before(_first(self.over(writer)))

    def set_before(self, over: Writer | None, value: Value | None) -> None:
        """Set what stood before a claim, or the value."""
        if over is None:
            self.value = value
        else:
            self.claims[over] = self.claims[over]._replace(before=value)

    def withdraw(self, writers: Iterable[Writer]) -> None:
        """Remove claims, the latest first. What stood before each returns, if it was not replaced."""
        names = set(writers)
        for writer in [one for one in reversed(self.claims) if one in names]:
            if _is_same(self.above(writer), self.claims[writer].value):
                self.set_before(_first(self.over(writer)), self.claims[writer].before)
            del self.claims[writer]

    def insert(
        self, writer: Writer, value: Value | None, above: Value | None, over: Writer | None = None
    ) -> None:
        """Put a claim on all others, or beneath one, and above it what came upon it."""
        before = self.before(over)
        later = {name: self.claims.pop(name) for name in ([over, *self.over(over)] if over else [])}
        same = content(value) == content(before)
        self.claims |= {writer: Claim(before if same else value, before)} | later
        if content(above) != content(before):
            self.set_before(over, above)

    def without(self, other: "Place") -> tuple[bool, Value | None]:
        """Return whether another place has more claims, and the value without those that it has not."""
        kept = {
            writer
            for writer, claim in other.claims.items()
            if writer in self.claims and self.claims[writer].equals(claim.value)
        }
        place = Place(self.value, self.claims.items())
        place.withdraw(self.claims.keys() - kept)
        return kept != other.claims.keys(), place.value


def _first(writers: Iterable[Writer]) -> Writer | None:
    return next(iter(writers), None)


def _is_same(value: Value | None, other: Value | None) -> bool:
    return value == other or content(value) is content(other) is None


class Draft:
    """A version that is being changed."""

    def __init__(self, version: Version) -> None:
        self.known = version.files
        self.files = dict(version.files)
        self.claims = dict(version.claims)

    def version(self) -> Version:
        """Return the result."""
        return Version(self.files, self.claims)

    def put(self, path: str, place: Place) -> None:
        """Set the file and the claims at a path."""
        self.files.pop(path, None)
        self.claims.pop(path, None)
        if place.value is not None:
            self.files[path] = place.value
        if place.claims:
            self.claims[path] = tuple(place.claims.items())

    def write(self, writer: Writer, writes: Mapping[str, str | None]) -> None:
        """Let a writer write, and claim what it wrote."""
        for path, text in writes.items():
            place, was = self.version().place(path), self.files.get(path)
            mine = place.claims.get(writer)
            if content(was) == text and (text is None or (mine and mine.value == was)):
                continue
            place.withdraw([writer])
            value = written({path: place.value} if place.value else {}, {path: text}).get(path)
            if text is not None and content(self.known.get(path)) == text != content(place.value):
                value = self.known[path]  # the same file again
            if text is not None or content(place.value) is not None:
                place.insert(writer, value, value)
            self.put(path, place)

    def claim_equal(self, writer: Writer, paths: Iterable[str]) -> None:
        """Let a writer who is no run claim what stands at paths that runs claim, too."""
        for path in paths:
            place = self.version().place(path)
            value, mine = place.value, place.claims.get(writer)
            if content(value) is None or not place.claims.keys() - {writer}:
                continue
            if mine is None or mine.value != value:
                place.withdraw([writer])
                place.value = value
                place.insert(writer, value, value)
                self.put(path, place)

    def withdraw_step(self, key: str, step: str) -> None:
        """Remove the claims of a step, as its retry does."""
        for writer, path in self.version().of(key, step):
            place = self.version().place(path)
            place.withdraw([writer])
            self.put(path, place)


def replay(
    place: Place,
    rows: set[Writer],
    base: Place,
    source: Place,
    plain: Value | None,
    *,
    revert: bool,
) -> bool:
    """Do again at a path what a source did; return whether the path allows it.

    The claims of the rows come from the source. Each lies beneath those that lie on it there. What a
    revert returns lies beneath equal claims that came later. All else lies on top.
    """
    more, rest = base.without(place)
    free = not more and content(rest) == content(place.value)
    free = free or content(place.value) == content(base.value)
    free = free or content(plain) == content(source.value)
    more, rest = base.without(source)
    place.withdraw(rows)
    under = place.value
    later = _first(
        writer
        for writer, claim in place.claims.items()
        if revert and writer not in base.claims | source.claims and claim.equals(under)
    )
    for writer in [one for one in source.claims if one in rows]:
        above = {one for one in source.over(writer) if one not in rows}
        over = _first(one for one in place.claims if one in above) or later
        place.insert(writer, source.claims[writer].value, source.above(writer), over)
    if not more and content(rest) != content(source.value) != content(place.before(later)):
        place.set_before(later, source.value)
    return free or content(place.value) == content(under)


def merged(  # noqa: C901 - one path after the other
    base: Version,
    source: Version,
    dest: Version,
    *,
    unsure: Iterable[str] = (),
    revert: bool = False,
    strict: bool = False,
    join: bool = False,
) -> Version:
    """Return the three-way merge by content, and of the claims beside it.

    Where both sides changed claims or files, what the source did is done again on the destination.
    At the unsure paths the base is unlike both sides. The source of a revert is older than its base,
    and that of a join is a step. A strict merge conflicts where the source only stopped claiming.
    """
    draft, conflicts = Draft(dest), []
    paths = {path for side in (base, source, dest) for path in side.files}
    moved = base.runs(dest)
    whole = set() if revert or join else moved & base.runs(source)
    for writer in {one for one in source.writers() if one[0] in whole and one[1]}:
        works = [side.work(*writer) for side in (base, source, dest)]
        if works[2] and all(works.count(work) == 1 for work in works):
            raise Conflict(writer)  # a step has worked on both sides
    for path in sorted(paths.union(*(side.claims for side in (base, source, dest)))):
        was, new, now = (side.files.get(path) for side in (base, source, dest))
        changed = base.changed(source, path)
        rows = {*changed, *(one for one in source.at(path) if one[0] in whole)}
        same = was == now or content(was) is content(now) is None
        same = (
            same
            and base.claims.get(path) == dest.claims.get(path)
            and moved.isdisjoint(one[0] for one in rows)
        )
        if revert and any(_worked_since(one, base, source, dest) for one in rows):
            rows = {one for one in rows if not _worked_since(one, base, source, dest)}
            if not rows:
                continue  # a later work of the step stands there
        plain = new if same or (content(new) == content(now) and now is None) else now
        if content(new) == content(now):
            pass
        elif content(was) != content(new) or path in unsure:
            clash = content(was) != content(now) or path in unsure
            if clash and (strict or same or not rows or any(map(source.at(path).get, rows))):
                conflicts.append(path)
            plain = now if clash else new
        there, ours = dest.at(path), source.at(path)
        standing = {
            one
            for one in rows & there.keys() & ours.keys()
            if ours[one].equals(there[one].value)
            and (one not in changed or _is_same(now, list(there.values())[-1].value))
        }
        rows -= standing
        place = Place(plain, (source if same else dest).claims.get(path, ()))
        if not same and (rows or revert):
            place.value = now
            if not replay(place, rows, base.place(path), source.place(path), plain, revert=revert):
                conflicts.append(path)
        draft.put(path, place)
    if conflicts:
        raise Conflict(*conflicts)
    return draft.version()


def _worked_since(writer: Writer, base: Version, source: Version, dest: Version) -> bool:
    """Return whether a step has other work now."""
    works = [side.work(*writer) for side in (base, source, dest)]
    return bool(writer[0] and writer[1] and works[2]) and works[2] not in works[:2]
