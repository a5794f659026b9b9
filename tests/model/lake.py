"""The model of a repository: its history, its runs, and what each operation makes of them.

An operation changes the model and raises nothing, or raises `Fails` with the name of the error that
the product must raise, or of several, or with `SKIP` if it means something that does not exist.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple, TypeVar

from tests.harness.merge_model import UNSURE, MergeModel
from tests.model.versions import CONFLICT, Fails, Value, Version, Writes, merged, value_of

TTL = 14 * 24
"""Hours that a run stays parked. An attempt that is silent for an hour is parked."""
SKIP = "skip"
T = TypeVar("T")


@dataclass(eq=False)
class Commit:
    """A commit: its version, its parents, and what its metadata say.

    Attributes:
        version: Its files and claims.
        parents: Its parents.
        number: Its place in the order in which all commits were made.
        made: Its hour.
        publishes: The run that it published.
        reverts: The commit that it reverts.
        hidden: Whether it is on the branch of a run.
        packed: Whether it or one before it packs: it has trees of its own.
        hour: The hour of ingestion that it belongs to.
        writes: What an hour wrote on the ingestion branch.
        lands: Whether ingestion made it on the target.
        takes: The commit of the target that it brings to the ingestion branch.
        removes: The refused commits that it removes there.
        names: What the step that it joins was forked from, and made of it.
    """

    version: Version
    parents: tuple["Commit", ...] = ()
    number: int = 0
    made: int = 0
    publishes: str = ""
    reverts: "Commit | None" = None
    hidden: bool = False
    packed: bool = False
    hour: str = ""
    writes: Writes = field(default_factory=dict)
    lands: bool = False
    takes: "Commit | None" = None
    removes: tuple["Commit", ...] = ()
    names: tuple["Commit", ...] = ()

    def __post_init__(self) -> None:
        self.ancestors: frozenset[Commit] = ancestors(self.parents) | {self}
        self.line: tuple[Commit, ...] = (self, *(self.parents[0].line if self.parents else ()))
        """The commit and its first parents."""
        self.packed |= any(one.packed for one in self.parents)

    @property
    def below(self) -> Version:
        """The version of the first parent."""
        return self.parents[0].version if self.parents else Version()


def ancestors(commits: Iterable[Commit]) -> frozenset[Commit]:
    """Return commits and all that are before them."""
    return frozenset[Commit]().union(*(commit.ancestors for commit in commits))


def best_of(one: Commit, other: Commit) -> list[Commit]:
    """Return the best common ancestors, oldest first."""
    common = one.ancestors & other.ancestors
    below = ancestors(parent for commit in common for parent in commit.parents)
    return sorted(common - below, key=lambda commit: commit.number)


def standing_reverts(head: Commit) -> dict[Commit, Commit]:
    """Return the commits that a line reverts, each with the revert that nothing reverts."""
    reverts: dict[Commit, Commit] = {}
    for commit in head.line:
        if commit.reverts is not None and commit not in reverts:
            reverts.setdefault(commit.reverts, commit)
    return reverts


@dataclass
class Branch:
    """A branch: its head and its staged writes."""

    head: Commit
    staged: dict[str, str | None] = field(default_factory=dict)

    def files(self) -> dict[str, str]:
        """Return the content with the staged writes."""
        return self.head.version.written(self.staged).texts


@dataclass(eq=False)
class Publish:
    """A publish: its commit, its target, and whether it changed files or claims there.

    A rollback is noted once; that restarts the time to live of a run that is parked.
    """

    commit: Commit
    into: str
    changed: bool
    noted: tuple[Commit, int] | None = None


@dataclass
class Run:
    """The latest attempt of a run, and all publishes."""

    key: str
    into: str
    base: Commit
    head: Commit
    state: str = ""
    attempt: int = 0
    frozen: bool = False
    drop: bool = False
    worked: int = 0
    parked: int = 0
    tries: "dict[str, Try]" = field(default_factory=dict)
    publishes: list[Publish] = field(default_factory=list)

    def work(self, commit: Commit) -> set[Any]:
        """Return what the run claims in a commit."""
        return commit.version.work(self.key)

    def steps(self) -> set[str]:
        """Return the steps whose work is on the run's branch."""
        return {step for (_, step), _, _ in self.work(self.head) if step}


class Handle(NamedTuple):
    """What the opener of an attempt passes on."""

    key: str
    attempt: int


@dataclass(eq=False)
class Try:
    """A try of a step: its attempt's opener, what it forked, and that without its earlier work."""

    who: int
    step: str
    fork: Commit
    start: Version


