"""Operators on branches and tags."""

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import Context

from graveler.errors import AlreadyExistsError, RefNotFoundError
from graveler.lake import Repository
from graveler.model import Commit
from graveler_airflow.dag.context import task_metadata
from graveler_airflow.operators.base import GravelerOperator

__all__ = [
    "GravelerCreateBranchOperator",
    "GravelerDeleteBranchOperator",
    "GravelerMergeOperator",
    "GravelerTagOperator",
]


class GravelerCreateBranchOperator(GravelerOperator):
    """Makes a branch, which copies nothing; its XCom is the branch's name.

    Where the branch is there and at the source's commit, as an earlier try left it, it is done.

    Args:
        branch: Its name.
        source: The ref that it begins at.
        exist_ok: Be content with a branch of that name, wherever it is.
        **kwargs: As of `GravelerOperator`.
    """

    template_fields: Sequence[str] = ("repo", "branch", "source")

    def __init__(
        self, *, branch: str, source: str = "main", exist_ok: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.branch = branch
        self.source = source
        self.exist_ok = exist_ok

    def act(self, repository: Repository, context: Context) -> str:
        """Make the branch."""
        try:
            repository.create_branch(self.branch, self.source, exist_ok=self.exist_ok)
        except AlreadyExistsError:
            there = repository.branch(self.branch).head.id
            source = repository.commit(self.source).id
            if there != source:
                raise AlreadyExistsError(
                    f"branch {self.branch!r} exists, at {there}, and {self.source!r} is at "
                    f"{source}: give another name, delete it first, or say exist_ok=True"
                ) from None
        return self.branch


class GravelerDeleteBranchOperator(GravelerOperator):
    """Removes a branch and what is staged on it; its commits stay.

    Args:
        branch: Its name.
        missing_ok: Be content where there is none of that name. A later try always is.
        **kwargs: As of `GravelerOperator`.
    """

    template_fields: Sequence[str] = ("repo", "branch")

    def __init__(self, *, branch: str, missing_ok: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.branch = branch
        self.missing_ok = missing_ok

    def act(self, repository: Repository, context: Context) -> None:
        """Remove the branch."""
        try:
            repository.delete_branch(self.branch)
        except RefNotFoundError:
            if not self.missing_ok and context["ti"].try_number == 1:
                raise


class GravelerMergeOperator(GravelerOperator):
    """Merges one branch into another; its XCom is the id of the commit that holds both.

    Not for a run's branch: that reaches its target by being published. A merge that an earlier
    try has made is found again; a conflict is a failure without a retry.

    Args:
        source: A ref.
        into: A branch.
        strategy: ``source-wins`` or ``dest-wins`` where paths conflict.
        message: Of the merge commit.
        metadata: Of the merge commit.
        **kwargs: As of `GravelerOperator`.
    """

    template_fields: Sequence[str] = ("repo", "source", "into", "message", "metadata")

    def __init__(
        self,
        *,
        source: str,
        into: str = "main",
        strategy: str | None = None,
        message: str = "",
        metadata: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.into = into
        self.strategy = strategy
        self.message = message
        self.metadata = metadata or {}

    def act(self, repository: Repository, context: Context) -> Commit:
        """Merge."""
        return repository.merge(
            self.source,
            self.into,
            strategy=self.strategy,
            message=self.message or None,
            metadata={**self.metadata, **task_metadata(context)},
        ).commit


class GravelerTagOperator(GravelerOperator):
    """Names a commit; its XCom is the commit's id.

    A tag does not move: where it names that commit already it is done, and where it names
    another one the task fails.

    Args:
        tag: Its name.
        ref: What it shall name.
        **kwargs: As of `GravelerOperator`.
    """

    template_fields: Sequence[str] = ("repo", "tag", "ref")

    def __init__(self, *, tag: str, ref: str = "main", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tag = tag
        self.ref = ref

    def act(self, repository: Repository, context: Context) -> Commit:
        """Make the tag."""
        try:
            return repository.tags.create(self.tag, self.ref)
        except AlreadyExistsError:
            there, wanted = repository.tags.list().get(self.tag), repository.commit(self.ref)
            if there != wanted.id:
                raise AlreadyExistsError(
                    f"tag {self.tag!r} names {there}, and {self.ref!r} is {wanted.id}: "
                    "delete the tag first, or choose another name"
                ) from None
            return wanted
