"""What the operators on a repository have in common."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow.sdk import BaseOperator, Context

from graveler.errors import InvalidInputError, NoChangesError
from graveler.lake import Branch, Repository
from graveler.model import Commit
from graveler_airflow.dag.context import step_name, task_metadata
from graveler_airflow.dag.error_policy import final_failures
from graveler_airflow.dag.handles import attached, connection_of
from graveler_airflow.dag.xcom_state import tell
from graveler_airflow.hook import GravelerHook
from graveler_airflow.lineage.links import LINKS, point_to
from graveler_airflow.lineage.own_commits import commit_once

__all__ = ["GravelerOperator", "GravelerWritingOperator"]


class GravelerOperator(BaseOperator):
    """Does one thing to a repository; a second try that finds it done is content.

    Args:
        repo: The repository; the connection's where not given.
        graveler_conn_id: The connection that says where the lake is.
        **kwargs: As of any operator.
    """

    template_fields: Sequence[str] = ("repo",)
    operator_extra_links = LINKS
    ui_color = "#e4ecf0"

    def __init__(
        self,
        *,
        repo: str = "",
        graveler_conn_id: str = GravelerHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.repo = repo
        self.graveler_conn_id = graveler_conn_id

    def execute(self, context: Context) -> Any:
        """Open the repository and act; a commit's id is the task's XCom, and its link."""
        with final_failures(), GravelerHook(self.graveler_conn_id).repository(self.repo) as there:
            result = self.act(there, context)
            if not isinstance(result, Commit):
                return result
            point_to(self, conn_id=self.graveler_conn_id, repo=there.name, commit=result)
            self.log.info("Commit %s: %s", result.id, result.message.partition("\n")[0])
            return result.id

    @abstractmethod
    def act(self, repository: Repository, context: Context) -> Any:
        """Do it, and return the commit, or what else the task's XCom shall be."""


class GravelerWritingOperator(GravelerOperator):
    """Changes files: in a run, as a step of it, or on a branch, in a commit of its own.

    Args:
        run: What ``graveler_run`` gives; or
        branch: The branch to write and commit to.
        message: Of the commit; one that says what was done where not given.
        metadata: Of the commit.
        **kwargs: As of `GravelerOperator`: the branch's `repo`.
    """

    template_fields: Sequence[str] = ("repo", "run", "branch", "message", "metadata")
    works_in_steps: ClassVar[bool] = True

    def __init__(
        self,
        *,
        run: Any = None,
        branch: str = "",
        message: str = "",
        metadata: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if (run is None) == (not branch):
            raise InvalidInputError(
                f"{self.task_id}: give one of run (what `with graveler_run(...) as run` gives) "
                "and branch"
            )
        self.run = run
        self.branch = branch
        self.message = message
        self.metadata = metadata or {}

    def execute(self, context: Context) -> Any:
        """Write in a step of the run, or on the branch; return the commit, None for none."""
        if self.run is None:
            return super().execute(context)
        name, tried = step_name(context), context["ti"].try_number
        metadata = {**self.metadata, **task_metadata(context)}
        with final_failures(), attached(self.run) as run, run.renewing():
            with run.step(name, try_number=tried, metadata=metadata) as step:
                self.log.info("%s, on %s", self.write(step), run.branch)
            if step.result is None:
                return None
            tell(context, [step])
            repo = run.handle.repository
            point_to(self, conn_id=connection_of(self.run), repo=repo, commit=step.result)
            return step.result.id

    def act(self, repository: Repository, context: Context) -> Commit | None:
        """Write on the branch and commit."""
        done = self.write(repository.branch(self.branch))
        self.log.info("%s, on %s", done, self.branch)
        try:
            return commit_once(
                repository,
                self.branch,
                context,
                message=self.message or done,
                metadata=self.metadata,
            )
        except NoChangesError:
            self.log.info("It was so before: no commit")
            return None

    @abstractmethod
    def write(self, target: Branch) -> str:
        """Stage the change on `target`, and say in a few words what it is."""
