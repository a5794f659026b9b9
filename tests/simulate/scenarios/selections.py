"""Commits of some paths, with concurrent writers, committers, merges and publishes."""

from graveler.lake.repository import Repository
from tests.simulate.checkers import CHECKERS, chosen_paths_are_committed_alone
from tests.simulate.scenarios.actions import commit, in_turn, list_all, put
from tests.simulate.scenarios.ingestion import HOUR, passes
from tests.simulate.scenarios.scenario import Program, Scenario
from tests.simulate.schedules.client import Client

_CHECKERS = (*CHECKERS, chosen_paths_are_committed_alone)


def _staged(c: Client) -> None:
    """Stage two folders, and give a branch a commit that main does not have."""
    c.put("a/1", "old")
    c.commit()
    c.create_branch("dev", contents={"a/1": "old"})
    c.put("dev", "dev", "dev")
    c.commit("dev")
    c.put("a/1", "staged")
    c.put("b/1", "staged")


def _sealed(c: Client) -> None:
    """Let a committer die after its seal, and write one of its paths again."""
    _staged(c)
    c.seal()
    c.put("a/1", "newer")
    c.put("a/2", "newer")


def _choose(folder: str) -> Program:
    return lambda c: c.commit_paths([folder])


def _merge(c: Client) -> None:
    c.merge("dev", writes={"dev": "dev"})


def _tick(c: Client) -> None:
    def work(repo: Repository, _message: str) -> str:
        return repo.ingestion("dev", gates=[passes], on_refusal="quarantine").tick(HOUR).state

    c.other("tick", work, writes={"dev": "dev"})


def _picked(c: Client) -> None:
    """Give a branch a change of a staged value, which is cherry-picked after the commit."""
    _staged(c)
    c.create_branch("later", contents={"a/1": "old"})
    for value in ("staged", "later"):
        c.put("a/1", value, "later")
        c.commit("later")


def _pick(c: Client) -> None:
    c.cherry_pick("later", writes={"a/1": "later"})


def _two_sealed(c: Client) -> None:
    """Seal the write of one path, then stage another path."""
    c.put("a/1", "staged")
    c.seal()
    c.put("b/1", "staged")


def _back_sealed(c: Client) -> None:
    """Seal a path with another one, then what the head has at it behind a third one."""
    _staged(c)
    c.seal()
    c.put("a/0", "staged")
    c.put("a/1", "old")
    c.seal()


_BESIDE: dict[str, Program] = {
    "put": put("a/1", "new"),
    "delete": lambda c: c.delete("a/1"),
    "put-commit": in_turn(put("a/1", "new"), commit),
    "commit": commit,
    "list": list_all,
    "merge": _merge,
    "publish": _tick,
    "same": _choose("a/"),
    "other": _choose("b/"),
}

SCENARIOS: tuple[Scenario, ...] = (
    *(
        Scenario(
            f"partial-{name}",
            {"chooser": _choose("a/"), "beside": beside},
            _staged,
            checkers=_CHECKERS,
        )
        for name, beside in _BESIDE.items()
    ),
    *(
        Scenario(
            f"partial-sealed-{name}",
            {"chooser": _choose("a/"), "beside": _BESIDE[name]},
            _sealed,
            checkers=_CHECKERS,
        )
        for name in ("put", "put-commit", "commit", "same", "other")
    ),
    *(
        Scenario(
            name,
            {"chooser": _choose("a/"), "beside": beside},
            _picked,
            checkers=_CHECKERS,
        )
        for name, beside in {
            "partial-pick": _pick,
            "partial-pick-commit": in_turn(_pick, commit),
            "partial-pick-list": in_turn(_pick, list_all),
        }.items()
    ),
    Scenario(
        "partial-back",
        {"chooser": in_turn(put("a/1", "old"), _choose("a/")), "committer": commit},
        _staged,
        checkers=_CHECKERS,
    ),
    Scenario(
        "partial-back-list",
        {"chooser": _choose("a/1"), "lister": list_all},
        _back_sealed,
        checkers=_CHECKERS,
    ),
    Scenario(
        "partial-newest",
        {"chooser": in_turn(put("a/1", "new"), _choose("a/")), "committer": commit},
        _two_sealed,
        checkers=_CHECKERS,
    ),
)
