"""The model of an ingestion branch: what ticks, releases and others make of its staged writes."""

import re
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

from tests.model.lake import SKIP, Commit, Lake, best_of, found
from tests.model.versions import CONFLICT, Fails, Value, Version, Writes

INGEST = "ingest"
BAD = "dddd"
"""The content that the gate of ingestion refuses."""
_WRITER = ("", INGEST)
_HOUR = re.compile(r"(\d+)/(\d+)/(\d+)/(\d+:\d+)/")


def hours_between(old: Version, new: Version, hour: str) -> dict[str, str]:
    """Return the hours of the folders in which files changed, each with its kind."""
    kinds: dict[str, str] = {}
    for path, text in new.changes(old).items():
        if folder := _HOUR.search(path):
            name = "{}-{}-{}T{}Z".format(*folder.groups())
            late_or_early = "late" if name < hour else "early"
            if text is None:
                kinds.setdefault(name, "deleted")
            else:
                kinds[name] = "on-time" if hour in ("", name) else late_or_early
    return kinds


@dataclass
class Hour:
    """What the ticks of an hour noted: its commits, or the last commit before it if it had none."""

    commits: list[Commit] = field(default_factory=list)
    behind: list[Commit] = field(default_factory=list)
    late: set[str] = field(default_factory=set)


@dataclass
class Quarantine:
    """A refused change, or else a shelf, with the writes that conflict with others.

    Attributes:
        hour: The hour that its release announces.
        base: The commit of the target that its branch starts from.
        commits: The refused change.
        released: The commit that released it.
    """

    hour: str
    base: Commit
    commits: tuple[Commit, ...] = ()
    released: Commit | None = None


