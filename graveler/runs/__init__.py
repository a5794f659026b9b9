"""Runs: one branch each, with states, steps, publish and rollback."""

from typing import TYPE_CHECKING

from graveler.exports import lazy_names

if TYPE_CHECKING:
    from graveler.runs.history import JoinedStep as JoinedStep
    from graveler.runs.opener import RunTerms as RunTerms
    from graveler.runs.provenance import Origin as Origin
    from graveler.runs.provenance import Why as Why
    from graveler.runs.publishing import PublishResult as PublishResult
    from graveler.runs.reaper import Reaped as Reaped
    from graveler.runs.record import LEASE as LEASE
    from graveler.runs.record import TTL as TTL
    from graveler.runs.record import Input as Input
    from graveler.runs.record import Refusal as Refusal
    from graveler.runs.record import RunHandle as RunHandle
    from graveler.runs.record import RunRecord as RunRecord
    from graveler.runs.rollback import Rollback as Rollback
    from graveler.runs.rollback import RollbackPlan as RollbackPlan
    from graveler.runs.run import Run as Run
    from graveler.runs.runs import Runs as Runs
    from graveler.runs.state import Publish as Publish
    from graveler.runs.state import RunState as RunState
    from graveler.runs.steps.environment import OpenStep as OpenStep
    from graveler.runs.steps.environment import StepEnvironment as StepEnvironment
    from graveler.runs.steps.environment import StepHandle as StepHandle
    from graveler.runs.steps.environment import step_variables as step_variables
    from graveler.runs.steps.step import Step as Step

__getattr__, __dir__, __all__ = lazy_names(__name__)
