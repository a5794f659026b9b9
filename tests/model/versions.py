"""The core of the model: files, the claims of their writers, and how both are merged and withdrawn.

A value is a content with a number that tells which write made it. A write of equal content leaves
the value of the first writer in place. The claims of a path lie on each other in the order of the
writes.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import NamedTuple

Writer = tuple[str, str]
"""A run and its step, "" for work outside of steps; or "" and a branch."""
Writes = Mapping[str, str | None]
"""Contents by path; None deletes."""
CONFLICT = "MergeConflictError"
_numbers = count(1)


class Fails(Exception):
    """The operation fails with the error of this name, or of one of these."""


class Value(NamedTuple):
    """A content, and the number of the write that made it. No file is None."""

    content: str
    number: int


def content(value: Value | None) -> str | None:
    """Return the content of a value."""
    return value and value.content


class _Text(str):
    """A content that knows the write that made it: a copy of the file has the same bytes."""

    number = 0


def value_of(text: str | None) -> Value | None:
    """Return the value of a write; that of a copy has the number of the copied one."""
    made = _Text(text or "")
    made.number = getattr(text, "number", 0) or next(_numbers)
    return None if text is None else Value(made, made.number)


class Place(NamedTuple):
    """A path: what its writers wrote, the oldest claim first, and what stood there.

    The first level stood before the first claim, each next one came upon a claim, and the last is
    the file.
    """

    levels: tuple[Value | None, ...] = (None,)
    claims: tuple[tuple[Writer, Value | None], ...] = ()

    @property
    def value(self) -> Value | None:
        """The file."""
        return self.levels[-1]

    def work(self) -> dict[Writer, str | None]:
        """Return the contents that the writers claim."""
        return {writer: content(value) for writer, value in self.claims}

    def _rows(self):
        """Return the claims, each with what stood before it."""
        return zip(self.claims, self.levels, strict=False)

    def united(self, other: "Place") -> "Place":
        """Return the claims of both, and of a writer who claims in both that of the other place."""
        rows = {claim[0]: (claim, before) for claim, before in (*self._rows(), *other._rows())}
        claims, levels = zip(*rows.values(), strict=True)
        return Place((*levels, None), claims)

    def put(self, value: Value | None) -> "Place":
        """Replace the file."""
        return Place((*self.levels[:-1], value), self.claims)

    def lowest(self, writers: Collection[Writer]) -> int:
        """Return the position of the lowest claim of these writers, or that of the file."""
        names = (at for at, (writer, _) in enumerate(self.claims) if writer in writers)
        return next(names, len(self.claims))

    def withdraw(self, writers: Collection[Writer]) -> "Place":
        """Remove claims, the latest first. What stood before each returns, if it was not replaced."""
        levels, claims = list(self.levels), list(self.claims)
        for at, (writer, value) in reversed(list(enumerate(claims))):
            if writer in writers:
                replaced = levels[at + 1] != value
                del claims[at], levels[at if replaced else at + 1]
        return Place(tuple(levels), tuple(claims))

    def insert(self, at: int, writer: Writer, value: Value | None, above: Value | None) -> "Place":
        """Put a claim at a position, and above it what came upon it."""
        before = self.levels[at]
        claim = writer, before if content(value) == content(before) else value
        above = before if content(above) == content(before) else above
        levels = *self.levels[: at + 1], above, *self.levels[at + 1 :]
        return Place(levels, (*self.claims[:at], claim, *self.claims[at:]))

    def without(self, other: "Place") -> tuple[bool, Value | None]:
        """Return whether another place has more claims, and the file without those that it has not."""
        kept = dict(self.work().items() & other.work().items())
        gone = self.withdraw(self.work().keys() - kept)
        return kept != other.work(), gone.value


@dataclass(frozen=True)
class Version:
    """What a commit has: files and claims by path."""

    places: Mapping[str, Place] = field(default_factory=dict)

    @cached_property
    def files(self) -> dict[str, Value]:
        """The files by path."""
        return {path: place.value for path, place in self.places.items() if place.value}

    @cached_property
    def texts(self) -> dict[str, str]:
        """The contents by path."""
        return {path: value.content for path, value in self.files.items()}

    @cached_property
    def claims(self) -> dict[str, Place]:
        """The claims by path."""
        return {path: place.put(None) for path, place in self.places.items() if place.claims}

    def at(self, path: str) -> Place:
        """Return a path."""
        return self.places.get(path, Place())

    def work(self, key: str = "", step: str = "") -> set[tuple[Writer, str, str | None]]:
        """Return the claims of all, of a run, or of a step: writer, path and content."""
        return {
            (writer, path, text)
            for path, place in self.places.items()
            for writer, text in place.work().items()
            if key in ("", writer[0]) and step in ("", writer[1])
        }

    def runs(self, other: "Version") -> set[str]:
        """Return the runs whose work differs in another version."""
        return {key for (key, _), _, _ in self.work() ^ other.work()} - {""}

    def changes(self, old: "Version") -> dict[str, str | None]:
        """Return the contents that differ from another version; None is no file."""
        paths = {path for path, _ in self.texts.items() ^ old.texts.items()}
        return {path: self.texts.get(path) for path in sorted(paths)}

    def same(self, other: "Version") -> bool:
        """Return whether both have the same content and claims."""
        return self.texts == other.texts and self.claims == other.claims

    def changed(self, places: Mapping[str, Place]) -> "Version":
        every = {**self.places, **places}
        return Version({path: place for path, place in every.items() if place != Place()})

    def put(self, values: Mapping[str, Value | None]) -> "Version":
        """Replace files, beside the claims."""
        return self.changed({path: self.at(path).put(value) for path, value in values.items()})

    def written(self, writes: Writes) -> "Version":
        """Write as one who claims nothing. An equal content leaves the value."""
        changed = {path: text for path, text in writes.items() if self.texts.get(path) != text}
        return self.put({path: value_of(text) for path, text in changed.items()})

    def write(self, writer: Writer, writes: Writes, known: Mapping[str, Value]) -> "Version":
        """Let a writer write, and claim what it wrote; a known value is the same file again."""
        places = {}
        for path, text in writes.items():
            place = self.at(path)
            if content(place.value) == text and dict(place.claims).get(writer, "") == place.value:
                continue
            place = place.withdraw([writer])
            there = place.value, known.get(path)
            value = next((one for one in there if content(one) == text), value_of(text))
            if place.value or value or place.claims:
                place = place.insert(len(place.claims), writer, value, value)
            places[path] = place
        return self.changed(places)

    def claim_equal(self, writer: Writer, writes: Writes) -> "Version":
        """Let a writer who is no run claim what it writes again and others claim, too."""
        equal = {path: text for path, text in writes.items() if self.texts.get(path) == text}
        both = {path: equal[path] for path in equal if self.at(path).work().keys() - {writer}}
        return self.write(writer, both, self.files)

    def withdraw(self, writer: Writer) -> "Version":
        """Remove the claims of a step, as its retry does."""
        return self.changed({path: one.withdraw([writer]) for path, one in self.places.items()})


def _again(was: Place, new: Place, now: Place, rows: set[Writer], *, revert: bool) -> Place:
    """Do again at a path what a source did, if the path allows it.

    The claims of the rows come from the source. Each lies beneath those that lie on it there. What a
    revert returns lies beneath equal claims that came later. All else lies on top.
    """
    more, rest = was.without(now)
    kept = was.value if more else rest
    free = content(now.value) in (content(was.value), content(kept))
    more, rest = was.without(new)
    place = now.withdraw(rows)
    under = content(place.value)
    equal = {one for one, text in place.work().items() if revert and text == under}
    later = equal - was.work().keys() - new.work().keys()
    for at, (writer, value) in enumerate(new.claims):
        if writer in rows:
            above = {one for one, _ in new.claims[at + 1 :]} - rows
            over = place.lowest(above if above & place.work().keys() else later)
            place = place.insert(over, writer, value, new.levels[at + 1])
    at = place.lowest(later)
    if not more and content(rest) != content(new.value) != content(place.levels[at]):
        levels = *place.levels[:at], new.value, *place.levels[at + 1 :]
        place = Place(levels, place.claims)
    if not free and content(place.value) != under:
        raise Fails(CONFLICT)
    return place


def merged(
    base: Version, source: Version, dest: Version, *, how: str = "", unsure: Collection[str] = ()
) -> Version:
    """Return the three-way merge by content, and of the claims beside it.

    Where both sides changed claims or files, what the source did is done again on the destination.
    At the unsure paths the base is unlike both sides.

    The source of a "revert" is older than its base, that of a "join" is a step, and that of a "pick"
    is one commit. A revert or pick conflicts where the source only stopped claiming.
    """
    places = {}
    moved = base.runs(dest)
    whole = set() if how in ("revert", "join") else moved & base.runs(source)
    steps = {writer for writer, _, _ in dest.work() if all(writer)}
    # Newer are the steps that have other work now.
    newer = {one for one in steps if dest.work(*one) not in (base.work(*one), source.work(*one))}
    for one in newer:
        if one[0] in whole and source.work(*one) not in (base.work(*one), set()):
            raise Fails(CONFLICT)  # a step has worked on both sides
    for path in {**base.places, **source.places, **dest.places}:
        was, new, now = (side.at(path) for side in (base, source, dest))
        old, ours, theirs = (content(place.value) for place in (was, new, now))
        changed = {writer for writer, _ in was.work().items() ^ new.work().items()}
        every = changed | {one for one in new.work() if one[0] in whole}
        same = was == now and moved.isdisjoint(key for key, _ in every)
        rows = every - newer if how == "revert" else every
        if every and not rows:
            continue  # a later work of the step stands there
        brings = ours != theirs and (old != ours or path in unsure)
        clash = brings and (old != theirs or path in unsure)
        if clash and (how in ("revert", "pick") or same or not rows or rows & new.work().keys()):
            raise Fails(CONFLICT)
        on_top = not now.claims or now.value == now.claims[-1][1]
        both = {one for one, _ in new.work().items() & now.work().items()}
        rows -= both if old == ours or on_top else both - changed
        if same:
            places[path] = new
        elif rows or how == "revert":
            places[path] = _again(was, new, now, rows, revert=how == "revert")
        elif brings and not clash:
            places[path] = now.put(new.value)
    return dest.changed(places)
