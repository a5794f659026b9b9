"""The model of a repository: its history, its runs, and what each operation makes of them.

An operation changes the model and raises nothing, or raises `Fails` with the name of the error that
the product must raise, or `Skip` if it means something that does not exist.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.harness.merge_model import UNSURE, MergeModel
from tests.model.versions import Conflict, Place, Value, Version, Writes, merged

TTL = 14 * 24
"""Hours that a run stays parked. An attempt that is silent for an hour is parked."""


class Fails(Exception):  # noqa: N818 - an outcome of the model
    """The operation fails with the error of this name, or of one of these."""


class Skip(Exception):  # noqa: N818 - an outcome of the model
    """The operation means something that does not exist: it does nothing."""


@dataclass(eq=False)
class Commit:
    """A commit: its version, the run that it published, the commit that it reverts, its hour.

    A hidden one is on the branch of a run. One that packs, and those after it, have trees of their own.
    """

    version: Version
    parents: tuple["Commit", ...] = ()
    publishes: str = ""
    reverts: "Commit | None" = None
    made: int = 0
    hidden: bool = False
    packs: bool = False
    number: int = 0

    def __post_init__(self) -> None:
        self.ancestors: frozenset[Commit] = frozenset([self]).union(
            *(parent.ancestors for parent in self.parents)
        )
        self.generation: int = 1 + max((one.generation for one in self.parents), default=0)
        self.packed: bool = self.packs or any(one.packed for one in self.parents)

    def line(self) -> Iterable["Commit"]:
        """Yield the commit and its first parents."""
        here: Commit | None = self
        while here is not None:
            yield here
            here = here.parents[0] if here.parents else None

    @property
    def below(self) -> Version:
        """The version of the first parent."""
        return self.parents[0].version if self.parents else Version()


def standing_reverts(head: Commit) -> dict[Commit, Commit]:
    """Return the commits that a line reverts, each with the revert that nothing reverts."""
    found: dict[Commit, Commit] = {}
    undone: set[Commit] = set()
    for commit in head.line():
        if commit.reverts is not None and commit not in undone:
            undone.add(commit.reverts)
            found.setdefault(commit.reverts, commit)
    return found


@dataclass
class Branch:
    """A user's branch: its head and its staged writes."""

    head: Commit
    staged: dict[str, str | None] = field(default_factory=dict)

    def files(self) -> dict[str, str]:
        """Return the content with the staged writes."""
        return self.head.version.written(self.staged).texts


@dataclass(eq=False)
class Publish:
    """A publish: its commit, its target, the publish whose claims it left there, or itself.

    The run's record notes its rollback.
    """

    commit: Commit
    into: str
    on: "Publish | None" = None
    noted: "tuple[Commit, int] | None" = None

    @property
    def changed(self) -> bool:
        return self.on is self


@dataclass
class Run:
    """The latest attempt of a run, and all publishes."""

    key: str
    into: str
    base: Commit
    head: Commit
    state: str = "OPEN"
    attempt: int = 0
    ended: bool = False
    frozen: bool = False
    drop: bool = False
    worked: int = 0
    parked: int = 0
    tries: dict[str, int] = field(default_factory=dict)
    publishes: list[Publish] = field(default_factory=list)

    def steps(self) -> set[str]:
        """Return the steps whose work is on the run's branch."""
        return {step for (_, step), _, _ in self.head.version.work(self.key) if step}


@dataclass(frozen=True)
class Handle:
    """What the opener of an attempt passes on."""

    key: str
    attempt: int


@dataclass(frozen=True)
class Try:
    """A try of a step that was begun."""

    handle: Handle
    step: str
    fork: Version
    start: Version


