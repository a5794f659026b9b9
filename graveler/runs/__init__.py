"""One run, one branch: its states, its steps, and how it is published."""

from graveler.runs.publishing import PublishResult
from graveler.runs.record import RunHandle, RunRecord
from graveler.runs.run import Run
from graveler.runs.runs import Runs
from graveler.runs.state import RunState
from graveler.runs.step import Step

__all__ = ["PublishResult", "Run", "RunHandle", "RunRecord", "RunState", "Runs", "Step"]
