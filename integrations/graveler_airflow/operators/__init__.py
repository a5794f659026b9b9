"""Operators: the tasks of a run, gates, branches, commits, files, ingestion, partitions."""

from graveler_airflow.operators.branches import (
    GravelerCreateBranchOperator,
    GravelerDeleteBranchOperator,
    GravelerMergeOperator,
    GravelerTagOperator,
)
from graveler_airflow.operators.commits import GravelerCommitOperator, GravelerRevertOperator
from graveler_airflow.operators.files import GravelerDeleteOperator, GravelerLinkOperator
from graveler_airflow.operators.gates import GravelerGateOperator
from graveler_airflow.operators.ingestion import GravelerIngestOperator, GravelerReleaseOperator
from graveler_airflow.operators.partitions import GravelerPartitionsOperator
from graveler_airflow.operators.runs import (
    GravelerCloseRunOperator,
    GravelerOpenRunOperator,
    GravelerPublishRunOperator,
    GravelerReapOperator,
    GravelerRollbackOperator,
)

__all__ = [
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
]
