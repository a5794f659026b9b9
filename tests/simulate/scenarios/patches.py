"""Commits of given changes over staged writes of the same paths, while the branch moves."""

from tests.simulate.scenarios.actions import commit, delete, in_turn, list_all, put, read_k, reset
from tests.simulate.scenarios.scenario import Program, Scenario
from tests.simulate.schedules.client import Client


def _staged(c: Client) -> None:
    """Stage a path, and give a branch a change of the value that the commit puts over it."""
    c.put("k", "old")
    c.commit()
    c.create_branch("later", contents={"k": "old"})
    for value in ("patch", "later"):
        c.put("k", value, "later")
        c.commit("later")
    c.put("k", "staged")
    c.put("j", "staged")


def _sealed(c: Client) -> None:
    """Let a committer die after its seal, and write its path again."""
    _staged(c)
    c.seal()
    c.put("k", "newer")


def _patch(value: str | None) -> Program:
    return lambda c: c.commit_changes(writes={"k": value})


def _pick(c: Client) -> None:
    c.cherry_pick("later", writes={"k": "later"})


_BESIDE: dict[str, Program] = {
    "put": put("k", "new"),
    "put-commit": in_turn(put("k", "new"), commit),
    "delete": delete("k"),
    "commit": commit,
    "list": list_all,
    "reset": reset,
    "pick": _pick,
    "pick-commit": in_turn(_pick, commit),
    "pick-list": in_turn(_pick, list_all),
    "pick-read": in_turn(_pick, read_k),
    "same": _patch("patch"),
    "other": _patch("other"),
    "paths": lambda c: c.commit_paths(["k"]),
}

SCENARIOS: tuple[Scenario, ...] = (
    *(
        Scenario(f"patch-{name}", {"patcher": _patch("patch"), "beside": beside}, _staged)
        for name, beside in _BESIDE.items()
    ),
    *(
        Scenario(f"patch-sealed-{name}", {"patcher": _patch("patch"), "beside": beside}, _sealed)
        for name, beside in _BESIDE.items()
        if name in {"put-commit", "commit", "pick-commit", "other", "paths"}
    ),
    Scenario(
        "patch-deletes", {"patcher": _patch(None), "beside": in_turn(list_all, commit)}, _sealed
    ),
)
