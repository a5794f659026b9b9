"""Rows of the statements that operations send to the key-value store."""

from importlib import import_module

from tests.bench.measure import Result, progress
from tests.bench.scale.place import Place

LIMITS = {
    "put": 3,
    "commit": 6,
    "branch, link, commit, merge": 15,
    "run of 1,000 links with a gate": 27,
    "run of three steps": 75,
}


def statements(place: Place) -> list[Result]:
    """Count the statements of each operation, in a process that has done it before."""
    progress("statements of operations")
    found = import_module("tests.harness.statements").statements_of(place.scratch / "statements")
    return [
        Result(
            f"statements of: {name}",
            f"{len(found[name])}",
            f"at most {most}",
            len(found[name]) <= most,
        )
        for name, most in LIMITS.items()
    ]
