"""The public interface of a repository: branches, tags, history, merges and runs."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Unpack

from graveler import repository as use_cases
from graveler.base import arguments as args
from graveler.base.arguments import BranchLike, RefLike
from graveler.display import Shown, listed, listing
from graveler.errors import RefNotFoundError
from graveler.lake.upkeep import Upkeep
from graveler.model import BranchRecord, Commit

if TYPE_CHECKING:
    from graveler.gates import Gate
    from graveler.gates.gate import Check
    from graveler.ingest import Ingestion
    from graveler.lake.gates import Gates
    from graveler.lake.places import Links, Protection, SplittingPolicy, Tags
    from graveler.reads.view import View
    from graveler.repository.branch import Branch
    from graveler.repository.merges import MergeResult, MergeTerms
    from graveler.repository.preview import MergePreview
    from graveler.repository.reverts import PickTerms
    from graveler.repository.strategies import Strategy
    from graveler.runs.opener import RunTerms
    from graveler.runs.run import Run


class Repository(Shown, Upkeep):
    """One versioned tree of paths, with its branches and its history.

    Attributes:
        stores: Its ports and settings.
    """

    def __repr__(self) -> str:
        return f"<Repository {self.name} of {self.stores.location}>"

    def _repr_html_(self) -> str:
        return super()._repr_html_() + listed(self)

    def __getitem__(self, expression: str) -> "View":
        return self.view(expression)

    def __iter__(self) -> "Iterator[Branch]":
        return (self.branch(record.name) for record in self.branches())

    def __contains__(self, expression: str) -> bool:
        try:
            return bool(self.view(expression))
        except RefNotFoundError:
            return False

    @property
    def name(self) -> str:
        """Name of the repository."""
        return self.stores.name

    @property
    def tags(self) -> "Tags":
        """The tags, which name commits."""
        from graveler.lake.places import Tags

        return Tags(self.stores)

    @property
    def protection(self) -> "Protection":
        """The actions that are forbidden on branches, by pattern."""
        from graveler.lake.places import Protection

        return Protection(self.stores)

    @property
    def splitting(self) -> "SplittingPolicy":
        """The policy that decides where the ranges of its trees end."""
        from graveler.lake.places import SplittingPolicy

        return SplittingPolicy(self.stores)

    @property
    def gates(self) -> "Gates":
        """The gates that branches require, and the verdicts."""
        from graveler.lake.gates import Gates

        return Gates(self.stores)

    @property
    def links(self) -> "Links":
        """The places outside the storage that files may be linked from."""
        from graveler.lake.places import Links

        return Links(self.stores)

    @property
    def storage(self) -> str:
        """Root URI of its objects."""
        return self.stores.storage

    def create_branch(
        self,
        name: str,
        source: str | Commit | RefLike = "main",
        *,
        exist_ok: bool = False,
        hidden: bool = False,
        ttl: timedelta | str | None = None,
    ) -> "Branch":
        """Make a branch at the commit that `source` names; it copies nothing.

        Args:
            name: Name of the branch.
            source: A ref expression.
            exist_ok: Return the existing branch of that name.
            hidden: Leave it out of listings, like the branches of runs.
            ttl: Time to live, as in ``14d``. The first `maintain` after it deletes the branch, as
                `expire_branch` describes. None: the branch stays. A branch that exists keeps its end.

        Raises:
            AlreadyExistsError: The name is taken, and `exist_ok` is not set.
        """
        name, source = args.text(name, "name"), args.ref_text(source, "source", within=self.stores)
        args.flag(exist_ok, "exist_ok"), args.flag(hidden, "hidden")
        length = args.optional(args.duration, ttl, "ttl", zero=False)
        use_cases.positions.create_branch(
            self.stores, name, source, exist_ok=exist_ok, hidden=hidden, ttl=length
        )
        return use_cases.Branch(self.stores, name)

    def expire_branch(self, name: str | BranchLike, ttl: timedelta | str | None) -> BranchRecord:
        """Set when a branch ends, counted from now, and return its record; None: never.

        Nothing else moves the end. `maintain` names the branch in its last three days, and then
        deletes it, so that `undo` restores it, without an end. It keeps the branch as long as files
        are staged on it, an unfinished run is to be published to it, or protection forbids it.

        Raises:
            InvalidInputError: It is the default branch.
            FencedError: The branch belongs to a run.
        """
        name = args.branch_text(name, "name", within=self.stores)
        length = args.optional(args.duration, ttl, "ttl", zero=False)
        return use_cases.positions.expire_branch(self.stores, name, length)

    def delete_branch(self, name: str | BranchLike) -> None:
        """Remove a branch and its staged writes; its commits stay."""
        name = args.branch_text(name, "name", within=self.stores)
        use_cases.positions.delete_branch(self.stores, name)

    @listing
    def branches(
        self, *, hidden: bool = False, limit: int | None = None, after: str = ""
    ) -> Iterator[BranchRecord]:
        """Yield the branches by name.

        Args:
            hidden: Include hidden ones and, at the end, those of runs and their steps.
            limit: At most this many.
            after: Only branches after this name, such as the last one of the previous page; the
                branch need not exist.
        """
        args.flag(hidden, "hidden"), args.optional(args.count, limit, "limit")
        after = args.text(after, "after", empty=True)
        branches = self.stores.refs.branches.list(runs=hidden, after=after)
        shown = (record for record in branches if hidden or not record.hidden)
        return islice(shown, limit)

    def merge(
        self,
        source: str | Commit | RefLike,
        into: str | BranchLike,
        **terms: "Unpack[MergeTerms]",
    ) -> "MergeResult":
        """Merge what `source` names into the branch `into`, always by a merge commit.

        Args:
            source: A ref expression.
            into: A branch.
            terms: Any of ``message``, ``metadata``, ``strategy`` and ``committer``; see `MergeTerms`.

        Raises:
            MergeConflictError: Both sides changed a path differently; the branch does not move.
            ExpiredError: The tree of a merge base was removed by garbage collection.
        """
        return use_cases.merges.merge_into(
            self.stores, *use_cases.merges.merge_order(self.stores, source, into, **terms)
        )

    def preview_merge(
        self,
        source: str | Commit | RefLike,
        into: str | BranchLike,
        *,
        limit: int | None = None,
        **terms: "Unpack[MergeTerms]",
    ) -> "MergePreview":
        """Return what `merge` would change, and which paths conflict.

        Nothing moves, nothing is written, and no gate runs until `MergePreview.judge` is called.

        Args:
            source: A ref expression.
            into: A branch.
            limit: Count at most so many changes and conflicts; `MergePreview.complete` says whether
                there are more.
            terms: As for `merge`.
        """
        args.optional(args.count, limit, "limit")
        order = use_cases.merges.merge_order(self.stores, source, into, **terms)
        return use_cases.preview.preview_merge(self.stores, *order, limit=limit)

    def revert(
        self,
        commit: str | Commit | RefLike,
        on: str | BranchLike = "main",
        **terms: "Unpack[PickTerms]",
    ) -> Commit:
        """Commit the inverse of a commit's changes on the branch `on`.

        Staged writes stay staged. The new commit has the metadata key ``graveler.revert``.

        Args:
            commit: A ref expression.
            on: A branch.
            terms: Any of ``parent``, ``message``, ``metadata``, ``strategy``, ``committer`` and
                ``allow_empty``; see `PickTerms`.

        Raises:
            MergeConflictError: A later commit changed the same paths; the branch does not move.
            NoChangesError: There is nothing to revert.
            InvalidInputError: The commit is a merge that needs ``parent``.
        """
        return use_cases.reverts.revert(
            self.stores, *use_cases.reverts.pick_order(self.stores, "revert", commit, on, **terms)
        )

    def cherry_pick(
        self,
        commit: str | Commit | RefLike,
        onto: str | BranchLike = "main",
        **terms: "Unpack[PickTerms]",
    ) -> Commit:
        """Commit the changes of another commit on the branch `onto`.

        Staged writes stay staged. The new commit has the metadata key ``graveler.cherry-pick``.

        Args:
            commit: A ref expression.
            onto: A branch.
            terms: As for `revert`.

        Raises:
            MergeConflictError: The branch changed the same paths; it does not move.
            NoChangesError: The branch has all these changes.
            InvalidInputError: The commit is a merge that needs ``parent``.
            RunStateError: The commit belongs to a run that was not published.
            SchemaChangedError: A table would become unreadable.
        """
        return use_cases.reverts.cherry_pick(
            self.stores,
            *use_cases.reverts.pick_order(self.stores, "cherry-pick", commit, onto, **terms),
        )

    def undo(self, branch: str | BranchLike = "main", *, to: int = 1) -> Commit:
        """Undo the last move of a branch: commit, merge, reset, or its deletion.

        The branch returns to its previous commit. A deleted branch is made again there. An undo is
        also a move: a second undo moves the branch forth again. Staged writes stay staged. What the
        undone resets or the deletion dropped is staged again, unless something newer is staged.

        Args:
            branch: Its name.
            to: Number of moves to undo, as ``main@{N}`` counts them.

        Raises:
            RefNotFoundError: The log does not reach back that far.
            ExpiredError: Garbage collection has removed the commit, or what a reset dropped.
            PreconditionFailedError: The branch moved meanwhile; this call does not move it.
            ProtectedBranchError: The branch is protected against reset.
            FencedError: The branch belongs or belonged to a run.
        """
        branch = args.branch_text(branch, "branch", within=self.stores)
        args.count(to, "to", least=1)
        return use_cases.positions.undo(self.stores, branch, to)

    def ingestion(
        self,
        branch: str | BranchLike = "ingest",
        *,
        into: str | BranchLike = "main",
        gates: "Iterable[Gate | Check] | Gate | Check" = (),
        on_refusal: str = "hold",
        on_conflict: str = "refuse",
    ) -> "Ingestion":
        """Return an ingestion branch: writers stage all the time, ticks publish by the hour.

        Args:
            branch: Its name; created from the head of `into` if it does not exist.
            into: The branch that moves, in one step for each hour, once every gate has passed.
            gates: Checks of the tree that `into` would get.
            on_refusal: ``hold`` publishes nothing until the change is repaired; ``quarantine``
                moves the change of the refused hour to a branch of its own and continues.
            on_conflict: What becomes of a write whose path others changed on `into` meanwhile.
                ``refuse`` sets it aside in quarantine, and its hour is held or in quarantine by
                `on_refusal`; ``target`` also sets it aside, and its hour is published; with
                ``ingest`` the write wins. All other files are published.
        """
        branch = args.branch_text(branch, "branch", within=self.stores)
        into = args.branch_text(into, "into", within=self.stores)
        from graveler.ingest import Ingestion

        return Ingestion(
            self.stores,
            branch,
            into=into,
            gates=gates,
            on_refusal=on_refusal,
            on_conflict=on_conflict,
        )

    def run(
        self,
        key: str,
        *,
        gates: "Iterable[Gate | Check] | Gate | Check" = (),
        strategy: "Strategy | None" = None,
        **terms: "Unpack[RunTerms]",
    ) -> "AbstractContextManager[Run]":
        """Run a block on a branch of its own: publish it on success, park it on failure.

        ::

            with repo.run("hourly 2013-01-01T05:00", gates=[no_empty_hours]) as run:
                run.put(path, data)

        Args:
            key: Names the run by its output; a later attempt of the same key resumes from the
                commits of an unfinished one.
            gates: Checks of the tree that the target would get.
            strategy: ``source-wins`` or ``dest-wins`` for paths that conflict.
            terms: Any of ``into`` (the branch that moves, in one step, once every gate has passed),
                ``metadata``, ``on_failure``, ``lease`` and ``ttl``; see `RunTerms`.

        Raises:
            GateFailedError: A gate refused; the target did not move.
            MergeConflictError: The target changed the same paths meanwhile.
        """
        from graveler.runs.runs import running

        return running(self.runs, key, gates=gates, strategy=strategy, **terms)
