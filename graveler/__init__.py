"""Git for a data lake, embedded in Python.

:func:`graveler.open` returns a lake, a lake has repositories, a repository has branches and
runs. Names are loaded on first use, so that ``import graveler`` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from graveler import errors
    from graveler.errors import (
        AlreadyExistsError,
        ConflictError,
        CorruptionError,
        ExpiredError,
        FencedError,
        GateFailedError,
        GravelerError,
        InvalidInputError,
        MergeConflictError,
        NoChangesError,
        NotFoundError,
        OutcomeUnknownError,
        ProtectedBranchError,
        RetryableError,
        RunStateError,
    )
    from graveler.gates import Candidate, Gate, Verdict, checks, gate
    from graveler.lake import (
        Branch,
        Lake,
        MergePreview,
        MergeResult,
        OpenStep,
        Origin,
        PublishResult,
        Ref,
        Repository,
        Run,
        RunHandle,
        RunRecord,
        RunState,
        Step,
        attach,
        init,
        open,  # noqa: A004
    )
    from graveler.model import Change, Commit, Conflict, Entry, Transfer

# the packages that export the names above, the quickest to import first
_HOMES = ("graveler.errors", "graveler.model", "graveler.gates", "graveler.lake")
_MODULES = {"checks": "graveler.gates.checks", "errors": "graveler.errors"}

__all__ = [
    "AlreadyExistsError",
    "Branch",
    "Candidate",
    "Change",
    "Commit",
    "Conflict",
    "ConflictError",
    "CorruptionError",
    "Entry",
    "ExpiredError",
    "FencedError",
    "Gate",
    "GateFailedError",
    "GravelerError",
    "InvalidInputError",
    "Lake",
    "MergeConflictError",
    "MergePreview",
    "MergeResult",
    "NoChangesError",
    "NotFoundError",
    "OpenStep",
    "Origin",
    "OutcomeUnknownError",
    "ProtectedBranchError",
    "PublishResult",
    "Ref",
    "Repository",
    "RetryableError",
    "Run",
    "RunHandle",
    "RunRecord",
    "RunState",
    "RunStateError",
    "Step",
    "Transfer",
    "Verdict",
    "__version__",
    "attach",
    "checks",
    "errors",
    "gate",
    "init",
    "open",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = import_module(_MODULES[name])
    elif name in __all__:
        homes = map(import_module, _HOMES)
        value = next(getattr(home, name) for home in homes if hasattr(home, name))
    else:
        raise AttributeError(f"module 'graveler' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
