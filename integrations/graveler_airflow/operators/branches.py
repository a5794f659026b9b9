"""Operators on branches and tags, and those that commit and revert: each makes one ref move."""

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from graveler.base.arguments import choice
from graveler.errors import AlreadyExistsError, NoChangesError, RefNotFoundError
from graveler.lake import Repository
from graveler.model import Commit
from graveler.repository.strategies import Strategy, check_strategy
from graveler_airflow.operators.base import (
    GravelerCommittingOperator,
    GravelerOperator,
    commit_once,
    earlier_commit,
)


class GravelerCreateBranchOperator(GravelerOperator):
    """Creates a branch, which copies nothing; its XCom is the branch's name.

    It succeeds if the branch exists at the source's commit, for example after an earlier try.

    How to use it: ``docs/guides/airflow-operators.md#gravelercreatebranchoperator``.

    Args:
        branch: The branch's name.
        source: The ref at which it begins.
        exist_ok: Succeed if the branch exists, at any commit.
        **kwargs: The arguments of `GravelerOperator`.
    """

    template_fields: Sequence[str] = (*GravelerOperator.template_fields, "branch", "source")

    def __init__(
        self, *, branch: str, source: str = "main", exist_ok: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.branch = branch
        self.source = source
        self.exist_ok = exist_ok

    def _act(self, repository: Repository, context: Context) -> str:
        try:
            repository.create_branch(self.branch, self.source, exist_ok=self.exist_ok)
        except AlreadyExistsError:
            head = repository.branch(self.branch).head.id
            source = repository.commit(self.source).id
            if head != source:
                raise AlreadyExistsError(
                    f"branch {self.branch!r} exists, at {head}, and {self.source!r} is at "
                    f"{source}: give another name, delete it first, or set exist_ok=True"
                ) from None
        return self.branch


class GravelerDeleteBranchOperator(GravelerOperator):
    """Deletes a branch and its staged writes; its commits stay.

    How to use it: ``docs/guides/airflow-operators.md#gravelerdeletebranchoperator``.

    Args:
        branch: The branch's name.
        missing_ok: Succeed if there is no such branch. A retry always succeeds in this case.
        **kwargs: The arguments of `GravelerOperator`.
    """

    template_fields: Sequence[str] = (*GravelerOperator.template_fields, "branch")

    def __init__(self, *, branch: str, missing_ok: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.branch = branch
        self.missing_ok = missing_ok

    def _act(self, repository: Repository, context: Context) -> None:
        try:
            repository.delete_branch(self.branch)
        except RefNotFoundError:
            if not self.missing_ok and context["ti"].try_number == 1:
                raise


class GravelerMergeOperator(GravelerCommittingOperator):
    """Merges one branch into another; its XCom is the id of the commit that has both.

    Do not use it for a run's branch, which is published to its target. A retry finds the merge of an
    earlier try. A conflict is a failure without a retry.

    How to use it: ``docs/guides/airflow-operators.md#gravelermergeoperator``.

    Args:
        source: A ref.
        into: A branch.
        strategy: ``source-wins`` or ``dest-wins`` for paths in conflict.
        **kwargs: The arguments of `GravelerCommittingOperator`.
    """

    template_fields: Sequence[str] = (*GravelerCommittingOperator.template_fields, "source", "into")
    commits_to = "into"
    merges = "source"

    def __init__(
        self, *, source: str, into: str = "main", strategy: Strategy | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.into = into
        check_strategy(strategy)
        self.strategy = strategy

    def _act(self, repository: Repository, context: Context) -> Commit:
        return repository.merge(
            self.source,
            self.into,
            strategy=self.strategy,
            message=self.message or None,
            metadata=self.pairs(context),
        ).commit


class GravelerTagOperator(GravelerOperator):
    """Tags a commit; its XCom is the commit's id.

    A tag does not move. The task succeeds if the tag already names that commit, and fails if it
    names another commit.

    How to use it: ``docs/guides/airflow-operators.md#gravelertagoperator``.

    Args:
        tag: The tag's name.
        ref: The commit to tag.
        **kwargs: The arguments of `GravelerOperator`.
    """

    template_fields: Sequence[str] = (*GravelerOperator.template_fields, "tag", "ref")

    def __init__(self, *, tag: str, ref: str = "main", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tag = tag
        self.ref = ref

    def _act(self, repository: Repository, context: Context) -> Commit:
        try:
            return repository.tags.create(self.tag, self.ref)
        except AlreadyExistsError:
            tagged, wanted = repository.tags.list().get(self.tag), repository.commit(self.ref)
            if tagged != wanted.id:
                raise AlreadyExistsError(
                    f"tag {self.tag!r} names {tagged}, and {self.ref!r} is {wanted.id}: "
                    "delete the tag first, or choose another name"
                ) from None
            return wanted


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
        self.branch = branch
        self.on_empty = choice(on_empty, "on_empty", ("fail", "skip", "commit"))

    def _act(self, repository: Repository, context: Context) -> Commit:
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

    template_fields: Sequence[str] = (*GravelerCommitOperator.template_fields, "commit")

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

    def _act(self, repository: Repository, context: Context) -> Commit:
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
