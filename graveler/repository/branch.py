"""A branch: a view that can be written."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager

from graveler.arguments import (
    BranchLike,
    PathText,
    RefLike,
    count,
    each,
    flag,
    media_type,
    optional,
    pairs,
    path_text,
    paths_of,
    prefix_text,
    ref_text,
    text,
)
from graveler.model import COMMITTER_BYTES, MESSAGE_BYTES, Change, Commit, Entry
from graveler.names import check_caller_pairs
from graveler.objects.store import Body
from graveler.publishing.landing import CommitSpec
from graveler.reads import view
from graveler.reads.listing import Scan, first_key
from graveler.reads.stores import Stores
from graveler.reads.view import View
from graveler.repository import branches, commits, patches, writes


class Branch(View, BranchLike):
    """A branch as its writers see it: staged writes over the committed head.

    Reads see what is staged. ``repository.ref(name)`` is the committed head alone.
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
        """The commit the branch is at."""
        refs = self.repository.refs
        return refs.commits.get(refs.branches.get(self._name).commit_id)

    def _find_value(self, key: bytes) -> bytes | None:
        """Return the value record at the key, staged or committed, or None."""
        return view.value_on_branch(self.repository, self._name, key)

    def _snapshot(self, start: bytes, prefix: bytes) -> AbstractContextManager[Scan]:
        """Give the head below `prefix`, and the writes that are staged on it."""
        return view.branch_snapshot(self.repository, self._name, start, prefix)

    def has_below(self, prefix: PathText) -> bool:
        """Return whether any path starts with `prefix`; no more than the first one is read."""
        first = first_key(prefix_text(prefix, "prefix"))
        return view.first_on_branch(self.repository, self._name, first) is not None

    def put(
        self,
        path: PathText,
        body: Body,
        *,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
        replace: bool = False,
    ) -> Entry:
        """Store bytes and stage their entry at `path`.

        Where the head has the same content, size, media type and metadata, a commit keeps the
        head's entry, and the bytes stored here are garbage.

        Args:
            path: Where, 1 to 1024 bytes of UTF-8.
            body: Bytes, a file on disk (``Path``) or an open binary stream.
            content_type: Media type; part of the entry's identity.
            metadata: The caller's pairs; part of the identity too.
            replace: Commit this entry also where the head has the same content: the way to repair
                a file whose stored bytes are damaged.

        Raises:
            ProtectedBranchError: The branch takes no writes.
            StorageFullError: No space; nothing was staged.
        """
        path, content_type = path_text(path, "path"), media_type(content_type)
        pairs(metadata, "metadata")
        flag(replace, "replace")
        return writes.put(
            self.repository,
            self._name,
            path,
            body,
            fence=self._fence,
            content_type=content_type,
            metadata=dict(metadata or {}),
            replaces=replace,
        )

    def upload(
        self,
        path: PathText,
        body: Body,
        *,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> Entry:
        """Store bytes and return the entry they would have at `path`; nothing is staged.

        For `link_many` or `commit_changes` a little later: bytes that no entry names are
        garbage.
        """
        path, content_type = path_text(path, "path"), media_type(content_type)
        pairs(metadata, "metadata")
        return writes.upload(
            self.repository,
            self._name,
            path,
            body,
            fence=self._fence,
            content_type=content_type,
            metadata=dict(metadata or {}),
        )

    def link(
        self, path: PathText, *, address: str, size: int | None = None, checksum: str | None = None
    ) -> Entry:
        """Stage an entry for a file that is already in a store; no byte is copied.

        Args:
            path: Where it shall appear.
            address: Key below the repository's storage (``data/…``) or a full URI.
            size: Bytes, where the caller knows how many there must be.
            checksum: ``algorithm:hex`` of the content, where the caller knows it: readers check
                it. It is not trusted: the address and its version stand for the content.

        Returns:
            The entry, with the time and the version that the store reports.

        Raises:
            ObjectNotFoundError: There is no such object.
            InvalidInputError: It has another size; or the address cannot be one, or lies in the
                storage of another repository.
            ExpiredError: Garbage collection has just removed the bytes.
        """
        path, address = path_text(path, "path"), text(address, "address")
        optional(count, size, "size")
        checksum = None if checksum is None else text(checksum, "checksum", empty=True)
        return writes.link_one(
            self.repository,
            self._name,
            path,
            fence=self._fence,
            address=address,
            size=size,
            checksum=checksum,
        )

    def link_many(self, entries: Iterable[Entry]) -> int:
        """Stage entries of files that are already in a store, many to a round trip.

        Each is looked up, in few requests: many that lie together cost one for 1,000 of them.
        Times and versions are those that the stores report. Not atomic: after an error some
        chunks of 20,000 are staged, and linking again does no harm.

        Returns:
            How many were staged.

        Raises:
            ObjectNotFoundError: There is no such object.
            InvalidInputError: It has another size; or a path or an address cannot be one.
            ExpiredError: Garbage collection has just removed the bytes.
        """
        entries = each(entries, "entries", Entry, "a graveler.Entry")
        return writes.link_entries(self.repository, self._name, entries, fence=self._fence)

    def _link_written(self, entries: Iterable[Entry]) -> int:
        """Stage entries of files that the caller has written below `new_address`, and listed."""
        return writes.stage_written(self.repository, self._name, entries, fence=self._fence)

    def delete(self, path: PathText) -> None:
        """Stage the deletion of `path`; no error where it is not there."""
        self.delete_many([path])

    def delete_many(self, paths: Iterable[PathText]) -> int:
        """Stage the deletion of many paths; return how many were named."""
        paths = paths_of(paths, "paths")
        return writes.delete_paths(self.repository, self._name, paths, fence=self._fence)

    def new_address(self) -> str:
        """Return a fresh key prefix, ``data/<unique>``, below which another program may write.

        Files written there are linked afterwards; those that are not are garbage.

        Raises:
            ProtectedBranchError: The branch would not take the links.
        """
        writes.check_writable(self.repository, self._name, self._fence)
        return writes.new_address(self.repository)

    def uncommitted(self) -> Iterator[Change]:
        """Yield what a commit would change, in byte order of the paths."""
        return view.uncommitted(self.repository, self._name)

    def commit(
        self,
        message: str,
        *,
        metadata: Mapping[str, str] | None = None,
        committer: str = "",
        allow_empty: bool = False,
    ) -> Commit:
        """Commit what is staged and return the commit.

        Where another committer took all of it along, that one's commit is returned, with
        ``by_other`` set.

        Raises:
            NoChangesError: Nothing is staged that differs from the head.
            ProtectedBranchError: The branch takes no commits.
        """
        flag(allow_empty, "allow_empty")
        return commits.commit(
            self.repository,
            self._name,
            self._spec(message, metadata, committer),
            fence=self._fence,
            allow_empty=allow_empty,
            keep=self._keep(),
        )

    def commit_changes(
        self,
        entries: Iterable[Entry] = (),
        *,
        deleted: Iterable[PathText] = (),
        message: str,
        metadata: Mapping[str, str] | None = None,
        committer: str = "",
    ) -> Commit:
        """Commit these changes and nothing else, in one atomic step that stages nothing.

        What is staged on the branch stays staged; where it is about one of these paths it is
        older, and gives way.

        Args:
            entries: Files that are in a store already, as ``upload`` returns them.
            deleted: Paths to delete; no error where one is not there.
            message: Of the commit.
            metadata: Of the commit.
            committer: Who.

        Raises:
            NoChangesError: The head is so already.
            ProtectedBranchError: The branch takes no writes or no commits.
        """
        spec = self._spec(message, metadata, committer)
        entries = each(entries, "entries", Entry, "a graveler.Entry")
        paths = paths_of(deleted, "deleted")
        with writes.held_forms(self.repository, entries, paths) as changes:
            return patches.commit_changes(
                self.repository, self._name, spec, fence=self._fence, writes=changes
            )

    def _spec(self, message: str, metadata: Mapping[str, str] | None, committer: str) -> CommitSpec:
        message = text(message, "message", most=MESSAGE_BYTES)
        committer = text(committer, "committer", empty=True, most=COMMITTER_BYTES)
        pairs = check_caller_pairs("commit", metadata)
        return CommitSpec(message, {**pairs, **self._marks()}, committer)

    def _keep(self) -> str:
        """Return the tree whose records stay where what is committed has equal content."""
        return ""

    def _marks(self) -> dict[str, str]:
        """Return our own metadata of every commit made here."""
        return {}

    def reset(self, to: str | Commit | RefLike | None = None) -> None:
        """Discard what is staged; with `to`, also put the branch at another commit.

        Both in one atomic step: a write acknowledged before it is gone, one acknowledged after
        it is there.

        Args:
            to: A ref expression, as in ``main~1``. The log of moves keeps where the branch
                was (``repository.moves``), and ``repository.undo`` goes back there.

        Raises:
            ProtectedBranchError: The branch may not be put elsewhere.
            FencedError: The branch is a run's, and `to` was given.
        """
        to = None if to is None else ref_text(to, "to")
        if to is None:
            branches.reset(self.repository, self._name, fence=self._fence)
        else:
            branches.reset_hard(self.repository, self._name, to)


def fence_of(branch: Branch) -> str:
    """Return the fence that the writers to a run's branch hold; "" for any other branch."""
    return branch._fence
