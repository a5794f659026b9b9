"""Copies with concurrent writers, committers, merges, other copies, deletions and collections."""

from collections.abc import Iterator

from tests.simulate.checkers import CHECKERS, bundles_show_whole
from tests.simulate.evidence import Evidence
from tests.simulate.scenarios.actions import GONE, commit, in_turn, list_all, merge, put
from tests.simulate.scenarios.collection import REFUSED, mark_all, sweep
from tests.simulate.scenarios.scenario import Program, Scenario
from tests.simulate.schedules.client import Client

_WHOLE = (*CHECKERS, bundles_show_whole)
_SMALL = ("1", "2")
_LARGE = ("1", "2", "3", "4")
"""As many files as a chunk has rows: see conditions.py."""


def _folder(*names: str) -> Program:
    """Give main a folder with these files, and a branch with the same folder and one more file."""

    def prepare(c: Client) -> None:
        for name in names:
            c.put(f"a/{name}", name)
        c.put("b/old", "old")
        c.commit()
        contents = {f"a/{name}": name for name in names} | {"b/old": "old"}
        c.create_branch("dev", contents=contents)
        c.put("dev", "dev", "dev")
        c.commit("dev")
        c.put("b/1", "staged")

    return prepare


def _copy(*names: str) -> Program:
    writes = {f"b/{name}": name for name in names}
    return lambda c: c.copy("dev", "a/", "b/", writes=writes)


def _mirror(c: Client) -> None:
    """Copy a folder, and delete all other files at the destination, including concurrent ones."""
    writes = {**{f"b/{name}": name for name in _SMALL}, "b/old": None, "b/new": None}
    c.copy("dev", "a/", "b/", replace=True, writes=writes)


def _two_folders(c: Client) -> None:
    for name in _SMALL:
        c.put(f"a/{name}", f"a{name}")
        c.put(f"c/{name}", f"c{name}")
    c.commit()


def _copy_of(folder: str) -> Program:
    writes = {f"b/{name}": f"{folder}{name}" for name in _SMALL}
    return lambda c: c.copy("main", f"{folder}/", "b/", writes=writes)


def _one_copy_is_there(evidence: Evidence) -> Iterator[str]:
    """After two copies to one folder, the folder holds one copy, and no mixture."""
    tree = evidence.commits[evidence.heads["main"]].tree
    there = {value[0] for path, value in tree.items() if path.startswith("b/")}
    if len(there) > 1:
        yield f"it ended as {tree}, which mixes two copies"


_HEADS: dict[str, str] = {}
"""The commits of the preparation, by branch."""


def _lent(c: Client) -> None:
    """Give a branch uploaded files that have no other reference."""
    c.put("k", "old")
    c.commit()
    c.create_branch("dev", contents={"k": "old"})
    for name in _SMALL:
        c.upload(f"a/{name}", name, "dev")
    _HEADS["dev"] = c.commit("dev")


def _condemned(c: Client) -> None:
    _lent(c)
    c.delete_branch("dev")
    mark_all(c)


def _copy_of_commit(c: Client) -> None:
    c.copy(_HEADS["dev"], "a/", "b/", writes={f"b/{name}": name for name in _SMALL})


def _delete_and_collect(c: Client) -> None:
    c.delete_branch("dev")
    mark_all(c)
    sweep(c)


_BESIDE: dict[str, dict[str, Program]] = {
    "commit": {"committer": commit},
    "list": {"lister": list_all},
    "put": {"writer": in_turn(put("b/old", "new"), commit)},
    "merge": {"merger": merge("dev")},
    "delete": {"deleter": lambda c: c.delete_branch("dev")},
}

SCENARIOS: tuple[Scenario, ...] = (
    *(
        Scenario(
            f"copy-{name}",
            {"copier": _copy(*_SMALL), **beside},
            _folder(*_SMALL),
            checkers=_WHOLE,
            errors=GONE,
        )
        for name, beside in _BESIDE.items()
    ),
    Scenario(
        "large-copy-commit",
        {"copier": _copy(*_LARGE), "committer": commit},
        _folder(*_LARGE),
        checkers=_WHOLE,
    ),
    Scenario(
        "mirror-put",
        {"copier": _mirror, "writer": in_turn(put("b/new", "new"), commit)},
        _folder(*_SMALL),
    ),
    Scenario(
        "two-copies",
        {"one": _copy_of("a"), "two": _copy_of("c")},
        _two_folders,
        checkers=(*CHECKERS, _one_copy_is_there),
    ),
    Scenario(
        "sweep-copy",
        {"collector": sweep, "copier": _copy_of_commit},
        _condemned,
        finish=sweep,
        all_steps=True,
        errors=REFUSED,
    ),
    Scenario(
        "collect-copy-commit",
        {"collector": _delete_and_collect, "copier": in_turn(_copy_of_commit, commit)},
        _lent,
        finish=sweep,
        all_steps=True,
        errors=REFUSED | GONE,
    ),
)
