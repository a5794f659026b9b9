"""The history of a repository: its refs, commits, differences and moves."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from graveler import repository as use_cases
from graveler.base import arguments as args
from graveler.base.arguments import BranchLike, Moment, PathText, RefLike
from graveler.display import Dot, Graph, graph, listing, title
from graveler.errors import InvalidInputError, RefNotFoundError
from graveler.model import Change, Commit
from graveler.reads import changes
from graveler.reads.stores import Stores
from graveler.refs.expression import resolve, resolve_to_read
from graveler.refs.history import Selection, log
from graveler.refs.reflog import RefMove, all_moves, branch_moves
from graveler.tables.views import Ref

if TYPE_CHECKING:
    from graveler.reads.view import View
    from graveler.repository.branch import Branch
    from graveler.repository.commits.packing import TreeStats
    from graveler.runs.provenance import Why


class History:
    """What a repository has, and how it came there; nothing here changes it."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores

    def branch(self, name: str | BranchLike) -> "Branch":
        """Return a branch to read and write, or raise RefNotFoundError."""
        name = args.branch_text(name, "name", within=self.stores)
        self.stores.refs.branches.get(name)
        return use_cases.Branch(self.stores, name)

    def ref(self, expression: str | Commit | RefLike) -> Ref:
        """Return the read-only view of the commit that `expression` names now.

        Args:
            expression: A branch (its committed head), a tag, a commit id or a prefix of one, with
                an optional ``~N``, ``^N`` or ``@`` after it. ``main@{2}`` is the commit at which the
                branch was two moves ago, ``main@{2013-01-01T05:00Z}`` the one at that time.
        """
        expression = args.ref_text(expression, "expression", within=self.stores)
        return Ref(self.stores, resolve_to_read(self.stores.refs, expression), name=expression)

    def view(self, expression: str | Commit | RefLike) -> "View":
        """Return a branch with its staged writes, or the commit that any other ref names.

        Args:
            expression: The name of a branch, or an expression as for `ref`.
        """
        try:
            return self.branch(args.ref_text(expression, "expression", within=self.stores))
        except (RefNotFoundError, InvalidInputError):
            return self.ref(expression)

    def commit(self, expression: str | Commit | RefLike) -> Commit:
        """Return the commit that `expression` names."""
        expression = args.ref_text(expression, "expression", within=self.stores)
        return resolve(self.stores.refs, expression)

    @listing
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
        ref, path = args.ref_text(ref, "ref", within=self.stores), args.prefix_text(path, "path")
        prefix = args.prefix_text(prefix, "prefix")
        args.optional(args.count, limit, "limit"), args.flag(first_parent, "first_parent")
        selection = Selection(
            args.pairs(metadata, "metadata"),
            args.text(run, "run", empty=True),
            args.text(committer, "committer", empty=True),
            args.optional(args.moment, since, "since"),
            args.optional(args.moment, until, "until"),
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

    @listing
    def diff(
        self, left: str | Commit | RefLike, right: str | Commit | RefLike, *, prefix: PathText = ""
    ) -> Iterator[Change]:
        """Yield the differences from `left` to `right` below `prefix`, in byte order of paths."""
        left = args.ref_text(left, "left", within=self.stores)
        right = args.ref_text(right, "right", within=self.stores)
        prefix = args.prefix_text(prefix, "prefix")
        before, after = (resolve_to_read(self.stores.refs, ref) for ref in (left, right))
        return changes.diff_commits(self.stores, before, after, prefix=prefix)

    @listing
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
        branch = None if branch is None else args.branch_text(branch, "branch", within=self.stores)
        args.optional(args.count, limit, "limit"), args.flag(hidden, "hidden")
        refs = self.stores.refs
        lines = all_moves(refs, hidden=hidden) if branch is None else branch_moves(refs, branch)
        return islice(lines, limit)

    def graph(
        self,
        ref: str | Commit | RefLike | None = None,
        *,
        limit: int = 30,
        first_parent: bool = False,
        link: Callable[[str], str] | None = None,
    ) -> Graph:
        """Return a picture of commits and the lines between them, as SVG text that notebooks show.

        Args:
            ref: A ref expression. By default all branches and all runs that are not over, with
                the default branch as the straight line.
            limit: Draw at most this many commits, the newest.
            first_parent: Follow first parents only.
            link: Returns the address that the commit of an id leads to; None: the commits are no links.
        """
        args.count(limit, "limit"), args.flag(first_parent, "first_parent")
        args.optional(args.function, link, "link")
        name = "" if ref is None else args.ref_text(ref, "ref", within=self.stores)
        heads = [(name, self.commit(name).id, "")] if name else [*self._heads()]
        names, stopped = defaultdict[str, list[str]](list), dict[str, str]()
        for name, commit_id, reason in heads:
            if reason and commit_id not in names:  # else it has no work of its own
                stopped[commit_id] = reason
            names[commit_id].append(name)
        commits = log(self.stores.refs.commits, *names, first_parent=first_parent)
        dots = [
            Dot(
                commit.id,
                commit.parents[:1] if first_parent else commit.parents,
                title(commit.message),
                names=names.get(commit.id, ()),
                note=f"{commit.id[:12]}, {commit.created:%Y-%m-%d %H:%M} {commit.committer}",
                title=stopped.get(commit.id, commit.id),
                stopped=commit.id in stopped,
                href=link(commit.id) if link else "",
            )
            for commit in islice(commits, limit)
        ]
        return graph(dots, trunk=heads[0][1] if heads else "")

    def _heads(self) -> Iterator[tuple[str, str, str]]:
        """Yield the name, the head and the reason of a stop of all that a graph begins with."""
        from graveler.runs.records import RunRecords

        refs, default = self.stores.refs, self.stores.default_branch
        branches = [branch for branch in refs.branches.list() if not branch.hidden]
        for branch in sorted(branches, key=lambda branch: branch.name != default):
            yield branch.name, branch.commit_id, ""
        for run in RunRecords(self.stores).live():
            if (own := refs.branches.find(run.branch)) is not None:
                yield f"run {run.key}", own.commit_id, run.reason

    def stats(self, ref: str | Commit | RefLike = "main") -> "TreeStats":
        """Return how the tree of a commit is cut into ranges, and the result that a pack would have.

        Raises:
            RefNotFoundError: No such ref.
        """
        return use_cases.packing.tree_stats(
            self.stores, args.ref_text(ref, "ref", within=self.stores)
        )

    def why(self, path: PathText, ref: str | Commit | RefLike = "main") -> "Why":
        """Return the provenance of a path: commit, run, step, gates and inputs.

        Args:
            path: The path, which may be deleted.
            ref: A ref expression.

        Raises:
            ObjectNotFoundError: The path never existed.
        """
        path, ref = args.path_text(path, "path"), args.ref_text(ref, "ref", within=self.stores)
        from graveler.runs.provenance import why
        from graveler.runs.records import RunRecords

        return why(RunRecords(self.stores), path, ref)
