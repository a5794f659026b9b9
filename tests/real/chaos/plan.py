"""The plan of events for each hour: drawn from a seed, or one of each kind."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tests.real.chaos.faults import Fault
from tests.real.chaos.hours import SPLIT_FIRST, hours

FIRST = datetime(2013, 1, 1, 1, tzinfo=UTC)
STEPS = ("ingest", "left", "right", "curate")
STARTS = {
    "hours": FIRST,
    "timed": datetime(2014, 1, 1, tzinfo=UTC),
    "parent": datetime(2015, 1, 1, tzinfo=UTC),
    "split": SPLIT_FIRST,
    "torn": datetime(2017, 1, 1, tzinfo=UTC),
    "chained": datetime(2018, 1, 1, tzinfo=UTC),
    "changing": datetime(2019, 1, 1, tzinfo=UTC),
}
"""The first hour of each DAG of Airflow, or pipeline of Dagster."""


def key_of(hour: datetime) -> str:
    """Return the name of an hour in plans and partitions."""
    return f"{hour:%Y-%m-%dT%H:%M}"


@dataclass(frozen=True)
class Act:
    """An action on a run from outside.

    Attributes:
        deed: ``fail task``, ``pass task``, ``fail run``, ``pass run``, ``delete run``,
            ``clear run``, ``clear task``,
            ``clear task alone``, ``cancel run``, ``run again``, ``kill scheduler``,
            ``kill worker``, ``kill host``, ``change code``, ``open elsewhere``, ``take over``, or
            one of `ON_LAKE`.
        after: The fault that a process of the run must reach first; "" means the end of the run.
        task: The task.
    """

    deed: str
    after: str = ""
    task: str = ""


@dataclass(frozen=True)
class Fate:
    """The planned events of one hour.

    Attributes:
        hour: The hour.
        kind: The name of the kind of event.
        faults: The faults in its processes.
        acts: The actions on its run, in this order.
        dag: The DAG or the pipeline of its run, one of `STARTS`.
        renewals: How often the run is restarted if it is over and has not published.
    """

    hour: datetime
    kind: str
    faults: tuple[Fault, ...] = ()
    acts: tuple[Act, ...] = ()
    dag: str = "hours"
    renewals: int = 0


Kind = Callable[[str, str], tuple[list[Fault], list[Act]]]
"""A function from the hour's key and the task to its faults and actions."""


def _strike(deed: str, **given: object) -> Kind:
    def kind(hour: str, task: str) -> tuple[list[Fault], list[Act]]:
        fault = Fault(name=f"{hour} {deed}", hour=hour, task=task, deed=deed)
        return [replace(fault, **given)], []  # type: ignore[arg-type] # fields of a fault

    return kind


def _do(deed: str, *, seconds: float = 8, zombie: bool = True) -> Kind:
    """Return a kind of event: an action on a run while a task is in the middle of its writing."""

    def kind(hour: str, task: str) -> tuple[list[Fault], list[Act]]:
        fault = Fault(f"{hour} {deed}", hour, task, "hold", seconds=seconds, zombie=zombie)
        return [fault], [Act(deed, after=fault.name, task=task)]

    return kind


def _then(deed: str) -> Kind:
    """Return a kind of event: an action on a run that is over."""

    def kind(hour: str, task: str) -> tuple[list[Fault], list[Act]]:
        return [], [Act(deed, task=task)]

    return kind


def _both(*kinds: Kind) -> Kind:
    """Return a kind of event that combines others."""

    def kind(hour: str, task: str) -> tuple[list[Fault], list[Act]]:
        met = [each(hour, task) for each in kinds]
        return [fault for faults, _ in met for fault in faults], [
            act for _, acts in met for act in acts
        ]

    return kind


