"""One run, one branch: its states, its steps, how it is published, and what comes after."""

from graveler.runs.origin import Origin
from graveler.runs.publishing import PublishResult
from graveler.runs.reaping import Reaped
from graveler.runs.record import LEASE, TTL, Input, Refusal, RunHandle, RunRecord
from graveler.runs.rollback import Rollback
from graveler.runs.run import Run
from graveler.runs.runs import Runs
from graveler.runs.state import RunState
from graveler.runs.step import Step
from graveler.runs.why import Why

__all__ = [
    "LEASE",
    "TTL",
    "Input",
    "Origin",
    "PublishResult",
    "Reaped",
    "Refusal",
    "Rollback",
    "Run",
    "RunHandle",
    "RunRecord",
    "RunState",
    "Runs",
    "Step",
    "Why",
]
