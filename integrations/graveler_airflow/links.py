"""Links from a task to the plugin's pages on its commit, the commit's changes, and its run.

Airflow asks a link for its address in the process of the task, when the task has ended. The
addresses are therefore attributes of the operator. Without the setting ``[api] base_url`` there are
no links.
"""

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink

from graveler.model import Commit
from graveler_airflow.dag.context import plugin_page

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

_ADDRESSES = "graveler_addresses"


def point_to(operator: "BaseOperator", conn_id: str, repo: str, commit: Commit) -> None:
    """Let the links of a task point to its commit."""
    parent = commit.parents[0] if commit.parents else commit.id
    addresses = {
        GravelerCommitLink: plugin_page("commit", conn=conn_id, repo=repo, ref=commit.id),
        GravelerDiffLink: plugin_page(
            "diff", conn=conn_id, repo=repo, left=parent, right=commit.id
        ),
    }
    setattr(operator, _ADDRESSES, addresses)


class _CommitLink(BaseOperatorLink):
    """A link to the task's commit, or no link for a task without one."""

    def get_link(self, operator: "BaseOperator", *, ti_key: "TaskInstanceKey") -> str:
        """Return the address that `point_to` stored, or ""."""
        addresses: dict[Any, str] = getattr(operator, _ADDRESSES, {})
        return addresses.get(type(self), "")


class GravelerCommitLink(_CommitLink):
    """A link to the task's commit."""

    name = "Graveler commit"


class GravelerDiffLink(_CommitLink):
    """A link to the changes of that commit."""

    name = "Graveler changes"


class GravelerRunLink(BaseOperatorLink):
    """A link to the graveler run of the task's DAG run."""

    name = "Graveler run"

    def get_link(self, operator: "BaseOperator", *, ti_key: "TaskInstanceKey") -> str:
        """Return the address of the plugin's page on the DAG run, or ""."""
        return plugin_page("runs", dag_id=ti_key.dag_id, run_id=ti_key.run_id)


LINKS = (GravelerCommitLink(), GravelerDiffLink(), GravelerRunLink())
