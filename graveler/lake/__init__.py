"""The public face: it chooses drivers and forwards; decisions are made below."""

from graveler.lake.attachment import attach
from graveler.lake.factory import init, open  # noqa: A004
from graveler.lake.lake import Lake
from graveler.lake.maintenance import BranchState, Maintenance
from graveler.lake.repository import Repository
from graveler.reads import Ref
from graveler.repository import Branch, MergePreview, MergeResult
from graveler.runs import (
    Input,
    OpenStep,
    Origin,
    Publish,
    PublishResult,
    Reaped,
    Refusal,
    Rollback,
    RollbackPlan,
    Run,
    RunHandle,
    RunRecord,
    Runs,
    RunState,
    Step,
    Why,
)

__all__ = [
    "Branch",
    "BranchState",
    "Input",
    "Lake",
    "Maintenance",
    "MergePreview",
    "MergeResult",
    "OpenStep",
    "Origin",
    "Publish",
    "PublishResult",
    "Reaped",
    "Ref",
    "Refusal",
    "Repository",
    "Rollback",
    "RollbackPlan",
    "Run",
    "RunHandle",
    "RunRecord",
    "RunState",
    "Runs",
    "Step",
    "Why",
    "attach",
    "init",
    "open",
]
