"""The public face: it chooses drivers and forwards; decisions are made below."""

from graveler.lake.factory import init, open  # noqa: A004
from graveler.lake.lake import Lake
from graveler.lake.repository import Repository
from graveler.repository import Branch, MergeResult, Ref
from graveler.runs import PublishResult, Run, RunHandle, RunRecord, Runs, RunState, Step

__all__ = [
    "Branch",
    "Lake",
    "MergeResult",
    "PublishResult",
    "Ref",
    "Repository",
    "Run",
    "RunHandle",
    "RunRecord",
    "RunState",
    "Runs",
    "Step",
    "init",
    "open",
]