class Lake:
    """The repository and its runs."""

    def __init__(self) -> None:
        self.hour = 0
        self.commits: list[Commit] = []
        self.expired: set[Commit] = set()
        self.doubtful: set[Commit] = set()  # the same files, perhaps in other ranges, are kept
        self.lost: set[Value] = set()
        self.left: set[Commit] = set()  # heads of runs whose records are lost
        self.keep_hours = inf
        self.branches: dict[str, Branch] = {}
        self.moves: dict[str, list[Any]] = {}
        self.dropped: dict[tuple[str, int], Writes] = {}  # by the branch and the number of its move
        self.collected: set[tuple[str, int]] = set()  # of these
        self.runs: dict[str, Run] = {}
        self.handles: dict[int, Handle] = {}
        self.tries: dict[int, Try] = {}
        self.made: dict[int, Commit] = {}
        self.move("main", self.make(Version()))
        self.fork("pr", "main")

    # what operations have in common

    def move(self, name: str, commit: Commit, *, also: bool = False) -> Commit:
        self.branches.setdefault(name, Branch(commit)).head = commit
        moves = self.moves.setdefault(name, [])
        if also or moves[-1:] != [commit]:
            moves.append(commit)
        return commit

    def branch(self, name: str) -> Branch:
        return found(self.branches, name, "RefNotFoundError")

    def make(self, version: Version, *parents: Commit, **metadata: Any) -> Commit:
        self._check_bytes(version, *(parent.version for parent in parents))
        commit = Commit(version, parents, len(self.commits), self.hour, **metadata)
        self.commits.append(commit)
        return commit

    def _check_bytes(self, version: Version, *others: Version) -> None:
        """Check that files which return are not lost."""
        here = {value for other in others for value in other.files.values()}
        if not self.lost.isdisjoint(set(version.files.values()) - here):
            raise Fails("ExpiredError")

    def _named(self, *commits: Commit) -> None:
        for gone, error in ((self.expired, "ExpiredError"), (self.doubtful, SKIP)):
            if not gone.isdisjoint(commits):
                raise Fails(error)

    def apply(self, label: int, name: str, arguments: Mapping[str, object]) -> str:
        """Apply an operation; return "" or the error that the product must raise, or "skip"."""
        try:
            made = getattr(self, name)(**arguments)
        except Fails as error:
            return str(error)
        labels: Any = {Commit: self.made, Handle: self.handles, Try: self.tries}
        labels.get(type(made), {})[label] = made
        return ""

    # branches of users

    def stage(self, branch: str, writes: Writes) -> None:
        self.branch(branch).staged.update(writes)

    def write(self, branch: str, writes: Writes) -> Commit:
        self.stage(branch, writes)
        return self.commit(branch)

    def commit(self, branch: str) -> Commit:
        there = self.branch(branch)
        head, staged, there.staged = there.head, there.staged, {}
        version = head.version.claim_equal(("", branch), staged).written(staged)
        return self._land(branch, version)

    def _land(self, name: str, version: Version, **metadata: Any) -> Commit:
        """Commit a version on a branch, if it changes anything."""
        if version.same(self.branch(name).head.version):
            raise Fails("NoChangesError")
        return self.move(name, self.make(version, self.branch(name).head, **metadata))

    def copy(self, branch: str, source: str, old: str, new: str) -> None:
        files = self.branch(source).head.version.texts
        self.stage(branch, {new: found(files, old, "ObjectNotFoundError")})

    def rename(self, branch: str, old: str, new: str) -> None:
        files = self.branch(branch).files()
        self.stage(branch, {new: found(files, old, "ObjectNotFoundError"), old: None})

    def fork(self, branch: str, source: str) -> Commit:
        head = self.branch(source).head
        if branch in self.branches:
            raise Fails("AlreadyExistsError")
        return self.move(branch, head)

    def _drop(self, branch: str, head: Commit | None, writes: Writes) -> None:
        """Make a move to a head that drops writes."""
        self.dropped[branch, len(self.moves[branch])] = writes
        if head is None:
            self.moves[branch].append(None)
        else:
            self.move(branch, head, also=bool(writes))

    def delete(self, branch: str) -> None:
        self._drop(branch, None, self.branch(branch).staged)
        del self.branches[branch]

    def undo(self, branch: str) -> None:
        moves = self.moves.get(branch, [])
        before = moves[-2:-1]
        if before in ([], [None]):
            raise Fails("RefNotFoundError")
        self._named(*before)
        place = branch, len(moves) - 1
        dropped = self.dropped.get(place, {})
        if dropped and place in self.collected:
            if moves[-1] is not None:
                raise Fails("ExpiredError")
            dropped = {}
        there = self.branches.get(branch, Branch(*before))
        back = {path: text for path, text in dropped.items() if path not in there.staged}
        self.move(branch, *before, also=bool(back))
        self.branches[branch].staged.update(back)

    def reset(self, branch: str, to: int) -> None:
        commit, there = found(self.made, to), self.branch(branch)
        self._named(commit)
        staged, there.staged = there.staged, {}
        self._drop(branch, commit, staged)

    def drop(self, branch: str, folder: str) -> None:
        there = self.branch(branch)
        paths = [path for path in there.staged if path.startswith(folder)]
        if paths:
            self._drop(branch, there.head, {path: there.staged.pop(path) for path in paths})

    def pack(self, branch: str) -> Commit:
        head = self.branch(branch).head
        return self.move(branch, self.make(head.version, head, packed=True))

    def merge(self, source: str, into: str) -> Commit:
        one, other = self.branch(source).head, self.branch(into).head
        if one in other.ancestors:
            return other
        return self.move(into, self.make(self.merge_of(one, other), other, one))

    def merge_of(self, one: Commit, other: Commit) -> Version:
        base, unsure = self.bases(one, other)
        version = merged(base, one.version, other.version, unsure=unsure)
        if one.version.claims == base.claims:
            brings, there = one.version.changes(base), other.version.texts
            equal = {path: text for path, text in brings.items() if there.get(path) == text}
            version = version.claim_equal(("", "merged"), equal)
        return version

    def bases(self, source: Commit, dest: Commit) -> tuple[Version, set[str]]:
        """Return the base of a merge, and the paths at which several bases do not agree."""
        best = best_of(source, dest)
        if not best:
            raise Fails("ConflictError")
        sides = source.version.files, dest.version.files
        self._named(*(commit for commit in best if commit.version.files not in sides))
        merges: Any = MergeModel()
        merges.trees = {commit: commit.version.texts for commit in self.commits}
        merges.parents = {commit: commit.parents for commit in self.commits}
        rows = [row for one in best for row in one.version.files.items()]
        files = {(path, value.content): value for path, value in rows}
        texts = {path: merges.outcomes(best, path) for path, _ in files}
        unsure = {path for path, each in texts.items() if len(each) > 1 or UNSURE in each}
        values = {path: files.get((path, *each)) for path, each in texts.items()}
        one, other = best[0].version, best[-1].version
        claims = {path: one.at(path).united(other.at(path)) for path in one.claims | other.claims}
        return Version(claims).put(values), unsure

    def revert(self, commit: int, on: str) -> Commit:
        return self._pick(on, found(self.made, commit), revert=True)

    def pick(self, commit: int, onto: str) -> Commit:
        return self._pick(onto, found(self.made, commit))

    def _pick(self, name: str, change: Commit, *, revert: bool = False) -> Commit:
        if not change.parents:
            raise Fails(SKIP)
        self._named(change, change.parents[0])
        head = self.branch(name).head.version
        sides = (change.version, change.below) if revert else (change.below, change.version)
        version = merged(*sides, head, how="revert" if revert else "pick")
        metadata: Any = {"reverts": change} if revert else {"hour": change.hour}
        return self._land(name, version, **metadata)

    def _live(self) -> list[Run]:
        return [run for run in self.runs.values() if run.state in ("OPEN", "PARKED")]

    def gc(self) -> None:
        live = self._live()
        heads = {there.head for there in self.branches.values()} | {run.head for run in live}
        heads |= self.left
        bases = {base for one in heads for other in heads for base in best_of(one, other)}
        old = self.hour - self.keep_hours
        firsts = {one.parents[0] for one in self.commits if one.parents and self.keep_hours < inf}
        tips = heads | {commit for commit in ancestors(heads) - firsts if commit.made > old}
        recent = {commit for tip in tips for commit in tip.line if commit.made > old}
        kept = tips | {commit.parents[0] for commit in recent if commit.parents}
        kept = (kept | bases | {run.base for run in live} | self.needed()) - self.expired
        kept |= {name for commit in kept for name in commit.names} - self.expired
        versions = [Version(), *(commit.version for commit in kept)]
        files, claims = [one.files for one in versions], [one.claims for one in versions]
        staged = (text for one in self.branches.values() for text in one.staged.values())
        named = {value for each in files for value in each.values()} | {*map(value_of, staged)}
        for commit in self.commits:
            if commit.version.files not in files or commit.version.claims not in claims:
                self.expired.add(commit)
            self.lost |= {*commit.version.files.values()} - named
        self.collected |= self.dropped.keys()
        self.doubtful |= {one for one in self.commits if one.packed} - kept - self.expired

    def needed(self) -> set[Commit]:
        return set()

    def keep(self, hours: int) -> None:
        self.keep_hours = hours

    def restore(self) -> None:
        """Lose the records, and restore a dump of the refs."""
        known = ancestors(there.head for there in self.branches.values())
        self.made = {label: commit for label, commit in self.made.items() if commit in known}
        self.left |= {run.head for run in self._live()}
        self.runs, self.handles, self.tries = {}, {}, {}
        self.moves, self.dropped, self.collected = {"main": [self.make(Version())]}, {}, set()
        for name, there in self.branches.items():
            there.staged = {}
            self.move(name, there.head)

    def new_lake(self) -> None:
        pass

    def time(self, hours: int) -> None:
        self.hour += hours

    # runs

    def _attempt(self, who: int) -> tuple[Run, str]:
        """Return the run of a handle, and its state; "" if the attempt is over."""
        handle = found(self.handles, who)
        run = self.runs[handle.key]
        return run, run.state if handle.attempt == run.attempt else ""

    def _allowed(self, who: int, *states: str) -> Run:
        """Return the run of a handle, if its attempt is the latest one and in one of these states."""
        run, state = self._attempt(who)
        if state not in states:
            raise Fails("FencedError")
        return run

    def _working(self, who: int) -> Run:
        run = self._allowed(who, "OPEN")
        run.worked = self.hour
        if run.frozen:
            raise Fails("FencedError")
        return run

    def _park(self, run: Run, *, gone: bool = False) -> None:
        run.parked = self.hour
        run.state = "REAPED" if gone else "PARKED"

    def _has_fork(self, run: Run) -> bool:
        """Return whether the target, if it exists, has the fork of a run and the claims as then."""
        target = self.branches.get(run.into, Branch(run.base)).head
        return run.base in target.ancestors and run.work(run.base) == run.work(target)

    def reap(self) -> None:
        for run in self.runs.values():
            if run.state == "OPEN" and self.hour > run.worked:
                self._park(run, gone=run.drop)
            elif run.state == "PARKED" and self.hour >= run.parked + TTL:
                self._park(run, gone=True)

    def open(self, key: str, into: str, drop: bool, owned: bool = False) -> Handle:
        self.reap()
        target = self.branch(into).head
        run = self.runs.setdefault(key, Run(key, into, target, target))
        resumes = run.state in ("OPEN", "PARKED") and not run.drop and self._has_fork(run)
        if resumes and run.into != into:
            raise Fails("InvalidInputError")
        if not resumes or run.head is run.base:
            run.base = run.head = target
        run.into, run.state, run.drop, run.frozen = into, "OPEN", drop, False
        run.attempt, run.worked, run.tries = run.attempt + 1, self.hour, {}
        return Handle(key, run.attempt)

    def begin(self, who: int, step: str) -> Try:
        run = self._working(who)
        head = run.head.version
        start = head.withdraw((run.key, step))
        self._check_bytes(start, head)
        run.tries[step] = Try(who, step, run.head, start)
        return run.tries[step]

    def join(self, attempt: int, writes: Writes) -> Commit | None:
        return self._join(found(self.tries, attempt), writes)

    def _join(self, work: Try, writes: Writes) -> Commit | None:
        run = self._working(work.who)
        if run.tries.get(work.step) is not work:
            raise Fails("FencedError")
        del run.tries[work.step]
        writer, head = (run.key, work.step), run.head.version
        made = work.start.write(writer, writes, work.fork.version.files)
        version = merged(work.start, made, head.withdraw(writer), how="join")
        if version.same(head) and not head.work(*writer):
            return None
        names = work.fork, Commit(made, (), -1, self.hour)
        run.head = self.make(version, run.head, hidden=True, names=names)
        return run.head

    def step(self, who: int, step: str, writes: Writes) -> Commit | None:
        return self._join(self.begin(who, step), writes)

    def failing_step(self, who: int, step: str, writes: Writes) -> None:
        self._working(who).tries.pop(step, None)

    def undo_step(self, who: int, step: str) -> Commit | None:
        return self.step(who, step, {})

    def direct(self, who: int, writes: Writes) -> Commit:
        run = self._working(who)
        head = run.head.version
        version = head.write((run.key, ""), writes, head.files)
        if version.same(head):
            raise Fails("NoChangesError")
        run.head = self.make(version, run.head, hidden=True)
        return run.head

    def publish(self, who: int, refuse: bool) -> Commit | None:
        run, state = self._attempt(who)
        if state == "PUBLISHED":
            return run.publishes[-1].commit
        if state != "OPEN":
            raise Fails("FencedError|RunStateError")
        run.worked, run.frozen = self.hour, True
        target = commit = self.branch(run.into).head
        self._park(run)  # unless it passes
        if not self._has_fork(run):
            raise Fails(CONFLICT)
        version = merged(run.base.version, run.head.version, target.version)
        if refuse:
            raise Fails("GateFailedError")
        run.state = "OPEN"
        if run.head is not run.base:
            commit = self.move(run.into, self.make(version, target, run.head, publishes=run.key))
        same = version.texts == target.version.texts and run.work(commit) == run.work(target)
        run.publishes.append(Publish(commit, run.into, not same))
        run.state = "PUBLISHED"
        return commit if commit is not target else None

    def close(self, who: int) -> None:
        run, state = self._attempt(who)
        if state == "OPEN" or (state == "PARKED" and run.drop):
            self._park(run, gone=run.drop)

    def park(self, who: int) -> None:
        run = self._allowed(who, "OPEN", "PARKED", "PUBLISHED", "ROLLED_BACK")
        if run.state == "OPEN":
            self._park(run)

    def renew(self, who: int) -> None:
        run = self._allowed(who, "OPEN", "PUBLISHED", "ROLLED_BACK")
        if run.state == "OPEN":
            run.worked = self.hour

    def abandon(self, key: str) -> None:
        run = found(self.runs, key, "RunNotFoundError")
        if run.state in ("PUBLISHED", "ROLLED_BACK"):
            raise Fails("RunStateError")
        self._park(run, gone=True)

    def rollback(self, key: str, into: str = "") -> Commit:
        return self._roll_back(found(self.runs, key, "RunNotFoundError"), into)

    def rollback_commit(self, commit: int) -> Commit:
        made = found(self.made, commit)
        run = found(self.runs, made.publishes, "RunNotFoundError")
        chosen = found({one.commit: one for one in reversed(run.publishes)}, made)
        return self._roll_back(run, chosen.into, chosen)

    def _roll_back(self, run: Run, into: str, chosen: Publish | None = None) -> Commit:
        mine = [publish for publish in run.publishes if into in ("", publish.into)]
        if not mine:
            raise Fails("RunStateError")
        last = mine[-1]
        head = found(self.branches, last.into, "RunStateError|RefNotFoundError|NoChangesError").head
        changed = [one for one in mine if one.changed and one.into == last.into][-1:]
        standing = [one for one in changed if run.work(one.commit) == run.work(head)]
        left = [one for one in changed if run.work(one.commit) == run.work(last.commit)]
        publish = next(iter([chosen] if chosen else standing or left), None)
        lost = last.commit not in head.ancestors or (changed and not left)
        if lost and not last.changed and publish not in standing:
            raise Fails(SKIP)  # a repeated rollback of what an earlier attempt published
        if publish is None or not publish.changed:
            raise Fails("NoChangesError")
        if publish not in standing and publish.commit not in head.ancestors:
            raise Fails("RunStateError" if last.changed else "RunStateError|NoChangesError")
        commit = None if publish in standing else standing_reverts(head).get(publish.commit)
        if commit is None and run.work(head) != run.work(publish.commit):
            withdrawn = run.work(head) == publish.commit.below.work(run.key)
            raise Fails("RunStateError" if withdrawn else CONFLICT)
        commit = commit or self._pick(last.into, publish.commit, revert=True)
        note = commit, len(run.publishes)
        if publish.noted != note:
            publish.noted, run.parked = note, self.hour
        at = run.publishes.index(publish)
        later = [one for one in run.publishes[at + 1 :] if one.into == last.into]
        over = all(
            one.noted if one.changed else commit not in one.commit.ancestors for one in later
        )
        if run.state == "PUBLISHED" and over and last is run.publishes[-1]:
            run.state = "ROLLED_BACK"
        return commit


def found(those: Mapping[Any, T], name: object, error: str = SKIP) -> T:
    if name not in those:
        raise Fails(error)
    return those[name]
