"""Git for a data lake, embedded in Python.

The public face is small: :func:`graveler.open` gives a lake, a lake has
repositories, a repository has branches and runs. Names are loaded when they are
first used, so that ``import graveler`` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from graveler import errors
    from graveler.gates import Candidate, Gate, Verdict, checks, gate
    from graveler.lake import Branch, Lake, Origin, Ref, Repository, Run, init, open  # noqa: A004
    from graveler.model import Change, Commit, Conflict, Entry

_HOMES = {
    "errors": "graveler.errors",
    "Candidate": "graveler.gates",
    "checks": "graveler.gates.checks",
    "Gate": "graveler.gates",
    "Verdict": "graveler.gates",
    "gate": "graveler.gates",
    "Branch": "graveler.lake",
    "Lake": "graveler.lake",
    "Origin": "graveler.lake",
    "Ref": "graveler.lake",
    "Repository": "graveler.lake",
    "Run": "graveler.lake",
    "init": "graveler.lake",
    "open": "graveler.lake",
    "Change": "graveler.model",
    "Commit": "graveler.model",
    "Conflict": "graveler.model",
    "Entry": "graveler.model",
}

_MODULES = frozenset({"checks", "errors"})

__all__ = [
    "Branch",
    "Candidate",
    "Change",
    "Commit",
    "Conflict",
    "Entry",
    "Gate",
    "Lake",
    "Origin",
    "Ref",
    "Repository",
    "Run",
    "Verdict",
    "__version__",
    "checks",
    "errors",
    "gate",
    "init",
    "open",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'graveler' has no attribute {name!r}")
    module = import_module(home)
    value = module if name in _MODULES else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
