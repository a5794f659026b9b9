"""Merges, reverts, resets, branches and tags, with concurrent writers."""

from collections.abc import Iterator

from graveler.lake.repository import Repository
from tests.simulate.checkers import EVERYWHERE
from tests.simulate.evidence import Evidence
from tests.simulate.scenarios.actions import (
    GONE,
    branches,
    branches_sealed,
    commit,
    dev,
    in_turn,
    list_all,
    merge,
    put,
    read_k,
    reset,
    sealed,
    start,
)
from tests.simulate.scenarios.scenario import Program, Scenario
from tests.simulate.schedules.client import Client


def _fork(c: Client) -> None:
    """Give each of two branches its own value for one path."""
    c.put("k", "old")
    c.commit()
    for name in ("one", "two"):
        c.create_branch(name, contents={"k": "old"})
        c.put("k", name, name)
        _COMMITS[name] = c.commit(name)


def _cross(source: str, into: str) -> Program:
    """Merge the initial state of the source with `dest-wins`; then merge its current state."""

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
"""The commits of the preparation, by purpose."""


def _bad(c: Client) -> None:
    """Commit a change that is to be reverted, and a good change after it."""
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
    """Make three commits in a line."""
    for number in "123":
        c.put("k", number)
        c.commit()


def _reset_back(c: Client) -> None:
    c.other("hard_reset", lambda repo, _: repo.branch("main").reset("main~1"))


def _undo(c: Client) -> None:
    c.other("hard_reset", lambda repo, _: repo.undo().id)


def _went_back_once(evidence: Evidence) -> Iterator[str]:
    """One of the two orders of a reset and a commit explains the final state."""
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


def _create(c: Client) -> None:
    c.create_branch("dev", contents={"k": "old"})


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "merge-commit",
        {"merger": merge("one"), "writer": in_turn(put("k", "new"), commit)},
        branches,
    ),
    Scenario(
        "merge-sealed",
        {"merger": merge("one"), "committer": commit, "reader": lambda c: c.read("j")},
        branches_sealed,
    ),
    Scenario(
        "two-merges",
        {"first": merge("one"), "second": merge("two"), "lister": list_all},
        branches,
    ),
    Scenario(
        "criss-cross",
        {"first": _cross("two", "one"), "second": _cross("one", "two")},
        _fork,
    ),
    Scenario(
        "merges-in-turn",
        {"first": merge("one"), "second": merge("two"), "writer": put("k", "new")},
        branches,
        turns=True,
    ),
    Scenario(
        "delete-branch",
        {
            "deleter": lambda c: c.delete_branch("dev"),
            "writer": put("d", "new", "dev"),
            "committer": lambda c: c.commit("dev"),
        },
        dev,
        errors=GONE,
    ),
    Scenario(
        "recreate-branch",
        {
            "deleter": _recreate,
            "writer": in_turn(put("d", "new", "dev"), lambda c: c.commit("dev")),
        },
        dev,
        errors=GONE,
    ),
    Scenario(
        "two-creators",
        {
            "one": in_turn(_create, put("a", "one", "dev"), lambda c: c.list("dev")),
            "two": in_turn(_create, put("b", "two", "dev")),
        },
        in_turn(put("k", "old"), commit),
        errors=GONE,
    ),
    Scenario(
        "tag-commit",
        {
            "tagger": in_turn(
                lambda c: c.tag("v1"), lambda c: c.list_ref("v1"), lambda c: c.list_ref("v1")
            ),
            "other": lambda c: c.tag("v1", "main~1"),
            "committer": commit,
        },
        start,
        errors=GONE,
    ),
    Scenario(
        "revert-commit",
        {"reverter": _revert, "writer": in_turn(put("k", "new"), commit), "lister": list_all},
        _bad,
    ),
    Scenario(
        "cherry-pick-commit",
        {"picker": _cherry_pick, "writer": put("k", "new"), "committer": commit},
        _pickable,
    ),
    Scenario(
        "hard-reset-commit",
        {"reset": _hard_reset, "writer": put("k", "new"), "committer": commit},
        _bad,
    ),
    Scenario(
        "reset-one-back",
        {"reset": _reset_back, "writer": in_turn(put("n", "new"), commit)},
        _three,
        checkers=(*EVERYWHERE, _went_back_once),
    ),
    Scenario(
        "undo-commit",
        {"undoer": _undo, "writer": in_turn(put("n", "new"), commit)},
        _three,
        checkers=(*EVERYWHERE, _went_back_once),
        errors=frozenset({"PreconditionFailedError"}),
    ),
    Scenario(
        "empty-commit-reset",
        {"committer": lambda c: c.commit(allow_empty=True), "reset": reset},
        sealed,
    ),
    Scenario(
        "hard-reset-sealed",
        {
            "writer": in_turn(put("j", "new"), read_k),
            "reset": in_turn(_hard_reset, list_all),
        },
        in_turn(_bad, sealed),
    ),
)