_COMMON: dict[str, Kind] = {
    "nothing": lambda *_: ([], []),
    "exception": _strike("raise", times=2),
    "exception, a try is left": _strike("raise"),
    "SIGKILL of the task": _strike("kill", times=2, zombie=True),
    "SIGKILL of the task, a try is left": _strike("kill", zombie=True),
    "`os._exit(3)`": _strike("exit", times=2),
    "SIGKILL of the task and its parent": _strike("both", zombie=True),
    "SIGKILL of the parent, the task writes on": _strike("supervisor", seconds=8, zombie=True),
    "a gate refuses": _strike("damage", task="ingest"),
    "SIGKILL while a gate judges": _strike("kill", task="gate"),
    "rollback, then it runs again": _then("roll back"),
    "undo of main, then what was lost runs again": _then("undo main"),
    "garbage is collected while it writes": _do("collect garbage"),
}

AIRFLOW: dict[str, Kind] = {
    **_COMMON,
    "SIGKILL of the opening, before its record": _strike("kill", task="open_run", number=1),
    "SIGKILL of the opening, before its branch": _strike(
        "kill", task="open_run", number=1, on="branch/~run-"
    ),
    "SIGKILL of the publisher, before main moves": _strike(
        "kill", task="merge", number=1, on="branch/main"
    ),
    "SIGKILL of the publisher, after main moved": _strike(
        "kill", task="merge", number=1, on="branch/main", after=True
    ),
    "exception, then SIGKILL of the closing": _both(
        _strike("raise", times=2), _strike("kill", task="close_run", number=1)
    ),
    "SIGKILL after a step joined": _strike(
        "kill", number=4, on="branch/~run-", after=True, times=2
    ),
    "execution_timeout": _strike("hang", seconds=90, times=2, zombie=True),
    "SIGTERM": _strike("term", times=2),
    "dagrun_timeout": _strike("hang", seconds=400, zombie=True),
    "mark task failed": _do("fail task"),
    "mark task success while it writes": _do("pass task"),
    "mark run failed": _do("fail run"),
    "mark run success while it writes": _do("pass run"),
    "delete a running run": _do("delete run"),
    "clear a running run": _do("clear run"),
    "clear one task of a finished run, and what follows it": _then("clear task"),
    "clear one task of a finished run alone": _then("clear task alone"),
    "clear a finished run": _then("clear run"),
    "SIGKILL of the scheduler": _do("kill scheduler", seconds=20),
    "SIGKILL of a worker and its tasks": _do("kill worker", seconds=20),
    "host death": _do("kill host", seconds=20),
    "another deployment opens the same run": _do("open elsewhere", seconds=15),
    "another deployment takes the run over": _do("take over", seconds=15),
    "child DAGs work in the run": lambda *_: ([], []),
    "exception in a child DAG": _strike("raise", task="left", times=2),
    "SIGKILL in a child DAG, a try is left": _strike("kill", task="right", zombie=True),
    "a teardown works in the run": lambda *_: ([], []),
    "exception, then a teardown works in the run": _strike("raise", task="left", times=2),
    "SIGKILL of a teardown, a try is left": _strike("kill", task="sweep", zombie=True),
    "exception, the next hour depends on it": _strike("raise", times=2),
    "it depends on the hour before": lambda *_: ([], []),
    "the code changes between its steps": _do("change code"),
    "exception, then the code changes": _both(_strike("raise", times=2), _then("change code")),
}
"""Every kind of event for a run of Airflow."""

_DAGS = {
    "dagrun_timeout": "timed",
    "child DAGs work in the run": "parent",
    "exception in a child DAG": "parent",
    "SIGKILL in a child DAG, a try is left": "parent",
    "a teardown works in the run": "torn",
    "exception, then a teardown works in the run": "torn",
    "SIGKILL of a teardown, a try is left": "torn",
    "exception, the next hour depends on it": "chained",
    "it depends on the hour before": "chained",
    "the code changes between its steps": "changing",
    "exception, then the code changes": "changing",
    "a backfill that Dagster splits, then an eager asset": "split",
    "exception in a backfill that Dagster splits": "split",
    "SIGKILL of an eager asset, a try is left": "split",
}
"""The DAG of a kind, if it is another one than ``hours``."""

