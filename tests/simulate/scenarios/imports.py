"""Imports that replace a folder, with concurrent writers, committers and merges."""

from pathlib import Path

from tests.simulate.checkers import CHECKERS, bundles_show_whole
from tests.simulate.scenarios.actions import commit, in_turn, list_all, merge, put
from tests.simulate.scenarios.scenario import Program, Scenario
from tests.simulate.schedules.client import Client

_INVENTORY = Path(__file__).with_name("inventory.csv")
_NAMES = ("1", "2", "3")
_IMPORTED: dict[str, str | None] = {
    "b/old": None,
    **{f"b/{name}": f"s3://raw/{name}" for name in _NAMES},
}


def _folder(c: Client) -> None:
    """Declare the bucket of an inventory, and give main a folder that an import replaces."""
    c.repository.links.allow("s3://raw/")
    c.put("b/old", "old")
    c.commit()
    c.create_branch("dev", contents={"b/old": "old"})
    c.put("dev", "dev", "dev")
    c.commit("dev")
    c.put("b/1", "staged")


def _import(c: Client) -> None:
    c.import_(str(_INVENTORY), "b/", writes=_IMPORTED)


def _import_over(c: Client) -> None:
    """As `_import`, but the import may delete concurrent puts."""
    c.import_(str(_INVENTORY), "b/", writes={**_IMPORTED, "b/new": None})


_BESIDE: dict[str, Program] = {
    "commit": commit,
    "list": list_all,
    "merge": merge("dev"),
    "put": in_turn(put("j", "new"), commit),
}

SCENARIOS: tuple[Scenario, ...] = (
    *(
        Scenario(
            f"import-{name}",
            {"importer": _import, "other": beside},
            _folder,
            checkers=(*CHECKERS, bundles_show_whole),
        )
        for name, beside in _BESIDE.items()
    ),
    Scenario(
        "import-over-put",
        {"importer": _import_over, "writer": in_turn(put("b/new", "new"), commit)},
        _folder,
    ),
)
