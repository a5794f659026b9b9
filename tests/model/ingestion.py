"""The model of an ingestion branch: what ticks, releases and others make of its staged writes."""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count, takewhile

from tests.model.lake import SKIP, Commit, Lake, best_of
from tests.model.versions import CONFLICT, Fails, Value, Version, Writes

INGEST = "ingest"
BAD = "dddd"
"""The content that the gate of ingestion refuses."""
_WRITER = ("", INGEST)
_HOUR = re.compile(r"(\d+)/(\d+)/(\d+)/(\d+:\d+)/")


def hours_between(old: Version, new: Version, hour: str) -> dict[str, str]:
    """Return the hours of the folders in which files changed, each with its kind."""
    kinds: dict[str, str] = {}
    before, after = old.texts, new.texts
    for path in before.keys() | after.keys():
        folder = _HOUR.search(path)
        if folder is None or before.get(path) == after.get(path):
            continue
        name = "{}-{}-{}T{}Z".format(*folder.groups())
        if path in after:
            late_or_early = "late" if name < hour else "early"
            kinds[name] = "on-time" if hour in ("", name) else late_or_early
        else:
            kinds.setdefault(name, "deleted")
    return kinds


@dataclass
class Hour:
    """What the ticks of an hour noted: its commits, and the quarantines of its conflicts."""

    commits: list[Commit] = field(default_factory=list)
    behind: Commit | None = None
    late: set[str] = field(default_factory=set)
    aside: dict[str, None] = field(default_factory=dict)
    shelves: list[str] = field(default_factory=list)
    published: Commit | None = None
    ticked: bool = False


@dataclass
class Quarantine:
    """A refused change, or the writes that conflict with others, by the policy that set them aside."""

    commits: tuple[Commit, ...] = ()
    policy: str = ""
    hour: str = ""
    released: Commit | None = None


Point = tuple[Commit, list[Commit]]
"""A commit that can be published, and the changes that are published with it."""


