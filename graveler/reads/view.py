"""Views: readable trees of entries, of a commit or of a branch."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from glob import escape, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from graveler.base import arguments as args
from graveler.base.arguments import PathText, RefLike
from graveler.base.background import Progress, no_progress
from graveler.base.forks import held_off
from graveler.base.names import path_key, path_keys
from graveler.base.parallel import thread_count
from graveler.committed.cache.flat import Run
from graveler.committed.lookup import find_many
from graveler.committed.metarange import get, prefix_end, read, runs
from graveler.display import Shown, listing
from graveler.errors import CorruptionError, InvalidInputError, ObjectNotFoundError
from graveler.model import Commit, Entry, Prefix, Transfer
from graveler.reads.files import open_entry, read_entry, read_range
from graveler.reads.listing import Row, Scan, first_key, list_entries
from graveler.reads.read_ahead import FoundEntries, Missing, read_many, wanted_entries
from graveler.reads.stores import Stores
from graveler.values import decode_entry, deferred_entry

if TYPE_CHECKING:
    from pyarrow import RecordBatchReader

_ID_LENGTH = 64


class View(Shown, RefLike):
    """A tree of entries that can be read.

    Attributes:
        repository: The repository's ports and settings.
    """

    repository: Stores

    @property
    def expression(self) -> str:
        """The ref expression of the view."""
        return self.name

    @property
    def _origin(self) -> str:
        """The origin of the entries: a branch name or a commit id."""
        return self.name

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the view: a branch name or a ref expression."""

    @abstractmethod
    def _find_value(self, key: bytes) -> bytes | None:
        """Return the value record at the key, or None."""

    def _find_rows(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        """Return the joined key and value record of each key in one version of the tree."""
        values = map(self._find_value, keys)
        return [
            None if value is None else key + value for key, value in zip(keys, values, strict=True)
        ]

    def _find_values(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        """Return the value record, or None, of each key in one version of the tree."""
        rows = zip(keys, self._find_rows(keys), strict=True)
        return [None if row is None else row[len(key) :] for key, row in rows]

    @abstractmethod
    def _snapshot(self, start: bytes, prefix: bytes) -> AbstractContextManager[Scan]:
        """Return one version of the tree below `prefix`, for scans from `start` on.

        Within the block it can be scanned repeatedly. Writes of other processes do not change it.
        """

    def _note(self, places: Iterable[str], *, files: bool = False, at: str = "") -> None:
        """Note that files are read, in a view that records its reads."""

    @listing
    def list(
        self, prefix: PathText = "", *, after: PathText = "", delimiter: str = ""
    ) -> Iterator[Entry | Prefix]:
        """Yield the entries below `prefix` in byte order of their paths.

        A listing shows one version of the tree: one commit and its staged writes.

        Args:
            prefix: The start of the paths, or "" for all.
            after: The path after which the listing starts, to resume a listing.
            delimiter: Fold paths that contain it after `prefix` into one ``Prefix`` each, as "/"
                does with folders.
        """
        prefix, after = args.prefix_text(prefix, "prefix"), args.prefix_text(after, "after")
        delimiter = args.text(delimiter, "delimiter", empty=True)
        start = first_key(prefix, after)
        with self._snapshot(start, first_key(prefix)) as scan:
            yield from list_entries(scan, prefix=prefix, after=after, delimiter=delimiter)

    def __iter__(self) -> Iterator[Entry]:
        return self.entries()

    def __contains__(self, path: PathText) -> bool:
        return self.exists(path)

    @listing
    def entries(self, prefix: PathText = "") -> Iterator[Entry]:
        """Yield the entries below `prefix`, not folded, of one version of the tree."""
        prefix = args.prefix_text(prefix, "prefix")
        first = first_key(prefix)
        with self._snapshot(first, first) as scan:
            yield from scan.entries(first)

    def has_below(self, prefix: PathText) -> bool:
        """Return whether any path starts with `prefix`. At most one path is read."""
        prefix = args.prefix_text(prefix, "prefix")
        first = first_key(prefix)
        with self._snapshot(first, first) as scan:
            return next(scan(first), None) is not None

    def stat(self, path: PathText) -> Entry:
        """Return the entry at `path`, or raise ObjectNotFoundError."""
        if type(path) is not str or not path:
            path = args.path_text(path, "path")
        key = path_key(path)
        value = self._find_value(key)
        if value is None:
            raise ObjectNotFoundError(f"nothing at {path!r} in {self.name!r}")
        return deferred_entry(key, value, self._origin)

    def stat_many(self, paths: Iterable[PathText]) -> Sequence[Entry | None]:
        """Return the entry of each path, or None if it is missing, in the order of the paths.

        All entries are from one version of the tree. Each range of it is opened once, so that
        100,000 paths in one call take a fraction of the time of as many calls of `stat`. An entry
        is decoded on access.

        Args:
            paths: The paths in any order. A path may come twice.

        Raises:
            InvalidInputError: A path is invalid.
        """
        keys = path_keys(args.several(paths, "paths", "paths"))
        return FoundEntries(keys, self._find_rows(keys), self._origin)

    def listing(self, prefix: PathText = "") -> "RecordBatchReader":
        """Return the entries below `prefix` as an Arrow table, in batches that are read as needed.

        The columns are those of `Entry`: path, address, size, checksum, content_type, mtime,
        metadata, version, computed. One version of the tree is read, as by `list`.

        Args:
            prefix: The start of the paths, or "" for all.

        Raises:
            MissingDependencyError: pyarrow is not installed.
        """
        with held_off:  # a child would wait forever for an import by a thread of its parent
            from graveler.reads import table

        first = first_key(args.prefix_text(prefix, "prefix"))
        return table.reader(self._snapshot(first, first), first)

    def exists(self, path: PathText) -> bool:
        """Return whether there is a file at `path`, or, if it ends with a slash, a file below it."""
        path = args.path_text(path, "path")
        if path.endswith("/") and path[0] != "/":  # earlier versions could store "/"
            return self.has_below(path)
        return self._find_value(path_key(path)) is not None

    def get(self, path: PathText | Entry) -> bytes:
        """Return the bytes of a file, verified by the size and checksum of its entry.

        Args:
            path: The path of the file, or its entry from a listing. An entry selects the listed
                file even if the path was written since.

        Raises:
            ObjectNotFoundError: The path has no entry, or its object is missing from the store.
            CorruptionError: The bytes differ from those that were stored.
            SourceChangedError: A linked file was changed since it was linked.
        """
        return read_entry(self.repository, self._entry(path))

    def open(self, path: PathText | Entry) -> BinaryIO:
        """Return a readable, seekable stream of a file. The caller closes it.

        A stream that is read from start to end is verified by the checksum of its entry: the read
        that gets the last byte from the store raises the error. A seek to a place other than the
        start ends the comparison.

        Args:
            path: The path of the file, or its entry from a listing.

        Raises:
            ObjectNotFoundError: The path has no entry, or its object is missing from the store.
            CorruptionError: The size differs. Reads can also raise this error.
            SourceChangedError: A linked file was changed since it was linked.
        """
        return open_entry(self.repository, self._entry(path))

    def read_range(self, path: PathText | Entry, start: int, length: int) -> bytes:
        """Return at most `length` bytes of a file, from `start` on. Size and version are verified.

        Args:
            path: The path of the file, or its entry from a listing.
        """
        return read_range(self.repository, self._entry(path), start, length)

    def get_many(
        self,
        paths: Iterable[PathText] | Iterable[Entry],
        *,
        missing: Missing = "error",
        threads: int | None = None,
    ) -> Iterator[tuple[Entry, bytes]]:
        """Yield each entry with the bytes of its file, in the order of the paths.

        Threads read ahead at most 256 MiB of files, and verify them like `get`. All paths are
        looked up together, in one version of the tree. Entries are taken one by one.

        Args:
            paths: Paths, or entries of a listing. Entries select the listed files even if the
                paths were written since.
            missing: ``error`` raises before any file is read. ``skip`` omits missing paths.
            threads: How many files are read at the same time, 1 to 64. The default is 32, or 1 for
                files on the local disk.

        Raises:
            ObjectNotFoundError: Some paths do not exist (the message names them), or an object is
                missing from the store.
            CorruptionError: The bytes differ from those that were stored.
            SourceChangedError: A linked file was changed since it was linked.
        """
        args.choice(missing, "missing", ("error", "skip"))
        entries = wanted_entries(self.name, self._origin, self._find_values, paths, missing)
        return read_many(entries, self.get, self._threads(threads))

    def download(
        self,
        prefix: PathText,
        folder: str | Path,
        *,
        delete: bool = False,
        exclude: Iterable[str] = (),
        only: str = "",
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> Transfer:
        """Write the files below a folder of the tree into a local folder.

        Existing files with equal size and checksum stay, so a second call resumes an interrupted
        one. Each file is verified like by `get`, written beside its place and renamed.

        Args:
            prefix: The folder in the tree, with or without a slash at its end, or "" for all.
            folder: The local folder. It is created with the first file.
            delete: Delete the local files that the tree does not have.
            exclude: Patterns of names below the folder that are neither written nor deleted:
                ``*.tmp``, ``_*``. A ``*`` also matches slashes. A matching folder is excluded with
                all files below it.
            only: Write only the files whose whole paths match this pattern, as in
                ``output/*/part-*.parquet``. Not together with `delete`.
            threads: How many files are written at the same time, as in `get_many`.
            progress: Called with the numbers of completed and of known files.

        Returns:
            The numbers of written, unchanged and deleted files.

        Raises:
            ObjectNotFoundError: The folder is empty, or an object is missing from the store.
            CorruptionError: A file differs from its entry. The others are written.
            InvalidInputError: A file cannot be written, would be outside of the local folder, or is
                one of the lake's own files. The others are written.
            StorageFullError: The local disk is full.
        """
        from graveler.reads.local.downloads import Source, download
        from graveler.reads.local.folders import Pattern, lake_files

        prefix = args.prefix_text(prefix, "prefix").rstrip("/")
        start = f"{prefix}/" if prefix else ""
        first = first_key(start)
        root, left_out = args.file_path(folder, "folder"), Pattern(args.excluded(exclude))
        own = lake_files(self.repository)
        if args.flag(delete, "delete"):
            if only:
                raise InvalidInputError(f"only={only!r} together with delete: give one of them")
            own.check_apart(root, left_out)
        return download(
            Source(
                self.name,
                start,
                self._snapshot(first, first),
                self.get,
                self.open,
                args.text(only, "only", empty=True),
            ),
            root,
            delete=delete,
            exclude=left_out,
            threads=self._threads(threads),
            progress=args.optional(args.function, progress, "progress") or no_progress,
            own=own,
        )

    def _threads(self, given: int | None) -> int:
        return thread_count(given, self.repository.objects.put_threads)

    def _entry(self, path: PathText | Entry) -> Entry:
        return path if isinstance(path, Entry) else self.stat(path)

    def uris(self, prefix: PathText) -> Sequence[str]:
        """Return the physical URIs of the files at or below `prefix`, for other programs.

        They are literal text, as in `uri`. If the prefix is the path of a file, only this file is returned.
        """
        prefix = args.prefix_text(prefix, "prefix")
        if prefix and not prefix.endswith("/"):
            value = self._find_value(path_key(prefix))
            if value is not None:
                return [self.uri(decode_entry(path_key(prefix), value))]
        return [self.uri(entry) for entry in self.entries(prefix)]

    def uri(self, entry: Entry) -> str:
        """Return the physical URI of an entry's file, for other programs.

        It is literal text: no character is escaped, so a space, ``#`` or ``%`` stands for itself.
        """
        return self.repository.uri(args.instance(entry, "entry", Entry, "an Entry").address)


class Observed(View):
    """A view, before the class that reads, which tells an observer of every read: of a run or a hook."""

    _observer: "Observer"

    @property
    @abstractmethod
    def _read_from(self) -> str:
        """Id of the commit that the view reads."""

    def _note(self, places: Iterable[str], *, files: bool = False, at: str = "") -> None:
        self._observer(self, places, files, at)

    def _find_value(self, key: bytes) -> bytes | None:
        self._note([key.decode()], files=True)
        return super()._find_value(key)  # type: ignore[safe-super]  # the class of the view has it

    def _find_rows(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        self._note((key.decode() for key in keys), files=True)
        return super()._find_rows(keys)

    def _snapshot(self, start: bytes, prefix: bytes) -> AbstractContextManager[Scan]:
        self._note([prefix.decode()])
        return super()._snapshot(start, prefix)  # type: ignore[safe-super]  # as above

    def has_below(self, prefix: PathText) -> bool:
        """Return whether any path starts with `prefix`. At most one path is read."""
        self._note([args.prefix_text(prefix, "prefix")])
        return super().has_below(prefix)

    def _entry(self, path: PathText | Entry) -> Entry:
        entry = super()._entry(path)
        self._note_entry(entry)
        return entry

    def uri(self, entry: Entry) -> str:
        """Return the physical URI of an entry's file as literal text, for other programs."""
        uri = super().uri(entry)
        self._note_entry(entry)
        return uri

    def _note_entry(self, entry: Entry) -> None:
        """Note an entry of a commit or of another branch; those of this one were noted when found."""
        of_commit = len(entry.origin) == _ID_LENGTH
        if of_commit or entry.origin not in ("", self._origin):
            self._note([entry.path], files=True, at=entry.origin if of_commit else "")


_Observed = TypeVar("_Observed", bound=Observed)
Observer = Callable[[Observed, Iterable[str], bool, str], None]
"""Called with the view, the places that it reads, whether they are paths of files, and the id of the
commit, or "" for the commit of the view."""


def observed(kind: type[_Observed], view: View, observer: Observer) -> _Observed:
    """Return a view as one whose reads are observed."""
    made = kind.__new__(kind)
    vars(made).update(vars(view), _observer=observer)
    return made


def read_from(view: Observed) -> str:
    """Return the id of the commit that a view reads."""
    return view._read_from


def find_value(view: View, key: bytes) -> bytes | None:
    """Return the value record at the key of a view, or None."""
    return view._find_value(key)


def find_rows(view: View, keys: Sequence[bytes]) -> Sequence[bytes | None]:
    """Return the joined key and value record of each key in one version of a view."""
    return view._find_rows(keys)


def literal_in(views: Callable[[], Iterable[View]], pattern: str) -> str:
    """Return the pattern, or one for its text if a view has this path or folder."""
    with suppress(LookupError, ValueError):  # no such ref, or no text of a path
        name, looks = pattern.rstrip("/"), has_magic(pattern)
        if looks and any(v.has_below(f"{name}/") or v.exists(name) for v in views()):
            return escape(pattern)
    return pattern


def snapshot(view: View, start: bytes, prefix: bytes) -> AbstractContextManager[Scan]:
    """Return one version of a view below `prefix`, for scans from `start` on."""
    return view._snapshot(start, prefix)


class Ref(View):
    """The tree of one commit. It never changes, even if branches move.

    Attributes:
        commit: The commit.
    """

    def __init__(self, repository: Stores, commit: Commit, *, name: str = "") -> None:
        self.repository = repository
        self.commit = commit
        self._name = name or commit.id[:12]

    def __repr__(self) -> str:
        return f"<Ref {self._name} = {self.commit.id[:12]} of {self.repository.name}>"

    @property
    def name(self) -> str:
        """The expression of which the ref was made."""
        return self._name

    @property
    def expression(self) -> str:
        """Id of the commit."""
        return self.commit.id

    @property
    def _origin(self) -> str:
        return self.commit.id

    @property
    def commit_id(self) -> str:
        """Id of the commit."""
        return self.commit.id

    def _find_value(self, key: bytes) -> bytes | None:
        try:  # a context manager would take a fifth of the time
            return get(self.repository.ranges, self.commit.metarange, key)
        except CorruptionError:
            self.repository.refs.expired.check_readable(self.commit.id)
            raise

    def _snapshot(self, start: bytes, prefix: bytes) -> AbstractContextManager[Scan]:
        """Return the commit's tree below `prefix`. It never changes, so nothing is copied."""
        del start

        def runs(at: bytes) -> Iterator[Run]:
            with readable(self.repository, self.commit.id):
                yield from below(self.repository, self.commit.metarange, prefix, at)

        def rows(at: bytes) -> Iterator[Row]:
            for run in runs(at):
                yield from zip(*run.columns(), strict=True)

        return nullcontext(Scan(rows, runs, self.commit.id))

    def _find_rows(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        with readable(self.repository, self.commit.id):
            return find_many(self.repository.ranges, self.commit.metarange, keys)


@contextmanager
def readable(stores: Stores, commit: str) -> Iterator[None]:
    """Raise ExpiredError instead of CorruptionError if the tree of an expired commit is gone."""
    try:
        yield
    except CorruptionError:
        stores.refs.expired.check_readable(commit)
        raise


def below(stores: Stores, tree: str, prefix: bytes, start: bytes) -> Iterator[Run]:
    """Yield the rows of a tree below `prefix`, from the key `start` on."""
    ranges = stores.ranges
    return runs(ranges, read(ranges, tree), max(start, prefix), prefix_end(prefix))
