"""The core of the model: files, the claims of their writers, and how both are merged and withdrawn.

A value is a content with a number that tells which write made it. A write of equal content leaves
the value of the first writer in place.
"""

from collections.abc import Collection, Iterable, Mapping
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

    def work(self, key: str, step: str | None = None) -> dict[tuple[Writer, str], str | None]:
        """Return what the claims of a run, or of one of its steps, have written."""
        return {place: content(claim.value) for place, claim in self.of(key, step).items()}

    def at(self, path: str) -> dict[Writer, Claim]:
        """Return the claims at a path."""
        return {writer: claim for (writer, at), claim in self.claims.items() if at == path}

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
        keys = {writer[0] for side in (self, other) for writer, _ in side.claims}
        return {key for key in keys if key and self.work(key) != other.work(key)}

    def same(self, other: "Version") -> bool:
        """Return whether both have the same content and claims."""
        sides = (
            {
                place: [value if content(value) else None for value in claim]
                for place, claim in side.claims.items()
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

    def claim_equal(self, writer: Writer, paths: Iterable[str]) -> None:
        """Let a writer who is no run claim what stands at paths that runs claim, too."""
        for path in paths:
            now = self.files.get(path)
            others = {other for other, at in self.claims if at == path} - {writer}
            if content(now) is None or not others:
                continue
            if self.claims.get((writer, path), (None,))[0] != now:
                if (writer, path) in self.claims:
                    self.take_back(writer, path)
                    self._set(path, now)
                self.claims[writer, path] = Claim(now, now)

    def take_back(self, writer: Writer, path: str) -> None:
        """Remove a claim, and its file if it stands and no other writer claims it."""
        mine = self.claims.pop((writer, path))
        now = self.files.get(path)
        others = self.at(path)
        for name in _beneath(mine, others):
            del others[name]
        above = {name for name in others if others[name].before == mine.value}
        over = {name for name in above if not others[name].equals(mine.value)}
        for _ in others:  # those that stand on other content above the claim
            values = [others[name].value for name in over]
            over |= {name for name in others if others[name].before in values}
        heirs = {name for name in others.keys() - over if _together(mine, others[name])}
        equal = {name for name in heirs | above | over if others[name].equals(mine.value)}
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

    def take_back_all(self, writers: Iterable[Writer], path: str) -> None:
        """Remove the claims of some writers at a path, the latest first."""
        left = {writer for writer in writers if (writer, path) in self.claims}
        while left:
            now = self.files.get(path)
            values = {writer: self.claims[writer, path].value for writer in sorted(left)}
            writer = max(
                values, key=lambda one: (values[one] == now, content(values[one]) == content(now))
            )
            left.remove(writer)
            self.take_back(writer, path)

    def at(self, path: str) -> dict[Writer, Claim]:
        """Return the claims at a path."""
        return Version(self.files, self.claims).at(path)

    def put(self, path: str, value: Value | None, claims: Mapping[Writer, Claim]) -> None:
        """Set the file and the claims at a path."""
        for writer in self.at(path):
            del self.claims[writer, path]
        self.claims.update({(writer, path): claim for writer, claim in claims.items()})
        self._set(path, value)

    def replay_on(
        self,
        path: str,
        rows: Collection[Writer],
        base: Version,
        source: Version,
        plain: Value | None,
        *,
        revert: bool,
    ) -> None:
        """Do again what a source did at a path: the claims of these writers come from it."""
        was, new, now = base.files.get(path), source.files.get(path), self.files.get(path)
        added = {writer: claim for writer, claim in source.at(path).items() if writer in rows}
        self.take_back_all(rows, path)
        value = self.files.get(path)
        if revert and added and self.pass_on(path, base, new):
            self.claims.update({(writer, path): claim for writer, claim in added.items()})
            return
        if not added:
            return
        top = self._top(path, added, source)
        if top is None:
            for writer, claim in added.items():
                for other, theirs in self.at(path).items():
                    if content(theirs.before) == content(claim.before):
                        self.claims[other, path] = theirs._replace(before=claim.value)
                self.claims[writer, path] = claim
            return
        over = (theirs.before for theirs in source.at(path).values() if top.equals(theirs.before))
        final = new if top.equals(new) else next(over, new)
        if content(value) != content(final):
            lost = {
                writer
                for writer, claim in base.at(path).items()
                if claim.equals(was) and content(claim.before) == content(value)
            }
            claimed = any(claim.equals(value) for claim in self.at(path).values())
            if not (
                content(now) == content(was)
                or content(plain) == content(new)
                or (lost - self.at(path).keys() and not claimed)
            ):
                raise Conflict(path)
        else:
            final = value
        for writer, claim in added.items():
            inside = any(other.value == claim.before for other in added.values() if other != claim)
            self.claims[writer, path] = Claim(
                final if claim.equals(final) else claim.value,
                claim.before if claim.before is not None and inside else value,
            )
        self._set(path, final)

    def _top(self, path: str, added: Mapping[Writer, Claim], source: Version) -> Claim | None:
        """Return the latest of some claims, unless later ones of the source still stand."""
        at, here = source.at(path), self.at(path)
        for claim in sorted(added.values(), key=lambda one: not one.equals(source.files.get(path))):
            above = [
                other
                for other, theirs in at.items()
                if other not in added
                and theirs.before == claim.value
                and not theirs.equals(theirs.before)
            ]
            if not any(here.get(other, claim).equals(at[other].value) for other in above):
                return claim
        return None

    def pass_on(self, path: str, base: Version, new: Value | None) -> bool:
        """Put a value beneath later equal claims; return whether there are any."""
        later = {
            writer: claim
            for writer, claim in self.at(path).items()
            if writer[0] and writer not in base.at(path) and claim.equals(self.files.get(path))
        }
        for writer, claim in later.items():
            self.claims[writer, path] = claim._replace(before=new)
        return bool(later)


def _together(mine: Claim, claim: Claim) -> bool:
    """Return whether two writers claim one content at one time."""
    under = claim.before == mine.before or content(claim.before) is content(mine.before) is None
    return claim.equals(mine.value) and (mine.equals(claim.before) or under)


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
    for writer in {writer for writer, _ in source.claims if writer[0] in whole and writer[1]}:
        works = [side.work(*writer) for side in (base, source, dest)]
        if works[2] and all(works.count(work) == 1 for work in works):
            raise Conflict(writer)  # a step has worked on both sides
    for path in sorted(paths | {at for side in (base, source, dest) for _, at in side.claims}):
        was, new, now = (side.files.get(path) for side in (base, source, dest))
        changed = base.changed(source, path)
        rows = {*changed, *(one for one in source.at(path) if one[0] in whole)}
        same = was == now or content(was) is content(now) is None
        same = same and base.at(path) == dest.at(path) and moved.isdisjoint(one[0] for one in rows)
        if revert and any(_worked_since(one, base, source, dest) for one in rows):
            rows = {one for one in rows if not _worked_since(one, base, source, dest)}
            if not rows:
                continue  # a later work of the step stands there
        again = revert and not rows and not same and content(was) != content(new)
        again = again and content(now) in (content(was), content(new))
        if again and draft.pass_on(path, base, new):
            continue  # a run has written the same since
        plain = new if same or (content(new) == content(now) and now is None) else now
        if content(new) == content(now):
            pass
        elif content(was) != content(new) or path in unsure:
            clash = content(was) != content(now) or path in unsure
            if clash and (strict or same or not rows or any(map(source.at(path).get, rows))):
                conflicts.append(path)
            plain = now if clash else new
        there, ours = dest.at(path), source.at(path)
        rows = {
            one
            for one in rows
            if one not in there or one not in ours or not ours[one].equals(there[one].value)
        }
        if rows and not same:
            try:
                draft.replay_on(path, rows, base, source, plain, revert=revert)
            except Conflict:
                conflicts.append(path)
            continue
        draft.put(path, plain, _merged_claims(*(side.at(path) for side in (base, source, dest))))
    if conflicts:
        raise Conflict(*conflicts)
    return draft.version()


def _worked_since(writer: Writer, base: Version, source: Version, dest: Version) -> bool:
    """Return whether a step has other work now."""
    works = [side.work(*writer) for side in (base, source, dest)]
    return bool(writer[0] and writer[1] and works[2]) and works[2] not in works[:2]


def _merged_claims(
    base: Mapping[Writer, Claim], source: Mapping[Writer, Claim], dest: Mapping[Writer, Claim]
) -> dict[Writer, Claim]:
    claims = dict(dest)
    for writer in {*base, *source}:
        was, new, ours = (side.get(writer) for side in (base, source, dest))
        if new is None and was is not None:
            claims.pop(writer, None)
        elif new is not None and new != was and (was is None or ours is not None):
            claims[writer] = new
    return claims
