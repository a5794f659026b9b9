"""Writing to a branch: puts, links, imports, copies and deletions, which are staged."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Unpack

from graveler.base import arguments as args
from graveler.base.arguments import PathText, RefLike
from graveler.base.names import is_of_run
from graveler.errors import InvalidInputError
from graveler.model import Commit, Entry, Transfer
from graveler.objects.store import Body
from graveler.reads.local.folders import Links, Pattern
from graveler.reads.view import View
from graveler.refs.expression import resolve_to_read
from graveler.repository import origins
from graveler.repository.writes import copies, folders, moves, uploads
from graveler.repository.writes.staged import StagedWrites, new_address
from graveler.tables.views import Ref, WritableTables

if TYPE_CHECKING:
    from graveler.repository.imports.importer import Imported


class BranchWriter(WritableTables):
    """A view of a branch to which files can be written."""

    _fence = ""
    _author = ""

    @property
    def _writes(self) -> StagedWrites:
        """The object that stages writes. A run renews its lease when it is used."""
        return StagedWrites(self.repository, self.name, self._fence, self._author)

    @property
    def _unrecorded(self) -> "BranchWriter":
        """The branch, without recording reads as inputs of a run."""
        return self

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
            replace: Commit this entry even if the head has the same content. This repairs a file
                whose stored bytes are damaged.
        """
        args.flag(replace, "replace")
        writes = self._writes
        entry = self._upload(writes, path, body, content_type, metadata)
        self._writes.stage([entry], replaces=replace, after=writes)
        return entry

    def put_many(
        self,
        items: Iterable[tuple[PathText, Body]] | Mapping[Any, Body],
        **terms: Unpack[uploads.PutTerms],
    ) -> Transfer:
        """Store the bytes of many files with threads, and stage their entries in chunks.

        Items are staged in their order, in chunks of 1,000 entries or 10 seconds. So after an error
        the first items are staged. If a path comes twice, the last item counts. At most 256 MiB of
        bodies are in transfer, and a file is open only while it is read.

        Args:
            items: Pairs of a path and a body as for `put`, or a mapping of them. An iterable of
                any length. A stream is read to its end before the next item is taken.
            terms: Any of ``content_type``, ``metadata``, ``replace``, ``threads`` and ``progress``; see
                `PutTerms`.

        Returns:
            The number of staged files, and their size.
        """
        checked = uploads.Terms.of(self.repository, **terms)
        return uploads.put_many(self.repository, lambda: self._writes, items, checked)

    def upload(
        self,
        folder: str | Path,
        prefix: PathText = "",
        *,
        delete: bool = False,
        exclude: Iterable[str] = (),
        follow_links: bool = True,
        **terms: Unpack[uploads.PutTerms],
    ) -> Transfer:
        """Put the files of a local folder on the branch. Files that it has already are skipped.

        A file is skipped if the branch has an entry with its size and with the checksum that
        graveler computed. So a second call resumes an interrupted one. Hidden files are uploaded.
        Empty folders, pipes, sockets and devices are omitted. A file that cannot be read, or that
        changes while it is read, does not stop the others. The error at the end names it.

        Args:
            prefix: The folder on the branch, with or without a slash at its end. "" is the root.
            delete: Delete the files below the prefix that the local folder does not have.
            exclude: Names, or patterns of names, below the folder that are neither uploaded nor deleted, as
                for `download`.
            follow_links: Upload the targets of symbolic links. Otherwise links are omitted.
            terms: As for `put_many`. A given ``content_type`` or ``metadata`` must also be that of a file
                that is skipped. With ``replace`` no file is skipped.

        Returns:
            The numbers of uploaded, skipped and deleted files.
        """
        prefix = args.prefix_text(prefix, "prefix").rstrip("/")
        links = Links.FOLLOW if args.flag(follow_links, "follow_links") else Links.LEAVE_OUT
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
            folders.Origin(
                args.file_path(folder, "folder"), links, Pattern(args.excluded(exclude))
            ),
            uploads.Terms.of(self.repository, **terms),
            delete=args.flag(delete, "delete"),
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
        path, content_type = args.path_text(path, "path"), args.media_type(content_type)
        body, own = uploads.located(body, "body"), args.pairs(metadata, "metadata")
        entry = writes.upload(path, body, content_type, own)
        return replace(entry, origin=self.name) if is_of_run(self.name) else entry

    def link(
        self, path: PathText, *, address: str, size: int | None = None, checksum: str | None = None
    ) -> Entry:
        """Stage an entry for a file that is already in a store. No bytes are copied.

        Args:
            address: Key below the repository's storage (``data/…``) or a full URI.
            size: The size of the file in bytes, if known.
            checksum: ``algorithm:hex`` of the content, if known. Readers verify it. The identity of
                the entry is the address and its version.

        Returns:
            The entry, with the time and the version that the store reports.
        """
        path, address = args.path_text(path, "path"), args.text(address, "address")
        args.optional(args.count, size, "size")
        checksum = None if checksum is None else args.text(checksum, "checksum", empty=True)
        wanted = Entry(path, address, size or 0, checksum or "")
        return self._writes.link(wanted, sized=size is not None)

    def link_many(self, entries: Iterable[Entry]) -> int:
        """Stage entries of files that are already in a store, many in each round trip.

        Each file is looked up. Files of the same folder take one request for 1,000 of them. Times
        and versions are those that the stores report. The call is not atomic: after an error some
        chunks of 20,000 entries are staged, and repeating the call is harmless.

        Returns:
            The number of staged entries.
        """
        return self._writes.link_many(self._accepted(entries))

    def _accepted(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Yield a caller's entries, and refuse those of unpublished work."""
        given = args.each(entries, "entries", Entry, "a graveler.Entry")
        return origins.checked(self.repository, self.name, given)

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
        """
        from graveler.repository.imports.importer import import_files, source_text

        prefix, below = args.prefix_text(prefix, "prefix"), args.text(below, "below", empty=True)
        args.flag(replace, "replace"), args.flag(verify, "verify")
        return import_files(
            self.repository,
            self._writes,
            source_text(source),
            prefix,
            below=below,
            exclude=args.excluded(exclude),
            replaces=replace,
            verify=verify,
        )

    def _link_written(self, entries: Iterable[Entry]) -> int:
        """Stage entries of files that the caller has written below `new_address`."""
        return self._writes.stage(entries)

    def copy(
        self,
        source: str | Commit | RefLike,
        path: PathText,
        to: PathText,
        *,
        replace: bool = False,
        only: str = "",
    ) -> int:
        """Stage files of another tree, or of this one, under other paths. No bytes are copied.

        All copies become visible together. Other files at the destination stay, unless `replace`
        is set.

        Args:
            source: The tree. A ref expression means its commit. A branch object includes its
                staged writes.
            path: A file, or a folder, which ends with a slash, with all files below it. "" is the
                whole tree.
            replace: Delete the other files below the folder `to`, in the same step.
            only: Copy only the files of the folder whose whole paths match this pattern, as in
                ``output/*/part-*.parquet``.

        Returns:
            The number of copied files.
        """
        path, to = args.prefix_text(path, "path"), args.prefix_text(to, "to")
        args.flag(replace, "replace")
        view = (
            source
            if isinstance(source, View)
            else self._view_of(args.ref_text(source, "source", within=self.repository))
        )
        if view.repository.uid != self.repository.uid:
            raise InvalidInputError(
                f"source {view.name!r} is of repository {view.repository.name!r}: only its bytes can "
                "be copied, with put(path, source.open(path))"
            )
        place = copies.Place.of(path, to, args.text(only, "only", empty=True))
        origins.refuse_origin(self.repository, self.name, view._origin)
        if path == to and isinstance(view, BranchWriter) and view.name == self.name:
            raise InvalidInputError(f"path={path!r}, to={to!r}: give two different places")
        view._note([path])
        return copies.copy(self.repository, self._writes, view, place, replaces=replace)

    def _view_of(self, ref: str) -> View:
        """Return the commit of a ref expression, for reading."""
        return Ref(self.repository, resolve_to_read(self.repository.refs, ref), name=ref)

    def move(self, path: PathText, to: PathText, *, only: str = "") -> int:
        """Stage files under other paths and the deletion of the old ones. No bytes are copied.

        Both become visible in one step. A write to a moved file that was acknowledged before the
        call is moved as well. A later write stays at the old path. A concurrent write may be at
        both paths.

        Args:
            path: A file, or a folder, which ends with a slash, with all files below it.
            to: The destination: a file or a folder, like `path`. Existing files are replaced.
            only: Move only the files of the folder whose whole paths match this pattern.

        Returns:
            The number of moved files.
        """
        path, to = args.prefix_text(path, "path"), args.prefix_text(to, "to")
        place = copies.Place.of(path, to, args.text(only, "only", empty=True))
        if path == to:
            raise InvalidInputError(f"path={path!r}, to={to!r}: give two different places")
        self._note([path])
        return moves.move(self.repository, self._writes, place)

    def delete(self, path: PathText) -> None:
        """Stage the deletion of `path`. A missing path is not an error."""
        self.delete_many([path])

    def delete_many(self, paths: Iterable[PathText]) -> int:
        """Stage the deletion of many paths. Return the number of paths."""
        return self._writes.delete(args.paths_of(paths, "paths"))

    def new_address(self) -> str:
        """Return a new key prefix, ``data/<storage id>/<unique>``, below which another program may write.

        Link the files afterwards. Files that are not linked are garbage.
        """
        self._writes.check()
        return new_address(self.repository)
