"""The public interface of a repository: branches, tags, history, merges and runs."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, get_args, overload

from graveler import lake
from graveler import repository as use_cases
from graveler.base.arguments import (
    BranchLike,
    Moment,
    PathText,
    RefLike,
    branch_text,
    choice,
    commit_texts,
    count,
    file_path,
    flag,
    function,
    moment,
    optional,
    pairs,
    path_text,
    prefix_text,
    real,
    ref_text,
    text,
)
from graveler.base.names import check_caller_pairs
from graveler.errors import InvalidInputError, RefNotFoundError
from graveler.model import BranchRecord, Change, Commit
from graveler.reads import changes
from graveler.reads.stores import Stores
from graveler.reads.view import Ref
from graveler.refs.expression import resolve, resolve_to_name, resolve_to_read
from graveler.refs.history import log
from graveler.refs.pack_rule import PACKING
from graveler.refs.reflog import RefMove, all_moves, branch_moves
from graveler.refs.selection import Selection
from graveler.refs.settings import LINK_PLACES, UNSOUND, Setting
from graveler.repository.witness.witness import Witness

if TYPE_CHECKING:
    from graveler.base.background import Progress
    from graveler.fsck.report import FsckReport
    from graveler.gates import Gate
    from graveler.gates.gate import Check
    from graveler.gc.collector import GarbageCollector
    from graveler.ingest import Ingestion
    from graveler.lake.maintenance import Maintenance, Packing
    from graveler.lake.places import Gates, Links, Protection, SplittingPolicy, Tags
    from graveler.reads.soundness import Depth, FileCheck
    from graveler.reads.view import View
    from graveler.refs.dump import Contents
    from graveler.repository.branch import Branch
    from graveler.repository.merges import MergeResult
    from graveler.repository.packing import PackResult, TreeStats
    from graveler.repository.preview import MergePreview
    from graveler.repository.strategies import Strategy
    from graveler.repository.wholeness import Wholeness
    from graveler.runs.opener import RunTerms
    from graveler.runs.provenance import Why
    from graveler.runs.run import Run
    from graveler.runs.runs import Runs


class Repository:
    """One versioned tree of paths, with its branches and its history.

    Attributes:
        stores: Its ports and settings.
    """

    def __init__(
        self, stores: Stores, witness: Witness | None = None, *, default_storage: bool = True
    ) -> None:
        self.stores = stores
        self._witness = witness
        self._default_storage = default_storage

    def __repr__(self) -> str:
        return f"<Repository {self.name} of {self.stores.location}>"

    @property
    def name(self) -> str:
        """Name of the repository."""
        return self.stores.name

    @cached_property
    def runs(self) -> "Runs":
        """The pipeline runs."""
        from graveler.runs.runs import Runs

        return Runs(self.stores)

    @property
    def tags(self) -> "Tags":
        """The tags, which name commits."""
        return lake.places.Tags(self.stores)

    @property
    def protection(self) -> "Protection":
        """The actions that are forbidden on branches, by pattern."""
        return lake.places.Protection(self.stores)

    @property
    def splitting(self) -> "SplittingPolicy":
        """The policy that decides where the ranges of its trees end."""
        return lake.places.SplittingPolicy(self.stores)

    @property
    def packing(self) -> "Packing":
        """The rule that decides when its branches are packed."""
        return lake.maintenance.Packing(self.stores)

    def pack(
        self,
        branch: str | BranchLike = "main",
        *,
        everything: bool = False,
        limit: int | None = None,
        message: str = "",
        committer: str = "",
    ) -> "PackResult":
        """Rewrite small and badly cut ranges of a branch's head, in a commit that changes no path.

        It may run while others write and publish, and may be repeated.

        Args:
            branch: The branch.
            everything: Cut all ranges again, after a change of the splitting policy.
            limit: Bytes of records after which the rest is left for the next pack.
            message: Message of the commit; "" for one that counts ranges.
            committer: Name of the committer; "" stands for the user of the process.

        Raises:
            RefNotFoundError: No such branch.
            FencedError: The branch belongs to a run.
        """
        flag(everything, "everything"), optional(count, limit, "limit")
        commit_texts(message, committer)
        return use_cases.packing.pack(
            self.stores,
            branch_text(branch, "branch", within=self.stores),
            everything=everything,
            limit=limit,
            message=message,
            committer=committer,
        )

    def maintain(
        self,
        *,
        pack: bool = True,
        reap: bool = True,
        gc: bool = True,
        dry_run: bool = False,
        progress: "Progress | None" = None,
    ) -> "Maintenance":
        """Do the daily maintenance, and return its result.

        Branches are packed by the rule (`packing`). Unfinished runs are reaped (`Runs.reap`). If
        there is a retention rule, garbage is collected with the default times
        (`GarbageCollector.run`). A part that fails does not stop the others: `Maintenance.errors`
        has its error, and `Maintenance.check` raises it.

        Args:
            pack: Pack branches.
            reap: Reap runs.
            gc: Collect garbage.
            dry_run: Only return what would be done.
            progress: Called with the progress of garbage collection.
        """
        flag(pack, "pack"), flag(reap, "reap"), flag(gc, "gc"), flag(dry_run, "dry_run")
        return lake.maintenance.maintain(
            self.stores,
            packing=pack,
            runs=self.runs if reap else None,
            collector=(lambda: self.gc) if gc else None,
            dry_run=dry_run,
            progress=optional(function, progress, "progress"),
        )

    def stats(self, ref: str | Commit | RefLike = "main") -> "TreeStats":
        """Return how the tree of a commit is cut into ranges, and the result that a pack would have.

        Raises:
            RefNotFoundError: No such ref.
        """
        return use_cases.packing.tree_stats(self.stores, ref_text(ref, "ref", within=self.stores))

    @property
    def gates(self) -> "Gates":
        """The gates that branches require, and the verdicts."""
        return lake.places.Gates(self.stores)

    @property
    def links(self) -> "Links":
        """The places outside the storage that files may be linked from."""
        return lake.places.Links(self.stores)

    @property
    def gc(self) -> "GarbageCollector":
        """Garbage collection: retention rules, marks and sweeps.

        Raises:
            KVOutdatedError: The key-value store has lost records, so needed files would be
                collected.
        """
        from graveler.gc.collector import GarbageCollector

        self.check_kv()
        return GarbageCollector(self.stores, runs=self._needed_commits)

    def _needed_commits(self) -> Iterator[str]:
        from graveler.ingest.needs import needed_commits

        yield from self.runs.needed_commits()
        yield from (commit for _, commit in needed_commits(self.stores))

    def fsck(
        self,
        *,
        objects: "Depth" = "exist",
        progress: "Progress | None" = None,
        rate: float | None = None,
        resume: bool = False,
        check: "FileCheck | None" = None,
    ) -> "FsckReport":
        """Check everything that refs and runs need; report what is missing or damaged.

        Nothing is repaired. A check of checksums that was stopped can be resumed, also on another
        host.

        Args:
            objects: ``exist`` checks the presence and size of every object, ``checksum`` reads all
                objects, ``none`` leaves them out.
            progress: Called with the progress.
            rate: Bytes a second at which ``checksum`` reads; None for no limit.
            resume: Do not read objects again that a stopped check found sound.
            check: Checks ranges and objects, as ``graveler.spark`` does, without `rate` and `resume`; None:
                this process does.

        Raises:
            InvalidInputError: `objects` or `rate` is not valid.
        """
        from graveler.fsck.check import fsck
        from graveler.ingest.needs import needed_commits
        from graveler.reads.soundness import Depth

        choice(objects, "objects", get_args(Depth)), flag(resume, "resume")
        if optional(real, rate, "rate") == 0:
            raise InvalidInputError("rate=0: give how many bytes are read in a second, or None")
        candidates = {
            f"run {record.key}": record.candidate
            for record in self.runs.list("PUBLISHING")
            if record.candidate
        }  # no branch holds them yet
        for label, commit in needed_commits(self.stores):
            candidates[f"{label}, {commit[:12]}"] = commit
        report = fsck(
            self.stores,
            objects=objects,
            also=candidates,
            progress=optional(function, progress, "progress"),
            rate=rate,
            resume=resume,
            check=check,
        )
        unsound = self.stores.refs.settings.get(UNSOUND)
        if unsound and report.sound and objects != "none":
            self.stores.refs.settings.change(UNSOUND, lambda _: False)
        return report

    @property
    def storage(self) -> str:
        """Root URI of its objects."""
        return self.stores.storage

    def check_kv(self) -> None:
        """Check that the key-value store and the storage belong together.

        Raises:
            KVOutdatedError: The key-value store has lost records, for example because it was
                restored from an old backup.
            StorageMismatchError: The storage is not the repository's, or an older copy of it.
            BackendUnavailableError: The storage does not answer.
        """
        if self._witness is not None:
            self._witness.check()

    def branch(self, name: str | BranchLike) -> "Branch":
        """Return a branch to read and write, or raise RefNotFoundError."""
        name = branch_text(name, "name", within=self.stores)
        self.stores.refs.branches.get(name)
        from graveler.repository.branch import Branch

        return Branch(self.stores, name)

    def create_branch(
        self,
        name: str,
        source: str | Commit | RefLike = "main",
        *,
        exist_ok: bool = False,
        hidden: bool = False,
    ) -> "Branch":
        """Make a branch at the commit that `source` names; it copies nothing.

        Args:
            name: Name of the branch.
            source: A ref expression.
            exist_ok: Return the existing branch of that name.
            hidden: Leave it out of listings, like the branches of runs.

        Raises:
            AlreadyExistsError: The name is taken, and `exist_ok` is not set.
        """
        name, source = text(name, "name"), ref_text(source, "source", within=self.stores)
        flag(exist_ok, "exist_ok"), flag(hidden, "hidden")
        use_cases.branches.create_branch(
            self.stores, name, source, exist_ok=exist_ok, hidden=hidden
        )
        from graveler.repository.branch import Branch

        return Branch(self.stores, name)

    def delete_branch(self, name: str | BranchLike) -> None:
        """Remove a branch and its staged writes; its commits stay."""
        name = branch_text(name, "name", within=self.stores)
        use_cases.branches.delete_branch(self.stores, name)

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
        flag(hidden, "hidden"), optional(count, limit, "limit")
        after = text(after, "after", empty=True)
        branches = self.stores.refs.branches.list(runs=hidden, after=after)
        shown = (record for record in branches if hidden or not record.hidden)
        return islice(shown, None if limit is None else max(limit, 0))

    def ref(self, expression: str | Commit | RefLike) -> Ref:
        """Return the read-only view of the commit that `expression` names now.

        Args:
            expression: A branch (its committed head), a tag, a commit id or a prefix of one, with
                an optional ``~N``, ``^N`` or ``@`` after it. ``main@{2}`` is the commit at which the
                branch was two moves ago, ``main@{2013-01-01T05:00Z}`` the one at that time.
        """
        expression = ref_text(expression, "expression", within=self.stores)
        return Ref(self.stores, resolve_to_read(self.stores.refs, expression), name=expression)

    def view(self, expression: str | Commit | RefLike) -> "View":
        """Return a branch with its staged writes, or the commit that any other ref names.

        Args:
            expression: The name of a branch, or an expression as for `ref`.
        """
        try:
            return self.branch(ref_text(expression, "expression", within=self.stores))
        except (RefNotFoundError, InvalidInputError):
            return self.ref(expression)

    def commit(self, expression: str | Commit | RefLike) -> Commit:
        """Return the commit that `expression` names."""
        expression = ref_text(expression, "expression", within=self.stores)
        return resolve(self.stores.refs, expression)

    def log(
        self,
        ref: str | Commit | RefLike = "main",
        *,
        limit: int | None = None,
        first_parent: bool = False,
        path: PathText = "",
        prefix: PathText = "",
        metadata: Mapping[str, str] | None = None,
        run: str = "",
        committer: str = "",
        since: Moment | None = None,
        until: Moment | None = None,
    ) -> Iterator[Commit]:
        """Yield the history of `ref`, children before parents.

        Args:
            ref: A ref expression: the first commit.
            limit: Yield at most this many commits.
            first_parent: Follow first parents only. They show what was published, run by run.
            path: Only commits that changed this path. A merge changed it if its version differs
                from that of every parent. Otherwise the history follows the one parent that has
                the same version.
            prefix: Only commits that changed a path that starts with it; give `path` or `prefix`.
            metadata: Only commits that have all of these pairs.
            run: Only commits that the run of this key made or published.
            committer: Only commits by this committer.
            since: Only commits made at this time or later.
            until: Only commits made before this time. Clocks may differ, so the whole history is
                read, whatever times are given.

        Raises:
            InvalidInputError: Both `path` and `prefix` are given.
            ExpiredError: Garbage collection removed a tree that the path must be looked up in.
        """
        ref, path = ref_text(ref, "ref", within=self.stores), prefix_text(path, "path")
        prefix = prefix_text(prefix, "prefix")
        optional(count, limit, "limit"), flag(first_parent, "first_parent")
        selection = Selection(
            pairs(metadata, "metadata"),
            text(run, "run", empty=True),
            text(committer, "committer", empty=True),
            optional(moment, since, "since"),
            optional(moment, until, "until"),
        )
        if path and prefix:
            raise InvalidInputError(f"log of path {path!r} and prefix {prefix!r}: give one of them")
        start = self.commit(ref)
        if path or prefix:
            history = changes.trace(
                self.stores, start, path=path, prefix=prefix, first_parent=first_parent
            )
        else:
            history = log(self.stores.refs.commits, start.id, first_parent=first_parent)
        return islice(filter(selection.covers, history), limit)

    def diff(
        self, left: str | Commit | RefLike, right: str | Commit | RefLike, *, prefix: PathText = ""
    ) -> Iterator[Change]:
        """Yield the differences from `left` to `right` below `prefix`, in byte order of paths."""
        left = ref_text(left, "left", within=self.stores)
        right = ref_text(right, "right", within=self.stores)
        prefix = prefix_text(prefix, "prefix")
        before, after = (resolve_to_read(self.stores.refs, ref) for ref in (left, right))
        return changes.diff_commits(self.stores, before, after, prefix=prefix)

    @overload
    def merge(
        self,
        source: str | Commit | RefLike,
        into: str | BranchLike,
        *,
        message: str | None = None,
        metadata: Mapping[str, str] | None = None,
        strategy: "Strategy | None" = None,
        committer: str = "",
        dry_run: Literal[False] = False,
    ) -> "MergeResult": ...

    @overload
    def merge(
        self,
        source: str | Commit | RefLike,
        into: str | BranchLike,
        *,
        message: str | None = None,
        metadata: Mapping[str, str] | None = None,
        strategy: "Strategy | None" = None,
        committer: str = "",
        dry_run: Literal[True],
    ) -> "MergePreview": ...

    def merge(
        self,
        source: str | Commit | RefLike,
        into: str | BranchLike,
        *,
        message: str | None = None,
        metadata: Mapping[str, str] | None = None,
        strategy: "Strategy | None" = None,
        committer: str = "",
        dry_run: bool = False,
    ) -> "MergeResult | MergePreview":
        """Merge what `source` names into the branch `into`, always by a merge commit.

        Args:
            source: A ref expression.
            into: A branch.
            message: Message of the merge commit.
            metadata: Metadata of the merge commit.
            strategy: What to do if both sides changed a path. ``source-wins`` and ``dest-wins``
                use that side, even if it deleted the path. A function gets each `Conflict` and
                returns one of these words, ``delete``, an entry of the path, or None to leave the
                conflict. A mapping has one of these for each pattern of paths, as in
                ``{"tables/**": "source-wins", "config.json": merged}``. The first pattern that
                matches applies. ``conflict`` leaves the conflicts that its pattern matches.
            committer: Name of the committer.
            dry_run: Return what would change and which paths conflict. Nothing moves, nothing is
                written, and no gate runs until `MergePreview.judge` is called.

        Raises:
            MergeConflictError: Both sides changed a path differently; the branch does not move.
            ExpiredError: The tree of a merge base was removed by garbage collection.
        """
        use_cases.strategies.check_strategy(strategy)
        flag(dry_run, "dry_run")
        source, into, spec = use_cases.merges.merge_spec(
            self.stores, source, into, message, metadata, committer
        )
        if dry_run:
            commit = resolve_to_name(self.stores.refs, source)
            return use_cases.preview.preview_merge(
                self.stores, commit, into, spec, strategy=strategy
            )
        return use_cases.merges.merge_into(self.stores, source, into, spec, strategy=strategy)

    def revert(
        self,
        commit: str | Commit | RefLike,
        on: str | BranchLike = "main",
        *,
        parent: int | None = None,
        message: str | None = None,
        metadata: Mapping[str, str] | None = None,
        strategy: "Strategy | None" = None,
        committer: str = "",
        allow_empty: bool = False,
    ) -> Commit:
        """Commit the inverse of a commit's changes on the branch `on`.

        Staged writes stay staged. The new commit has the metadata key ``graveler.revert``.

        Args:
            commit: A ref expression.
            on: A branch.
            parent: For a merge, the parent whose side stays; 1 is the branch merged into. Not needed
                for a published run, nor for a merge into `on` itself.
            message: Message of the new commit; by default it names the reverted commit.
            metadata: Metadata of the new commit.
            strategy: If paths conflict, ``source-wins`` reverts them and ``dest-wins`` keeps them.
            committer: Name of the committer.
            allow_empty: Commit even if nothing changes.

        Raises:
            MergeConflictError: A later commit changed the same paths; the branch does not move.
            NoChangesError: There is nothing to revert.
            InvalidInputError: The commit is a merge that needs `parent`.
        """
        commit = ref_text(commit, "commit", within=self.stores)
        on = branch_text(on, "on", within=self.stores)
        optional(count, parent, "parent", least=1), flag(allow_empty, "allow_empty")
        commit_texts(message, committer)
        from graveler.publishing.landing import CommitSpec

        use_cases.strategies.check_strategy(strategy)
        spec = CommitSpec(message or "", check_caller_pairs("revert", metadata), committer)
        target = resolve_to_name(self.stores.refs, commit)
        pick = use_cases.reverts.Pick(target, parent, strategy, allow_empty)
        return use_cases.reverts.revert(self.stores, on, pick, spec)

    def cherry_pick(
        self,
        commit: str | Commit | RefLike,
        onto: str | BranchLike = "main",
        *,
        parent: int | None = None,
        message: str | None = None,
        metadata: Mapping[str, str] | None = None,
        strategy: "Strategy | None" = None,
        committer: str = "",
        allow_empty: bool = False,
    ) -> Commit:
        """Commit the changes of another commit on the branch `onto`.

        Staged writes stay staged. The new commit has the metadata key ``graveler.cherry-pick``.

        Args:
            commit: A ref expression.
            onto: A branch.
            parent: For a merge, the parent to compare with; 1 is the branch merged into.
            message: Message of the new commit; by default that of the picked commit.
            metadata: Metadata of the new commit, added to that of the picked commit.
            strategy: ``source-wins`` or ``dest-wins`` for paths that conflict.
            committer: Name of the committer.
            allow_empty: Commit even if nothing changes.

        Raises:
            MergeConflictError: The branch changed the same paths; it does not move.
            NoChangesError: The branch has all these changes.
            InvalidInputError: The commit is a merge that needs `parent`.
            RunStateError: The commit belongs to a run that was not published.
            SchemaChangedError: A table would become unreadable.
        """
        commit = ref_text(commit, "commit", within=self.stores)
        onto = branch_text(onto, "onto", within=self.stores)
        optional(count, parent, "parent", least=1), flag(allow_empty, "allow_empty")
        commit_texts(message, committer)
        from graveler.publishing.landing import CommitSpec

        use_cases.strategies.check_strategy(strategy)
        spec = CommitSpec(message or "", check_caller_pairs("cherry-pick", metadata), committer)
        target = resolve_to_name(self.stores.refs, commit)
        pick = use_cases.reverts.Pick(target, parent, strategy, allow_empty)
        return use_cases.reverts.cherry_pick(self.stores, onto, pick, spec)

    def moves(
        self,
        branch: str | BranchLike | None = None,
        *,
        limit: int | None = None,
        hidden: bool = False,
    ) -> Iterator[RefMove]:
        """Yield the moves of a branch, or of all branches and tags, latest first.

        Args:
            branch: Its name; it may be deleted. Moves of earlier branches of that name follow.
            limit: At most this many.
            hidden: Without `branch`: include hidden branches and those of runs.
        """
        branch = None if branch is None else branch_text(branch, "branch", within=self.stores)
        optional(count, limit, "limit"), flag(hidden, "hidden")
        refs = self.stores.refs
        lines = all_moves(refs, hidden=hidden) if branch is None else branch_moves(refs, branch)
        return islice(lines, None if limit is None else max(limit, 0))

    def undo(self, branch: str | BranchLike = "main", *, to: int = 1) -> Commit:
        """Undo the last move of a branch: commit, merge, reset, or its deletion.

        The branch returns to its previous commit. A deleted branch is made again there. An undo is
        also a move: a second undo reverses the first. Staged writes stay staged, but a deleted
        branch has lost its staged writes.

        Args:
            branch: Its name.
            to: Number of moves to undo, as ``main@{N}`` counts them.

        Raises:
            RefNotFoundError: The log does not reach back that far.
            PreconditionFailedError: The branch moved meanwhile; this call does not move it.
            ProtectedBranchError: The branch is protected against reset.
            FencedError: The branch belongs or belonged to a run.
        """
        branch = branch_text(branch, "branch", within=self.stores)
        count(to, "to", least=1)
        return use_cases.branches.undo(self.stores, branch, to)

    def dump_refs(self, file: str | Path) -> "Contents":
        """Write branches, tags, protection, required gates and all commits they reach to a file.

        The dump does not have staged writes, runs, the log of moves, or objects. The objects stay
        in the storage. The branches of runs are restored as hidden branches without a run.

        Args:
            file: The file to write; an existing file is replaced.
        """
        file = file_path(file, "file")
        storage = "" if self._default_storage else self.stores.storage
        return use_cases.dumps.dump(
            self.stores, Path(file), storage=storage, settings=self._dumped_settings()
        )

    @staticmethod
    def _dumped_settings() -> "list[Setting[Any]]":
        from graveler.gc.rules import RETENTION

        return [LINK_PLACES, PACKING, RETENTION]

    def expire_missing(self, *, missing: int | None = None) -> "Wholeness":
        """Record commits whose trees are incomplete as expired, and those that are whole again as kept.

        A commit of staged writes whose bytes are missing will be refused, unless they come back.

        Args:
            missing: How many may be incomplete; by default 5 % of them, and none that a branch or a
                tag names.

        Raises:
            ObjectNotFoundError: More are incomplete. Nothing was written.
            CorruptionError: A part is damaged, not missing. Nothing was written.
        """
        from graveler.repository import wholeness

        found = wholeness.check_refs(self.stores, missing=optional(count, missing, "missing"))
        wholeness.record_missing(self.stores, found)
        return found

    def restore_refs(self, file: str | Path, *, missing: int | None = None) -> "Contents":
        """Restore a dump of refs; existing refs and settings stay.

        The repository is the one of the dump, or one without history over the same storage. Every
        id is recomputed before anything is written. May be repeated.

        Args:
            file: The dump.
            missing: As for `expire_missing`.

        Raises:
            CorruptionError: The file is damaged, or a commit is not what its id says.
            ObjectNotFoundError: The storage lacks more than is accepted.
            AlreadyExistsError: Branches or tags of the same names are at other commits.
        """
        file = file_path(file, "file")
        optional(count, missing, "missing")
        return self._restored(Path(file), missing)

    def _restored(
        self, file: Path, missing: int | None, found: "Wholeness | None" = None
    ) -> "Contents":
        from graveler.ingest.quarantine import record_restored

        contents = use_cases.dumps.restore(
            self.stores, file, settings=self._dumped_settings(), missing=missing, found=found
        )
        record_restored(self.stores)
        return contents

    def why(self, path: PathText, ref: str | Commit | RefLike = "main") -> "Why":
        """Return the provenance of a path: commit, run, step, gates and inputs.

        Args:
            path: The path, which may be deleted.
            ref: A ref expression.

        Raises:
            ObjectNotFoundError: The path never existed.
        """
        path, ref = path_text(path, "path"), ref_text(ref, "ref", within=self.stores)
        return self.runs.why(path, ref)

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
        branch = branch_text(branch, "branch", within=self.stores)
        into = branch_text(into, "into", within=self.stores)
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
        return self.runs.run(key, gates=gates, strategy=strategy, **terms)
