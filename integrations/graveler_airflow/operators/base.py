"""The base classes of the operators on a repository, on an open run, and of those that write."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator, Context

from graveler.errors import InvalidInputError, NoChangesError
from graveler.lake import Branch, Repository, Run
from graveler.model import Commit
from graveler_airflow.dag.context import task_metadata
from graveler_airflow.dag.handles import attached, connection_of, working_step
from graveler_airflow.failures import final_failures
from graveler_airflow.hook import GravelerHook
from graveler_airflow.lineage.work import TaskWork
from graveler_airflow.links import LINKS, point_to

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

_IDENTITY = ("airflow.dag_id", "airflow.run_id", "airflow.task_id", "airflow.map_index")
_READ = 1000


class ReportsLineage:
    """An operator that reports the reads and writes of its task to OpenLineage.

    Airflow's OpenLineage provider calls it in a separate process when the task has ended.
    """

    @cached_property
    def lineage(self) -> TaskWork:
        """The reads and writes of the task."""
        return TaskWork()

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> "OperatorLineage[Any, Any]":
        """Return the datasets of a task that has ended, with commits as their versions."""
        from graveler_airflow.lineage.facets import lineage_of  # an extra

        return lineage_of(self.lineage)


class GravelerOperator(ReportsLineage, BaseOperator):
    """Performs one idempotent operation on a repository: a retry finds the result of an earlier try.

    Args:
        repo: The repository; the connection's if not given.
        graveler_conn_id: The connection of the lake.
        **kwargs: The arguments of any operator.
    """

    template_fields: Sequence[str] = ("repo", "graveler_conn_id")
    operator_extra_links = LINKS
    ui_color = "#e4ecf0"
    commits_to: ClassVar[str] = ""
    """The argument that names the branch of the commit that it makes."""
    merges: ClassVar[str] = ""
    """The argument that names the branch that this commit merges."""

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

    @cached_property
    def hook(self) -> GravelerHook:
        """The connection."""
        return GravelerHook(self.graveler_conn_id)

    def execute(self, context: Context) -> Any:
        """Open the repository and act; a commit's id is the task's XCom, and its link."""
        self.lineage = TaskWork()
        with final_failures(), self.hook.opened(self.repo) as repository:
            self.lineage.tags["graveler.repository"] = repository.name
            result = self._act(repository, context)
            if not isinstance(result, Commit):
                return result
            point_to(self, self.graveler_conn_id, repository.name, result)
            self.log.info("Commit %s: %s", result.id, result.message.partition("\n")[0])
            self.lineage.tags["graveler.commit"] = result.id
            if self.commits_to and made_by(result, task_metadata(context)):
                into, source = getattr(self, self.commits_to), getattr(self, self.merges, "")
                self.lineage.note_commit(
                    self.graveler_conn_id, repository.stores, into, result, source
                )
            return result.id

    @abstractmethod
    def _act(self, repository: Repository, context: Context) -> Any:
        """Act, and return the commit or another value for the task's XCom."""


class GravelerRunOperator(ReportsLineage, BaseOperator):
    """Performs one operation on an open run.

    Args:
        run: The run of ``graveler_run``, or the output of `GravelerOpenRunOperator`.
        **kwargs: The arguments of any operator.
    """

    template_fields: Sequence[str] = ("run",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"run": "json"}
    operator_extra_links = LINKS

    def __init__(self, *, run: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run

    def execute(self, context: Context) -> Any:
        """Attach to the run and act; return the value for the task's XCom."""
        self.lineage = TaskWork()
        with final_failures(), attached(self.run) as run:
            self.lineage.note_run(run.handle)
            return self._act(run, context)

    @abstractmethod
    def _act(self, run: Run, context: Context) -> Any:
        """Act, and return the value for the task's XCom."""


class GravelerCommittingOperator(GravelerOperator):
    """Makes a commit.

    Args:
        message: The commit's message; by default it describes the commit.
        metadata: Metadata of the commit, in addition to that of the task.
        **kwargs: The arguments of `GravelerOperator`.
    """

    template_fields: Sequence[str] = (*GravelerOperator.template_fields, "message", "metadata")
    template_fields_renderers: ClassVar[dict[str, str]] = dict.fromkeys(
        ("metadata", "run", "paths"), "json"
    )
    commits_to = "branch"

    def __init__(
        self, *, message: str = "", metadata: Mapping[str, str] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.message = message
        self.metadata = metadata or {}

    def pairs(self, context: Context) -> dict[str, str]:
        """Return the metadata of the commit: the given one, and that of the task."""
        return {**self.metadata, **task_metadata(context)}


class GravelerWritingOperator(GravelerCommittingOperator):
    """Changes files as a step of a run, or in one commit on a branch.

    Args:
        run: The run of ``graveler_run``.
        branch: Instead of `run`, the branch to write and commit to.
        **kwargs: The arguments of `GravelerCommittingOperator`: `repo` is the branch's.
    """

    template_fields: Sequence[str] = (*GravelerCommittingOperator.template_fields, "run", "branch")

    def __init__(self, *, run: Any = None, branch: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if (run is None) == (not branch):
            raise InvalidInputError(
                f"{self.task_id}: give one of run (what `with graveler_run(...) as run` gives) "
                "and branch"
            )
        self.run = run
        self.branch = branch

    def execute(self, context: Context) -> Any:
        """Write in a step of the run, or on the branch; return the commit id or None."""
        if self.run is None:
            return super().execute(context)
        self.lineage = TaskWork()
        with final_failures():
            with working_step(self.run, context, self.metadata) as step:
                self.log.info("%s, on %s", self._write(step), step.run.branch)
            self.lineage.note_step(connection_of(self.run), step)
            if step.result is None:
                return None
            point_to(self, connection_of(self.run), step.run.repository, step.result)
            return step.result.id

    def _act(self, repository: Repository, context: Context) -> Commit | None:
        change = self._write(repository.branch(self.branch))
        self.log.info("%s, on %s", change, self.branch)
        message = self.message or change
        try:
            return commit_once(repository, self.branch, message, self.pairs(context))
        except NoChangesError:
            self.log.info("Nothing changed: no commit")
            return None

    @abstractmethod
    def _write(self, target: Branch) -> str:
        """Stage the change on `target`, and return a short description of it."""


def commit_once(
    repository: Repository, branch: str, message: str, metadata: Mapping[str, str]
) -> Commit:
    """Commit the staged writes of `branch`, or return the commit that an earlier try made."""
    try:
        return repository.branch(branch).commit(message, metadata=metadata)
    except NoChangesError:
        earlier = earlier_commit(repository, branch, metadata)
        if earlier is None:
            raise
        return earlier


def earlier_commit(
    repository: Repository, branch: str, metadata: Mapping[str, str]
) -> Commit | None:
    """Return the latest commit on `branch` that any try of the same task made, or None.

    A try that died after its commit has done its work. The next try finds that commit here.
    """
    for commit in islice(repository.log(branch, first_parent=True), _READ):
        if made_by(commit, metadata):
            return commit
    return None


def made_by(commit: Commit, metadata: Mapping[str, str]) -> bool:
    """Return whether a commit and the metadata name the same task."""
    return all(commit.metadata.get(name) == metadata.get(name) for name in _IDENTITY)
