"""A branch: a view that can be written."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from graveler.base.arguments import (
    BranchLike,
    PathText,
    RefLike,
    count,
    each,
    excluded,
    file_path,
    flag,
    function,
    media_type,
    optional,
    pairs,
    path_text,
    paths_of,
    prefix_text,
    ref_text,
    text,
)
from graveler.base.background import Progress, no_progress
from graveler.base.names import check_caller_pairs, is_of_run
from graveler.base.parallel import thread_count
from graveler.errors import InvalidInputError
from graveler.model import COMMITTER_BYTES, MESSAGE_BYTES, Change, Commit, Entry, Transfer
from graveler.objects.store import Body
from graveler.publishing.landing import CommitSpec
from graveler.reads import view
from graveler.reads.folders import Links, Pattern
from graveler.reads.listing import Scan, first_key
from graveler.reads.stores import Stores
from graveler.reads.view import Ref, View
from graveler.refs.expression import resolve_to_read
from graveler.repository import (
    branches,
    commits,
    copies,
    folders,
    moves,
    origins,
    patches,
    selective,
    uploads,
)
from graveler.repository.writes import StagedWrites, held_forms, new_address

if TYPE_CHECKING:
    from graveler.repository.imports import Imported


class Branch(View, BranchLike):
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

    @property
    def _writes(self) -> StagedWrites:
        """The object that stages writes. A run renews its lease when it is used."""
        return StagedWrites(self.repository, self._name, self._fence)

    @property
    def _unrecorded(self) -> "Branch":
        """The branch, without recording reads as inputs of a run."""
        return self

    def _find_value(self, key: bytes) -> bytes | None:
        """Return the value record at the key, staged or committed, or None."""
        return view.value_on_branch(self.repository, self._name, key)

    def _find_rows(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        """Return the joined key and value record of each key, staged or committed."""
        return view.rows_on_branch(self.repository, self._name, keys)

    def _snapshot(self, start: bytes, prefix: bytes) -> AbstractContextManager[Scan]:
        """Return the head below `prefix` with its staged writes."""
        return view.branch_snapshot(self.repository, self._name, start, prefix)

    def has_below(self, prefix: PathText) -> bool:
        """Return whether any path starts with `prefix`. At most one path is read."""
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

        If the head has the same content, size, media type and metadata, a commit keeps the head's
        entry, and the new bytes are garbage.

        Args:
            path: The path, 1 to 1024 bytes of UTF-8.
            body: Bytes, a file on disk (``Path``) or an open binary stream.
            content_type: Media type, a part of the entry's identity.
            metadata: The caller's pairs, a part of the entry's identity.
            replace: Commit this entry even if the head has the same content. This repairs a file
                whose stored bytes are damaged.

        Raises:
            ProtectedBranchError: The branch accepts no writes.
            StorageFullError: The storage is full. Nothing was staged.
        """
        flag(replace, "replace")
        writes = self._writes
        entry = self._upload(writes, path, body, content_type, metadata)
        self._writes.stage([entry], replaces=replace, after=writes)
        return entry

    def put_many(
        self,
        items: Iterable[tuple[PathText, Body]] | Mapping[Any, Body],
        *,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
        replace: bool = False,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> Transfer:
        """Store the bytes of many files with threads, and stage their entries in chunks.

        Items are staged in their order, in chunks of 1,000 entries or 10 seconds. So after an error
        the first items are staged. If a path comes twice, the last item counts. At most 256 MiB of
        bodies are in transfer, and a file is open only while it is read.

        Args:
            items: Pairs of a path and a body as for `put`, or a mapping of them. An iterable of
                any length. A stream is read to its end before the next item is taken.
            content_type: Media type of all files.
            metadata: The caller's pairs for all files.
            replace: Commit the entries even if the head has the same content.
            threads: How many files are uploaded at the same time, 1 to 64. The default is 32, or 1
                for storage on the local disk.
            progress: Called with the numbers of completed and of taken items.

        Returns:
            The number of staged files, and their size.

        Raises:
            ProtectedBranchError: The branch accepts no writes. No bytes were stored.
            FencedError: Another attempt of the run owns the branch. Nothing is acknowledged.
            GravelerError: An error of `put`. The message names the path and the number of staged
                items: all items before that one.
        """
        terms = self._terms(content_type, metadata, replace, threads, progress)
        return uploads.put_many(self.repository, lambda: self._writes, items, terms)

    def upload(
        self,
        folder: str | Path,
        prefix: PathText = "",
        *,
        delete: bool = False,
        exclude: Iterable[str] = (),
        follow_links: bool = True,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
        replace: bool = False,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> Transfer:
        """Put the files of a local folder on the branch. Files that it has already are skipped.

        A file is skipped if the branch has an entry with its size and with the checksum that
        graveler computed. So a second call resumes an interrupted one. Hidden files are uploaded.
        Empty folders, pipes, sockets and devices are omitted. A file that cannot be read, or that
        changes while it is read, does not stop the others. The error at the end names it.

        Args:
            folder: The local folder.
            prefix: The folder on the branch, with or without a slash at its end. "" is the root.
            delete: Delete the files below the prefix that the local folder does not have.
            exclude: Names, or patterns of names, below the folder that are neither uploaded nor deleted, as
                for `download`.
            follow_links: Upload the targets of symbolic links. Otherwise links are omitted.
            content_type: Media type of all files. If it is given, files with another one are not
                skipped.
            metadata: The caller's pairs for all files. If they are given, files with other pairs
                are not skipped.
            replace: Skip no file, and commit the entries even if the head has the same content.
            threads: As for `put_many`.
            progress: Called with the numbers of completed files and of all files.

        Returns:
            The numbers of uploaded, skipped and deleted files.

        Raises:
            ProtectedBranchError: The branch accepts no writes. No bytes were stored.
            InvalidInputError: The folder does not exist. Or some names cannot be paths: the message
                has them, and nothing was uploaded. Or a file cannot be read: the others are staged.
            FencedError: Another attempt of the run owns the branch. Nothing is acknowledged.
        """
        prefix = prefix_text(prefix, "prefix").rstrip("/")
        links = Links.FOLLOW if flag(follow_links, "follow_links") else Links.LEAVE_OUT
        branch = self._unrecorded
        destination = folders.Destination(
            self.repository,
            lambda: self._writes,
            branch._find_values,
            lambda start: branch._snapshot(start, start),
            f"{prefix}/" if prefix else "",
        )
        return folders.upload(
            destination,
            folders.Origin(file_path(folder, "folder"), links, Pattern(excluded(exclude))),
            self._terms(content_type, metadata, replace, threads, progress),
            metadata_given=metadata is not None,
            delete=flag(delete, "delete"),
        )

    def _terms(
        self,
        content_type: str,
        metadata: Mapping[str, str] | None,
        replace: bool,
        threads: int | None,
        progress: Progress | None,
    ) -> uploads.Terms:
        return uploads.Terms(
            media_type(content_type),
            pairs(metadata, "metadata"),
            flag(replace, "replace"),
            thread_count(threads, self.repository.objects.put_threads),
            optional(function, progress, "progress") or no_progress,
        )

    def store(
        self,
        path: PathText,
        body: Body,
        *,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> Entry:
        """Store bytes and return their entry for `path`. Nothing is staged.

        The entry is for a later `link_many` or `commit_changes`. Bytes without entry are garbage.
        """
        return self._upload(self._writes, path, body, content_type, metadata)

    def _upload(
        self,
        writes: StagedWrites,
        path: PathText,
        body: Body,
        content_type: str,
        metadata: Mapping[str, str] | None,
    ) -> Entry:
        path, content_type = path_text(path, "path"), media_type(content_type)
        pairs(metadata, "metadata")
        body = uploads.located(body, "body")
        entry = writes.upload(path, body, content_type, dict(metadata or {}))
        return replace(entry, origin=self._name) if is_of_run(self._name) else entry

    def link(
        self, path: PathText, *, address: str, size: int | None = None, checksum: str | None = None
    ) -> Entry:
        """Stage an entry for a file that is already in a store. No bytes are copied.

        Args:
            path: The path of the entry.
            address: Key below the repository's storage (``data/…``) or a full URI.
            size: The size of the file in bytes, if known.
            checksum: ``algorithm:hex`` of the content, if known. Readers verify it. The identity of
                the entry is the address and its version.

        Returns:
            The entry, with the time and the version that the store reports.

        Raises:
            ObjectNotFoundError: The object does not exist.
            InvalidInputError: The size differs, or the address is invalid or is in the storage of
                another repository.
            ExpiredError: Garbage collection has just removed the bytes.
        """
        path, address = path_text(path, "path"), text(address, "address")
        optional(count, size, "size")
        checksum = None if checksum is None else text(checksum, "checksum", empty=True)
        wanted = Entry(path, address, size or 0, checksum or "")
        return self._writes.link(wanted, sized=size is not None)

    def link_many(self, entries: Iterable[Entry]) -> int:
        """Stage entries of files that are already in a store, many in each round trip.

        Each file is looked up. Files of the same folder take one request for 1,000 of them. Times
        and versions are those that the stores report. The call is not atomic: after an error some
        chunks of 20,000 entries are staged, and repeating the call is harmless.

        Returns:
            The number of staged entries.

        Raises:
            ObjectNotFoundError: An object does not exist.
            InvalidInputError: A size differs, or a path or an address is invalid.
            RunStateError: An entry is work of an unpublished run, or in quarantine.
            ExpiredError: Garbage collection has just removed the bytes.
        """
        return self._writes.link_many(self._accepted(entries))

    def _accepted(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Yield a caller's entries, and refuse those of unpublished work."""
        given = each(entries, "entries", Entry, "a graveler.Entry")
        return origins.checked(self.repository, self._name, given)

    def import_(
        self,
        source: str | PurePath,
        prefix: PathText = "",
        *,
        below: str = "",
        exclude: Iterable[PathText] = (),
        replace: bool = False,
        verify: bool = False,
    ) -> "Imported":
        """Stage entries of many files that are already in a store. No bytes are copied.

        The files are below places that the repository has declared (``repository.links.allow``).
        All of them become visible together. After an error the branch is unchanged.

        Args:
            source: A folder or ``s3://bucket/prefix/``, which is listed in parallel, or an
                inventory: ``manifest.json`` of an S3 inventory, or a CSV (``.csv``, ``.csv.gz``),
                Parquet or ORC file with a row for each file. Sizes and ETags of an inventory are
                trusted. A later read detects a file that has changed.
            prefix: Folder of the entries, or "" for the whole tree.
            below: For an inventory: import only files below this place, with paths relative to it.
            exclude: Paths in the source, or patterns such as ``_SUCCESS`` and ``**/*.tmp``, whose
                files are left out, also if their keys cannot be paths.
            replace: Delete paths below `prefix` that are not in the source, in the same step.
            verify: Look up every file of an inventory, and compare size and ETag.

        Raises:
            InvalidInputError: The source cannot be read, a row is invalid, or a path comes twice.
                The message has the file and the row.
            ObjectNotFoundError: The source names no files.
            SourceChangedError: The source changed while it was read, or, with `verify`, a file
                differs from the inventory.
            CorruptionError: The MD5 of an inventory file differs from the manifest.
            PermissionDeniedError: A file is in no declared place.
            MissingDependencyError: Parquet and ORC need pyarrow.
        """
        from graveler.repository.imports import import_files, source_text

        prefix, below = prefix_text(prefix, "prefix"), text(below, "below", empty=True)
        flag(replace, "replace"), flag(verify, "verify")
        return import_files(
            self.repository,
            self._writes,
            source_text(source),
            prefix,
            below=below,
            exclude=excluded(exclude),
            replaces=replace,
            verify=verify,
        )

    def _link_written(self, entries: Iterable[Entry]) -> int:
        """Stage entries of files that the caller has written below `new_address`."""
        return self._writes.stage(entries)

    def copy(
        self, source: str | Commit | RefLike, path: PathText, to: PathText, *, replace: bool = False
    ) -> int:
        """Stage files of another tree, or of this one, under other paths. No bytes are copied.

        All copies become visible together. Other files at the destination stay, unless `replace`
        is set.

        Args:
            source: The tree. A ref expression means its commit. A branch object includes its
                staged writes.
            path: A file, or a folder, which ends with a slash, with all files below it. "" is the
                whole tree.
            to: The destination: a file or a folder, like `path`.
            replace: Delete the other files below the folder `to`, in the same step.

        Returns:
            The number of copied files.

        Raises:
            ObjectNotFoundError: There is nothing to copy.
            InvalidInputError: One path is a file and the other a folder, both are the same place,
                or the tree is of another repository.
            RunStateError: The tree is work of an unpublished run, or in quarantine.
            ExpiredError: Garbage collection has deleted the bytes, or is about to.
        """
        path, to = prefix_text(path, "path"), prefix_text(to, "to")
        flag(replace, "replace")
        view = (
            source
            if isinstance(source, View)
            else self._view_of(ref_text(source, "source", within=self.repository))
        )
        if view.repository.uid != self.repository.uid:
            raise InvalidInputError(
                f"source {view.name!r} is of repository {view.repository.name!r}: only its bytes can "
                "be copied, with put(path, source.open(path))"
            )
        place = copies.Place.of(path, to)
        origins.refuse_origin(self.repository, self._name, view._origin)
        if path == to and isinstance(view, Branch) and view.name == self.name:
            raise InvalidInputError(f"path={path!r}, to={to!r}: give two different places")
        view._note([path])
        return copies.copy(self.repository, self._writes, view, place, replaces=replace)

    def _view_of(self, ref: str) -> View:
        """Return the commit of a ref expression, for reading."""
        return Ref(self.repository, resolve_to_read(self.repository.refs, ref), name=ref)

    def move(self, path: PathText, to: PathText) -> int:
        """Stage files under other paths and the deletion of the old ones. No bytes are copied.

        Both become visible in one step. A write to a moved file that was acknowledged before the
        call is moved as well. A later write stays at the old path. A concurrent write may be at
        both paths.

        Args:
            path: A file, or a folder, which ends with a slash, with all files below it.
            to: The destination: a file or a folder, like `path`. Existing files are replaced.

        Returns:
            The number of moved files.

        Raises:
            ObjectNotFoundError: There is nothing to move.
            InvalidInputError: One path is a file and the other a folder, or both are the same.
        """
        path, to = prefix_text(path, "path"), prefix_text(to, "to")
        place = copies.Place.of(path, to)
        if path == to:
            raise InvalidInputError(f"path={path!r}, to={to!r}: give two different places")
        self._note([path])
        return moves.move(self.repository, self._writes, place)

    def delete(self, path: PathText) -> None:
        """Stage the deletion of `path`. A missing path is not an error."""
        self.delete_many([path])

    def delete_many(self, paths: Iterable[PathText]) -> int:
        """Stage the deletion of many paths. Return the number of paths."""
        return self._writes.delete(paths_of(paths, "paths"))

    def new_address(self) -> str:
        """Return a new key prefix, ``data/<storage id>/<unique>``, below which another program may write.

        Link the files afterwards. Files that are not linked are garbage.

        Raises:
            ProtectedBranchError: The branch accepts no writes.
        """
        self._writes.check()
        return new_address(self.repository)

    def uncommitted(self) -> Iterator[Change]:
        """Yield the changes that a commit would make, in byte order of the paths."""
        return view.uncommitted(self.repository, self._name)

    def commit(
        self,
        message: str,
        *,
        metadata: Mapping[str, str] | None = None,
        committer: str = "",
        allow_empty: bool = False,
        paths: Iterable[PathText] | None = None,
    ) -> Commit:
        """Commit the staged writes and return the commit.

        If other committers have committed all of them, the head is returned, with ``by_other``
        set; with `paths`, the commit that has them.

        Args:
            message: The message of the commit.
            metadata: The metadata of the commit.
            committer: The committer. "" means the user of the process.
            allow_empty: Commit even if no staged write differs from the head.
            paths: Commit only the staged writes at these paths: files, folders (which end with a
                slash) and patterns, as in ``tables/**/*.parquet``. The text of an existing path or
                folder is no pattern. The others stay staged. The commit is then a state that the
                branch never showed as a whole.

        Raises:
            NoChangesError: No staged write differs from the head.
            ProtectedBranchError: The branch accepts no commits.
            UnfinishedFileError: This process has not finished a file of the branch.
        """
        flag(allow_empty, "allow_empty")
        spec = commit_spec(self, message, metadata, committer)
        if paths is not None:
            trees = lambda: (self._unrecorded, Ref(self.repository, self.head))  # noqa: E731
            choice = selective.Choice(list(paths_of(paths, "paths")), trees)
            if allow_empty or not choice.patterns:
                raise InvalidInputError(
                    "paths: give one at least, and not together with allow_empty"
                )
            return selective.commit_paths(
                self.repository, self._name, spec, choice, fence=self._fence, keep=self._keep()
            )
        return commits.commit(
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
        message: str,
        metadata: Mapping[str, str] | None = None,
        committer: str = "",
    ) -> Commit:
        """Commit only these changes, in one atomic step that stages nothing.

        Staged writes of the branch stay staged, except older ones of these paths.

        Args:
            entries: Files that are already in a store, as ``store`` returns them.
            deleted: Paths to delete. A missing path is not an error.
            message: The message of the commit.
            metadata: The metadata of the commit.
            committer: The committer. "" means the user of the process.

        Raises:
            NoChangesError: The head has all of these changes. Older staged writes of the paths are
                discarded, as by a commit.
            ProtectedBranchError: The branch accepts no writes or no commits.
            UnfinishedFileError: This process has not finished another file of the branch.
            RunStateError: An entry is work of an unpublished run, or in quarantine.
        """
        spec = commit_spec(self, message, metadata, committer)
        paths = paths_of(deleted, "deleted")
        with held_forms(self.repository, self._accepted(entries), paths) as changes:
            return patches.commit_changes(
                self.repository, self._name, spec, fence=self._fence, writes=changes
            )

    def _keep(self) -> str:
        """Return the tree whose records a commit keeps for equal content, or "" for none."""
        return ""

    def _marks(self) -> dict[str, str]:
        """Return the metadata that graveler adds to each commit of this branch."""
        return {}

    def reset(self, to: str | Commit | RefLike | None = None) -> None:
        """Discard the staged writes. With `to`, also move the branch to another commit.

        Both are one atomic step. Writes that were acknowledged before it are discarded. Writes that
        are acknowledged after it are kept.

        Args:
            to: A ref expression, as in ``main~1``. The log of moves has the earlier positions of
                the branch (``repository.moves``), and ``repository.undo`` restores them.

        Raises:
            ProtectedBranchError: The branch accepts no reset.
            FencedError: The branch is a run's, and `to` was given.
        """
        to = None if to is None else ref_text(to, "to", within=self.repository)
        if to is None:
            branches.reset(self.repository, self._name, fence=self._fence)
        else:
            branches.reset_hard(self.repository, self._name, to)


def commit_spec(
    branch: Branch, message: str, metadata: Mapping[str, str] | None, committer: str
) -> CommitSpec:
    """Return the spec of a commit: the caller's message and metadata, and the branch's metadata."""
    message = text(message, "message", most=MESSAGE_BYTES)
    committer = text(committer, "committer", empty=True, most=COMMITTER_BYTES)
    pairs = check_caller_pairs("commit", metadata)
    return CommitSpec(message, {**pairs, **branch._marks()}, committer)


def writes_of(branch: Branch) -> StagedWrites:
    """Return an object that stages the writes of one operation on the branch."""
    return branch._writes


def fence_of(branch: Branch) -> str:
    """Return the fence of a run's branch, or "" for any other branch."""
    return branch._fence