class Ingesting(Lake):
    """The repository with an ingestion branch into main."""

    def __init__(self) -> None:
        super().__init__()
        self.hours: dict[str, Hour] = {}
        self.quarantines: dict[str, Quarantine] = {}
        self.held = False
        self.shelves: list[str] = []
        self.sealed: Commit | None = None
        self.policy = ""
        self.written: dict[Commit, Writes] = {}
        self.hour_of: dict[Commit, str] = {}
        self.own: set[Commit] = set()
        self.taken: dict[Commit, Commit] = {}
        self.removed: dict[Commit, tuple[Commit, ...]] = {}
        self.begins: set[Commit] = set()

    # what operations have in common

    def apply(self, label: int, name: str, arguments: Mapping[str, object]) -> str:
        error = super().apply(label, name, arguments)
        self.states()
        return error

    @property
    def target(self) -> Commit:
        """The head of the target."""
        return self.branch("main").head

    def _is_mark(self, commit: Commit) -> bool:
        return commit in self.taken or commit in self.removed

    def _line(self) -> list[Commit]:
        """Return the commits of the branch that the target does not have, oldest first."""
        known = self.target.ancestors
        line: list[Commit] = []
        for commit in self.branches[INGEST].head.line():
            if commit in known:
                break
            line.insert(0, commit)
            if commit in self.taken and len(commit.parents) == 1:
                break
        return line

    def points(self) -> list[Point]:
        """Return what is not published, oldest first."""
        line = self._line()
        removed = {one for commit in line for one in self.removed.get(commit, ())}
        first = max((at for at, commit in enumerate(line) if self._is_mark(commit)), default=0)
        found: list[Point] = []
        waiting: list[Commit] = []
        for at, commit in enumerate(line):
            gone = commit in self.expired and commit is not line[-1]
            if not (gone or self._is_mark(commit) or commit in removed):
                self._take_over(commit)
                waiting.append(commit)
            if at >= first and waiting:
                found.append((commit, waiting))
                waiting = []
        return found

    def _below(self, change: Commit) -> Version:
        """Return what a change is based on: what is below expired commits."""
        line = list(change.line())[1:]
        return next((one.version for one in line if one not in self.expired), Version())

    def _take_over(self, change: Commit) -> None:
        """Note that a change has those of the expired commits below it."""
        line = list(change.line())[1:]
        for commit in takewhile(self.expired.__contains__, line):
            self.written[change] = {**self.written.get(commit, {}), **self.written[change]}

    def waiting(self) -> list[Commit]:
        """Return the changes that are not published."""
        return [change for _, changes in self.points() for change in changes]

    def _since(self) -> Commit:
        """Return the commit after which the staged writes came."""
        commit = self.branches[INGEST].head
        ended = self.sealed if self._is_mark(commit) else None
        while commit is not ended and self._is_mark(commit):
            commit = commit.parents[0]
        return commit

    def _others(self, since: Commit) -> Callable[[str], bool]:
        """Return what tells whether others changed a path on the target."""
        new = [one for one in self.target.line() if one not in since.ancestors]
        own = {one for one in new if one in self.own or one.reverts in self.own}
        base, unsure = self.bases(since, self.target)

        def changed(path: str) -> bool:
            was, now = (side.texts.get(path) for side in (base, self.target.version))
            sides = ((one, one.version.texts.get(path), one.below.texts.get(path)) for one in new)
            last = next((one for one, new, old in sides if new != old), None)
            return (path in unsure or was != now) and last is not None and last not in own

        return changed

    def _mark(self, target: Commit) -> Commit:
        """Return the first commit of a line of changes on the target."""
        mark = self.make(target.version, target)
        self.taken[mark] = target
        return mark

    def _place(self, commit: Commit) -> Commit:
        return self.move(INGEST, commit)

    # ticks

    def put(self, writes: Writes) -> None:
        self._ensure()
        self.stage(INGEST, writes)

    def _ensure(self) -> None:
        if INGEST not in self.branches:
            self.move(INGEST, self._mark(self.target))

    def tick(self, hour: str, on_refusal: str, on_conflict: str) -> Commit | None:
        self._ensure()
        self.policy = on_refusal if on_conflict == "refuse" else on_conflict
        head, target = self.branches[INGEST].head, self.target
        marks = [self.taken[one] for one in self._line() if one in self.taken]
        if not target.ancestors.issuperset(marks):
            self._follow_back()
        elif self.branches[INGEST].staged or self.points():
            new = [one for one in target.line() if one not in head.ancestors]
            if not self.own.issuperset(new):
                self._take()
        self._commit_hour(hour)
        self._publish(hold=on_refusal == "hold")
        return self._close(hour) if not self._inside(self.hours[hour]) else None

    def _follow_back(self) -> None:
        """Make the waiting changes again on the target, which has lost what they are on."""
        for name, one in self.quarantines.items():
            if one.released is not None and one.released not in self.target.ancestors:
                self.move(name, one.released.parents[1])
                one.released = None
                if one.policy and name not in self.shelves:
                    self.shelves.append(name)
        changes, target = self.waiting(), self.target
        head = self._mark(target)
        for change in changes:
            was, there = self._below(change).texts, head.version.texts
            lost = {
                path: text
                for path, text in self.written[change].items()
                if len({text, was.get(path), there.get(path)}) > 2 and self.policy != "ingest"
            }
            kept = {path: text for path, text in self.written[change].items() if path not in lost}
            if lost:
                self._set_aside(lost, {self.hour_of[change]: list(lost)})
            head = self._change(head, kept, self.hour_of[change])
            record = self.hours.setdefault(self.hour_of[change], Hour())
            record.commits.append(head)
            record.published, record.ticked = None, True
        self._place(head)

    def _take(self) -> bool:
        """Merge the target into the branch; return whether the branch did not have it."""
        head, target = self.branches[INGEST].head, self.target
        if target in head.ancestors:
            return False
        changed, (base, unsure) = self._others(head), self.bases(target, head)
        files: dict[str, Value | None] = {}
        lost, waiting = {}, self.waiting()
        asserted = {
            path: text
            for change in waiting
            for path, text in self.written[change].items()
            if self._below(change).texts.get(path) == text
        }
        sides = base.texts, head.version.texts, target.version.texts
        for path in {*base.files, *head.version.files}:
            was, ours, theirs = (side.get(path) for side in sides)
            claimed = path in asserted and asserted[path] == ours
            if ours == theirs or (ours == was and path not in unsure and not claimed):
                continue
            if self.policy == "ingest" or was == theirs or not changed(path):
                files[path] = head.version.files.get(path)
            else:
                lost[path] = ours
        last = {path: text for change in waiting for path, text in self.written[change].items()}
        equal = [path for path in last if last[path] == target.version.texts.get(path)]
        version = target.version.put(files).claim_equal(_WRITER, equal)
        if lost:
            hours: dict[str, list[str]] = {}
            for change in waiting:
                for path in lost.keys() & self.written[change].keys():
                    hours.setdefault(self.hour_of[change], []).append(path)
            self._set_aside(lost, hours)
        self.taken[self._place(self.make(version, head, target))] = target
        return True

    def _change(self, parent: Commit, writes: Writes, hour: str) -> Commit:
        """Return a commit of writes."""
        version = parent.version.written(writes)
        equal = _equal(writes, version.texts, parent.version.texts)
        version = version.claim_equal(_WRITER, equal)
        commit = self.make(version, parent)
        claimed = [path for path in equal if _WRITER in version.at(path).work()]
        self.hour_of[commit] = hour
        self.written[commit] = {
            path: text for path, text in writes.items() if path in claimed or path not in equal
        }
        return commit

    def _commit_hour(self, hour: str) -> None:
        record = self.hours.get(hour)
        if record is None or not record.ticked:
            for change in self.waiting():
                if self.hour_of[change] == hour:
                    record = self._keep(hour, change)
        if record is not None and record.ticked and not self._takes_repairs(record):
            return
        head, since = self.branches[INGEST].head, self._since()
        staged, self.branches[INGEST].staged = self.branches[INGEST].staged, {}
        aside = self._conflicts(staged, since)
        for name in sorted(set(aside.values()), reverse=True):
            writes = {path: staged[path] for path, shelf in aside.items() if shelf == name}
            self._set_aside(writes, {hour: list(writes)}, name)
        now = self.target.version.texts
        kept = {
            path: text
            for path, text in staged.items()
            if path not in aside or text == now.get(path)
        }
        commit = self._change(head, kept, hour)
        if not commit.version.same(head.version):
            self._keep(hour, self._place(commit))
        else:
            if since is not head:
                self.sealed = head
            if record is None:
                record = self.hours.setdefault(hour, Hour())
                record.behind, record.ticked = next(reversed(self.waiting()), None), True

    def _conflicts(self, staged: Writes, since: Commit) -> dict[str, str]:
        """Return the staged paths that are set aside, each with the shelf that has it, or ""."""
        if self.policy == "ingest":
            return {}
        changed = self._others(since)
        was, now = since.version.texts, self.target.version.texts
        aside = {
            path: ""
            for path, text in staged.items()
            if now.get(path) not in (text, was.get(path)) and changed(path)
        }
        for name in reversed(self._open()):
            aside.update(dict.fromkeys(staged.keys() & self._changes_on(name).keys(), name))
        return aside

    def _takes_repairs(self, record: Hour) -> bool:
        moved = {one for each in self.quarantines.values() for one in each.commits}
        return self.held and record.published is None and moved.isdisjoint(record.commits)

    def _keep(self, hour: str, commit: Commit) -> Hour:
        record = self.hours.setdefault(hour, Hour())
        if record.published is None and commit not in record.commits:
            record.commits.append(commit)
            kinds = hours_between(commit.below, commit.version, hour)
            record.late.update(name for name, kind in kinds.items() if kind == "late")
            record.ticked = True
        return record

    def _publish(self, *, hold: bool) -> None:
        while points := self.points():
            held = hold and self.held
            point, changes = points[0]
            if held:
                point, changes = points[-1][0], self.waiting()
            for change in changes:
                self._keep(self.hour_of[change], change)
            try:
                hour = max(self.hour_of[change] for change in changes)
                self._publish_point(point, self.merge_of(point, self.target), hour)
            except Fails as error:
                if str(error) == CONFLICT and self._take():
                    continue
                if not hold:
                    self._quarantine(self._refused(changes), point)
                    continue
                self.held = True
                if held or len(points) == 1:
                    return
        self.held = False

    def _publish_point(self, source: Commit, version: Version, hour: str) -> Commit:
        """Publish a version, unless the gate refuses it."""
        self._judge(version)
        commit = self.make(version, self.target, source)
        self.own.add(commit)
        self.hour_of[commit] = hour
        self.move("main", commit)
        return commit

    def _judge(self, version: Version) -> None:
        now = self.target.version.texts
        if any(text == BAD != now.get(path) for path, text in version.texts.items()):
            raise Fails("GateFailedError")

    # quarantine

    def _refused(self, changes: list[Commit]) -> list[Commit]:
        """Return the first change that the gate refuses on those before it, or all."""
        version = self.target.version
        for change in changes if len(changes) > 1 else ():
            writes = self.written[change]
            equal = _equal(writes, version.texts, self._below(change).texts)
            version = version.written({path: writes[path] for path in equal})
            try:
                self._judge(version)
            except Fails:
                return [change]
        return changes

    def _free_name(self, hour: str) -> str:
        slug = "quarantine-" + hour.removesuffix("Z").replace(":", "-")
        names = (slug if number == 1 else f"{slug}.{number}" for number in count(1))
        return next(name for name in names if name not in {*self.quarantines, *self.branches})

    def _quarantine(self, changes: list[Commit], point: Commit) -> None:
        """Move changes from the branch to a branch of its own."""
        head = self.branches[INGEST].head
        name = self._free_name(min(self.hour_of[change] for change in changes))
        base = next(iter(best_of(point, self.target)), self.target)
        version = base.version
        for change in changes:
            version = version.written(self.written[change])
        self.move(name, self._begin(version, base))
        hour = max(self.hour_of[change] for change in changes)
        self.quarantines[name] = Quarantine(tuple(changes), hour=hour)
        version = head.version
        for change in reversed(changes):
            was, writes = self._below(change), self.written[change]
            gone = [
                path
                for path in _equal(writes, writes, version.texts)
                if writes[path] != was.texts.get(path)
            ]
            version = version.put({path: was.files.get(path) for path in gone})
        mark = self.make(version, head)
        self.removed[self._place(mark)] = tuple(changes)

    def _begin(self, version: Version, base: Commit) -> Commit:
        """Return the first commit of a quarantine."""
        first = self.make(version, base)
        self.begins.add(first)
        return first

    def _open(self) -> list[str]:
        """Return the shelves that are neither released nor deleted."""
        return [
            name
            for name in self.shelves
            if name in self.branches and self.quarantines[name].released is None
        ]

    def _base(self, name: str) -> Commit:
        line = self.branches[name].head.line()
        return next(one for one in line if one in self.begins).parents[0]

    def _changes_on(self, name: str) -> dict[str, str | None]:
        old, new = (
            one.texts for one in (self._base(name).version, self.branches[name].head.version)
        )
        paths = old.keys() | new.keys()
        return {path: new.get(path) for path in sorted(paths) if old.get(path) != new.get(path)}

    def _set_aside(self, writes: Writes, hours: Mapping[str, list[str]], name: str = "") -> None:
        """Put writes on the shelf, which is made again on the target."""
        name = next(iter([name] if name else self._open()), "")
        if not name:
            name = self._free_name(max(hours))
            self.quarantines[name] = Quarantine(policy=self.policy)
            self.move(name, self._begin(self.target.version, self.target))
            self.shelves = [name]
        for hour, paths in hours.items():
            record = self.hours.setdefault(hour, Hour())
            record.aside.update(dict.fromkeys(sorted(paths)))
            record.shelves = list(dict.fromkeys((*record.shelves, name)))
        shelf = self.quarantines[name]
        shelf.policy = self.policy
        version = self.target.version.written({**self._changes_on(name), **writes})
        there = self.branches[name].head
        if self._base(name) is not self.target or version.texts != there.version.texts:
            shelf.hour = max(hours)
        self.move(name, self._begin(version, self.target))

    mend = Lake.stage
    give_up = Lake.delete

    def release(self, name: str, strategy: str, on_refusal: str, on_conflict: str) -> Commit:
        self.policy = on_refusal if on_conflict == "refuse" else on_conflict
        if name not in self.quarantines:
            raise Fails("NotFoundError")
        shelf = self.quarantines[name]
        if strategy and not shelf.policy:
            raise Fails(SKIP)  # strategies of merges are not modelled
        if shelf.released is not None:
            return shelf.released
        with suppress(Fails):  # nothing differs
            self.commit(name)
        self.branch(name)
        self._bring_up(name)
        head, target, writes = self.branches[name].head, self.target.version, self._changes_on(name)
        if not shelf.policy:
            version = self.merge_of(head, self.target)
        else:
            equal = _equal(writes, writes, target.texts)
            if not strategy and len(equal) < len(writes):
                raise Fails(CONFLICT)
            version = target.written(writes if strategy == "source-wins" else {})
            version = version.claim_equal(_WRITER, equal)
        shelf.released = self._publish_point(head, version, shelf.hour)
        self._take()
        del self.branches[name]
        self.moves[name].append(None)
        return shelf.released

    def _bring_up(self, name: str) -> None:
        """Make a quarantine again on the target, if the target has lost what it is on."""
        base, writes = self._base(name), self._changes_on(name)
        if base in self.target.ancestors:
            return
        was, now = base.version.texts, self.target.version.texts
        clash = (now.get(path) not in (was.get(path), text) for path, text in writes.items())
        if any(clash) and not self.quarantines[name].policy:
            raise Fails(CONFLICT)
        self.move(name, self._begin(self.target.version.written(writes), self.target))

    # hours

    def _inside(self, record: Hour) -> list[str]:
        return [
            name
            for name, one in sorted(self.quarantines.items())
            if not set(one.commits).isdisjoint(record.commits)
            and one.released is None
            and name in self.branches
        ]

    def _close(self, hour: str) -> Commit | None:
        """Return the commit that published an hour, and note it."""
        record, target = self.hours[hour], self.target
        if record.published not in target.ancestors:
            record.published = None
        if record.published is None and record.commits:
            last = record.commits[-1]
            over = [
                one for one in self.quarantines.values() if one.released and last in one.commits
            ]
            if over:
                released = over[-1].released
                record.published = released if released in target.ancestors else None
            else:
                line = [one for one in target.line() if last in one.ancestors]
                record.published = line[-1] if line else None
        return record.published

    def states(self) -> dict[str, tuple[object, ...]]:
        """Return the state of each hour, its late hours, its paths aside, and its quarantines."""
        return {hour: self._state(hour) for hour in sorted(self.hours)}

    def _state(self, hour: str) -> tuple[object, ...]:
        record = self.hours[hour]
        inside = self._inside(record)
        published = None if inside else self._close(hour)
        aside: dict[str, str] = {}
        for name in record.shelves if not inside else ():
            if name in self._open():
                changes = self._changes_on(name)
                aside.update({path: name for path in record.aside if path in changes})
        last = record.commits[-1] if record.commits else record.behind
        if inside:
            state = "quarantined"
        elif published is None and last in self.waiting():
            state = "held" if self.held else "committed"
        else:
            state = "empty" if published is None else "published"
            for name in aside.values():
                ends = {"hold": "held", "quarantine": "quarantined"}
                state = ends.get(self.quarantines[name].policy, state)
        names = list(dict.fromkeys((*inside, *aside.values())))
        return state, sorted(record.late), sorted(aside), sorted(names)

    def announced(self) -> dict[str, str] | None:
        """Return the hours of the target's head with their kinds; None if its parent is expired."""
        head = self.target
        if head.parents and not self.expired.isdisjoint((head, head.parents[0])):
            return None
        hour = self.hour_of.get(head, "")
        kinds = hours_between(head.below, head.version, hour)
        if hour and kinds.get(hour) != "deleted":
            kinds[hour] = "on-time"
        return kinds

    # what else changes

    def pick(self, commit: int, onto: str) -> Commit:
        made = super().pick(commit, onto)
        if self.made[commit] in self.hour_of:
            self.hour_of[made] = self.hour_of[self.made[commit]]
        return made

    def needed(self) -> set[Commit]:
        """Return the commits that a collection keeps for ticks and releases."""
        if INGEST not in self.branches:
            return set()
        since = self._since()
        found = {since, *best_of(since, self.target)}
        for commit in self._line():
            found.update((commit, *commit.parents))
        for name, one in self.quarantines.items():
            if name in self.branches and one.released is None:
                found.add(self._base(name))
        return found

    def restore(self) -> None:
        super().restore()
        self.hours, self.held, self.sealed = {}, False, None
        self.quarantines = {
            name: one
            for name, one in sorted(self.quarantines.items())
            if one.released is None and name in self.branches
        }
        self.shelves = [name for name, one in self.quarantines.items() if one.policy]


def _equal(paths: Iterable[str], one: Writes, other: Writes) -> list[str]:
    return [path for path in paths if one.get(path) == other.get(path)]
