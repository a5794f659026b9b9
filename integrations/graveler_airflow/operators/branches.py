"""Operators on branches and tags."""

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from graveler.errors import AlreadyExistsError, RefNotFoundError
from graveler.lake import Repository
from graveler.model import Commit
from graveler.repository.strategies import Strategy, check_strategy
from graveler_airflow.dag.context import task_metadata
from graveler_airflow.operators.base import GravelerCommittingOperator, GravelerOperator, made_by


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

    def act(self, repository: Repository, context: Context) -> str:
        """Create the branch."""
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

    def act(self, repository: Repository, context: Context) -> None:
        """Delete the branch."""
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

    def __init__(
        self, *, source: str, into: str = "main", strategy: Strategy | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.into = into
        check_strategy(strategy)
        self.strategy = strategy

    def act(self, repository: Repository, context: Context) -> Commit:
        """Merge."""
        commit = repository.merge(
            self.source,
            self.into,
            strategy=self.strategy,
            message=self.message or None,
            metadata=self.pairs(context),
        ).commit
        if made_by(commit, task_metadata(context)):
            self.lineage.note_merge(
                self.graveler_conn_id, repository.stores, commit, self.source, self.into
            )
        return commit


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

    def act(self, repository: Repository, context: Context) -> Commit:
        """Create the tag."""
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