class Lake:
    """The repository and its runs."""

    def __init__(self) -> None:
        root = Commit(Version())
        self.hour = 0
        self.commits = [root]
        self.expired: set[Commit] = set()
        self.doubtful: set[Commit] = set()  # the same files, perhaps in other ranges, are kept
        self.lost: set[Value] = set()
        self.keep_hours: int | None = None
        self.branches: dict[str, Branch] = {}
        self.moves: dict[str, list[Commit | None]] = {}
        self.runs: dict[str, Run] = {}
        self.handles: dict[int, Handle] = {}
        self.tries: dict[int, Try] = {}
        self.made: dict[int, Commit] = {}
        self._start("main", root)
        self._start("pr", root)

    # what operations have in common

    def _start(self, name: str, commit: Commit) -> None:
        self.branches[name] = Branch(commit)
        self.moves.setdefault(name, []).append(commit)

    def move(self, name: str, commit: Commit) -> None:
        if self.branches[name].head is not commit:
            self.branches[name].head = commit
            self.moves[name].append(commit)

    def branch(self, name: str) -> Branch:
        if name not in self.branches:
            raise Fails("RefNotFoundError")
        return self.branches[name]

    def commit_of(self, label: int) -> Commit:
        if label not in self.made:
            raise Skip
        return self.made[label]

    def make(self, version: Version, *parents: Commit, **marks: object) -> Commit:
        self._check_bytes(version, *(parent.version for parent in parents))
        number = len(self.commits)
        commit = Commit(version, parents, made=self.hour, number=number, **marks)  # type: ignore[arg-type]
        self.commits.append(commit)
        return commit

    def _check_bytes(self, version: Version, *others: Version) -> None:
        """Check that files which return are not lost."""
        here = {value for other in others for value in other.files.values()}
        if not self.lost.isdisjoint(set(version.files.values()) - here):
            raise Fails("ExpiredError")

    def _named(self, *commits: Commit) -> None:
        if not self.expired.isdisjoint(commits):
            raise Fails("ExpiredError")
        if not self.doubtful.isdisjoint(commits):
            raise Skip

    def apply(self, label: int, name: str, arguments: Mapping[str, object]) -> str:
        """Apply an operation; return "" or the error that the product must raise, or "skip"."""
        try:
            made = getattr(self, name)(**arguments)
        except Fails as error:
            return str(error)
        except Skip:
            return "skip"
        except Conflict:
            return "MergeConflictError"
        if isinstance(made, Commit):
            self.made[label] = made
        elif isinstance(made, Handle):
            self.handles[label] = made
        elif isinstance(made, Try):
            self.tries[label] = made
            self.runs[made.handle.key].tries[made.step] = label
        return ""

    # branches of users

    def stage(self, branch: str, writes: Writes) -> None:
        self.branch(branch).staged.update(writes)

    def write(self, branch: str, writes: Writes) -> Commit:
        self.stage(branch, writes)
        return self.commit(branch)

    def commit(self, branch: str) -> Commit:
        there = self.branch(branch)
        head, staged = there.head.version, there.staged
        version = head.written(staged)
        equal = [path for path in staged if version.files.get(path) == head.files.get(path)]
        version = version.claim_equal(("", branch), equal)
        there.staged = {}
        if version.same(head):
            raise Fails("NoChangesError")
        self.move(branch, self.make(version, there.head))
        return there.head

    def copy(self, branch: str, source: str, old: str, new: str) -> None:
        self.branch(branch)
        files = self.branch(source).head.version.texts
        if old not in files:
            raise Fails("ObjectNotFoundError")
        self.stage(branch, {new: files[old]})

    def rename(self, branch: str, old: str, new: str) -> None:
        files = self.branch(branch).files()
        if old not in files:
            raise Fails("ObjectNotFoundError")
        self.stage(branch, {new: files[old], old: None})

    def fork(self, branch: str, source: str) -> Commit:
        head = self.branch(source).head
        if branch in self.branches:
            raise Fails("AlreadyExistsError")
        self._start(branch, head)
        return head

    def delete(self, branch: str) -> None:
        self.branch(branch)
        del self.branches[branch]
        self.moves[branch].append(None)

    def undo(self, branch: str) -> None:
        moves = self.moves.get(branch, [])
        if len(moves) < 2 or moves[-2] is None:
            raise Fails("RefNotFoundError")
        self._named(moves[-2])
        if branch in self.branches:
            self.move(branch, moves[-2])
        else:
            self._start(branch, moves[-2])

    def reset(self, branch: str, to: int) -> None:
        commit = self.commit_of(to)
        self.branch(branch)
        self._named(commit)
        self.branches[branch].staged = {}
        self.move(branch, commit)

    def pack(self, branch: str) -> Commit:
        there = self.branch(branch)
        self.move(branch, self.make(there.head.version, there.head, packs=True))
        return there.head

    def unpack(self, label: int, branch: str) -> None:
        del self.made[label]
        self.moves[branch].pop()
        self.branches[branch].head = self.branches[branch].head.parents[0]

    def merge(self, source: str, into: str) -> Commit:
        one, other = self.branch(source).head, self.branch(into).head
        if one in other.ancestors:
            return other
        version = self.merge_of(one, other)
        self.move(into, self.make(version, other, one))
        return self.branches[into].head

    def merge_of(self, one: Commit, other: Commit) -> Version:
        bases, unsure = self.bases(one, other)
        version = merged(bases, one.version, other.version, unsure=unsure)
        if one.version.claims == bases.claims:
            new, old, now = (side.texts for side in (one.version, bases, other.version))
            equal = [path for path in new if old.get(path) != new[path] == now.get(path)]
            version = version.claim_equal(("", "merged"), equal)
        return version

    def bases(self, source: Commit, dest: Commit) -> tuple[Version, set[str]]:
        best = best_of([source], dest)
        if not best:
            raise Fails("ConflictError")
        for commit in best:
            if commit.version.tree not in (source.version.tree, dest.version.tree):
                self._named(commit)
        if len(best) == 1:
            return best[0].version, set()
        merges: Any = MergeModel()
        every = set().union(*(commit.ancestors for commit in (source, dest)))
        merges.trees = {commit: commit.version.texts for commit in every}
        merges.parents = {commit: commit.parents for commit in every}
        files = {(path, value.content): value for one in best for path, value in one.version.tree}
        texts = {path: merges.outcomes(best, path) for path, _ in files}
        unsure = {path for path, found in texts.items() if len(found) > 1 or UNSURE in found}
        rows: dict[str, dict[Any, Any]] = {}
        for side in (best[0].version, best[-1].version):
            for path, place in side.claims.items():
                for claim, before in zip(place.claims, place.levels, strict=False):
                    rows.setdefault(path, {})[claim[0]] = before, claim
        claims = {}
        for path, each in rows.items():
            befores, stack = zip(*each.values(), strict=True)
            claims[path] = Place((*befores, None), stack)
        values = {
            path: files.get((path, min(found)))
            for path, found in texts.items()
            if path not in unsure
        }
        return Version(claims).put(values), unsure

    def revert(self, commit: int, on: str) -> Commit:
        target = self.commit_of(commit)
        if not target.parents:
            raise Skip
        self._named(target, target.parents[0])
        return self._pick(on, target.version, target.below, reverts=target)

    def pick(self, commit: int, onto: str) -> Commit:
        target = self.commit_of(commit)
        if not target.parents:
            raise Skip
        self._named(target, target.parents[0])
        return self._pick(onto, target.below, target.version)

    def _pick(self, name: str, base: Version, source: Version, **marks: Commit) -> Commit:
        head = self.branch(name).head
        version = merged(base, source, head.version, how="revert" if marks else "pick")
        if version.same(head.version):
            raise Fails("NoChangesError")
        self.move(name, self.make(version, head, **marks))
        return self.branches[name].head

    def gc(self) -> None:
        heads = {there.head for there in self.branches.values()}
        live = [run for run in self.runs.values() if run.state in ("OPEN", "PARKED")]
        heads.update(run.head for run in live)
        kept = {*heads, *(run.base for run in live)}
        if self.keep_hours is None:
            kept.update(*(head.ancestors for head in heads))
        else:
            kept.update(*(best_of([one], other) for one in heads for other in heads))
            firsts = {commit.parents[0] for commit in self.commits if commit.parents}
            merged_in = frozenset[Commit]().union(*(head.ancestors for head in heads)) - firsts
            old = self.hour - self.keep_hours
            for head in heads | {commit for commit in merged_in if commit.made > old}:
                for commit in head.line():
                    kept.add(commit)
                    if commit.made <= old:
                        break
        kept = (kept | self.needed()) - self.expired
        trees = {commit.version.tree for commit in kept}
        named = {value for files in trees for _, value in files}
        claims = [commit.version.claims for commit in kept]
        for commit in self.commits:
            files = commit.version.tree
            if (files and files not in trees) or commit.version.claims not in [{}, *claims]:
                self.expired.add(commit)
            elif commit not in kept and commit.packed:
                self.doubtful.add(commit)
            self.lost.update({value for _, value in files} - named)

    def needed(self) -> set[Commit]:
        return set()

    def keep(self, hours: int) -> None:
        self.keep_hours = hours

    def restore(self) -> None:
        """Lose the records, and restore a dump of the refs."""
        root = self.make(Version())
        known = frozenset[Commit]().union(*(one.head.ancestors for one in self.branches.values()))
        self.made = {label: commit for label, commit in self.made.items() if commit in known}
        self.runs, self.handles, self.tries = {}, {}, {}
        self.moves = {}
        for name, there in self.branches.items():
            there.staged = {}
            self.moves[name] = [root, there.head] if name == "main" else [there.head]

    def new_lake(self) -> None:
        pass

    def time(self, hours: int) -> None:
        self.hour += hours

    # runs

    def _run(self, who: int) -> tuple[Run, Handle, bool]:
        """Return the run of a handle, and whether the handle may work."""
        if who not in self.handles:
            raise Skip
        handle = self.handles[who]
        run = self.runs[handle.key]
        return run, handle, self._present(run, handle) and run.state == "OPEN"

    def _present(self, run: Run, handle: Handle) -> bool:
        return handle.attempt == run.attempt and not run.ended

    def _working(self, who: int) -> Run:
        run, _, alive = self._run(who)
        if not alive:
            raise Fails("FencedError")
        run.worked = self.hour
        if run.frozen:
            raise Fails("FencedError")
        return run

    def _park(self, run: Run, *, gone: bool = False) -> None:
        if run.state != "PARKED":
            run.parked = self.hour
        run.state = "REAPED" if gone else "PARKED"

    def _has_fork(self, run: Run) -> bool:
        """Return whether the target has the fork of a run, and the run's claims as then."""
        target = self.branches.get(run.into)
        return target is None or (
            run.base in target.head.ancestors
            and run.base.version.work(run.key) == target.head.version.work(run.key)
        )

    def reap(self) -> None:
        for run in self.runs.values():
            late = run.state == "OPEN" and self.hour > run.worked
            if late or (run.state == "PARKED" and self.hour >= run.parked + TTL):
                run.ended = True
                self._park(run, gone=run.drop or run.state == "PARKED")

    def open(self, key: str, into: str, drop: bool, owned: bool = False) -> Handle:
        del owned  # by an owner of its own
        self.reap()
        target = self.branch(into).head
        run = self.runs.get(key)
        if run is None:
            run = self.runs[key] = Run(key, into, target, target, state="NONE")
        resumes = run.state in ("OPEN", "PARKED") and self._has_fork(run)
        if resumes and run.into != into:
            raise Fails("InvalidInputError")
        if not resumes or run.head is run.base:
            run.base = run.head = target
        run.into, run.state, run.drop, run.ended = into, "OPEN", drop, False
        run.attempt += 1
        run.worked, run.tries, run.frozen = self.hour, {}, False
        return Handle(key, run.attempt)

    def begin(self, who: int, step: str) -> Try:
        run = self._working(who)
        start = run.head.version.withdraw(run.key, step)
        self._check_bytes(start, run.head.version)
        return Try(self.handles[who], step, run.head.version, start)

    def join(self, attempt: int, writes: Writes) -> Commit | None:
        if attempt not in self.tries:
            raise Skip
        work = self.tries[attempt]
        run = self.runs[work.handle.key]
        alive = self._present(run, work.handle) and run.state == "OPEN"
        if not alive or run.frozen or run.tries.get(work.step) != attempt:
            raise Fails("FencedError")
        run.worked = self.hour
        del run.tries[work.step]
        return self._join(run, work, writes)

    def _join(self, run: Run, work: Try, writes: Writes) -> Commit | None:
        head = run.head.version
        made = work.start.write((run.key, work.step), writes, work.fork.files)
        version = merged(work.start, made, head.withdraw(run.key, work.step), how="join")
        if not head.work(run.key, work.step) and version.same(head):
            return None
        run.head = self.make(version, run.head, hidden=True)
        return run.head

    def step(self, who: int, step: str, writes: Writes) -> Commit | None:
        work = self.begin(who, step)
        run = self.runs[work.handle.key]
        run.tries.pop(step, None)
        return self._join(run, work, writes)

    def failing_step(self, who: int, step: str, writes: Writes) -> None:
        del writes
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
        run, handle, alive = self._run(who)
        if not alive:
            if self._present(run, handle) and run.state == "PUBLISHED":
                return run.publishes[-1].commit
            raise Fails("FencedError|RunStateError")
        run.worked, run.frozen = self.hour, True
        target = self.branch(run.into).head
        try:
            version = self._merged_run(run, target)
        except Conflict:
            self._park(run)
            raise
        differs = version.texts != target.version.texts
        if refuse:
            self._park(run)
            raise Fails("GateFailedError")
        commit = target
        if run.head is not run.base:
            commit = self.make(version, target, run.head, publishes=run.key)
            self.move(run.into, commit)
        changed = differs or version.work(run.key) != target.version.work(run.key)
        publish = Publish(commit, run.into)
        publish.on = publish if changed else self._standing(run, run.into, target)
        run.publishes.append(publish)
        run.state = "PUBLISHED"
        return commit if commit is not target else None

    def _merged_run(self, run: Run, target: Commit) -> Version:
        if not self._has_fork(run):
            raise Conflict
        return merged(run.base.version, run.head.version, target.version)

    def _standing(self, run: Run, into: str, head: Commit) -> Publish | None:
        """Return the latest publish that changed a target, if it stands there."""
        changed = [one for one in run.publishes if one.changed and one.into == into]
        if not changed or changed[-1].commit.version.work(run.key) != head.version.work(run.key):
            return None
        return changed[-1]

    def close(self, who: int) -> None:
        run, handle, alive = self._run(who)
        if alive or (self._present(run, handle) and run.state == "PARKED"):
            self._park(run, gone=run.drop)

    def park(self, who: int) -> None:
        run, handle, alive = self._run(who)
        over = run.state in ("PARKED", "PUBLISHED", "ROLLED_BACK")
        if not alive and not (handle.attempt == run.attempt and over):
            raise Fails("FencedError")
        if alive:
            self._park(run)

    def renew(self, who: int) -> None:
        run, handle, alive = self._run(who)
        over = run.state in ("PUBLISHED", "ROLLED_BACK")
        if not alive and not (self._present(run, handle) and over):
            raise Fails("FencedError")
        if alive:
            run.worked = self.hour

    def abandon(self, key: str) -> None:
        run = self._known(key)
        if run.state in ("PUBLISHED", "ROLLED_BACK"):
            raise Fails("RunStateError")
        run.ended = True
        self._park(run, gone=True)

    def _known(self, key: str) -> Run:
        if key not in self.runs:
            raise Fails("RunNotFoundError")
        return self.runs[key]

    def rollback(self, key: str, into: str = "") -> Commit:
        run = self._known(key)
        mine = [publish for publish in run.publishes if into in ("", publish.into)]
        if not mine:
            raise Fails("RunStateError")
        return self._roll_back(run, mine)

    def rollback_commit(self, commit: int) -> Commit:
        made = self.commit_of(commit)
        if not made.publishes:
            raise Fails("RunNotFoundError")
        run = self._known(made.publishes)
        chosen = next((one for one in run.publishes if one.commit is made), None)
        if chosen is None:
            raise Skip
        mine = [publish for publish in run.publishes if publish.into == chosen.into]
        return self._roll_back(run, mine, chosen)

    def _roll_back(self, run: Run, mine: list[Publish], chosen: Publish | None = None) -> Commit:
        last = mine[-1]
        if last.into not in self.branches:
            raise Fails("RunStateError|RefNotFoundError|NoChangesError")
        head = self.branches[last.into].head
        standing = self._standing(run, last.into, head)
        changed_before = any(one.changed and one.into == last.into for one in mine)
        publish = chosen or standing or last.on
        lost = last.commit not in head.ancestors
        if (
            (publish is None or publish is not standing)
            and not last.changed
            and (lost or (changed_before and not last.on))
        ):
            raise Skip  # a repeated rollback of what an earlier attempt published
        if publish is None or not publish.changed:
            raise Fails("NoChangesError")
        brought, now = publish.commit.version, head.version.work(run.key)
        if publish is not standing:
            if publish.commit not in head.ancestors:
                raise Fails("RunStateError" if last.changed else "RunStateError|NoChangesError")
            reverts = standing_reverts(head)
            if publish.commit in reverts:
                self._note(run, publish, reverts[publish.commit])
                return reverts[publish.commit]
            if now != brought.work(run.key):
                withdrawn = now == publish.commit.below.work(run.key)
                raise Fails("RunStateError" if withdrawn else "MergeConflictError")
        self._named(publish.commit, *publish.commit.parents[:1])
        commit = self._pick(last.into, brought, publish.commit.below, reverts=publish.commit)
        self._note(run, publish, commit)
        return commit

    def _note(self, run: Run, publish: Publish, commit: Commit) -> None:
        now = commit, len(run.publishes)
        if publish.noted == now:
            return
        publish.noted, run.parked, last = now, self.hour, run.publishes[-1]
        stands = last is publish or (
            last.commit.generation < commit.generation
            and last.commit.version.work(run.key) == publish.commit.version.work(run.key)
        )
        if run.state == "PUBLISHED" and last.on is publish and stands:
            run.state = "ROLLED_BACK"


def best_of(several: list[Commit], other: Commit) -> list[Commit]:
    common = other.ancestors.intersection(frozenset().union(*(one.ancestors for one in several)))
    return sorted(
        (
            one
            for one in common
            if not any(one in two.ancestors for two in common if two is not one)
        ),
        key=lambda commit: commit.number,
    )