DAGSTER: dict[str, Kind] = {
    **_COMMON,
    "SIGKILL of the publisher, before main moves": _strike(
        "kill", task="hours_publish", number=1, on="branch/main"
    ),
    "SIGKILL of the publisher, after main moved": _strike(
        "kill", task="hours_publish", number=1, on="branch/main", after=True
    ),
    "SIGKILL after a step joined": _strike(
        "kill", number=4, on="branch/~run-", after=True, times=2
    ),
    "terminate": _do("cancel run"),
    "run again while it runs": _do("run again"),
    "run again when it is over": _then("run again"),
    "SIGKILL of the daemon": _do("kill scheduler", seconds=15),
    "host death": _do("kill host", seconds=20),
    "a backfill that Dagster splits, then an eager asset": lambda *_: ([], []),
    "exception in a backfill that Dagster splits": _strike("raise", times=2),
    "SIGKILL of an eager asset, a try is left": _strike("kill", task="digest", zombie=True),
    "the code changes while it runs": _do("change code", seconds=15),
    "exception, then changed code continues": _both(
        _strike("raise", times=2), _then("change code")
    ),
}
"""Every kind of event for a run of Dagster."""

UNDOABLE = ("write", "commit", "delete")
"""The protection of main, which only merges, rollbacks and undos move."""

ON_LAKE = ("roll back", "undo main", "collect garbage")
"""Actions on the lake. After the first two, the hours that main has lost run again."""

_ALWAYS = 3
"""The number of renewals of an hour on which another one may depend."""

DISASTERS = {"kill scheduler": 40, "kill worker": 40, "kill host": 100}
"""Events that affect several runs, with the number of hours for each such event."""


DISASTER_KINDS = {
    "SIGKILL of the scheduler": "kill scheduler",
    "SIGKILL of the daemon": "kill scheduler",
    "SIGKILL of a worker and its tasks": "kill worker",
    "host death": "kill host",
}
"""The kinds of a plan from a seed that are not the fate of one hour."""


@dataclass(frozen=True)
class Disaster:
    """An event that affects all runs, after `over` finished runs."""

    deed: str
    over: int


@dataclass(frozen=True)
class Plan:
    """All planned events."""

    fates: tuple[Fate, ...]
    disasters: tuple[Disaster, ...] = ()

    @property
    def faults(self) -> list[Fault]:
        """Return the faults in processes."""
        return [fault for fate in self.fates for fault in fate.faults]


def _fates(kinds: dict[str, Kind], drawn: list[tuple[str, str, int]]) -> tuple[Fate, ...]:
    """Return the fates of hours, which are successive in each DAG."""
    fates = []
    for dag, first in STARTS.items():
        mine = [each for each in drawn if _DAGS.get(each[0], "hours") == dag]
        for hour, (kind, task, renewals) in zip(hours(first, len(mine)), mine, strict=True):
            faults, acts = kinds[kind](key_of(hour), task)
            left = _ALWAYS if dag in ("chained", "split") else renewals
            fates.append(Fate(hour, kind, tuple(faults), tuple(acts), dag, left))
    return tuple(fates)


def each_kind(kinds: dict[str, Kind], names: list[str] | None = None) -> Plan:
    """Return a plan with one hour of each kind. Unpublished hours get another attempt."""
    return Plan(_fates(kinds, [(kind, "left", 1) for kind in names or kinds]))


def some(kinds: dict[str, Kind], count: int, seed: str) -> Plan:
    """Draw a plan: two thirds of the hours have an event, and half of all may get another attempt.

    Events for all runs are separate. The seed decides after how many finished hours they occur.
    """
    draw = random.Random(seed)
    deeds = {name: {act.deed for act in kind("", "")[1]} for name, kind in kinds.items()}
    alone = [name for name in kinds if not deeds[name] & set(DISASTERS) and name != "nothing"]
    bag: list[str] = []
    drawn = []
    for _ in range(count):
        bag = bag or draw.sample(alone, len(alone))
        kind = bag.pop() if draw.random() < 2 / 3 else "nothing"
        drawn.append((kind, draw.choice(STEPS), draw.randrange(2)))
    disasters = [
        Disaster(deed, draw.randrange(count * 3 // 4))
        for deed, once_in in DISASTERS.items()
        if any(deed in done for done in deeds.values())
        for _ in range(max(1, count // once_in))
    ]
    return Plan(_fates(kinds, drawn), tuple(sorted(disasters, key=lambda each: each.over)))
