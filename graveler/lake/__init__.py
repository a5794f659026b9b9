"""The public interface: it chooses drivers and forwards calls to the layers below."""

from typing import TYPE_CHECKING

from graveler.base.exports import lazy_names

if TYPE_CHECKING:
    from graveler.lake.attachment import attach as attach
    from graveler.lake.factory import init as init
    from graveler.lake.factory import open as open
    from graveler.lake.lake import Lake as Lake
    from graveler.lake.maintenance import BranchEnd as BranchEnd
    from graveler.lake.maintenance import BranchState as BranchState
    from graveler.lake.maintenance import Maintenance as Maintenance
    from graveler.lake.repository import Repository as Repository
    from graveler.repository.branch import Branch as Branch
    from graveler.repository.merges import MergeResult as MergeResult
    from graveler.repository.preview import MergePreview as MergePreview
    from graveler.runs.provenance import Origin as Origin
    from graveler.runs.provenance import Why as Why
    from graveler.runs.publication import PublishResult as PublishResult
    from graveler.runs.reaper import Reaped as Reaped
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
    from graveler.runs.steps.step import Step as Step
    from graveler.tables.views import Ref as Ref

__getattr__, __dir__, __all__ = lazy_names(__name__)
