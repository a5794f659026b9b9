"""The public interface: it chooses drivers and forwards calls to the layers below."""

from typing import TYPE_CHECKING

from graveler.exports import lazy_names

if TYPE_CHECKING:
    from graveler.lake import maintenance as maintenance
    from graveler.lake import places as places
    from graveler.lake.attachment import attach as attach
    from graveler.lake.factory import init as init
    from graveler.lake.factory import open as open
    from graveler.lake.lake import Lake as Lake
    from graveler.lake.maintenance import BranchState as BranchState
    from graveler.lake.maintenance import Maintenance as Maintenance
    from graveler.lake.repository import Repository as Repository
    from graveler.reads import Ref as Ref
    from graveler.repository import Branch as Branch
    from graveler.repository import MergePreview as MergePreview
    from graveler.repository import MergeResult as MergeResult
    from graveler.runs import Input as Input
    from graveler.runs import OpenStep as OpenStep
    from graveler.runs import Origin as Origin
    from graveler.runs import Publish as Publish
    from graveler.runs import PublishResult as PublishResult
    from graveler.runs import Reaped as Reaped
    from graveler.runs import Refusal as Refusal
    from graveler.runs import Rollback as Rollback
    from graveler.runs import RollbackPlan as RollbackPlan
    from graveler.runs import Run as Run
    from graveler.runs import RunHandle as RunHandle
    from graveler.runs import RunRecord as RunRecord
    from graveler.runs import Runs as Runs
    from graveler.runs import RunState as RunState
    from graveler.runs import Step as Step
    from graveler.runs import Why as Why

__getattr__, __dir__, __all__ = lazy_names(__name__)
