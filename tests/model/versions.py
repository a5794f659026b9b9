"""The core of the model: files, the claims of their writers, and how both are merged and taken back.

A value is a content with a number that tells which write made it. A write of equal content leaves
the value of the first writer in place.
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


Files = Mapping[str, Value]
Claims = Mapping[tuple[Writer, str], Claim]
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
    claims: Claims = field(default_factory=dict)

    def of(self, key: str, step: str | None = None) -> dict[tuple[Writer, str], Claim]:
        """Return the claims of a run, or of one of its steps."""
        return {
            (writer, path): claim
            for (writer, path), claim in self.claims.items()
            if writer[0] == key and step in (None, writer[1])
        }

    def work(self, key: str) -> dict[tuple[Writer, str], str | None]:
        """Return what the claims of a run have written."""
        return {place: content(claim.value) for place, claim in self.of(key).items()}

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


class Draft:
    """A version that is being changed."""

    def __init__(self, version: Version) -> None:
        self.known = version.files
        self.files = dict(version.files)
        self.claims = dict(version.claims)

    def version(self) -> Version:
        """Return the result."""
        return Version(self.files, self.claims)

    def write(self, writer: Writer, writes: Mapping[str, str | None]) -> None:
        """Let a writer write, and claim what it wrote."""
        for path, text in writes.items():
            was = self.files.get(path)
            if text is None and content(was) is None:
                continue
            under = self._without(writer, path, was)
            now = written(self.files, {path: text}).get(path)
            if text is not None and content(self.known.get(path)) == text != content(under):
                now = self.known[path]  # the same file again
            self._set(path, now)
            if content(now) is not None or content(under) is not None:
                self.claims[writer, path] = Claim(now, under)

    def _without(self, writer: Writer, path: str, now: Value | None) -> Value | None:
        """Return what would stand at a path without the writer's earlier claim, which is removed."""
        if (writer, path) not in self.claims:
            return now
        self.take_back(writer, path)
        return self.files.get(path)

    def write_equal(self, writer: Writer, writes: Mapping[str, str | None]) -> None:
        """Let a writer who is no run write; it claims what runs claim."""
        self.files = dict(written(self.files, writes))
        for path, text in writes.items():
            others = {other for other, at in self.claims if at == path} - {writer}
            now = self.files.get(path)
            if text is not None and others and self.claims.get((writer, path), (None,))[0] != now:
                if (writer, path) in self.claims:
                    self.take_back(writer, path)
                    self._set(path, now)
                self.claims[writer, path] = Claim(now, now)

    def take_back(self, writer: Writer, path: str) -> None:
        """Remove a claim, and its file if it stands and nobody else claims it."""
        mine = self.claims.pop((writer, path))
        now = self.files.get(path)
        others = {other: claim for (other, at), claim in self.claims.items() if at == path}
        for name in _beneath(mine, others):
            del others[name]
        equal = [name for name in others if content(others[name].value) == content(mine.value)]
        heirs = [name for name in equal if _together(mine, others[name])]
        above = [name for name in others if others[name].before == mine.value]
        mine_now = now == mine.value or content(now) is None is content(mine.value)
        for name, claim in others.items():
            adopts = name in equal and (mine_now or (name in heirs and above))
            under = claim.before
            if (name in heirs and content(under) == content(mine.value)) or (
                name in above and not heirs
            ):
                under = mine.before
            self.claims[name, path] = Claim(mine.value if adopts else claim.value, under)
        if mine_now and not equal:
            self._set(path, mine.before)

    def _set(self, path: str, value: Value | None) -> None:
        self.files.pop(path, None)
        if value is not None:
            self.files[path] = value

    def take_back_step(self, key: str, step: str) -> None:
        """Remove the claims of a step, as its retry does."""
        for writer, path in sorted(Version(self.files, self.claims).of(key, step)):
            self.take_back(writer, path)

    def roll_back(self, key: str, published: Version, below: Version) -> None:
        """Bring the claims of a run back to those before its publish.

        Raises:
            Conflict: Others have changed a path.
        """
        gone, returning = published.of(key), below.of(key)
        places = {place for place in {*gone, *returning} if gone.get(place) != returning.get(place)}
        for path in sorted({path for _, path in places}):
            now = self.files.get(path)
            mine = sorted(writer for writer, at in places if at == path)
            old = [writer for writer in mine if (writer, path) in returning]
            present = [
                self.claims[place] for place in places & self.claims.keys() if place[1] == path
            ]
            allowed = {content(value) for claim in present for value in claim}
            if old or not present:
                allowed |= {content(side.files.get(path)) for side in (published, below)}
            if content(now) not in allowed:
                raise Conflict(path)
            for writer in mine:
                if (writer, path) in self.claims:
                    self.take_back(writer, path)
            if not old:
                continue
            stays = any(
                at == path and content(claim.value) == content(now)
                for (writer, at), claim in self.claims.items()
                if (writer, at) not in published.claims
            )
            for writer in old:
                self.claims[writer, path] = returning[writer, path]
            if content(now) == content(published.files.get(path)) and not stays:
                self._set(path, below.files.get(path))


def _together(mine: Claim, claim: Claim) -> bool:
    """Return whether two writers claim one content at one time."""
    return content(mine.value) == content(claim.value) and (
        content(claim.before) == content(mine.value) or claim.before == mine.before
    )


def _beneath(mine: Claim, others: Mapping[Writer, Claim]) -> Iterable[Writer]:
    """Return the writers whose claims lie below a claim, by what stood before each."""
    found: list[Writer] = []
    before = mine.before
    while True:
        below = next(
            (name for name, claim in others.items() if name not in found and claim.value == before),
            None,
        )
        if below is None or before is None:
            return found
        found.append(below)
        before = others[below].before


def merged(base: Version, source: Version, dest: Version, *, unsure: Iterable[str] = ()) -> Version:
    """Return the three-way merge: files by content, claims as a map.

    At the unsure paths the base is unlike both sides.

    Raises:
        Conflict: Both sides changed a path differently.
    """
    files, conflicts = dict(dest.files), []
    for path in sorted({*base.files, *source.files, *dest.files}):
        was, new, ours = (content(side.files.get(path)) for side in (base, source, dest))
        if new is None is ours and path in source.files:
            files.setdefault(path, source.files[path])
        if new == ours or (was == new and path not in unsure):
            continue
        if was != ours or path in unsure:
            conflicts.append(path)
        elif path in source.files:
            files[path] = source.files[path]
        else:
            del files[path]
    if conflicts:
        raise Conflict(*conflicts)
    return Version(files, _merged_claims(base.claims, source.claims, dest.claims))


def _merged_claims(base: Claims, source: Claims, dest: Claims) -> Claims:
    claims = dict(dest)
    for place in {*base, *source}:
        was, new, ours = (side.get(place) for side in (base, source, dest))
        if new is None and was is not None:
            claims.pop(place, None)
        elif new is not None and new != was and (was is None or ours is not None):
            claims[place] = new
    return claims