class Ingesting(Lake):
    """The repository with an ingestion branch into main."""

    def __init__(self) -> None:
        super().__init__()
        self.hours: dict[str, Hour] = {}
        self.quarantines: dict[str, Quarantine] = {}
        self.aside: dict[tuple[str, str], str] = {}
        """The hours and paths that were set aside, with the shelf."""
        self.shelves: dict[str, None] = {}
        self.held = False
        self.since = self.target
        """The commit after which the staged writes came."""
        self.policy = ""

    # what operations have in common

    @property
    def target(self) -> Commit:
        """The head of the target."""
        return self.branch("main").head

    def _line(self) -> list[Commit]:
        """Return the commits of the branch that the target does not have, oldest first."""
        head, known = self.branches[INGEST].head, self.target.ancestors
        line = [commit for commit in reversed(head.line) if commit not in known]
        marks = [at for at, commit in enumerate(line) if commit.parents == (commit.takes,)]
        return line[max(marks, default=0) :]

    def waiting(self) -> list[Commit]:
        """Return the changes that are not published, oldest first."""
        line = self._line()
        gone = {one for commit in line for one in commit.removes} | self.expired - {*line[-1:]}
        return [commit for commit in line if commit.hour and commit not in gone]

    def points(self) -> list[tuple[Commit, list[Commit]]]:
        """Return the commits that can be published, each with the changes that it publishes."""
        waiting, marks = self.waiting(), [one for one in self._line() if not one.hour][-1:]
        before = [one for one in waiting if marks and one in marks[0].ancestors]
        points = [(mark, before) for mark in marks if before]
        return points + [(one, [one]) for one in waiting if one not in before]

    def _below(self, change: Commit) -> Version:
        """Return what a change is based on: what is below expired commits."""
        return next((one.version for one in change.line[1:] if one not in self.expired), Version())

    def _others(self, since: Commit) -> set[str]:
        """Return the paths that others changed on the target; none if ingestion wins over them."""
        if self.policy == "ingest":
            return set()
        new = [one for one in self.target.line if one not in since.ancestors]
        last = {path: one for one in reversed(new) for path in one.version.changes(one.below)}
        own = {one for one in new if one.lands or (one.reverts and one.reverts.lands)}
        base, unsure = self.bases(since, self.target)
        changed = {*self.target.version.changes(base), *unsure}
        return {path for path in changed & last.keys() if last[path] not in own}

    def _mark(self) -> Commit:
        """Return the first commit of a line of changes on the target."""
        return self.make(self.target.version, self.target, takes=self.target)

    # ticks

    def put(self, writes: Writes) -> None:
        if INGEST not in self.branches:
            self.since = self.move(INGEST, self._mark())
        self.stage(INGEST, writes)

    def tick(self, hour: str, on_refusal: str, on_conflict: str) -> Commit | None:
        self.put({})
        self.policy = on_refusal if on_conflict == "refuse" else on_conflict
        head, target = self.branches[INGEST].head, self.target
        new = any(not one.lands for one in target.line if one not in head.ancestors)
        if self._is_lost() or (new and (self.branches[INGEST].staged or self.points())):
            self._take()
        self._commit_hour(hour)
        self._publish(hold=on_refusal == "hold")
        return None if self._inside(self.hours[hour]) else self._published(self.hours[hour])

    def _is_lost(self) -> bool:
        return any(one.takes and one.takes not in self.target.ancestors for one in self._line())

    def _follow_back(self) -> None:
        """Make the waiting changes again on the target, which has lost what they are on."""
        for name, one in self.quarantines.items():
            if one.released is not None and one.released not in self.target.ancestors:
                self.move(name, one.released.parents[1])
                one.released = None
                self.shelves.setdefault(name)
        changes, head = self.waiting(), self._mark()
        for change in changes:
            was, there = self._below(change).texts, head.version.texts
            lost = {
                path: text
                for path, text in change.writes.items()
                if len({text, was.get(path), there.get(path)}) > 2 and self.policy != "ingest"
            }
            if lost:
                self._set_aside(lost, {(change.hour, path) for path in lost})
            kept = {path: text for path, text in change.writes.items() if path not in lost}
            head = self._change(head, kept, change.hour)
            self.hours.setdefault(change.hour, Hour()).commits.append(head)
        self.since = self.move(INGEST, head)

    def _take(self) -> bool:
        """Merge the target into the branch; return whether the branch did not have it."""
        if self._is_lost():
            self._follow_back()
            return True
        head, target = self.branches[INGEST].head, self.target
        if target in head.ancestors:
            return False
        others, (base, unsure) = self._others(head), self.bases(target, head)
        sides = base.texts, head.version.texts, target.version.texts
        rows = [(one, *write) for one in self.waiting() for write in one.writes.items()]
        last = {path: text for _, path, text in rows}
        asserted = {
            path: text for one, path, text in rows if self._below(one).texts.get(path) == text
        }
        files, lost = dict[str, Value | None](), dict[str, str | None]()
        for path in {*base.files, *head.version.files}:
            was, ours, theirs = (side.get(path) for side in sides)
            kept = ours == was and path not in unsure and asserted.get(path) != ours
            if ours != theirs and not kept:
                if was == theirs or path not in others:
                    files[path] = head.version.files.get(path)
                else:
                    lost[path] = ours
        version = target.version.claim_equal(_WRITER, last).put(files)
        if hours := {(one.hour, path) for one, path, _ in rows if path in lost}:
            self._set_aside(lost, hours)
        self.move(INGEST, self.make(version, head, target, takes=target))
        return True

    def _change(self, parent: Commit, writes: Writes, hour: str) -> Commit:
        """Return a commit of writes."""
        was = parent.version
        version = was.claim_equal(_WRITER, writes).written(writes)
        changed = {path: text for path, text in writes.items() if version.at(path) != was.at(path)}
        return self.make(version, parent, hour=hour, writes=changed)

    def _commit_hour(self, hour: str) -> None:
        for change in self.waiting() if hour not in self.hours else ():
            if change.hour == hour:
                self._keep(change)
        if record := self.hours.get(hour):  # takes repairs while it is held
            moved = {one for each in self.quarantines.values() for one in each.commits}
            if not self.held or self._published(record) or moved & {*record.commits}:
                return
        there = self.branches[INGEST]
        head, staged, there.staged = there.head, there.staged, {}
        aside = self._conflicts(staged)
        for name in sorted(set(aside.values()), reverse=True):
            writes = {path: staged[path] for path, shelf in aside.items() if shelf == name}
            self._set_aside(writes, {(hour, path) for path in writes}, name)
        lost = {path for path in aside if staged[path] != self.target.version.texts.get(path)}
        kept = {path: text for path, text in staged.items() if path not in lost}
        commit = self._change(head, kept, hour)
        if not commit.version.same(head.version):
            self._keep(self.move(INGEST, commit))
        elif hour not in self.hours:
            self.hours[hour] = Hour(behind=self.waiting()[-1:])
        self.since = there.head

    def _conflicts(self, staged: Writes) -> dict[str, str]:
        """Return the staged paths that are set aside, each with the shelf that has it, or ""."""
        moved = self.target.version.changes(self.since.version)
        both = moved.keys() & staged.keys() & self._others(self.since)
        aside = {path: "" for path in both if moved[path] != staged[path]}
        for name in reversed(self._shelves()):
            aside.update(dict.fromkeys(staged.keys() & self._changes_on(name).keys(), name))
        return aside

    def _keep(self, commit: Commit) -> None:
        record = self.hours.setdefault(commit.hour, Hour())
        if not self._published(record) and commit not in record.commits:
            record.commits.append(commit)
            kinds = hours_between(commit.below, commit.version, commit.hour)
            record.late |= {name for name, kind in kinds.items() if kind == "late"}

    def _publish(self, *, hold: bool) -> None:
        while points := self.points():
            held = hold and self.held
            point, changes = (points[-1][0], self.waiting()) if held else points[0]
            for change in changes:
                self._keep(change)
            hour = max(change.hour for change in changes)
            try:
                self._publish_point(point, self.merge_of(point, self.target), hour)
            except Fails as error:
                if str(error) == CONFLICT and self._take():
                    pass
                elif not hold:
                    self._quarantine(self._refused(changes), point)
                else:
                    self.held = True
                    if held:
                        return
        self.held = False

    def _publish_point(self, source: Commit, version: Version, hour: str) -> Commit:
        """Publish a version, unless the gate refuses it."""
        if self._is_bad(version):
            raise Fails("GateFailedError")
        return self.move("main", self.make(version, self.target, source, hour=hour, lands=True))

    def _is_bad(self, version: Version) -> bool:
        return BAD in version.changes(self.target.version).values()

    # quarantine

    def _refused(self, changes: list[Commit]) -> list[Commit]:
        """Return the first change that the gate refuses on those before it, or all."""
        version = self.target.version
        for change in changes:
            was, now = self._below(change).texts, version.texts
            equal = [path for path in change.writes if now.get(path) == was.get(path)]
            version = version.written({path: change.writes[path] for path in equal})
            if self._is_bad(version):
                return [change]
        return changes

    def _free_name(self, hour: str) -> str:
        slug = "quarantine-" + hour.removesuffix("Z").replace(":", "-")
        names = (slug if number == 1 else f"{slug}.{number}" for number in count(1))
        return next(name for name in names if name not in {*self.quarantines, *self.branches})

    def _quarantine(self, changes: list[Commit], point: Commit) -> None:
        """Move changes from the branch to a branch of its own."""
        hours = {change.hour for change in changes}
        name = self._free_name(min(hours))
        base = next(iter(best_of(point, self.target)), self.target)
        self.quarantines[name] = Quarantine(max(hours), base, tuple(changes))
        writes = {path: text for change in changes for path, text in change.writes.items()}
        self._shelve(name, base.version.written(writes), base)
        head = self.branches[INGEST].head
        version = head.version
        for change in reversed(changes):
            was, now = self._below(change).files, version.texts
            gone = [path for path, text in change.writes.items() if now.get(path) == text]
            version = version.put({path: was.get(path) for path in gone})
        self.move(INGEST, self.make(version, head, removes=tuple(changes)))

    def _shelve(self, name: str, version: Version, base: Commit) -> None:
        """Start the branch of a quarantine, perhaps again."""
        self.move(name, self.make(version, base))
        self.quarantines[name].base = base

    def _open(self) -> dict[str, Quarantine]:
        """Return the quarantines that are neither released nor deleted."""
        there = [(name, one) for name, one in self.quarantines.items() if name in self.branches]
        return {name: one for name, one in there if not one.released}

    def _shelves(self) -> list[str]:
        """Return the open quarantines of writes that conflict with others."""
        there = self._open()
        return [name for name in self.shelves if name in there and not there[name].commits]

    def _changes_on(self, name: str) -> dict[str, str | None]:
        return self.branch(name).head.version.changes(self.quarantines[name].base.version)

    def _set_aside(self, writes: Writes, rows: set[tuple[str, str]], name: str = "") -> None:
        """Put writes on the shelf, which is made again on the target."""
        latest, target = max(hour for hour, _ in rows), self.target
        name = next(iter([name] if name else self._shelves()), self._free_name(latest))
        if name not in self.quarantines:
            self.quarantines[name] = Quarantine(latest, target)
            self.shelves = {name: None}
            self.move(name, target)
        shelf, there = self.quarantines[name], self.branches[name].head
        self.aside |= dict.fromkeys(rows, name)
        version = target.version.written({**self._changes_on(name), **writes})
        if shelf.base is not target or version.texts != there.version.texts:
            shelf.hour = latest
        self._shelve(name, version, target)

    mend = Lake.stage
    give_up = Lake.delete

    def release(self, name: str, strategy: str, on_refusal: str, on_conflict: str) -> Commit:
        self.policy = on_refusal if on_conflict == "refuse" else on_conflict
        shelf = found(self.quarantines, name, "NotFoundError")
        if strategy and shelf.commits:
            raise Fails(SKIP)  # strategies of merges are not modelled
        if shelf.released is not None:
            return shelf.released
        with suppress(Fails):  # nothing differs
            self.commit(name)
        target = self.target.version
        brought = target.written(self._changes_on(name))
        if shelf.base not in self.target.ancestors:  # the target has lost what it is on
            moved = target.changes(shelf.base.version)
            if shelf.commits and brought.changes(target).keys() & moved.keys():
                raise Fails(CONFLICT)
            self._shelve(name, brought, self.target)
        head, writes = self.branches[name].head, self._changes_on(name)
        if shelf.commits:
            version = self.merge_of(head, self.target)
        elif not strategy and brought.texts != target.texts:
            raise Fails(CONFLICT)
        else:
            version = target.claim_equal(_WRITER, writes)
            version = version.written(writes if strategy == "source-wins" else {})
        landed = [one for one in self.target.line if head in one.parents[1:]]
        shelf.released = (landed or [self._publish_point(head, version, shelf.hour)])[0]
        self._take()
        self.delete(name)
        return shelf.released

    # hours

    def _inside(self, record: Hour) -> list[str]:
        return [name for name, one in self._open().items() if {*one.commits} & {*record.commits}]

    def _published(self, record: Hour) -> Commit | None:
        """Return the commit that published an hour."""
        if not record.commits:
            return None
        last, target = record.commits[-1], self.target
        moved = [one for one in self.quarantines.values() if last in one.commits]
        released = [one.released for one in moved if one.released][-1:]
        line = [one for one in target.line if last in one.ancestors][-1:]
        return next((one for one in released or line if one in target.ancestors), None)

    def states(self) -> dict[str, tuple[object, ...]]:
        """Return the state of each hour, its late hours, its paths aside, and its quarantines."""
        hours = {hour for hour, _ in self.aside}
        return {hour: self._state(hour) for hour in sorted({*self.hours, *hours})}

    def _state(self, hour: str) -> tuple[object, ...]:
        record = self.hours.get(hour, Hour())
        inside, published = self._inside(record), self._published(record)
        shelves = {name: self._changes_on(name) for name in self._shelves() if not inside}
        noted = [(path, name) for (at, path), name in self.aside.items() if at == hour]
        aside = {path: name for path, name in noted if path in shelves.get(name, ())}
        last = (record.commits or record.behind)[-1:]
        if inside:
            state = "quarantined"
        elif not published and last and last[0] in self.waiting():
            state = "held" if self.held else "committed"
        elif aside and self.policy in ("hold", "quarantine"):
            state = "held" if self.policy == "hold" else "quarantined"
        else:
            state = "published" if published else "empty"
        return state, sorted(record.late), sorted(aside), sorted({*inside, *aside.values()})

    def announced(self) -> dict[str, str] | None:
        """Return the hours of the target's head with their kinds; None if its parent is expired.

        A "?" says that it may be.
        """
        head = self.target
        if not self.expired.isdisjoint(head.line[:2]):
            return None
        if not self.doubtful.isdisjoint(head.line[:2]):
            return {"?": ""}
        kinds = hours_between(head.below, head.version, head.hour)
        if head.hour:
            kinds.setdefault(head.hour, "on-time")
        return kinds

    # what else changes

    def needed(self) -> set[Commit]:
        """Return the commits that a collection keeps for ticks and releases."""
        if INGEST not in self.branches:
            return set()
        line = {one for commit in self._line() for one in (commit, *commit.parents)}
        bases = {one.base for one in self._open().values()}
        return {self.since, *best_of(self.since, self.target), *line, *bases}

    def restore(self) -> None:
        super().restore()
        self.hours, self.aside, self.held = {}, {}, False
        self.quarantines = dict(sorted(self._open().items()))
        self.shelves = dict.fromkeys(self.quarantines)
        if INGEST in self.branches:
            line = self.branches[INGEST].head.line
            self.since = next(one for one in line if not (one.takes or one.removes))
