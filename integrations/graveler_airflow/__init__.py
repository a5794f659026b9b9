"""graveler in Airflow: every DAG run works on a branch of its own, `main` moves in one step.

::

    with graveler_run("flights", gates=[no_empty_hours]) as run:
        ingest(run) >> transform(run)

Names are loaded when they are first used: Airflow imports this package for its
``get_provider_info`` module in every process, long before a process needs an operator.
"""

from typing import TYPE_CHECKING

from graveler_common.lazy import lazy_names

if TYPE_CHECKING:
    from graveler_airflow.assets import graveler_asset, graveler_partitions, hourly
    from graveler_airflow.dag.handles import TaskStep
    from graveler_airflow.decorators import graveler_task
    from graveler_airflow.gates import TaskGate, graveler_gate
    from graveler_airflow.hook import GravelerHook
    from graveler_airflow.notifier import GravelerNotifier
    from graveler_airflow.operators import (
        GravelerCloseRunOperator,
        GravelerCommitOperator,
        GravelerCreateBranchOperator,
        GravelerDeleteBranchOperator,
        GravelerDeleteOperator,
        GravelerGateOperator,
        GravelerIngestOperator,
        GravelerLinkOperator,
        GravelerMergeOperator,
        GravelerOpenRunOperator,
        GravelerPartitionsOperator,
        GravelerPublishRunOperator,
        GravelerReapOperator,
        GravelerReleaseOperator,
        GravelerRevertOperator,
        GravelerRollbackOperator,
        GravelerTagOperator,
    )
    from graveler_airflow.run import graveler_run
    from graveler_airflow.sensors import (
        GravelerCommitSensor,
        GravelerIngestSensor,
        GravelerObjectSensor,
    )
    from graveler_airflow.triggers import (
        GravelerCommitTrigger,
        GravelerIngestTrigger,
        GravelerObjectTrigger,
    )

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "assets": (
            "graveler_asset",
            "graveler_partitions",
            "hourly",
        ),
        "dag.handles": ("TaskStep",),
        "decorators": ("graveler_task",),
        "gates": (
            "TaskGate",
            "graveler_gate",
        ),
        "hook": ("GravelerHook",),
        "notifier": ("GravelerNotifier",),
        "operators": (
            "GravelerCloseRunOperator",
            "GravelerCommitOperator",
            "GravelerCreateBranchOperator",
            "GravelerDeleteBranchOperator",
            "GravelerDeleteOperator",
            "GravelerGateOperator",
            "GravelerIngestOperator",
            "GravelerLinkOperator",
            "GravelerMergeOperator",
            "GravelerOpenRunOperator",
            "GravelerPartitionsOperator",
            "GravelerPublishRunOperator",
            "GravelerReapOperator",
            "GravelerReleaseOperator",
            "GravelerRevertOperator",
            "GravelerRollbackOperator",
            "GravelerTagOperator",
        ),
        "run": ("graveler_run",),
        "sensors": (
            "GravelerCommitSensor",
            "GravelerIngestSensor",
            "GravelerObjectSensor",
        ),
        "triggers": (
            "GravelerCommitTrigger",
            "GravelerIngestTrigger",
            "GravelerObjectTrigger",
        ),
    },
)

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
