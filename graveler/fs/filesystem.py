"""The filesystem, with its write operations."""

import errno
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from glob import has_magic
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, cast

from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.core import get_compression
from fsspec.implementations.local import LocalFileSystem

from graveler.fs.address import Address, translated
from graveler.fs.file import GravelerFile, TextFile
from graveler.fs.reader import ReadOnlyFileSystem, paired
from graveler.model import Commit, Entry
from graveler.objects.store import Body
from graveler.reads.files import open_entry
from graveler.repository.branch import Branch, fence_of, writes_of
from graveler.repository.writes import unfinished
from graveler.repository.writes.unfinished import Place


class GravelerFileSystem(ReadOnlyFileSystem):
    """The trees of a lake as files: ``grav://repository/ref/path``.

    A ref is any name of a commit (``main``, ``v1``, ``main~2``, ``main@{1}``, a commit id). The
    name of a branch includes its staged writes. Branches can be written. Writes are staged until
    ``commit`` or a run commits them. Writes in a transaction become one commit.

    Args:
        lake: The folder of the lake, or its ``graveler.toml``. The default is GRAVELER_LAKE.
        run: The handle of a run (the object or its JSON), for writing to its branch.
        fences: The permissions to write to branches of runs and steps, by ``repository/branch``.
            ``graveler.fs.storage_options`` makes them.
        options: Options of fsspec.
    """

    def check_writable(self, path: str) -> Place:
        """Return the branch of a path. Raise an error, before bytes are stored, if it is read-only."""
        path = self._strip_protocol(path)
        with translated(path):
            target = self._target(Address.parse(path))
            branch = target if isinstance(target, Branch) else target.branch
            writes_of(branch).check()
        return branch.repository.uid, branch.name, fence_of(branch)

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        """Open a file, with fsspec's options. A written file becomes visible when it is closed."""
        if not {*mode} & {*"wax"}:
            return super().open(path, mode, **options)
        text = {
            name: options.pop(name) for name in ("encoding", "errors", "newline") if name in options
        }
        packing = get_compression(self._strip_protocol(path), options.pop("compression", None))
        binary = mode.replace("t", "").replace("b", "") + "b"
        TextIOWrapper(BytesIO(), **text)  # refuses wrong options before the file is opened
        file = super().open(path, binary, packing=packing, **options)
        if self._finishing is not None:
            self._finishing[:] = [*(each for each in self._finishing if not each.closed), file]
        return file if "b" in mode else TextFile(file, **text)

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """Close the files that are opened here in the block and left open, or discard them on an error.

        DuckDB's ``EXPORT DATABASE`` leaves files open.
        """
        outer, self._finishing = self._finishing, []
        try:
            yield
            for file in (each for each in self._finishing if not each.closed):
                file.accept()
        finally:
            for file in (each for each in self._finishing if not each.closed):
                file.discard()
            self._finishing = outer

    def unfinished(self, path: str) -> GravelerFile:
        """Return a file that this process left unfinished, to ``accept`` or ``discard`` it.

        Raises:
            FileNotFoundError: There is none at the path.
        """
        path = self._strip_protocol(path)
        file = unfinished.found(self.check_writable(path), Address.parse(path).path)
        if file is None:
            raise FileNotFoundError(errno.ENOENT, "there is no unfinished file", path)
        return cast("GravelerFile", file)

    def write_stream(self, path: str, body: Body) -> Entry:
        """Store bytes and stage their entry. A transaction keeps the entry until its end."""
        path = self._strip_protocol(path)
        address = Address.parse(path)
        with translated(path):
            return self._target(address).put(address.path, body)

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **_: Any) -> None:
        """Write bytes to a file."""
        if mode == "create" and self.exists(path):
            raise FileExistsError(errno.EEXIST, "there is a file", path)
        self.write_stream(path, bytes(memoryview(value)))

    def put(self, lpath: Any, rpath: Any, recursive: bool = False, **kwargs: Any) -> None:
        """Store local files."""
        lpath, rpath = paired((LocalFileSystem(), lpath), (self, rpath), recursive, **kwargs)
        super().put(lpath, rpath, recursive, **kwargs)

    def put_file(
        self,
        lpath: str,
        rpath: str,
        callback: Any = DEFAULT_CALLBACK,
        mode: str = "overwrite",
        **_: Any,
    ) -> None:
        """Store a local file. A local folder is skipped."""
        local = Path(lpath)
        if mode == "create" and self.exists(rpath):
            raise FileExistsError(errno.EEXIST, "there is a file", rpath)
        if local.is_dir():
            return
        size = local.stat().st_size
        callback.set_size(size)
        self.write_stream(rpath, local)
        callback.relative_update(size)

    def touch(self, path: str, truncate: bool = True, **_: Any) -> None:
        """Create an empty file. Without `truncate`, write an existing file again."""
        if truncate or not self.exists(path):
            self.write_stream(path, b"")
            return
        with self.open(path, "rb") as body:
            self.write_stream(path, body.read())

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Copy a file. Bytes are copied only to another repository."""
        source, dest = (Address.parse(self._strip_protocol(path)) for path in (path1, path2))
        try:
            entry = self.entry(path1)
        except IsADirectoryError:
            return  # folders exist with their files
        if self._batch.moved is not None:
            self._batch.moved.append((source.text, dest.text))
        if self._batch.links is not None and source.repository == dest.repository:
            self._batch.links.setdefault(dest.place, []).append(replace(entry, path=dest.path))
            return
        with translated(dest.text):
            target = self._target(dest)
            if source.repository == dest.repository:
                target.link_many([replace(entry, path=dest.path)])
                return
            with open_entry(self._repository(source.repository).stores, entry) as body:
                target.put(dest.path, body)

    def copy(self, path1: Any, path2: Any, *args: Any, **kwargs: Any) -> None:
        """Copy files without copying bytes. All copies are staged together."""
        with self._remembering(), self._linking_together():
            path1, path2 = paired((self, path1), (self, path2), *args, **kwargs)
            super().copy(path1, path2, *args, **kwargs)

    @contextmanager
    def _linking_together(self) -> Iterator[None]:
        links: dict[str, list[Entry]] = {}
        self._batch.links = links
        try:
            yield
        finally:
            self._batch.links = None
        for place, entries in links.items():
            with translated(place):
                self._target(Address.parse(f"{place}/{entries[0].path}")).link_many(entries)

    def mv(
        self,
        path1: Any,
        path2: Any,
        recursive: bool = False,
        maxdepth: int | None = None,
        **_: Any,
    ) -> None:
        """Move files without copying bytes. A file that is moved onto itself stays."""
        if self._strip_protocol(path1) == self._strip_protocol(path2):
            return
        self._check_removable(path1, recursive=recursive)
        moved: list[tuple[str, str]] = []
        self._batch.moved = moved
        try:
            self.copy(path1, path2, recursive=recursive, maxdepth=maxdepth, on_error="raise")
        finally:
            self._batch.moved = None
        if not moved and not recursive:
            self.entry(path1)  # a folder: raises
        kept = {dest for _, dest in moved}
        self._delete([source for source, _ in moved if source not in kept])

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Delete files. With `recursive`, delete folders and their files.

        All files of a branch can be deleted, like those of a bucket. A call deletes files of a
        single branch: deleting a repository, or files of several refs by a pattern, is refused.
        """
        self._check_removable(path, recursive=recursive)
        files = []
        with self._remembering():
            for file in self.expand_path(path, recursive=recursive, maxdepth=maxdepth):
                try:
                    self.entry(file)
                    files.append(file)
                except IsADirectoryError:
                    if not recursive:
                        raise
        self._delete(files)

    def _check_removable(self, paths: Any, *, recursive: bool) -> None:
        """Refuse a deletion that affects every branch of a repository."""
        stripped = self._strip_protocol(paths)
        for path in stripped if isinstance(stripped, list) else [stripped]:
            address = Address.parse(path)
            if (recursive and not address.ref) or has_magic(address.tree):
                raise PermissionError(
                    errno.EPERM,
                    "files are deleted in one branch at a time: name it, as in flights/dev/table",
                    path,
                )

    def rm_file(self, path: str) -> None:
        """Delete a file."""
        self.entry(path)
        self._delete([self._strip_protocol(path)])

    def _rm(self, path: str) -> None:
        self.rm_file(path)

    def _delete(self, paths: Iterable[str]) -> None:
        trees: dict[str, list[Address]] = {}
        for path in paths:
            address = Address.parse(path)
            trees.setdefault(address.tree, []).append(address)
        for tree, addresses in trees.items():
            with translated(tree):
                self._target(addresses[0]).delete_many(address.path for address in addresses)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Do nothing: a folder exists as soon as it has a file."""
        path = self._strip_protocol(path)
        if self.isfile(path):
            raise FileExistsError(errno.EEXIST, "there is a file", path)

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Do nothing: a folder exists as soon as it has a file."""
        del create_parents
        self.makedirs(path)

    def rmdir(self, path: str) -> None:
        """Do nothing. A folder disappears with its last file."""
        if self.isdir(path) and self.ls(path):
            raise OSError(errno.ENOTEMPTY, "the folder is not empty", path)

    def commit(
        self, path: str, message: str, *, metadata: Mapping[str, str] | None = None
    ) -> Commit:
        """Commit the staged writes of a branch (``repository/branch``) and return the commit."""
        path = self._strip_protocol(path)
        with translated(path):
            return self._branch(Address.parse(path)).commit(message, metadata=metadata)
