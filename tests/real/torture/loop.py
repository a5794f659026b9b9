"""Kill, reopen, check, continue: many cycles on one store, with the expected content outside."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from threading import Timer
from typing import Any

from graveler.errors import GravelerError, NoChangesError
from graveler.fsck.check import fsck
from graveler.gc.marks import MarkState
from graveler.lake.repository import Repository
from graveler.model import ChangeKind
from tests.real.torture.expected import Line, State, after
from tests.real.torture.fork_server import ForkServer
from tests.real.torture.judging import Journal, Loss, judge
from tests.real.torture.lakes import (
    BACKGROUNDS,
    CACHES,
    SPLITTINGS,
    Options,
    Place,
    open_lake,
    open_repository,
    prepare,
)
from tests.real.torture.operations import OWNERS, Operation, execute
from tests.real.torture.victim import ANSWERS, Plan

ROTATE = 12
"""The number of cycles before a new repository is made on the same store, to keep the checks short.
Earlier repositories are checked again at the end."""

DENSITIES = (8, 80, 800)
"""Kill points kill at one call in this number."""


@dataclass
class Tally:
    """The work that was done, and its results.

    Attributes:
        cycles: The number of victims.
        killed: The number of victims that did not end by themselves.
        operations: The number of begun operations.
        acknowledged: The number of acknowledged changes.
        found: The number of acknowledged changes that were found again.
        landed: The number of changes that happened without an acknowledgement.
        disturbed: The number of cycles in which the database was stopped.
        swept: The number of completed garbage collections.
        lost: The number of cycles with an error at the end.
        seconds: The total time.
        story: The cycle with an error: how to replay it, and what was wrong.
    """

    cycles: int = 0
    killed: int = 0
    operations: int = 0
    acknowledged: int = 0
    found: int = 0
    landed: int = 0
    disturbed: int = 0
    swept: int = 0
    lost: int = 0
    seconds: float = 0.0
    story: str = ""


@dataclass
class _Book:
    """A repository, and its expected content."""

    name: str
    state: State
    commits: dict[str, list[tuple[str, dict[str, str]]]] = field(default_factory=dict)

    def note(self, journal: Journal, state: State) -> None:
        self.state = state
        for name in journal.dropped | (set(self.commits) - set(state.lines)):
            self.commits.pop(name, None)
        for name, made in journal.commits.items():
            if name in state.lines:
                self.commits.setdefault(name, []).extend(made)


class Torture:
    """Runs victims on one store, one after another.

    Args:
        place: An empty lake.
        seed: Decides what the victims do and when they die.
        settle: Returns when no work of a dead victim is in progress.
        disturb: Stops the database during a victim's work and restarts it.
        disturbs: The share of cycles with such a stop.
        forgets: The same as in Plan.
    """

    def __init__(
        self,
        place: Place,
        seed: str,
        *,
        settle: Callable[[], object] = lambda: None,
        disturb: Callable[[], object] | None = None,
        disturbs: float = 0.1,
        forgets: str = "",
    ) -> None:
        self._place, self._seed, self._forgets = place, seed, forgets
        self._settle, self._disturb, self._disturbs = settle, disturb, disturbs
        self._random = Random(seed)
        self._books: list[_Book] = []
        self.tally = Tally()

    def run(self, cycles: int) -> Tally:
        """Run `cycles` victims, and check the store after each. The first loss ends the torture."""
        started = time.monotonic()
        lines: list[dict[str, Any]] = []
        what: object = "nothing"
        try:
            with ForkServer() as fork_server:
                for cycle in range(cycles):
                    if cycle % ROTATE == 0:
                        what = "the beginning of a repository"
                        self._begin(f"flights-{len(self._books)}")
                    plan, kill_after = self._plan(cycle)
                    lines, what = [], (plan, f"killed after {kill_after} s")
                    self._cycle(fork_server, plan, kill_after, lines)
            lines, what = [], "the look at all repositories at the end"
            self._look_at_all()
        except (Loss, GravelerError) as loss:
            self.tally.lost += 1
            self.tally.story = (
                f"cycle {self.tally.cycles} of seed {self._seed!r}, {what}:\n"
                f"{type(loss).__name__}: {loss}\nthe victim's last words:\n"
                + "\n".join(str(line) for line in lines[-12:])
            )
        self.tally.seconds = time.monotonic() - started
        return self.tally

    def _begin(self, name: str) -> None:
        with open_lake(self._place, Options()) as lake:
            head, tree = prepare(lake, name)
        self._books.append(_Book(name, State({"main": Line(head, tree)})))

    def _options(self) -> Options:
        chosen = (self._random.choice(list(each)) for each in (CACHES, BACKGROUNDS, SPLITTINGS))
        return Options(*chosen)

    def _plan(self, cycle: int) -> tuple[Plan, float | None]:
        random, book = self._random, self._books[-1]
        points = random.random() < 0.4
        threads = random.choice([1, 1, OWNERS])
        plan = Plan(
            self._place,
            book.name,
            f"{self._seed}/{cycle}",
            task="collect" if random.random() < 0.12 else "change",
            names=(*book.state.lines, *book.state.tags),
            threads=threads,
            hot=threads > 1 and random.random() < 0.5,
            options=self._options(),
            odds=random.choice(DENSITIES) if points else 0,
            system=points and random.random() < 0.4,
            warm=random.randrange(20),
            forgets=self._forgets,
        )
        return plan, random.uniform(0.005, 0.15 if plan.task == "change" else 0.8)

    def _cycle(
        self,
        fork_server: ForkServer,
        plan: Plan,
        kill_after: float | None,
        lines: list[dict[str, Any]],
    ) -> None:
        tally, book = self.tally, self._books[-1]
        tally.cycles += 1
        disturbed = self._disturb is not None and self._random.random() < self._disturbs
        if disturbed and self._disturb is not None:
            tally.disturbed += 1
            stopper = Timer(self._random.uniform(0.05, 0.2), self._disturb)
            stopper.start()
            lines.extend(fork_server.raise_victim(plan, kill_after=10.0))
            stopper.join()
        else:
            birth = self._random.random() < 0.1
            lines.extend(fork_server.raise_victim(plan, kill_after=kill_after, from_birth=birth))
        tally.killed += lines[-1]["ended"] != 0
        self._settle()
        journal = Journal(book.state, alone=plan.threads == 1)
        journal.hear(lines[:-1])
        tally.operations += journal.operations
        tally.acknowledged += journal.acknowledged
        tally.swept += sum(line.get("swept", 0) for line in lines)
        if journal.failed and not disturbed:
            raise Loss(f"failed, and nothing was wrong: {journal.failed}")
        if lines[-1]["ended"] not in (0, -9):
            raise Loss(f"the victim ended with {lines[-1]['ended']}")
        options = self._options()
        with open_lake(self._place, options) as lake:
            repo = open_repository(lake, book.name, options)
            verdict = judge(journal, see(repo))
            book.note(journal, _clear_up(repo, verdict.state, verdict.unclear))
            self._check_history(repo, book, most=3)
            _check_sound(repo)
        tally.found += journal.acknowledged
        tally.landed += verdict.landed

    def _check_history(self, repo: Repository, book: _Book, *, most: int) -> None:
        """Check that each acknowledged commit is in its branch's history, and read some of them."""
        for name, made in book.commits.items():
            history = {commit.id for commit in repo.log(name)}
            missing = [identifier for identifier, _ in made if identifier not in history]
            if missing:
                raise Loss(f"acknowledged commits are not in the history of {name}: {missing}")
            whole = [(identifier, tree) for identifier, tree in made if tree]
            for identifier, tree in self._random.sample(whole, min(most, len(whole))):
                found = _contents(repo.ref(identifier), {})
                if found != tree:
                    raise Loss(f"commit {identifier} holds {found}, expected {tree}")

    def _look_at_all(self) -> None:
        """Check every repository again, and commit its staged writes. Nothing may be left over."""
        with open_lake(self._place, Options("none")) as lake:
            for book in self._books:
                repo = lake.repository(book.name)
                judge(Journal(book.state, alone=True), see(repo))
                self._check_history(repo, book, most=20)
                _finish_sweeps(repo)
                for name in book.state.lines:
                    with suppress(NoChangesError):
                        repo.branch(name).commit("the end")
                for record in repo.branches(hidden=True):
                    if record.sealed_tokens or record.hidden:
                        raise Loss(f"at rest branch {record} has sealed tokens, or is a run's")
                _check_sound(repo, objects="checksum")


