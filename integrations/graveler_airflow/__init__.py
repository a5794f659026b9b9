"""graveler in Airflow: every DAG run works on a branch of its own, `main` moves in one step.

::

    with graveler_run("flights", gates=[no_empty_hours]) as run:
        ingest(run) >> transform(run)

Names are loaded when they are first used: Airflow imports this package to look at its
``get_provider_info`` module, long before it needs an operator.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graveler_airflow.binding import TaskStep
    from graveler_airflow.decorators import graveler_gate, graveler_task
    from graveler_airflow.hook import GravelerHook
    from graveler_airflow.operators import (
        GravelerCloseRunOperator,
        GravelerMergeOperator,
        GravelerOpenRunOperator,
    )
    from graveler_airflow.run import graveler_run

_HOMES = {
    "GravelerCloseRunOperator": "operators",
    "GravelerHook": "hook",
    "GravelerMergeOperator": "operators",
    "GravelerOpenRunOperator": "operators",
    "TaskStep": "binding",
    "graveler_gate": "decorators",
    "graveler_run": "run",
    "graveler_task": "decorators",
}

__all__ = [
    "GravelerCloseRunOperator",
    "GravelerHook",
    "GravelerMergeOperator",
    "GravelerOpenRunOperator",
    "TaskStep",
    "graveler_gate",
    "graveler_run",
    "graveler_task",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'graveler_airflow' has no attribute {name!r}")
    value = getattr(import_module(f"graveler_airflow.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
