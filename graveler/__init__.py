"""Git for a data lake, embedded in Python.

:func:`graveler.open` returns a lake, a lake has repositories, a repository has branches and
runs. Names are loaded on first use, so that ``import graveler`` is quick.
"""

import sys
from typing import TYPE_CHECKING

from graveler.base.exports import lazy_names

__version__ = "0.3.0"

if sys.platform == "win32":
    raise ImportError(
        "graveler runs on Linux and macOS, not on Windows: it needs their file locks and forks. "
        "Install it below the Windows Subsystem for Linux (WSL)."
    )

if TYPE_CHECKING:
    from graveler import errors as errors
    from graveler.errors import AlreadyExistsError as AlreadyExistsError
    from graveler.errors import ConflictError as ConflictError
    from graveler.errors import CorruptionError as CorruptionError
    from graveler.errors import ExpiredError as ExpiredError
    from graveler.errors import FencedError as FencedError
    from graveler.errors import GateFailedError as GateFailedError
    from graveler.errors import GravelerError as GravelerError
    from graveler.errors import InvalidInputError as InvalidInputError
    from graveler.errors import MergeConflictError as MergeConflictError
    from graveler.errors import NoChangesError as NoChangesError
    from graveler.errors import NotFoundError as NotFoundError
    from graveler.errors import OutcomeUnknownError as OutcomeUnknownError
    from graveler.errors import ProtectedBranchError as ProtectedBranchError
    from graveler.errors import RetryableError as RetryableError
    from graveler.errors import RunStateError as RunStateError
    from graveler.gates import Candidate as Candidate
    from graveler.gates import Gate as Gate
    from graveler.gates import Verdict as Verdict
    from graveler.gates import checks as checks
    from graveler.gates import gate as gate
    from graveler.gates import gate_factory as gate_factory
    from graveler.lake.attachment import attach as attach
    from graveler.lake.factory import init as init
    from graveler.lake.factory import open as open
    from graveler.lake.lake import Lake as Lake
    from graveler.lake.repository import Repository as Repository
    from graveler.model import Change as Change
    from graveler.model import Commit as Commit
    from graveler.model import Conflict as Conflict
    from graveler.model import Entry as Entry
    from graveler.model import Transfer as Transfer
    from graveler.repository.branch import Branch as Branch
    from graveler.repository.merges import MergeResult as MergeResult
    from graveler.repository.preview import MergePreview as MergePreview
    from graveler.runs.provenance import Origin as Origin
    from graveler.runs.publication import PublishResult as PublishResult
    from graveler.runs.record import RunHandle as RunHandle
    from graveler.runs.record import RunRecord as RunRecord
    from graveler.runs.run import Run as Run
    from graveler.runs.state import RunState as RunState
    from graveler.runs.steps.environment import OpenStep as OpenStep
    from graveler.runs.steps.step import Step as Step
    from graveler.tables.views import Ref as Ref

__getattr__, __dir__, __all__ = lazy_names(__name__)
