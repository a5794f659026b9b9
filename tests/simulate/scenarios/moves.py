"""Moves with concurrent writers, committers, merges, resets, copies and other moves."""

from collections.abc import Iterator, Mapping

from tests.simulate.checkers import EVERYWHERE
from tests.simulate.evidence import Evidence
from tests.simulate.history import Operation
from tests.simulate.scenarios.actions import commit, delete, in_turn, list_all, reset
from tests.simulate.scenarios.scenario import Program, Scenario
from tests.simulate.schedules.client import Client

_PLACES = ("a/", "b/", "c/")
_FILES = ("1", "2", "3")
_NOTHING_THERE = frozenset({"ObjectNotFoundError"})


def _folder(c: Client) -> None:
    """Give main a partly committed folder, and a branch that changes a file of it."""
    c.put("a/1", "1")
    c.put("a/2", "2")
    c.commit()
    c.create_branch("dev", contents={"a/1": "1", "a/2": "2"})
    c.put("a/1", "dev", "dev")
    c.commit("dev")
    c.upload("a/3", "3")


def _put(name: str) -> Program:
    return lambda c: c.upload(f"a/{name}", "new")


def _move(to: str = "b/") -> Program:
    return lambda c: c.move("a/", to)


def _merge(c: Client) -> None:
    c.merge("dev", writes={"a/1": "dev"})


def _copy(c: Client) -> None:
    c.copy("dev~1", "a/", "c/", writes={"c/1": "1", "c/2": "2"})


def _trees(evidence: Evidence) -> Iterator[tuple[str, Mapping[str, str]]]:
    for listing in evidence.of_kind("list", branch="main"):
        if listing.ok:
            yield str(listing), listing.result
    for identifier in evidence.ancestors("main"):
        facts = evidence.commits[identifier]
        if not facts.message.startswith(("Repository", "setup")):
            yield facts.message, facts.tree


def _moved_whole(evidence: Evidence) -> Iterator[str]:
    """A listing or a commit of a moved folder has all files of the folder at one place.

    Files that are written during the move may be at either place or at both.
    """
    beside = {path for op in evidence.of_kind("put", "delete", "merge") for path in _late(op)}
    for name, tree in _trees(evidence):
        files = [file for file in _FILES if f"a/{file}" not in beside]
        where = {place: {f for f in files if place + f in tree} for place in _PLACES}
        full = [place for place, there in where.items() if there]
        if len(full) > 1:
            yield f"{name}: {dict(tree)} has a half of a move"


def _late(operation: Operation) -> Mapping[str, str | None]:
    return {} if operation.process == "setup" else operation.writes


def _nothing_is_lost(evidence: Evidence) -> Iterator[str]:
    """Each file is at some place at all times, and the final tree holds all written values."""
    resets = evidence.of_kind("reset")
    deleted = {path for op in evidence.of_kind("delete") for path in op.writes}
    for name, tree in _trees(evidence):
        for file in _FILES[:2]:
            if f"a/{file}" not in deleted and not any(place + file in tree for place in _PLACES):
                yield f"{name}: {tree} has no file {file}"
    tree = evidence.commits[evidence.heads["main"]].tree
    if not resets and not any(place + "3" in tree for place in _PLACES):
        yield f"{tree} has no file 3"
    for written in evidence.of_kind("put", "merge"):
        late = _late(written)
        if written.ok and late and not resets and not set(late.values()) & set(tree.values()):
            yield f"{tree} has nothing of {written}"


def _moved_once(evidence: Evidence) -> Iterator[str]:
    """At most one of two moves of a folder reports success."""
    said = [move.result for move in evidence.of_kind("move") if move.ok]
    if len(said) > 1:
        yield f"the moves of one folder say {said}"


_CHECKERS = (*EVERYWHERE, _moved_whole, _nothing_is_lost, _moved_once)

_BESIDE: dict[str, Program] = {
    "put": _put("1"),
    "put-commit": in_turn(_put("1"), commit),
    "add-commit": in_turn(_put("4"), commit),
    "delete": delete("a/1"),
    "commit": commit,
    "list": list_all,
    "merge": _merge,
    "reset": reset,
    "move": _move("c/"),
}

SCENARIOS: tuple[Scenario, ...] = (
    *(
        Scenario(
            f"move-{name}",
            {"mover": _move(), "other": beside},
            _folder,
            checkers=_CHECKERS,
            errors=_NOTHING_THERE,
        )
        for name, beside in _BESIDE.items()
        if name != "merge"
    ),
    Scenario(
        "move-merge",
        {"mover": _move(), "merger": _merge},
        _folder,
        checkers=(*EVERYWHERE, _moved_whole),
    ),
    Scenario(
        "move-copy",
        {"mover": _move(), "copier": _copy},
        _folder,
        checkers=EVERYWHERE,
    ),
)
