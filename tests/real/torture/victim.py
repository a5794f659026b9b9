"""A victim, until it is killed: it draws an operation, announces it, runs it, and reports it.

It keeps no record. The readers of its lines compute the expected content.
"""

import json
import os
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from itertools import count
from random import Random
from threading import Lock, Thread
from typing import Any

from graveler.errors import (
    AlreadyExistsError,
    GravelerError,
    MergeConflictError,
    NoChangesError,
    ObjectNotFoundError,
    RefNotFoundError,
    StateError,
)
from graveler.gc.marks import MarkState
from tests.harness.faults import FaultyObjectStore
from tests.real.torture.kill_points import (
    ForgetfulKVStore,
    KillingKVStore,
    KillPoints,
    LazyKVStore,
    guard_system_calls,
)
from tests.real.torture.lakes import Options, Place, open_lake, open_repository
from tests.real.torture.operations import OWNERS, Operation, draw, execute

ANSWERS = (
    AlreadyExistsError,
    MergeConflictError,
    NoChangesError,
    ObjectNotFoundError,
    RefNotFoundError,
)
"""Errors that refuse an operation: it is over, and its outcome is certain."""


@dataclass(frozen=True)
class Plan:
    """The plan of one victim.

    Attributes:
        place: The location of its lake.
        repository: The name of its repository.
        seed: Decides what it does.
        task: One of TASKS.
        names: Existing branches and tags, or the commits to read.
        threads: 1, or one for each owner.
        hot: Whether all threads work on main.
        options: The options with which it opens the lake.
        most: The number of operations of each thread after which it ends.
        odds: It kills itself at one store call in this number; 0 for never.
        system: The same for its system calls.
        warm: The number of operations before the first kill.
        forgets: The writes that its store acknowledges but sometimes does not make, or ``flushes``
            if it makes them late; "" for a correct store.
    """

    place: Place
    repository: str
    seed: str
    task: str = "change"
    names: tuple[str, ...] = ()
    threads: int = 1
    hot: bool = False
    options: Options = field(default_factory=Options)
    most: int = 300
    odds: int = 0
    system: bool = False
    warm: int = 0
    forgets: str = ""

    def line(self) -> dict[str, Any]:
        """Return the plan as a line for the fork server."""
        return asdict(self)

    @classmethod
    def read(cls, line: dict[str, Any]) -> "Plan":
        """Return the plan of a line."""
        given = {**line, "place": Place(**line["place"]), "options": Options(**line["options"])}
        return cls(**given)


def say(line: dict[str, Any]) -> None:
    """Print a line in one write, so that it is whole or absent."""
    os.write(1, json.dumps(line).encode() + b"\n")


def work(plan: Plan, ready: Callable[[], object]) -> None:
    """Carry out the plan."""
    points = KillPoints(Random(f"{plan.seed} dies"), plan.odds, pauses=plan.threads > 1)
    killing = (plan.odds or plan.threads > 1) and not plan.system

    def wrap_kv(store):
        if plan.forgets == "flushes":
            return LazyKVStore(store, most=20)
        if plan.forgets:
            random = Random(f"{plan.seed} forgets")
            return ForgetfulKVStore(store, call=plan.forgets, odds=6, random=random)
        return KillingKVStore(store, points) if killing else store

    def wrap_objects(store):
        return FaultyObjectStore(store, points) if killing else store

    if plan.odds and plan.system:
        guard_system_calls(points)
    try:
        with open_lake(
            plan.place, plan.options, wrap_kv=wrap_kv, wrap_objects=wrap_objects
        ) as lake:
            repo = open_repository(lake, plan.repository, plan.options)
            ready()
            TASKS[plan.task](plan, repo, points)
    except GravelerError as error:
        say({"failed": 0, "error": f"{type(error).__name__}: {error}"[:1000]})
    except Exception:  # noqa: BLE001 - every error must be reported
        say({"crash": traceback.format_exc()[-3000:]})


def change(plan: Plan, repo, points: KillPoints) -> None:
    """Draw operations, in one thread or in one thread for each owner."""
    life = _Life(plan, repo, points)
    if plan.threads == 1:
        life.live(0, range(OWNERS))
        return
    threads = [Thread(target=life.live, args=(owner, [owner])) for owner in range(OWNERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def read(plan: Plan, repo, points: KillPoints) -> None:
    """Read random commits of the plan; print the content of each."""
    random = Random(plan.seed)
    points.live = True
    for _ in range(plan.most):
        commit = random.choice(plan.names)
        tree = {entry.path: entry.checksum[-8:] for entry in repo.ref(commit).entries()}
        say({"read": commit, "tree": tree})


def collect(plan: Plan, repo, points: KillPoints) -> None:
    """Mark, and sweep the marked objects, repeatedly."""
    points.live = True
    collector = repo.gc
    collector._lease_seconds = 0.05  # short, so that the next victim does not wait for long
    for _ in range(plan.most):
        try:
            marks = collector.run(grace=timedelta(0), window=timedelta(0))
        except StateError:  # a killed process still has the turn for a moment
            continue
        say({"swept": sum(mark.state is MarkState.SWEPT for mark in marks)})


TASKS: dict[str, Callable[[Plan, Any, KillPoints], None]] = {
    "change": change,
    "read": read,
    "collect": collect,
}


class _Life:
    def __init__(self, plan: Plan, repo, points: KillPoints) -> None:
        self._plan, self._repo, self._points = plan, repo, points
        self._numbers = count(1)
        self._lock = Lock()

    def live(self, thread: int, owners) -> None:
        random = Random(f"{self._plan.seed} {thread}")
        names = set(self._plan.names)
        try:
            for done in range(self._plan.most):
                if done == self._plan.warm and self._plan.odds:
                    self._points.live = True
                with self._lock:
                    number = next(self._numbers)
                owner = random.choice(owners)
                operation = draw(
                    random, number, owner, names, alone=len(owners) > 1, hot=self._plan.hot
                )
                if not self._tried(operation):
                    return
        except Exception:  # noqa: BLE001 - every error must be reported
            say({"crash": traceback.format_exc()[-3000:]})

    def _tried(self, operation: Operation) -> bool:
        say({"will": operation.line()})
        try:
            answer = execute(self._repo, operation)
        except ANSWERS as error:
            say({"did": operation.number, "no": type(error).__name__})
        except GravelerError as error:
            say({"failed": operation.number, "error": f"{type(error).__name__}: {error}"[:1000]})
            return False
        else:
            say({"did": operation.number, "ok": answer})
        return True
