"""Operators that commit staged writes and revert commits."""

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from graveler.errors import InvalidInputError, NoChangesError
from graveler.lake import Repository
from graveler.model import Commit
from graveler.repository.strategies import Strategy, check_strategy
from graveler_airflow.operators.base import GravelerCommittingOperator, commit_once, earlier_commit

_ON_EMPTY = ("fail", "skip", "commit")


class GravelerCommitOperator(GravelerCommittingOperator):
    """Commits the staged writes of a branch; its XCom is the commit's id.

    A retry that finds nothing staged returns the commit of an earlier try. The commit names the
    DAG, the run, the task and the try.

    How to use it: ``docs/guides/airflow-operators.md#gravelercommitoperator``.

    Args:
        branch: The branch's name.
        message: The commit's message.
        on_empty: What to do if nothing is staged: ``fail``, ``skip`` the task, or make an empty
            ``commit``.
        **kwargs: The arguments of `GravelerCommittingOperator`.
    """

    template_fields: Sequence[str] = (*GravelerCommittingOperator.template_fields, "branch")

    def __init__(
        self,
        *,
        branch: str,
        message: str = "commit of {{ ti.task_id }}, {{ run_id }}",
        on_empty: str = "fail",
        **kwargs: Any,
    ) -> None:
        super().__init__(message=message, **kwargs)
        if on_empty not in _ON_EMPTY:
            raise InvalidInputError(f"on_empty {on_empty!r}: give one of {_ON_EMPTY}")
        self.branch = branch
        self.on_empty = on_empty

    @property
    def target(self) -> str:
        """The branch."""
        return self.branch

    def act(self, repository: Repository, context: Context) -> Commit:
        """Commit."""
        metadata = self.pairs(context)
        try:
            return commit_once(repository, self.branch, self.message, metadata)
        except NoChangesError as error:
            if self.on_empty == "skip":
                raise AirflowSkipException(str(error)) from error
            if self.on_empty == "fail":
                raise
        return repository.branch(self.branch).commit(
            self.message, metadata=metadata, allow_empty=True
        )


class GravelerRevertOperator(GravelerCommittingOperator):
    """Reverts the changes of a commit, by a new commit; its XCom is the new commit's id.

    For a published run use `GravelerRollbackOperator`, which lists the runs that have read it.

    How to use it: ``docs/guides/airflow-operators.md#gravelerrevertoperator``.

    Args:
        commit: A ref: the commit to revert.
        branch: The branch to commit to.
        parent: For a merge commit, the parent whose side stays, counted from 1. Not needed for a
            published run or for a merge into the branch itself.
        strategy: For paths in conflict, ``source-wins`` reverts and ``dest-wins`` keeps them.
        **kwargs: The arguments of `GravelerCommittingOperator`.
    """

    template_fields: Sequence[str] = (
        *GravelerCommittingOperator.template_fields,
        "commit",
        "branch",
    )

    def __init__(
        self,
        *,
        commit: str,
        branch: str = "main",
        parent: int | None = None,
        strategy: Strategy | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.commit = commit
        self.branch = branch
        self.parent = parent
        check_strategy(strategy)
        self.strategy = strategy

    @property
    def target(self) -> str:
        """The branch."""
        return self.branch

    def act(self, repository: Repository, context: Context) -> Commit:
        """Revert, unless an earlier try has."""
        target = repository.commit(self.commit)
        metadata = self.pairs(context)
        if context["ti"].try_number > 1:
            earlier = earlier_commit(repository, self.branch, metadata)
            if earlier is not None and earlier.metadata.get("graveler.revert") == target.id:
                return earlier
        return repository.revert(
            target.id,
            self.branch,
            parent=self.parent,
            strategy=self.strategy,
            message=self.message or None,
            metadata=metadata,
        )
