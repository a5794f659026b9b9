"""The small scenarios that are explored to the end."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, NoReturn
from unittest.mock import patch

from graveler.gates import Candidate, Gate, gate
from graveler.gc import MarkState
from graveler.gc.files import FileRecords, FileState
from graveler.gc.sweep import Sweep
from graveler.ingest import HourState, Tick
from graveler.lake.repository import Repository
from graveler.model import Entry
from graveler.testing.faults import ProcessDied
from tests.simulate.checkers import CHECKERS, EVERYWHERE, listings_show_one_version
from tests.simulate.evidence import Evidence
from tests.simulate.scenarios.scenario import Program, Scenario
from tests.simulate.schedules.client import Client
from tests.simulate.schedules.run import CRASH, LATE, REPLY_LOST, WRITE_LOST

FAULTS = (CRASH, REPLY_LOST, WRITE_LOST)
"""A process dies at any step; the reply to a conditional write is lost, or the write is."""

_SWEEPABLE = (MarkState.CONDEMNED, MarkState.SWEEPING)
_GONE = frozenset({"RefNotFoundError"})
_REFUSED = frozenset({"ExpiredError", "ObjectNotFoundError", "NoChangesError"})


def _start(c: Client) -> None:
    """Give main a committed path, and one staged."""
    c.put("k", "old")
    c.commit()
    c.put("j", "staged")


def _sealed(c: Client) -> None:
    """Let a committer die after it sealed, and write one of its paths again."""
    _start(c)
    c.put("k", "sealed")
    c.seal()
    c.put("k", "newer")


def _two_sealed(c: Client) -> None:
    _sealed(c)
    c.seal()
    c.delete("j")


def _branches(c: Client) -> None:
    """Give two branches a commit each that main has not."""
    c.put("k", "old")
    c.commit()
    for name in ("one", "two"):
        c.create_branch(name, contents={"k": "old"})
        c.put(name, name, name)
        c.commit(name)


def _branches_sealed(c: Client) -> None:
    _branches(c)
    c.put("j", "sealed")
    c.seal()


def _dev(c: Client) -> None:
    c.put("k", "old")
    c.commit()
    c.create_branch("dev", contents={"k": "old"})
    c.put("d", "staged", "dev")


def _put(path: str, value: str, branch: str = "main") -> Program:
    return lambda c: c.put(path, value, branch)


def _commit(c: Client) -> None:
    c.commit()


def _in_turn(*programs: Program) -> Program:
    def program(c: Client) -> None:
        for each in programs:
            each(c)

    return program


def _generations(c: Client) -> None:
    """Give main two paths of one version, and two branches a later version of both each."""
    for path in "ab":
        c.put(path, "0")
    c.commit()
    c.put("s", "staged")
    for name, source in (("1", "main"), ("2", "1")):
        c.create_branch(name, source, contents=_both(chr(ord(name) - 1)))
        for path in "ab":
            c.put(path, name, name)
        c.commit(name)


def _both(version: str) -> dict[str, str]:
    return dict.fromkeys("ab", version)


def _publish(c: Client) -> None:
    for name in "12":
        c.merge(name, writes=_both(name))


def _delete(path: str) -> Program:
    return lambda c: c.delete(path)


def _read(c: Client) -> None:
    c.read("k")


def _list(c: Client) -> None:
    c.list()


def _reset(c: Client) -> None:
    c.reset()


def _merge(source: str) -> Program:
    return lambda c: c.merge(source, writes={source: source})


def _fork(c: Client) -> None:
    """Give two branches a value each for one path."""
    c.put("k", "old")
    c.commit()
    for name in ("one", "two"):
        c.create_branch(name, contents={"k": "old"})
        c.put("k", name, name)
        _COMMITS[name] = c.commit(name)


def _cross(source: str, into: str) -> Program:
    """Merge what the source was in the beginning and keep our own; then merge what it is now."""

    def keep(repository: Repository, message: str) -> str:
        commit = _COMMITS[source]
        return repository.merge(commit, into, message=message, strategy="dest-wins").commit.id

    def program(c: Client) -> None:
        c.other("settle", keep, into)
        c.merge(source, into)

    return program


def _recreate(c: Client) -> None:
    c.delete_branch("dev")
    c.create_branch("dev", contents={"k": "old"})


_COMMITS: dict[str, str] = {}
"""Commits that were made in preparation, by what they are for."""


def _bad(c: Client) -> None:
    """Commit a change to revert, and a good one after it."""
    c.put("k", "old")
    _COMMITS["before"] = c.commit()
    c.put("r", "bad")
    _COMMITS["bad"] = c.commit()
    c.put("g", "good")
    c.commit()


def _revert(c: Client) -> None:
    c.revert(_COMMITS["bad"], writes={"r": None})


def _hard_reset(c: Client) -> None:
    c.hard_reset(_COMMITS["before"], contents={"k": "old"})


def _three(c: Client) -> None:
    """Make three commits, one upon the other."""
    for number in "123":
        c.put("k", number)
        c.commit()


def _reset_back(c: Client) -> None:
    c.other("hard_reset", lambda repo, _: repo.branch("main").reset("main~1"))


def _undo(c: Client) -> None:
    c.other("hard_reset", lambda repo, _: repo.undo().id)


def _went_back_once(evidence: Evidence) -> Iterator[str]:
    """Some order of one reset and one commit explains the end."""
    went = any(op.ok for op in evidence.of_kind("hard_reset"))
    commits = [op for op in evidence.of_kind("commit") if op.process == "writer"]
    tree = dict(evidence.commits[evidence.heads["main"]].tree)
    landed = any(op.ok for op in commits)
    fine = [{"k": "2", "n": "new"}, {"k": "3"}] if landed else [{"k": "2"}]
    if not went:
        fine.append({"k": "3", "n": "new"})
    if not went or not landed:
        fine += [{"k": "2", "n": "new"}, {"k": "3"}, {"k": "2"}]
    if tree not in fine:
        yield f"it ended as {tree}, and one of {fine} would be right"


def _pickable(c: Client) -> None:
    c.put("k", "old")
    c.commit()
    c.create_branch("dev", contents={"k": "old"})
    c.put("d", "x", "dev")
    _COMMITS["picked"] = c.commit("dev")
    c.put("j", "staged")


def _cherry_pick(c: Client) -> None:
    c.cherry_pick(_COMMITS["picked"], writes={"d": "x"})


def _uploads(c: Client) -> None:
    """Stage files that no commit has, some of them under a sealed token."""
    c.upload("k", "sealed")
    c.seal()
    c.upload("j", "staged")


def _forsaken(c: Client) -> None:
    """Leave tables in the storage, and a commit, that nothing names."""
    c.put("k", "old")
    c.commit()
    c.create_branch("dev", contents={"k": "old"})
    c.put("d", "x", "dev")
    _COMMITS["dev"] = c.commit("dev")
    c.delete_branch("dev")


def _condemned(c: Client) -> None:
    _forsaken(c)
    _mark_all(c)


def _mark_all(c: Client) -> None:
    c.other("mark", lambda repo, _: repo.gc.mark(grace=timedelta(0), window=timedelta(0)).id)


def _mark(c: Client) -> None:
    c.other("mark", lambda repo, _: repo.gc.mark().id)


def _sweep(c: Client) -> None:
    """Sweep what is condemned and ripe."""

    def sweep(repo: Repository, _: str) -> None:
        for mark in list(repo.gc.marks()):
            if mark.state in _SWEEPABLE:
                repo.gc.sweep(mark.id)

    c.other("sweep", sweep)


def _half_swept(c: Client) -> None:
    """Let a sweep die when it has deleted a table, before it says so."""
    _condemned(c)
    stores = c.repository.stores
    (mark,) = c.repository.gc.marks()
    write = FileRecords.write

    def die_when_deleted(files: FileRecords, *given: Any) -> bool:
        if given[1].state is FileState.DELETED:
            raise ProcessDied("while sweeping")
        return write(files, *given)

    with patch.object(FileRecords, "write", die_when_deleted), suppress(ProcessDied):
        c.repository.gc.sweep(mark.id)
    stores.kv.delete(f"gc:{stores.uid}", b"lease")  # it would be waited for, for a minute


def _again(c: Client) -> None:
    """Make a tree that is equal to a forsaken one."""
    c.put("d", "x")
    c.commit()


def _back(c: Client) -> None:
    """Name a forsaken commit."""
    c.create_branch("back", _COMMITS["dev"], contents={"k": "old", "d": "x"})


_LENT: list[Entry] = []
"""The contents of a condemned commit, as read before."""


def _lent(c: Client) -> None:
    """Condemn a commit with bytes in the storage that nothing else names."""
    c.put("k", "old")
    c.commit()
    c.create_branch("dev", contents={"k": "old"})
    c.upload("d", "x", "dev")
    c.commit("dev")
    _LENT[:] = [c.repository.ref("dev").stat("d")]
    c.delete_branch("dev")
    _mark_all(c)


def _half_collected(c: Client) -> None:
    """Let a sweep die when it has decided what it deletes."""
    _lent(c)
    stores = c.repository.stores
    (mark,) = c.repository.gc.marks()

    def die(*_: Any) -> NoReturn:
        raise ProcessDied("while sweeping")

    with patch.object(Sweep, "_delete_data", die), suppress(ProcessDied):
        c.repository.gc.sweep(mark.id)
    stores.kv.delete(f"gc:{stores.uid}", b"lease")  # it would be waited for, for a minute


def _borrow(c: Client) -> None:
    c.borrow(_LENT[0])


def _patch(c: Client) -> None:
    """Commit an entry that borrows, without staging it."""

    def make(repo: Repository, message: str) -> str:
        made = repo.branch("main").commit_changes(_LENT, message=message, committer="simulated")
        return made.id

    c.other("revert", make, writes={"d": "x"})


def _create(c: Client) -> None:
    c.create_branch("dev", contents={"k": "old"})


_HOUR = "2013-01-01T05:00Z"


@gate
def _passes(candidate: Candidate) -> None:
    del candidate


@gate
def _refuses(candidate: Candidate) -> bool:
    del candidate
    return False


def _ingested(c: Client) -> None:
    """Commit an hour on an ingestion branch; nothing of it is published."""
    c.put("k", "old")
    c.commit()
    c.create_branch("ingest", contents={"k": "old"})
    c.put("i", "hour", "ingest")
    c.commit("ingest")


def _tick(judged_by: Gate) -> Program:
    def work(repo: Repository, _message: str) -> str:
        return repo.ingestion(gates=[judged_by], on_refusal="quarantine").tick(_HOUR).state

    return lambda c: c.other("tick", work, "ingest")


@gate
def _no_bad_path(candidate: Candidate) -> bool:
    return not candidate.exists("bad")


def _held(c: Client) -> None:
    """Hold an hour with a bad path, and stage the repair."""
    c.put("k", "old")
    c.commit()
    c.create_branch("ingest", contents={"k": "old"})
    c.put("i", "hour", "ingest")
    c.put("bad", "hour", "ingest")
    _tick_held(c)
    c.delete("bad", "ingest")


def _tick_held(c: Client) -> None:
    def work(repo: Repository, _message: str) -> tuple[object, ...]:
        return _answer(repo.ingestion(gates=[_no_bad_path]).tick(_HOUR))

    c.other("tick", work, "ingest")


def _answer(tick: Tick) -> tuple[object, ...]:
    return tick.state, tick.commit and tick.commit.id, tick.published and tick.published.id


def _one_answer(evidence: Evidence) -> Iterator[str]:
    """All ticks of a repaired hour return the same: it is published. The first tick held it."""
    answers = {tick.result for tick in evidence.of_kind("tick")[1:] if tick.ok}
    if len(answers) > 1:
        yield f"the ticks of one hour return {answers}"
    if any(state is not HourState.PUBLISHED for state, *_ in answers):
        yield f"a tick of a repaired hour returns {answers}"


def _published_or_set_aside(evidence: Evidence) -> Iterator[str]:
    """A change is on the target or in one quarantine, never in both, and never in neither."""
    found = sorted(
        name
        for name, head in evidence.heads.items()
        if (name == "main" or name.startswith("quarantine"))
        and dict(evidence.commits[head].tree).get("i") == "hour"
    )
    if len(found) != 1:
        yield f"the hour is on {found}: one of main and a quarantine would be right"


SMALL: tuple[Scenario, ...] = (
    Scenario("write-commit", {"writer": _put("k", "new"), "committer": _commit}, _start),
    Scenario(
        "overwrite-commit",
        {"writer": _in_turn(_put("k", "a"), _put("k", "b")), "committer": _commit},
        _start,
    ),
    Scenario(
        "writes-commit",
        {"one": _put("k", "a"), "two": _put("k", "b"), "committer": _commit},
        _start,
    ),
    Scenario(
        "three-writers",
        {"one": _put("k", "a"), "two": _delete("k"), "three": _put("j", "c")},
        _start,
    ),
    Scenario(
        "write-two-commits",
        {"writer": _put("k", "new"), "first": _commit, "second": _commit},
        _start,
    ),
    Scenario(
        "each-writes-and-commits",
        {
            "one": _in_turn(_put("k", "a"), _commit),
            "two": _in_turn(_put("k", "b"), _commit),
        },
        _start,
    ),
    Scenario(
        "write-commit-read",
        {"writer": _put("k", "new"), "committer": _commit, "reader": _read},
        _start,
    ),
    Scenario(
        "write-commit-list",
        {"writer": _put("k", "new"), "committer": _commit, "lister": _list},
        _start,
    ),
    Scenario(
        "delete-commit-read",
        {
            "writer": _in_turn(_put("j", "new"), _delete("j")),
            "committer": _commit,
            "reader": lambda c: c.read("j"),
        },
        _start,
    ),
    Scenario(
        "delete-committed",
        {"writer": _delete("k"), "committer": _commit, "reader": _read},
        _start,
    ),
    Scenario(
        "sealed-left",
        {"writer": _put("j", "new"), "committer": _commit, "reader": _read},
        _sealed,
    ),
    Scenario(
        "two-sealed-left",
        {"first": _commit, "second": _commit, "lister": _list},
        _two_sealed,
    ),
    Scenario(
        "sealed-left-write",
        {"writer": _in_turn(_put("k", "a"), _delete("k")), "committer": _commit},
        _sealed,
    ),
    Scenario(
        "reset-commit",
        {"writer": _put("k", "new"), "committer": _commit, "reset": _reset},
        _start,
    ),
    Scenario(
        "reset-sealed",
        {
            "writer": _in_turn(_put("k", "new"), _read),
            "reset": _in_turn(_reset, _list),
        },
        _sealed,
    ),
    Scenario(
        "merge-commit",
        {"merger": _merge("one"), "writer": _in_turn(_put("k", "new"), _commit)},
        _branches,
    ),
    Scenario(
        "merge-sealed",
        {"merger": _merge("one"), "committer": _commit, "reader": lambda c: c.read("j")},
        _branches_sealed,
    ),
    Scenario(
        "two-merges",
        {"first": _merge("one"), "second": _merge("two"), "lister": _list},
        _branches,
    ),
    Scenario(
        "criss-cross",
        {"first": _cross("two", "one"), "second": _cross("one", "two")},
        _fork,
    ),
    Scenario(
        "spooled-listing",
        {"publisher": _publish, "committer": _commit, "lister": _list},
        _generations,
        checkers=(*CHECKERS, listings_show_one_version),
    ),
    Scenario(
        "merges-in-turn",
        {"first": _merge("one"), "second": _merge("two"), "writer": _put("k", "new")},
        _branches,
        turns=True,
    ),
    Scenario(
        "commits-in-turn",
        {"writer": _put("k", "new"), "first": _commit, "second": _commit},
        _start,
        turns=True,
    ),
    Scenario(
        "delete-branch",
        {
            "deleter": lambda c: c.delete_branch("dev"),
            "writer": _put("d", "new", "dev"),
            "committer": lambda c: c.commit("dev"),
        },
        _dev,
        errors=_GONE,
    ),
    Scenario(
        "recreate-branch",
        {
            "deleter": _recreate,
            "writer": _in_turn(_put("d", "new", "dev"), lambda c: c.commit("dev")),
        },
        _dev,
        errors=_GONE,
    ),
    Scenario(
        "two-creators",
        {
            "one": _in_turn(_create, _put("a", "one", "dev"), lambda c: c.list("dev")),
            "two": _in_turn(_create, _put("b", "two", "dev")),
        },
        _in_turn(_put("k", "old"), _commit),
        errors=_GONE,
    ),
    Scenario(
        "tag-commit",
        {
            "tagger": _in_turn(
                lambda c: c.tag("v1"), lambda c: c.list_ref("v1"), lambda c: c.list_ref("v1")
            ),
            "other": lambda c: c.tag("v1", "main~1"),
            "committer": _commit,
        },
        _start,
        errors=_GONE,
    ),
    Scenario(
        "revert-commit",
        {"reverter": _revert, "writer": _in_turn(_put("k", "new"), _commit), "lister": _list},
        _bad,
    ),
    Scenario(
        "cherry-pick-commit",
        {"picker": _cherry_pick, "writer": _put("k", "new"), "committer": _commit},
        _pickable,
    ),
    Scenario(
        "hard-reset-commit",
        {"reset": _hard_reset, "writer": _put("k", "new"), "committer": _commit},
        _bad,
    ),
    Scenario(
        "reset-one-back",
        {"reset": _reset_back, "writer": _in_turn(_put("n", "new"), _commit)},
        _three,
        checkers=(*EVERYWHERE, _went_back_once),
    ),
    Scenario(
        "undo-commit",
        {"undoer": _undo, "writer": _in_turn(_put("n", "new"), _commit)},
        _three,
        checkers=(*EVERYWHERE, _went_back_once),
        errors=frozenset({"PreconditionFailedError"}),
    ),
    Scenario(
        "empty-commit-reset",
        {"committer": lambda c: c.commit(allow_empty=True), "reset": _reset},
        _sealed,
    ),
    Scenario(
        "hard-reset-sealed",
        {
            "writer": _in_turn(_put("j", "new"), _read),
            "reset": _in_turn(_hard_reset, _list),
        },
        _in_turn(_bad, _sealed),
    ),
    Scenario(
        "tick-quarantine",
        {"passing": _tick(_passes), "refusing": _tick(_refuses)},
        _ingested,
        checkers=(*EVERYWHERE, _published_or_set_aside),
    ),
    Scenario(
        "tick-repair",
        {"first": _tick_held, "second": _tick_held, "writer": _put("n", "late", "ingest")},
        _held,
        checkers=(*EVERYWHERE, _one_answer),
    ),
    Scenario(
        "mark-staged",
        {"collector": _mark, "writer": lambda c: c.upload("w", "new")},
        _uploads,
        finish=_sweep,
        all_steps=True,
    ),
    Scenario(
        "sweep-write",
        {"collector": _sweep, "writer": _again},
        _condemned,
        finish=_sweep,
        all_steps=True,
        errors=frozenset({"ThrottledError"}),
    ),
    Scenario(
        "half-swept-write",
        {"writer": _again, "collector": _sweep},
        _half_swept,
        finish=_sweep,
        all_steps=True,
        errors=frozenset({"ThrottledError"}),
    ),
    Scenario(
        "sweep-branch",
        {"collector": _sweep, "brancher": _back},
        _condemned,
        finish=_sweep,
        all_steps=True,
        errors=frozenset({"ExpiredError"}),
    ),
    Scenario(
        "mark-write",
        {"collector": _mark, "writer": _again},
        _forsaken,
        finish=_sweep,
        all_steps=True,
    ),
    Scenario(
        "mark-branch",
        {"collector": _mark, "brancher": _back},
        _forsaken,
        finish=_sweep,
        all_steps=True,
        errors=frozenset({"ExpiredError"}),
    ),
    Scenario(
        "sweep-borrow",
        {"collector": _sweep, "borrower": _borrow},
        _lent,
        finish=_sweep,
        all_steps=True,
        errors=_REFUSED,
    ),
    Scenario(
        "sweep-borrow-commit",
        {"collector": _sweep, "borrower": _borrow, "committer": _commit},
        _lent,
        finish=_sweep,
        all_steps=True,
        errors=_REFUSED,
    ),
    Scenario(
        "sweep-patch",
        {"collector": _sweep, "borrower": _patch},
        _lent,
        finish=_sweep,
        all_steps=True,
        errors=_REFUSED,
    ),
    Scenario(
        "half-swept-borrow",
        {"collector": _sweep, "borrower": _borrow},
        _half_collected,
        finish=_sweep,
        all_steps=True,
        errors=_REFUSED,
    ),
    Scenario(
        "upload-commit",
        {"writer": lambda c: c.upload("k", "new"), "committer": _commit, "reader": _read},
        _start,
    ),
    Scenario(
        "empty-commits",
        {
            "writer": _put("k", "new"),
            "first": lambda c: c.commit(allow_empty=True),
            "second": _commit,
        },
        _branches,
    ),
)
"""Without faults; each is explored with them as well."""

_TWICE = ("write-commit", "overwrite-commit", "sealed-left-write", "reset-sealed", "merge-commit")

_LATE = (
    "write-commit",
    "overwrite-commit",
    "write-two-commits",
    "each-writes-and-commits",
    "sealed-left",
    "merge-commit",
    "two-merges",
    "reset-commit",
    "hard-reset-commit",
    "revert-commit",
    "delete-branch",
    "recreate-branch",
    "two-creators",
)


def with_faults(scenario: Scenario, budget: int = 1) -> Scenario:
    """Return the scenario with so many faults in each schedule."""
    return replace(scenario, name=f"{scenario.name}+{budget}", faults=FAULTS, budget=budget)


def with_late_writes(scenario: Scenario) -> Scenario:
    """Return the scenario with one conditional write that arrives when it was given up."""
    return replace(scenario, name=f"{scenario.name}+late", faults=(LATE,), budget=1)


def every_scenario() -> Iterator[Scenario]:
    """Yield each small scenario without a fault and with one, and some with two."""
    for scenario in SMALL:
        yield scenario
        yield with_faults(scenario)
        if scenario.name in _TWICE:
            yield with_faults(scenario, 2)
        if scenario.name in _LATE:
            yield with_late_writes(scenario)


def find(name: str) -> Scenario:
    """Return a scenario by its name; ``name+2`` has up to two faults, ``name+late`` a late write."""
    plain, _, budget = name.partition("+")
    for scenario in SMALL:
        if scenario.name == plain:
            if budget == "late":
                return with_late_writes(scenario)
            return with_faults(scenario, int(budget)) if budget else scenario
    known = ", ".join(scenario.name for scenario in SMALL)
    raise ValueError(f"no scenario {name!r}: there are {known}; +1 for faults")
