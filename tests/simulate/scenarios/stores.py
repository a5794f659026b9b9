"""Stores that are replaced, restored or shared with other programs, and clocks that are wrong."""

from collections.abc import Iterator
from datetime import timedelta

from graveler.base.names import run_branch
from graveler.lake.repository import Repository
from tests.simulate.checkers import EVERYWHERE
from tests.simulate.checkers.progress import only_expected_errors
from tests.simulate.evidence import Evidence
from tests.simulate.history import precedes
from tests.simulate.scenarios.actions import GONE, commit, in_turn, put
from tests.simulate.scenarios.collection import _again, _condemned, mark_all, sweep
from tests.simulate.scenarios.scenario import Program, Scenario
from tests.simulate.scenarios.shared import EARLIER, Call
from tests.simulate.schedules.client import Client
from tests.simulate.schedules.ports import SimulatedFileKV

_DAY_S = 86_400
_FOREIGN = ("data/2024/part-0.csv", "data/part-0.csv", "_graveler/notes.txt", "other.bin")
_NAMED: dict[str, str] = {}
"""Commits of the preparations, by their role."""


# a key-value store that is replaced while a process has it open


def _copied(c: Client) -> None:
    c.put("k", "old")
    c.commit()
    c.process.flush()
    EARLIER.update(c.process.shared.kv())


def _replace(c: Client) -> None:
    c.other("replace", lambda *_: c.process.call(Call("replace")))


def _land(c: Client) -> None:
    """Commit; the commit may be in the removed store only."""
    c.other("land", lambda repo, message: repo.branch("main").commit(message).id)


def _branch(c: Client) -> None:
    c.create_branch("dev")


def _nothing_is_acknowledged(evidence: Evidence) -> Iterator[str]:
    """No write that begins after the replacement is acknowledged by who had the store open."""
    for replaced in evidence.of_kind("replace"):
        for one in evidence.of_kind("put", "land", "create"):
            if one.ok and precedes(replaced, one):
                yield f"acknowledged into a store that was removed: {one}"


# a key-value store that is restored to a state from before a sweep


def _upload_and_commit(c: Client) -> None:
    c.upload("w", "1")
    c.commit()


def _restored(c: Client) -> None:
    c.upload("k", "old")
    _NAMED["swept"] = c.commit()
    c.upload("k", "new")
    c.commit()
    c.process.flush()
    shared = c.process.shared
    earlier = shared.kv()
    c.repository.gc.keep(count=1)
    mark_all(c)
    sweep(c)
    for name, rows in shared.kv().items():
        for key in rows:
            shared.write(name, key, None)
    for name, rows in earlier.items():
        for key, value in rows.items():
            shared.write(name, key, value)


def _accept(c: Client) -> None:
    c.other("accept", lambda repo, _: repo.expire_missing(missing=1))


def _collect_and_look(c: Client) -> None:
    accepts = [op for op in c.process.history.operations if op.kind == "accept"]
    if not any(op.done for op in accepts):  # the process died: the user repeats its command
        _accept(c)
    mark_all(c)
    c.list_ref(_NAMED["swept"])


# clocks


def _by_clock(days: int, program: Program) -> Program:
    def run(c: Client) -> None:
        c.process.clock.sleep(days * _DAY_S)
        program(c)

    return run


def _keeping_a_week(c: Client) -> None:
    c.repository.gc.keep(days=7)
    c.upload("k", "old")
    c.commit()


def _commit_twice(c: Client) -> None:
    for value in "12":
        c.upload("k", value)
        c.commit()


def _collect(c: Client) -> None:
    def collect(repo: Repository, _: str) -> None:
        repo.gc.sweep(repo.gc.mark(window=timedelta(0)).id)

    c.other("sweep", collect)


def _look_at_commits(c: Client) -> None:
    """Read the commits of the schedule, which are younger than the rule."""
    for operation in list(c.process.history.operations):
        if operation.kind == "commit" and operation.process == "writer" and operation.ok:
            c.list_ref(operation.result)


# copies out of the branch of a run


def _unpublished(c: Client) -> None:
    c.put("k", "old")
    c.commit()
    run = c.repository.runs.open("hour")
    run.put("a/1", b"", metadata={"value": "unjudged"})
    made = run.commit_staged()
    assert made is not None
    _NAMED["run"] = made.id


def _copy_from_run(c: Client) -> None:
    for source in (run_branch("hour"), _NAMED["run"]):
        c.copy(source, "a/", "b/", writes={})
        c.commit()


def _main_has_no_work_of_runs(evidence: Evidence) -> Iterator[str]:
    """The work of a run reaches another branch only by publishing."""
    for identifier in evidence.ancestors("main"):
        tree = evidence.commits[identifier].tree
        if "unjudged" in tree.values():
            yield f"commit {identifier} of main has {tree}"


# files of other programs


def _shared_storage(c: Client) -> None:
    for key in _FOREIGN:
        c.repository.stores.objects.put(key, b"")
    _condemned(c)


def _put_foreign(c: Client) -> None:
    objects = c.repository.stores.objects
    c.other("foreign", lambda *_: objects.put("data/2024/part-1.csv", b"").key)


def _collect_and_look_for_foreign(c: Client) -> None:
    mark_all(c)
    sweep(c)
    head = c.repository.stores.objects.head
    c.other("look", lambda *_: [head(key).size for key in _FOREIGN])


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "replaced-store",
        {"writer": in_turn(put("w", "1"), _land, _branch), "admin": _replace},
        _copied,
        checkers=(_nothing_is_acknowledged, only_expected_errors),
        kv=SimulatedFileKV,
        errors=frozenset({"KVOutdatedError", "NoChangesError"}),
    ),
    Scenario(
        "restored-before-sweep",
        {"accepter": _accept, "writer": _upload_and_commit},
        _restored,
        finish=_collect_and_look,
        all_steps=True,
        checkers=EVERYWHERE,
        errors=frozenset({"ExpiredError"}),
    ),
    *(
        Scenario(
            name,
            {
                "collector": _by_clock(collector, _collect),
                "writer": _by_clock(writer, _commit_twice),
            },
            _keeping_a_week,
            finish=_look_at_commits,
            all_steps=True,
        )
        for name, collector, writer in (("clock-ahead", 60, 0), ("clock-behind", 0, -60))
    ),
    Scenario(
        "copy-from-run",
        {"copier": _copy_from_run, "writer": in_turn(put("b/2", "new"), commit)},
        _unpublished,
        checkers=(_main_has_no_work_of_runs, *EVERYWHERE),
        errors=GONE | {"RunStateError", "FencedError"},
    ),
    Scenario(
        "foreign-files",
        {"collector": sweep, "stranger": _put_foreign, "writer": _again},
        _shared_storage,
        finish=_collect_and_look_for_foreign,
        all_steps=True,
        errors=frozenset({"ThrottledError"}),
    ),
)
