"""graveler in Airflow: every DAG run works on its own branch, and `main` moves in one step.

::

    with graveler_run("flights", gates=[no_empty_hours]) as run:
        ingest(run) >> transform(run)

Names are loaded when they are first used, because Airflow imports this package for its
``get_provider_info`` module in every process, long before a process needs an operator.
"""

from typing import TYPE_CHECKING

from graveler_common import lazy_names

if TYPE_CHECKING:
    from graveler_airflow.assets import graveler_asset as graveler_asset
    from graveler_airflow.assets import graveler_partitions as graveler_partitions
    from graveler_airflow.assets import hourly as hourly
    from graveler_airflow.dag.handles import TaskStep as TaskStep
    from graveler_airflow.decorators import graveler_bash_task as graveler_bash_task
    from graveler_airflow.decorators import graveler_task as graveler_task
    from graveler_airflow.decorators import step_env as step_env
    from graveler_airflow.hook import GravelerHook as GravelerHook
    from graveler_airflow.notifier import GravelerNotifier as GravelerNotifier
    from graveler_airflow.operators.branches import GravelerCommitOperator as GravelerCommitOperator
    from graveler_airflow.operators.branches import (
        GravelerCreateBranchOperator as GravelerCreateBranchOperator,
    )
    from graveler_airflow.operators.branches import (
        GravelerDeleteBranchOperator as GravelerDeleteBranchOperator,
    )
    from graveler_airflow.operators.branches import GravelerMergeOperator as GravelerMergeOperator
    from graveler_airflow.operators.branches import GravelerRevertOperator as GravelerRevertOperator
    from graveler_airflow.operators.branches import GravelerTagOperator as GravelerTagOperator
    from graveler_airflow.operators.files import GravelerDeleteOperator as GravelerDeleteOperator
    from graveler_airflow.operators.files import GravelerLinkOperator as GravelerLinkOperator
    from graveler_airflow.operators.gates import GravelerGateOperator as GravelerGateOperator
    from graveler_airflow.operators.gates import TaskGate as TaskGate
    from graveler_airflow.operators.gates import graveler_gate as graveler_gate
    from graveler_airflow.operators.ingestion import (
        GravelerIngestOperator as GravelerIngestOperator,
    )
    from graveler_airflow.operators.ingestion import (
        GravelerReleaseOperator as GravelerReleaseOperator,
    )
    from graveler_airflow.operators.maintenance import (
        GravelerMaintainOperator as GravelerMaintainOperator,
    )
    from graveler_airflow.operators.maintenance import (
        GravelerReapOperator as GravelerReapOperator,
    )
    from graveler_airflow.operators.maintenance import (
        GravelerRollbackOperator as GravelerRollbackOperator,
    )
    from graveler_airflow.operators.partitions import (
        GravelerPartitionsOperator as GravelerPartitionsOperator,
    )
    from graveler_airflow.operators.runs import GravelerCloseRunOperator as GravelerCloseRunOperator
    from graveler_airflow.operators.runs import GravelerOpenRunOperator as GravelerOpenRunOperator
    from graveler_airflow.operators.runs import (
        GravelerPublishRunOperator as GravelerPublishRunOperator,
    )
    from graveler_airflow.run import graveler_run as graveler_run
    from graveler_airflow.sensors import GravelerCommitSensor as GravelerCommitSensor
    from graveler_airflow.sensors import GravelerIngestSensor as GravelerIngestSensor
    from graveler_airflow.sensors import GravelerObjectSensor as GravelerObjectSensor
    from graveler_airflow.triggers import GravelerCommitTrigger as GravelerCommitTrigger
    from graveler_airflow.triggers import GravelerTrigger as GravelerTrigger

__getattr__, __dir__, __all__ = lazy_names(__name__, needs="airflow")