def see(repo: Repository) -> State:
    """Return the content: head, tree and staged writes of each branch, and the tags."""
    known: dict[str, str] = {}
    lines, tags = {}, {}
    for record in repo.branches():  # branches of runs do not count, except for what they publish
        committed = _contents(repo.ref(record.name), known)
        branch = repo.branch(record.name)
        shown = _contents(branch, known)
        changed = {p for p in {*committed, *shown} if committed.get(p) != shown.get(p)}
        uncommitted = {change.path: change.kind for change in branch.uncommitted()}
        if set(uncommitted) != changed or any(
            (kind is ChangeKind.REMOVED) != (path not in shown)
            for path, kind in uncommitted.items()
        ):
            raise Loss(f"{record.name}: uncommitted {uncommitted}, expected {sorted(changed)}")
        staged = {path: shown.get(path) for path in changed}
        lines[record.name] = Line(record.commit_id, committed, staged)
    for tag, identifier in repo.tags.list().items():
        tags[tag] = (identifier, _contents(repo.ref(tag), known))
    return State(lines, tags)


def _contents(view: Any, known: dict[str, str]) -> dict[str, str]:
    """Return content by path. Each object is read once."""
    found = {}
    for entry in view.entries():
        if entry.address not in known:
            store, key = view.repository.locate(entry.address)
            known[entry.address] = store.get(key).decode()
        found[entry.path] = known[entry.address]
    return found


def _check_sound(repo: Repository, *, objects: Any = "exist") -> None:
    report = fsck(repo.stores, objects=objects)
    if not report.sound:
        raise Loss(f"fsck: {report.problems}")


def _finish_sweeps(repo: Repository) -> None:
    """Complete the sweeps of dead processes, as the error says to a writer that meets one."""
    collector = repo.gc
    collector._lease_seconds = 0.05  # the lease's owner is dead
    for mark in list(collector.marks()):
        if mark.state is MarkState.SWEEPING:
            collector.sweep(mark.id)


def _clear_up(repo: Repository, state: State, unclear: tuple[Operation, ...]) -> State:
    """Repeat an operation of unknown outcome, as its caller would."""
    if unclear:
        _finish_sweeps(repo)
    for operation in unclear:
        already = None
        try:
            answer = execute(repo, operation)
            already = answer[1] if operation.name == "merge" else None
        except ANSWERS:
            pass
        state, _ = after(state, operation, already=already)
    if unclear:
        judge(Journal(state, alone=True), see(repo))
    return state
