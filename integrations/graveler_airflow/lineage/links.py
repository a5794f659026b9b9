"""Links from a task to what it made: the plugin's pages on a commit, its changes and the run.

Airflow asks a link for its address in the task's own process, when the task has ended: the
task leaves there what it made. Where ``[api] base_url`` is not set, there are no links.
"""

from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperatorLink

from graveler.model import Commit
from graveler_airflow.lineage.pages import commit_page, diff_page, run_page

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

__all__ = ["LINKS", "GravelerCommitLink", "GravelerDiffLink", "GravelerRunLink", "point_to"]

_MADE: Final = "graveler_made"


def point_to(operator: "BaseOperator", *, conn_id: str, repo: str, commit: Commit) -> None:
    """Let the links of a task lead to the commit that it made."""
    parent = commit.parents[0] if commit.parents else commit.id
    made = {
        GravelerCommitLink: commit_page(conn_id, repo, commit.id),
        GravelerDiffLink: diff_page(conn_id, repo, parent, commit.id),
    }
    setattr(operator, _MADE, made)


class _MadeLink(BaseOperatorLink):
    """A link to what the task made; none where it made nothing."""

    def get_link(self, operator: "BaseOperator", *, ti_key: "TaskInstanceKey") -> str:
        """Return the address that the task left, or ""."""
        made: dict[Any, str] = getattr(operator, _MADE, {})
        return made.get(type(self), "")


class GravelerCommitLink(_MadeLink):
    """To the commit that the task made."""

    name = "Commit"


class GravelerDiffLink(_MadeLink):
    """To what that commit changed."""

    name = "Changes"


class GravelerRunLink(BaseOperatorLink):
    """To the graveler run of the task's DAG run: its branch, its gates."""

    name = "Run"

    def get_link(self, operator: "BaseOperator", *, ti_key: "TaskInstanceKey") -> str:
        """Return the address of the page on the DAG run, or ""."""
        return run_page(ti_key.dag_id, ti_key.run_id)


LINKS: Final = (GravelerCommitLink(), GravelerDiffLink(), GravelerRunLink())
