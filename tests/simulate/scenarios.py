"""The small scenarios that are explored to the end."""

from collections.abc import Iterator
from dataclasses import replace

from tests.simulate.client import Client
from tests.simulate.run import CRASH, REPLY_LOST, WRITE_LOST
from tests.simulate.scenario import Program, Scenario

FAULTS = (CRASH, REPLY_LOST, WRITE_LOST)
"""A process dies at any step; the reply to a conditional write is lost, or the write is."""

_GONE = frozenset({"RefNotFoundError"})


def _start(c: Client) -> None:
    """Give main a committed path, and one staged."""
    c.put("k", "old")
    c.commit()
    c.put("j", "staged")


def _sealed(c: Client) -> None:
    """Let a committer die after it sealed, and write one of its paths anew."""
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


def _recreate(c: Client) -> None:
    c.delete_branch("dev")
    c.create_branch("dev", contents={"k": "old"})


def _create(c: Client) -> None:
    c.create_branch("dev", contents={"k": "old"})


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
        "merges-in-turn",
        {"first": _merge("one"), "second": _merge("two"), "writer": _put("k", "new")},
        _branches,
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


def with_faults(scenario: Scenario, budget: int = 1) -> Scenario:
    """Return the scenario with so many faults in each schedule."""
    return replace(
        scenario, name=f"{scenario.name}+{budget}", faults=FAULTS, budget=budget, begins=[]
    )


def every_scenario() -> Iterator[Scenario]:
    """Yield each small scenario, without a fault and with one."""
    for scenario in SMALL:
        yield scenario
        yield with_faults(scenario)


def find(name: str) -> Scenario:
    """Return a scenario by its name; ``name+2`` is one with up to two faults."""
    plain, _, budget = name.partition("+")
    for scenario in SMALL:
        if scenario.name == plain:
            return with_faults(scenario, int(budget)) if budget else scenario
    known = ", ".join(scenario.name for scenario in SMALL)
    raise ValueError(f"no scenario {name!r}: there are {known}; +1 for faults")
