"""Operators: the ends of a run, gates, branches, commits, files."""

from graveler_airflow.operators.branches import (
    GravelerCreateBranchOperator,
    GravelerDeleteBranchOperator,
    GravelerMergeOperator,
    GravelerTagOperator,
)
from graveler_airflow.operators.commits import GravelerCommitOperator, GravelerRevertOperator
from graveler_airflow.operators.files import GravelerDeleteOperator, GravelerLinkOperator
from graveler_airflow.operators.gate import GravelerGateOperator
from graveler_airflow.operators.run import (
    GravelerCloseRunOperator,
    GravelerOpenRunOperator,
    GravelerPublishRunOperator,
)
from graveler_airflow.operators.runs import GravelerReapOperator, GravelerRollbackOperator

__all__ = [
    "GravelerCloseRunOperator",
    "GravelerCommitOperator",
    "GravelerCreateBranchOperator",
    "GravelerDeleteBranchOperator",
    "GravelerDeleteOperator",
    "GravelerGateOperator",
    "GravelerLinkOperator",
    "GravelerMergeOperator",
    "GravelerOpenRunOperator",
    "GravelerPublishRunOperator",
    "GravelerReapOperator",
    "GravelerRevertOperator",
    "GravelerRollbackOperator",
    "GravelerTagOperator",
]
