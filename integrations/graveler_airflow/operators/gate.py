"""A gate as a task of its own."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from airflow.sdk import BaseOperator, Context

from graveler.errors import GateFailedError
from graveler.gates import as_gates
from graveler.gates.answer import Check
from graveler.gates.gate import Gate
from graveler_airflow.dag.error_policy import final_failures
from graveler_airflow.dag.handles import attached
from graveler_airflow.links import LINKS
from graveler_common.rows import refusal_text

REFUSAL: Final = "graveler_refusal"
"""The XCom in which a gate that refuses leaves its reason, for the end of the run."""


class GravelerGateOperator(BaseOperator):
    """Asks gates for their verdicts as if the run published now; nothing moves.

    A refusal fails the task, without a retry; one of severity ``warn`` is logged. The merge
    judges the same gates again, on exactly what it publishes: this task only shows the verdict
    earlier, in a square of its own. Verdicts whose inputs are unchanged are not computed again.

    Args:
        run: What ``graveler_run`` gives.
        gates: Checks on what the target would become.
        **kwargs: The arguments of any operator.
    """

    template_fields: Sequence[str] = ("run",)
    operator_extra_links = LINKS
    ui_color = "#f2ecd6"

    def __init__(self, *, run: Any, gates: Iterable[Gate | Check], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run
        self.gates = list(as_gates(gates))

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Judge; return the verdict of each gate."""
        with final_failures(), attached(self.run) as run:
            verdicts = run.judge(self.gates)
            if not verdicts:
                self.log.info("The run has changed nothing: there is nothing to judge")
            for verdict in verdicts:
                if verdict.passed:
                    self.log.info("Gate %s: passed", verdict.gate)
                else:
                    self.log.warning("Gate %s: %s", verdict.gate, verdict.reason)
            if reason := refusal_text(verdicts):
                context["ti"].xcom_push(key=REFUSAL, value=reason)
                raise GateFailedError(f"run {run.key!r} would be refused: {reason}", verdicts)
            return [
                {"gate": verdict.gate, "passed": verdict.passed, "reason": verdict.reason}
                for verdict in verdicts
            ]
