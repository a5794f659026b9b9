"""A branch: a view that can be written, committed and reset."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

from graveler.base import arguments as args
from graveler.base.arguments import BranchLike, PathText, RefLike
from graveler.base.names import check_caller_pairs, path_key
from graveler.config import default_committer
from graveler.display import listing
from graveler.errors import InvalidInputError
from graveler.model import COMMITTER_BYTES, MESSAGE_BYTES, Change, Commit, Entry
from graveler.publishing.landing import CommitSpec
from graveler.reads import versions
from graveler.reads.listing import Scan, first_key
from graveler.reads.stores import Stores
from graveler.reads.view import Ref
from graveler.repository import resets
from graveler.repository.commits import sealing, selective
from graveler.repository.writer import BranchWriter
from graveler.repository.writes.staged import StagedWrites, held_forms
from graveler.values import author_text, signed_by


class Branch(BranchWriter, BranchLike):
    """A branch that can be written: the committed head with staged writes.

    Reads include staged writes. ``repository.ref(name)`` is only the committed head.
    """

    def __init__(self, repository: Stores, name: str, *, fence: str = "") -> None:
        self.repository = repository
        self._name = name
        self._fence = fence

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name} of {self.repository.name}>"

    @property
    def name(self) -> str:
        """Name of the branch."""
        return self._name

    @property
    def head(self) -> Commit:
        """The commit that the branch names."""
        refs = self.repository.refs
        return refs.commits.get(refs.branches.get(self._name).commit_id)

    def _find_value(self, key: bytes) -> bytes | None:
        """Return the value record at the key, staged or committed, or None."""
        return versions.value_on_branch(self.repository, self._name, key)

    def _find_rows(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        """Return the joined key and value record of each key, staged or committed."""
        return versions.rows_on_branch(self.repository, self._name, keys)

    def _snapshot(self, start: bytes, prefix: bytes) -> AbstractContextManager[Scan]:
        """Return the head below `prefix` with its staged writes."""
        return versions.branch_snapshot(self.repository, self._name, start, prefix)

    def has_below(self, prefix: PathText) -> bool:
        """Return whether any path starts with `prefix`. At most one path is read."""
        first = first_key(args.prefix_text(prefix, "prefix"))
        return versions.first_on_branch(self.repository, self._name, first) is not None

    @listing
    def uncommitted(self) -> Iterator[Change]:
        """Yield the changes that a commit would make, in byte order of the paths."""
        return versions.uncommitted(self.repository, self._name)

    def commit(
        self,
        message: str,
        *,
        metadata: Mapping[str, str] | None = None,
        committer: str = "",
        allow_empty: bool = False,
        paths: Iterable[PathText] | None = None,
        mine: bool = False,
    ) -> Commit:
        """Commit the staged writes and return the commit.

        If other committers have committed all of them, the head is returned, with ``by_other``
        set; with `paths` or `mine`, the commit that has them.

        Args:
            message: The message of the commit.
            metadata: The metadata of the commit.
            committer: The committer. "" means the user of the process.
            allow_empty: Commit even if no staged write differs from the head.
            paths: Commit only the staged writes at these paths: files, folders (which end with a
                slash) and patterns, as in ``tables/**/*.parquet``. The text of an existing path or
                folder is no pattern. The others stay staged. The commit is then a state that the
                branch never showed as a whole.
            mine: Commit only what the committer has staged last, at `paths` if they are given.

        Raises:
            NoChangesError: No staged write differs from the head.
            ProtectedBranchError: The branch accepts no commits.
            UnfinishedFileError: This process has not finished a file of the branch.
        """
        args.flag(allow_empty, "allow_empty"), args.flag(mine, "mine")
        spec = commit_spec(self, message, metadata, committer)
        if paths is not None or mine:
            if allow_empty:
                raise InvalidInputError("allow_empty: not together with paths or mine")
            author = (self._author or committer or default_committer()) if mine else ""
            choice = self._choice(paths, author)
            return selective.commit_paths(
                self.repository, self._name, spec, choice, fence=self._fence, keep=self._keep()
            )
        return sealing.commit(
            self.repository,
            self._name,
            spec,
            fence=self._fence,
            allow_empty=allow_empty,
            keep=self._keep(),
        )

    def commit_changes(
        self,
        entries: Iterable[Entry] = (),
        *,
        deleted: Iterable[PathText] = (),
        expected: Mapping[str, Entry | None] | None = None,
        message: str,
        metadata: Mapping[str, str] | None = None,
        committer: str = "",
    ) -> Commit:
        """Commit only these changes, in one atomic step that stages nothing.

        Staged writes of the branch stay staged, except older ones of these paths.

        Args:
            entries: Files that are already in a store, as ``store`` returns them.
            deleted: Paths to delete. A missing path is not an error.
            expected: What the branch must still have when it moves: for each path the entry that was
                read, or None for no file. A staged write counts as a change. For a folder, which ends
                with a slash, None means that it has no file that `deleted` does not name.
            message: The message of the commit.
            metadata: The metadata of the commit.
            committer: The committer. "" means the user of the process.

        Raises:
            NoChangesError: The head has all of these changes. Older staged writes of the paths are
                discarded, as by a commit.
            PreconditionFailedError: The branch does not have what is expected. Nothing was changed.
            ProtectedBranchError: The branch accepts no writes or no commits.
            UnfinishedFileError: This process has not finished another file of the branch.
            RunStateError: An entry is work of an unpublished run, or in quarantine.
        """
        spec = commit_spec(self, message, metadata, committer)
        paths, wanted = args.paths_of(deleted, "deleted"), _expected(expected)
        with held_forms(self.repository, self._accepted(entries), paths) as changes:
            return selective.commit_changes(
                self.repository,
                self._name,
                spec,
                fence=self._fence,
                writes=changes,
                expected=wanted,
            )

    def _choice(self, paths: Iterable[PathText] | None, author: str = "") -> selective.Choice:
        """Return the choice of staged writes at paths, None for all, of an author, "" for all."""
        patterns = list(args.paths_of(paths, "paths")) if paths is not None else []
        if not patterns and paths is not None:
            raise InvalidInputError("paths: give one at least")
        trees = lambda: (self._unrecorded, Ref(self.repository, self.head))  # noqa: E731
        return selective.Choice(patterns, trees, author)

    def _keep(self) -> str:
        """Return the tree whose records a commit keeps for equal content, or "" for none."""
        return ""

    def _marks(self) -> dict[str, str]:
        """Return the metadata that graveler adds to each commit of this branch."""
        return {}

    def reset(
        self,
        to: str | Commit | RefLike | None = None,
        *,
        paths: Iterable[PathText] | None = None,
        others: bool = False,
    ) -> int:
        """Drop the staged writes, and return their number. With `to`, also move the branch.

        Both are one atomic step. Writes that were acknowledged before it are dropped. Writes that
        are acknowledged after it are kept. A reset that drops writes is in the log of moves, and
        ``repository.undo`` stages them again, until garbage collection has removed them. On the
        branch of a run they are neither counted nor kept.

        Args:
            to: A ref expression, as in ``main~1``. The log of moves has the earlier positions of
                the branch (``repository.moves``), and ``repository.undo`` restores them.
            paths: Drop only the staged writes at these paths, as for `commit`. Not with `to`.
            others: Also drop what others staged, or what has no known author.

        Raises:
            StagedByOthersError: It would drop what others staged, and `others` is not set.
            ProtectedBranchError: The branch accepts no move.
            FencedError: The branch is a run's, and `to` was given.
        """
        args.flag(others, "others")
        to = None if to is None else args.ref_text(to, "to", within=self.repository)
        stores, name, fence = self.repository, self._name, self._fence
        if to is not None and "/" in to:
            raise InvalidInputError(
                f"to={to!r}: a ref has no slash: reset(paths=[{to!r}]) drops what is staged at a path"
            )
        if to is not None and paths is not None:
            raise InvalidInputError("paths: not together with to, which drops all staged writes")
        if paths is not None:
            return resets.reset_paths(stores, name, self._choice(paths), fence=fence, others=others)
        if to is None:
            return resets.reset(stores, name, fence=fence, others=others)
        return resets.reset_hard(stores, name, to, others=others)[1]


def _expected(given: Mapping[str, Entry | None] | None) -> dict[bytes, Entry | None]:
    """Return what a caller expects, by key."""
    what = "a mapping of paths to entries or None"
    wanted = args.instance({} if given is None else given, "expected", Mapping, what)
    for path, entry in wanted.items():
        if entry is not None:
            args.instance(entry, f"expected[{path!r}]", Entry, "a graveler.Entry, or None")
            if str(path).endswith("/"):
                raise InvalidInputError(f"expected[{path!r}]: for a folder give None")
    return {path_key(args.prefix_text(path, "expected")): entry for path, entry in wanted.items()}


def commit_spec(
    branch: Branch, message: str, metadata: Mapping[str, str] | None, committer: str
) -> CommitSpec:
    """Return the spec of a commit: the caller's message and metadata, and the branch's metadata."""
    message = args.text(message, "message", most=MESSAGE_BYTES)
    committer = args.text(committer, "committer", empty=True, most=COMMITTER_BYTES)
    pairs = check_caller_pairs("commit", metadata)
    return CommitSpec(message, {**pairs, **branch._marks()}, committer)


def writes_of(branch: BranchWriter) -> StagedWrites:
    """Return an object that stages the writes of one operation on the branch."""
    return branch._writes


def fence_of(branch: Branch) -> str:
    """Return the fence of a run's branch, or "" for any other branch."""
    return branch._fence


def staged_by_others(branch: Branch, paths: Iterable[PathText] | None, me: str) -> Counter[str]:
    """Return how many of the staged writes at paths each other author has; none for a run."""
    if branch._fence:
        return Counter()
    stores = branch.repository
    tokens = versions.newest_first(stores.refs.branches.get(branch.name))
    writes = branch._choice(paths).of(stores.staging.all(tokens))
    authors = Counter(signed_by(write)[0] for _, write in writes)
    del authors[author_text(me)]
    return authors
