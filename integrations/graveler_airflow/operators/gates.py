"""Gates that are tasks: the operator, and the decorator ``@task.graveler_gate``."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self, overload

from airflow.sdk import Context, XComArg

from graveler.errors import GateFailedError
from graveler.gates import Candidate
from graveler.gates.gate import Check, Gate, as_gates
from graveler.lake import Run
from graveler_airflow.dag.handles import connection_of
from graveler_airflow.operators.base import GravelerRunOperator
from graveler_common.history import refusal_text

_GATE_OPTIONS = {field.name for field in fields(Gate)} - {"name", "check"}
_NOT_IN_ID = re.compile(r"[^\w.-]+", re.ASCII)

REFUSAL = "graveler_refusal"
"""The XCom in which a gate that refuses stores its reason, for the end of the run."""


class GravelerGateOperator(GravelerRunOperator):
    """Judges gates as if the run published now; nothing moves.

    A refusal fails the task without a retry; a refusal of severity ``warn`` is logged. The merge
    judges the same gates again, on exactly the tree that it publishes. This task only shows the
    verdict earlier, as a separate task. Verdicts whose inputs are unchanged are not computed again.

    How to use it: ``docs/guides/airflow-operators.md#gravelergateoperator``.

    Args:
        gates: Checks of the tree that the target would get.
        **kwargs: ``run`` and the other arguments of `GravelerRunOperator`.
    """

    ui_color = "#f2ecd6"

    def __init__(self, *, gates: Iterable[Gate | Check], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.gates = list(as_gates(gates))

    def _act(self, run: Run, context: Context) -> list[dict[str, Any]]:
        verdicts = run.judge(self.gates)
        head = run.head.id
        self.lineage.note_judged(connection_of(self.run), run, head, verdicts, self.gates)
        if not verdicts:
            self.log.info("The run has changed nothing: there is nothing to judge")
        for verdict in verdicts:
            if verdict.passed:
                self.log.info("Gate %s: passed", verdict.gate)
            elif not verdict.refuses:
                self.log.warning("Gate %s: %s", verdict.gate, verdict.reason)
        if reason := refusal_text(verdicts):
            context["ti"].xcom_push(key=REFUSAL, value=reason)
            raise GateFailedError(f"run {run.key!r} would be refused: {reason}", verdicts)
        return [
            {"gate": verdict.gate, "passed": verdict.passed, "reason": verdict.reason}
            for verdict in verdicts
        ]


@dataclass(frozen=True, slots=True)
class TaskGate(Gate):
    """A gate that becomes a task when it is called with a run.

    ``no_empty_hours(run)`` inside a ``graveler_run`` block creates the task, which shows the
    verdict early, as a separate task. The task alone does not protect `main`, which may move after
    it. The merge therefore judges the gate again, on exactly the tree that it publishes. In the
    ``gates`` of ``graveler_run`` it is only a gate of the merge.

    Attributes:
        options: Options of the task: ``task_id``, ``pool``, ``execution_timeout``, …
    """

    options: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @overload
    def __call__(self, run: Candidate, /) -> bool | str | None: ...

    @overload
    def __call__(self, run: Any, /) -> XComArg: ...

    def __call__(self, run: Any, /) -> Any:
        """Create the task for the run of ``graveler_run``, or judge a candidate."""
        if isinstance(run, Candidate):
            return self.check(run)
        options = {"task_id": _NOT_IN_ID.sub("_", self.name), **self.options}
        return GravelerGateOperator(run=run, gates=[self], **options).output

    def override(self, **options: Any) -> Self:
        """Return the gate with other options of the gate or of its task, as for any ``@task``."""
        own = {name: options.pop(name) for name in _GATE_OPTIONS & {*options}}
        return replace(self, options={**self.options, **options}, **own)


@overload
def graveler_gate(name: Check, /) -> TaskGate: ...


@overload
def graveler_gate(name: str | None = None, /, **options: Any) -> Callable[[Check], TaskGate]: ...


def graveler_gate(
    name: Check | str | None = None, /, **options: Any
) -> TaskGate | Callable[[Check], TaskGate]:
    """Make a gate of a function, and a task of each call: ``@task.graveler_gate``.

    ::

        @task.graveler_gate(prefix="output/")
        def no_empty_hours(candidate):
            assert candidate.has_below("output/"), "there is no output"

        with graveler_run("events") as run:
            curate(run) >> no_empty_hours(run)

    Args:
        name: The gate's name; the function's if not given.
        **options: Options of ``graveler.gate`` (``prefix``, ``severity``, ``timeout``, …) and
            of the task (``task_id``, ``pool``, …).
    """
    own = {name: options.pop(name) for name in _GATE_OPTIONS & {*options}}

    def make(check: Check, /) -> TaskGate:
        default = str(getattr(check, "__name__", type(check).__name__))
        return TaskGate(name if isinstance(name, str) else default, check, **own, options=options)

    return make(name) if callable(name) else make
