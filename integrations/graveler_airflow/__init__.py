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
    from graveler_airflow.assets import graveler_asset, graveler_partitions
    from graveler_airflow.dag.handles import TaskStep
    from graveler_airflow.decorators import graveler_task
    from graveler_airflow.gates import TaskGate, graveler_gate
    from graveler_airflow.hook import GravelerHook
    from graveler_airflow.ingest_trigger import GravelerIngestTrigger
    from graveler_airflow.ingesting import (
        GravelerIngestOperator,
        GravelerIngestSensor,
        GravelerReleaseOperator,
    )
    from graveler_airflow.notifier import GravelerNotifier
    from graveler_airflow.operators.branches import (
        GravelerCreateBranchOperator,
        GravelerDeleteBranchOperator,
        GravelerMergeOperator,
        GravelerTagOperator,
    )
    from graveler_airflow.operators.commits import GravelerCommitOperator, GravelerRevertOperator
    from graveler_airflow.operators.files import GravelerDeleteOperator, GravelerLinkOperator
    from graveler_airflow.operators.gate import GravelerGateOperator
    from graveler_airflow.operators.partitions import GravelerPartitionsOperator
    from graveler_airflow.operators.run import (
        GravelerCloseRunOperator,
        GravelerOpenRunOperator,
        GravelerPublishRunOperator,
    )
    from graveler_airflow.operators.runs import GravelerReapOperator, GravelerRollbackOperator
    from graveler_airflow.run import graveler_run
    from graveler_airflow.schedule import hourly
    from graveler_airflow.sensors import GravelerCommitSensor, GravelerObjectSensor
    from graveler_airflow.triggers import GravelerCommitTrigger, GravelerObjectTrigger

_HOMES = {
    "GravelerCloseRunOperator": "operators.run",
    "GravelerCommitOperator": "operators.commits",
    "GravelerCommitSensor": "sensors",
    "GravelerCommitTrigger": "triggers",
    "GravelerCreateBranchOperator": "operators.branches",
    "GravelerDeleteBranchOperator": "operators.branches",
    "GravelerDeleteOperator": "operators.files",
    "GravelerGateOperator": "operators.gate",
    "GravelerHook": "hook",
    "GravelerIngestOperator": "ingesting",
    "GravelerIngestSensor": "ingesting",
    "GravelerIngestTrigger": "ingest_trigger",
    "GravelerLinkOperator": "operators.files",
    "GravelerMergeOperator": "operators.branches",
    "GravelerNotifier": "notifier",
    "GravelerObjectSensor": "sensors",
    "GravelerObjectTrigger": "triggers",
    "GravelerOpenRunOperator": "operators.run",
    "GravelerPartitionsOperator": "operators.partitions",
    "GravelerPublishRunOperator": "operators.run",
    "GravelerReapOperator": "operators.runs",
    "GravelerReleaseOperator": "ingesting",
    "GravelerRevertOperator": "operators.commits",
    "GravelerRollbackOperator": "operators.runs",
    "GravelerTagOperator": "operators.branches",
    "TaskGate": "gates",
    "TaskStep": "dag.handles",
    "graveler_asset": "assets",
    "graveler_gate": "gates",
    "graveler_partitions": "assets",
    "graveler_run": "run",
    "graveler_task": "decorators",
    "hourly": "schedule",
}

__all__ = [
    "GravelerCloseRunOperator",
    "GravelerCommitOperator",
    "GravelerCommitSensor",
    "GravelerCommitTrigger",
    "GravelerCreateBranchOperator",
    "GravelerDeleteBranchOperator",
    "GravelerDeleteOperator",
    "GravelerGateOperator",
    "GravelerHook",
    "GravelerIngestOperator",
    "GravelerIngestSensor",
    "GravelerIngestTrigger",
    "GravelerLinkOperator",
    "GravelerMergeOperator",
    "GravelerNotifier",
    "GravelerObjectSensor",
    "GravelerObjectTrigger",
    "GravelerOpenRunOperator",
    "GravelerPartitionsOperator",
    "GravelerPublishRunOperator",
    "GravelerReapOperator",
    "GravelerReleaseOperator",
    "GravelerRevertOperator",
    "GravelerRollbackOperator",
    "GravelerTagOperator",
    "TaskGate",
    "TaskStep",
    "graveler_asset",
    "graveler_gate",
    "graveler_partitions",
    "graveler_run",
    "graveler_task",
    "hourly",
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
