"""The drawing of histories: operations with arguments that are likely valid."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from tests.model.ingestion import BAD, INGEST, Ingesting
from tests.model.lake import Commit, Run

KEYS = ("05", "06", "07")
STEPS = ("one", "two")
SHARED = ("out/_SUCCESS", "latest", "out/all")
TEXTS = ("a", "bb", "ccc")
"""The contents; their sizes tell them apart."""
LENGTH = 60
HOURS = tuple(f"2013-01-01T{hour:02}:00Z" for hour in range(4, 16))
POLICIES = (
    ("hold", "refuse"),
    ("quarantine", "refuse"),
    ("hold", "target"),
    ("quarantine", "ingest"),
)
"""What ingestion does with refused hours, and with paths that others changed."""


@dataclass(frozen=True)
class Operation:
    """An operation of a history.

    Attributes:
        label: Its number in the drawn history, by which others mean what it made.
        name: Its name.
        arguments: Its arguments.
    """

    label: int
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def parts(self) -> tuple["Operation", ...]:
        """Return the operations of a race or of a killed process, or the operation itself."""
        if self.name == "race":
            return self.arguments["first"], self.arguments["second"]
        return (self.arguments["what"],) if self.name == "killed" else (self,)

    def orders(self) -> list[tuple[list["Operation"], list[int]]]:
        """Return the orders in which it may happen, and the places of the results that count."""
        parts = list(self.parts())
        if self.name == "race":
            return [(parts, [0, 1]), (parts[::-1], [1, 0])]
        if self.name == "killed":
            return [(parts, [0]), (parts * 2, [1])]
        if self.name == "pack":  # makes no commit of well cut trees
            return [([Operation(self.label, "new_lake")], [0]), (parts, [0])]
        return [(parts, [0])]

    def simpler(self) -> Iterator["Operation"]:
        """Yield simpler operations."""
        if self.name in ("race", "killed"):
            yield from self.parts()
        writes = self.arguments.get("writes", {})
        for path in writes if len(writes) > 1 else ():
            fewer = {other: text for other, text in writes.items() if other != path}
            yield replace(self, arguments={**self.arguments, "writes": fewer})

    def __str__(self) -> str:
        if self.name in ("race", "killed"):
            inner = ", ".join(f"{part.name}({part.words()})" for part in self.parts())
            return f"c{self.label} = {self.name}({inner}, call={self.arguments['call']})"
        return f"c{self.label} = {self.name}({self.words()})"

    def words(self) -> str:
        """Return the arguments as text."""
        return ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())


def _file(key: str, name: str) -> str:
    return f"out/2013/01/01/{key}:00/{name}"


class Drawer:
    """Draws the operations of one history."""

    def __init__(self, seed: int, lake: Ingesting) -> None:
        self.draw = Random(seed)
        self.lake = lake
        self.operations: list[Operation] = []
        self.retention = self.chance(0.4)
        self.policies = dict(
            zip(("on_refusal", "on_conflict"), self.draw.choice(POLICIES), strict=True)
        )
        much = self.draw.choice((0.5, 1, 4))
        self.weights = {
            kind: weight * self.draw.choice((0.3, 1, 1, 2)) * (much if kind in INGESTING else 1)
            for kind, weight in KINDS.items()
        }

    def next(self, label: int) -> Operation:
        """Return the next operation."""
        kinds, weights = list(self.weights), list(self.weights.values())
        while True:
            kind = self.draw.choices(kinds, weights)[0]
            operation = self.one(label, kind)
            if operation is None:
                continue
            if kind in CHOSEN and self.chance(0.75) and not self.succeeds(operation):
                continue
            if kind in RACING and self.chance(0.04):
                other = self.one(label + 1, self.draw.choice(RACING))
                if other is not None and not self.collide(operation, other):
                    call = self.draw.randint(1, 60)
                    return Operation(
                        label, "race", {"first": operation, "second": other, "call": call}
                    )
            dies = 0.12 if kind in INGESTING else 0.04
            if operation.arguments.get("hour") in {commit.hour for commit in self.lake.commits}:
                dies = 0  # a second tick of an hour may find more to do
            if kind in KILLED and self.chance(dies) and self.succeeds(operation):
                return Operation(
                    label, "killed", {"what": operation, "call": self.draw.randint(1, 60)}
                )
            return operation

    def succeeds(self, operation: Operation) -> bool:
        """Return whether the model expects an operation to succeed."""
        lake = Ingesting()
        for part in (part for earlier in self.operations for part in earlier.parts()):
            lake.apply(part.label, part.name, part.arguments)
        return not lake.apply(operation.label, operation.name, operation.arguments)

    def collide(self, one: Operation, other: Operation) -> bool:
        """Return whether two processes would open one run, or publish it by different gates."""
        keys = {part.arguments.get("key") for part in (one, other)}
        if "open" in (one.name, other.name):
            return len(keys) == 1
        return one.name == other.name and one.name in ("publish", "undo_step", "commit")

    def one(self, label: int, kind: str) -> Operation | None:
        """Return an operation of a kind, or None if none is likely valid."""
        arguments = getattr(self, kind)()
        return None if arguments is None else Operation(label, kind, arguments)

    # arguments

    def chance(self, part: float) -> bool:
        """Return True in this part of the cases."""
        return self.draw.random() < part

    def path(self, key: str) -> str:
        """Return a path of a run, or one that runs share."""
        return self.draw.choice(
            (*SHARED, _file(key, "a"), _file(key, "b"), _file(self.draw.choice(KEYS), "a"))
        )

    def writes(self, key: str, files: Any, most: int = 3) -> dict[str, str | None]:
        """Return some writes."""
        made: dict[str, str | None] = {}
        for _ in range(self.draw.randint(1, most)):
            path = self.path(key)
            gone = self.chance(0.15)
            made[path] = None if gone else self.draw.choice(TEXTS)
        return made

    def run(self, *states: str) -> Run | None:
        """Return a run in one of these states."""
        runs = [run for run in self.lake.runs.values() if run.state in states]
        return self.draw.choice(runs) if runs else None

    def who(self, run: Run) -> int:
        """Return the opener of the latest attempt of a run, seldom that of another one."""
        handles = self.lake.handles
        if self.chance(0.06):
            return self.draw.choice(list(handles))
        return max(label for label, handle in handles.items() if handle.key == run.key)

    def branch(self) -> str:
        """Return a branch of users."""
        names = self.users(self.lake.branches)
        return "main" if self.chance(0.5) else self.draw.choice(names)

    def users(self, names: Iterable[str]) -> list[str]:
        """Return those of some branches that are not of ingestion."""
        return [name for name in names if name in ("main", "pr", "dev")]

    def commit_of(self, branch: str, wanted: Callable[[Commit], bool]) -> int | None:
        """Return the label of a commit of a branch, likely a late one."""
        there = self.lake.branches.get(branch)
        if there is None:
            return None
        labels = [
            label
            for label, commit in self.lake.made.items()
            if commit in there.head.ancestors and wanted(commit)
        ]
        if not labels:
            return None
        late = sorted(labels)[-4:]
        return self.draw.choice(late if self.chance(0.8) else labels)

    # runs

    def open(self) -> dict[str, Any] | None:
        live = [run for run in self.lake.runs.values() if run.state == "OPEN"]
        if len(live) >= 2 and self.chance(0.8):
            return None
        key = self.draw.choice(KEYS)
        run = self.lake.runs.get(key)
        into = "main" if self.chance(0.75) else "pr"
        if run is not None and run.state in ("OPEN", "PARKED") and self.chance(0.95):
            into = run.into
        if into not in self.lake.branches and self.chance(0.9):
            return None
        owner = {"owned": True} if self.chance(0.2) else {}
        return {"key": key, "into": into, "drop": self.chance(0.1), **owner}

    def _at_work(self) -> tuple[Run, int] | None:
        run = self.run("OPEN") or (self.run("PARKED") if self.chance(0.05) else None)
        return None if run is None else (run, self.who(run))

    def step(self) -> dict[str, Any] | None:
        found = self._at_work()
        if found is None:
            return None
        run, who = found
        files = run.head.version.texts
        return {
            "who": who,
            "step": self.draw.choice(STEPS),
            "writes": self.writes(run.key, files) if self.chance(0.95) else {},
        }

    failing_step = step

    def begin(self) -> dict[str, Any] | None:
        found = self._at_work()
        return found and {"who": found[1], "step": self.draw.choice(STEPS)}

    def join(self) -> dict[str, Any] | None:
        handles = self.lake.handles
        open_tries = [
            label
            for label, work in self.lake.tries.items()
            if (run := self.lake.runs[handles[work.who].key]).tries.get(work.step) is work
            and run.state == "OPEN"
            and run.attempt == handles[work.who].attempt
        ]
        if not open_tries or self.chance(0.05):
            open_tries = list(self.lake.tries)
            if not open_tries or self.chance(0.9):
                return None
        label = self.draw.choice(open_tries)
        work = self.lake.tries[label]
        return {
            "attempt": label,
            "writes": self.writes(handles[work.who].key, work.start.texts),
        }

    def undo_step(self) -> dict[str, Any] | None:
        found = self._at_work()
        if found is None:
            return None
        run, who = found
        steps = sorted(run.steps()) or list(STEPS)
        return {"who": who, "step": self.draw.choice(steps)}

    def direct(self) -> dict[str, Any] | None:
        found = self._at_work()
        return found and {
            "who": found[1],
            "writes": self.writes(found[0].key, found[0].head.version.texts),
        }

    def publish(self) -> dict[str, Any] | None:
        run = self.run("OPEN")
        if run is None and self.chance(0.05):
            run = self.run("PUBLISHED", "PARKED")
        if run is None or (run.into not in self.lake.branches and self.chance(0.9)):
            return None
        return {"who": self.who(run), "refuse": self.chance(0.08)}

    def close(self) -> dict[str, Any] | None:
        run = self.run("OPEN", "PARKED", "PUBLISHED")
        return {"who": self.who(run)} if run else None

    park = renew = close

    def abandon(self) -> dict[str, Any] | None:
        run = self.run("OPEN", "PARKED") or (self.run("PUBLISHED") if self.chance(0.3) else None)
        return {"key": run.key} if run else None

    def rollback(self) -> dict[str, Any] | None:
        published = [run for run in self.lake.runs.values() if run.publishes]
        if not published:
            return None
        run = self.draw.choice(published)
        last = run.publishes[-1]
        there = self.lake.branches.get(last.into)
        stands = there is not None and last.commit in there.head.ancestors
        if not (stands and last.changed) and self.chance(0.9):
            return None
        into = {"into": last.into} if self.chance(0.3) else {}
        return {"key": run.key, **into}

    def rollback_commit(self) -> dict[str, Any] | None:
        label = self.commit_of(self.branch(), lambda commit: bool(commit.publishes))
        return None if label is None else {"commit": label}

    def reap(self) -> dict[str, Any]:
        return {}

    # branches

    def _branch_writes(self) -> tuple[str, dict[str, str | None]]:
        name = self.branch()
        return name, self.writes(self.draw.choice(KEYS), self.lake.branches[name].files(), 2)

    def stage(self) -> dict[str, Any]:
        name, writes = self._branch_writes()
        return {"branch": name, "writes": writes}

    write = stage

    def commit(self) -> dict[str, Any] | None:
        branches = self.lake.branches
        staged = [name for name in self.users(branches) if branches[name].staged]
        return {"branch": self.draw.choice(staged)} if staged else None

    def copy(self) -> dict[str, Any] | None:
        name = self.branch()
        files = sorted(self.lake.branches[name].head.version.texts)
        if not files:
            return None
        return {
            "branch": self.branch(),
            "source": name,
            "old": self.draw.choice(files),
            "new": self.path(self.draw.choice(KEYS)),
        }

    def rename(self) -> dict[str, Any] | None:
        name = self.branch()
        files = sorted(self.lake.branches[name].files())
        new = self.path(self.draw.choice(KEYS))
        if not files or (old := self.draw.choice(files)) == new:
            return None
        return {"branch": name, "old": old, "new": new}

    def fork(self) -> dict[str, Any] | None:
        free = [name for name in ("pr", "dev") if name not in self.lake.branches]
        return {"branch": self.draw.choice(free), "source": self.branch()} if free else None

    def delete(self) -> dict[str, Any] | None:
        names = [name for name in self.users(self.lake.branches) if name != "main"]
        return {"branch": self.draw.choice(names)} if names else None

    def undo(self) -> dict[str, Any] | None:
        moves = self.lake.moves
        names = [name for name in self.users(moves) if len(moves[name]) > 1 and moves[name][-2]]
        return (
            {"branch": "main" if self.chance(0.5) else self.draw.choice(names)}
            if "main" in names
            else None
        )

    def reset(self) -> dict[str, Any] | None:
        name = self.branch()
        label = self.commit_of(name, lambda commit: not commit.hidden)
        if label is None or self.lake.made[label] is self.lake.branches[name].head:
            return None
        return {"branch": name, "to": label}

    def drop(self) -> dict[str, Any] | None:
        there = self.commit()
        return there and {**there, "folder": self.draw.choice(("out/", "out/2013/"))}

    def pack(self) -> dict[str, Any]:
        return {"branch": self.branch()}

    def merge(self) -> dict[str, Any] | None:
        source, into = self.branch(), self.branch()
        return None if source == into else {"source": source, "into": into}

    def revert(self) -> dict[str, Any] | None:
        name = self.branch()
        label = self.commit_of(name, lambda commit: not commit.hidden)
        return None if label is None else {"commit": label, "on": name}

    def pick(self) -> dict[str, Any] | None:
        source, onto = self.branch(), self.branch()
        onto_head = self.lake.branches[onto].head
        label = self.commit_of(
            source, lambda commit: not commit.hidden and commit not in onto_head.ancestors
        )
        return None if label is None else {"commit": label, "onto": onto}

    # ingestion

    def put(self) -> dict[str, Any]:
        there = self.lake.branches.get(INGEST)
        writes = self.writes(self.draw.choice(KEYS), there.files() if there else {})
        main = self.lake.target.version.texts
        writes = {
            path: main.get(path) if self.chance(0.2) and path in main else text
            for path, text in writes.items()
        }
        if self.chance(0.15):
            writes[self.draw.choice(list(writes))] = BAD
        return {"writes": writes}

    def tick(self) -> dict[str, Any] | None:
        if INGEST not in self.lake.branches and self.chance(0.9):
            return None
        known = self.lake.states()
        done = [hour for hour in HOURS if hour in known]
        left = [hour for hour in HOURS if hour not in known]
        again = done and (self.chance(0.15) or not left)
        late = self.chance(0.1)
        hour = self.draw.choice(done if again else left if late else left[:1])
        return {"hour": hour, **self.policies}

    def _quarantines(self) -> list[str]:
        return [name for name in self.lake.quarantines if name in self.lake.branches]

    def mend(self) -> dict[str, Any] | None:
        name = self.draw.choice(self._quarantines() or [""])
        files = self.lake.branches[name].files() if name else {}
        paths = [path for path in sorted(files) if files[path] == BAD] or sorted(files)
        if not paths:
            return None
        text = self.draw.choice((*TEXTS, None))
        return {"branch": name, "writes": {self.draw.choice(paths): text}}

    def release(self) -> dict[str, Any] | None:
        names = self._quarantines()
        if not names or self.chance(0.02):
            names = list(self.lake.quarantines)
        if not names:
            return None
        name = self.draw.choice(names)
        strategies = (
            ("",) if self.lake.quarantines[name].commits else ("source-wins", "dest-wins", "")
        )
        return {"name": name, "strategy": self.draw.choice(strategies), **self.policies}

    def give_up(self) -> dict[str, Any] | None:
        names = self._quarantines()
        return {"branch": self.draw.choice(names)} if names else None

    # the lake

    def time(self) -> dict[str, Any]:
        return {"hours": self.draw.choice((1, 24, 24 * 15))}

    def gc(self) -> dict[str, Any]:
        return {}

    new_lake = gc

    def keep(self) -> dict[str, Any] | None:
        return {"hours": self.draw.choice((24, 24 * 7))} if self.retention else None

    def restore(self) -> dict[str, Any] | None:
        return {} if self.chance(0.3) else None


KINDS = {
    "open": 8.0,
    "step": 10.0,
    "failing_step": 0.7,
    "begin": 2.0,
    "join": 4.0,
    "undo_step": 1.0,
    "direct": 2.0,
    "publish": 9.0,
    "close": 0.4,
    "park": 0.5,
    "renew": 0.3,
    "abandon": 0.4,
    "rollback": 4.0,
    "rollback_commit": 1.2,
    "reap": 0.3,
    "stage": 0.8,
    "write": 2.5,
    "commit": 1.0,
    "copy": 0.5,
    "rename": 0.5,
    "fork": 1.0,
    "delete": 0.5,
    "undo": 1.5,
    "reset": 0.8,
    "drop": 0.8,
    "pack": 0.5,
    "merge": 2.5,
    "revert": 2.5,
    "pick": 1.5,
    "put": 5.0,
    "tick": 4.5,
    "mend": 1.0,
    "release": 2.5,
    "give_up": 0.2,
    "time": 0.6,
    "gc": 0.5,
    "new_lake": 0.5,
    "keep": 0.5,
    "restore": 0.3,
}

INGESTING = ("put", "tick", "mend", "release", "give_up")

RACING = (  # a tick or a release makes several moves, and others may come between them
    "publish",
    "rollback",
    "commit",
    "merge",
    "revert",
    "open",
    "abandon",
    "undo_step",
)
KILLED = (*RACING, "step", "close", "tick", "release")
CHOSEN = ("pick", "join", "revert", "publish", "release")
"""Kinds whose arguments are drawn again, mostly, if the model expects an error."""


def drawn(seed: int, length: int = LENGTH) -> list[Operation]:
    """Return the history of a seed."""
    lake = Ingesting()
    drawer = Drawer(seed, lake)
    for label in range(10, 10 * length + 1, 10):
        operation = drawer.next(label)
        for part in operation.parts():
            lake.apply(part.label, part.name, part.arguments)
        drawer.operations.append(operation)
    return drawer.operations
