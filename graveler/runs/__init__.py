"""Runs: one branch each, with states, steps, publish and rollback."""

from graveler.runs.history import JoinedStep
from graveler.runs.opener import RunTerms
from graveler.runs.provenance import Origin, Why
from graveler.runs.publishing import PublishResult
from graveler.runs.reaper import Reaped
from graveler.runs.record import LEASE, TTL, Input, Refusal, RunHandle, RunRecord
from graveler.runs.rollback import Rollback, RollbackPlan
from graveler.runs.run import Run
from graveler.runs.runs import Runs
from graveler.runs.state import Publish, RunState
from graveler.runs.steps.environment import OpenStep, StepEnvironment, StepHandle, step_variables
from graveler.runs.steps.step import Step

__all__ = [
    "LEASE",
    "TTL",
    "Input",
    "JoinedStep",
    "OpenStep",
    "Origin",
    "Publish",
    "PublishResult",
    "Reaped",
    "Refusal",
    "Rollback",
    "RollbackPlan",
    "Run",
    "RunHandle",
    "RunRecord",
    "RunState",
    "RunTerms",
    "Runs",
    "Step",
    "StepEnvironment",
    "StepHandle",
    "Why",
    "step_variables",
]
