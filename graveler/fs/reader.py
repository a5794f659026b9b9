"""Listing trees and reading files."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from glob import escape, has_magic
from itertools import chain
from pathlib import Path
from typing import Any

from fsspec import AbstractFileSystem
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.implementations.local import LocalFileSystem, trailing_sep
from fsspec.utils import isfilelike, other_paths

from graveler.base.background import Threads
from graveler.base.names import path_key
from graveler.errors import NotFoundError
from graveler.fs.address import Address, translated
from graveler.fs.file import GravelerFile
from graveler.fs.trees import TreeFileSystem
from graveler.model import Entry, Prefix
from graveler.reads.files import download, read_entry, read_range
from graveler.reads.listing import first_key, list_entries
from graveler.reads.local.folders import lake_files
from graveler.reads.stores import Stores
from graveler.reads.view import find_value, snapshot
from graveler.values import value_identity

_READERS = 8
_Info = dict[str, Any]


class ReadOnlyFileSystem(TreeFileSystem):
    """The filesystem's read operations."""

    def entry(self, path: str) -> Entry:
        """Return the entry of a file."""
        path = self._strip_protocol(path)
        if self._batch.seen is not None and path in self._batch.seen:
            seen = self._batch.seen[path]
            if seen is None:
                raise IsADirectoryError(errno.EISDIR, "is a folder", path)
            return seen
        address = Address.parse(path)
        with translated(path):
            if address.ref and address.path:
                return self._entry(address, path)
            self._check_folder(address)
        raise IsADirectoryError(errno.EISDIR, "is a folder", path)

    def _entry(self, address: Address, path: str) -> Entry:
        view = self._view(address)
        with self._recording():
            try:
                return view.stat(address.path)
            except NotFoundError:
                if view.has_below(address.folder):
                    raise IsADirectoryError(errno.EISDIR, "is a folder", path) from None
                raise

    def _check_folder(self, address: Address) -> None:
        if address.ref:
            self._view(address)
        elif address.repository:
            self._repository(address.repository)

    @contextmanager
    def _remembering(self) -> Iterator[None]:
        """Keep the results of `find` in the block, so that files are not looked up one by one."""
        before = self._batch.seen
        self._batch.seen = {} if before is None else before
        try:
            yield
        finally:
            self._batch.seen = before

    @contextmanager
    def _one_version(self, address: Address) -> Iterator[None]:
        """Make all listings at or below an address show the same version during the block."""
        batch = self._batch
        if not address.ref or has_magic(address.tree) or batch.tree:
            yield
            return
        try:
            view = self._view(address)
        except NotFoundError:  # a listing will raise it
            yield
            return
        first = first_key(address.folder)
        with self._recording(), snapshot(view, first, first) as scan:
            batch.tree, batch.scan = address.tree, scan
            try:
                yield
            finally:
                batch.tree, batch.scan = "", None

    def _listing(self, address: Address) -> Iterator[Entry | Prefix]:
        scan = self._batch.scan
        if scan is None or self._batch.tree != address.tree:
            with self._recording():
                yield from self._view(address).list(address.folder, delimiter="/")
        else:
            yield from list_entries(scan, prefix=address.folder, delimiter="/")

    def info_of(self, path: str, entry: Entry, stores: Stores | None = None) -> _Info:
        """Return the result of ``info`` for a file."""
        stores = stores or self._repository(Address.parse(path).repository).stores
        return {
            "name": path,
            "size": entry.size,
            "type": "file",
            "mtime": entry.mtime,
            "checksum": entry.checksum,
            "content_type": entry.content_type,
            "metadata": dict(entry.metadata),
            "address": stores.uri(entry.address),
        }

    def info(self, path: str, **_: Any) -> _Info:
        """Return the details of a file or folder."""
        path = self._strip_protocol(path)
        try:
            return self.info_of(path, self.entry(path))
        except IsADirectoryError:
            return _folder(path)

    def exists(self, path: str, **_: Any) -> bool:
        """Return whether the file or folder exists."""
        try:
            self.info(path)
        except (FileNotFoundError, ValueError):
            return False
        return True

    def isfile(self, path: str) -> bool:
        """Return whether the file exists. Unlike fsspec's method, it raises other errors."""
        return self._type_of(path) == "file"

    def isdir(self, path: str) -> bool:
        """Return whether the folder exists. Unlike fsspec's method, it raises other errors."""
        return self._type_of(path) == "directory"

    def _type_of(self, path: str) -> str:
        try:
            return str(self.info(path)["type"])
        except (FileNotFoundError, ValueError):
            return ""

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """Return the entries directly below a folder. For a file, return the file itself."""
        path = self._strip_protocol(path)
        address = Address.parse(path)
        with translated(path):
            infos = list(self._below(address))
            if not infos and address.path:
                infos = [self.info_of(path, self.entry(path))]
        return infos if detail else [info["name"] for info in infos]

    def _below(self, address: Address) -> Iterator[_Info]:
        if not address.repository:
            for name in self._open_lake().repositories():
                yield _folder(name)
        elif not address.ref:
            repository = self._repository(address.repository)
            branches = (record.name for record in repository.branches())
            for name in sorted({*branches, *repository.tags.list()}):
                yield _folder(f"{address.repository}/{name}")
        else:
            stores = self.stores_of(address.text)
            for item in self._listing(address):
                name = address.tree + item.path
                if isinstance(item, Prefix):
                    yield _folder(name.rstrip("/"))
                    continue
                if self._batch.seen is not None:
                    self._batch.seen[name] = item
                yield self.info_of(name, item, stores)

    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Return the files below a folder in one scan of the tree, and the file at its path.

        With ``prefix``, only paths below the folder that begin with it are returned.
        """
        path = self._strip_protocol(path)
        address = Address.parse(path)
        prefix = str(kwargs.pop("prefix", ""))
        if maxdepth is not None or not address.ref:
            with translated(path), self._one_version(address):
                infos = super().find(path, maxdepth, withdirs, True, **kwargs)
            if prefix:
                infos = {
                    at: info for at, info in infos.items() if at.startswith(f"{path}/{prefix}")
                }
        else:
            with translated(path):
                infos = self._everything(address, prefix, withdirs=withdirs)
        return infos if detail else list(infos)

    def _everything(self, address: Address, prefix: str, *, withdirs: bool) -> dict[str, _Info]:
        infos: dict[str, _Info] = {}
        try:
            view = self._view(address)
        except NotFoundError:
            return infos
        with self._recording():
            here = [address.path] if address.path and not prefix else []
            files = (view.stat(path) for path in here if view.exists(path))
            for entry in chain(files, view.entries(address.folder + prefix)):
                name = address.tree + entry.path
                infos[name] = self.info_of(name, entry, view.repository)
                if self._batch.seen is not None:
                    self._batch.seen[name] = entry
        if withdirs:
            root = address.text
            folders = {root} if infos else set()
            for name in infos:
                while (name := name.rpartition("/")[0]) not in folders and len(name) > len(root):
                    folders.add(name)
            folders -= infos.keys()  # a path that is both counts as a file
            infos.update((name, _folder(name)) for name in folders)
            if self._batch.seen is not None:
                self._batch.seen.update(dict.fromkeys(folders))
        return dict(sorted(infos.items()))

    def glob(self, path: str, maxdepth: int | None = None, **kwargs: Any) -> Any:
        """Return the path of this name, or those that match. Only folders that match are listed."""
        name = self._strip_protocol(path)
        if has_magic(name) and self.exists(name):
            return {name: self.info(name)} if kwargs.get("detail") else [name]
        return self._matching(path, maxdepth, **kwargs)

    def _matching(self, path: str, maxdepth: int | None, **kwargs: Any) -> Any:
        parts = self._strip_protocol(path).split("/")
        first = next((at for at, part in enumerate(parts) if has_magic(part)), len(parts))
        with translated(path), self._one_version(Address.parse("/".join(parts[:first]))):
            return self._glob(path, parts, first, maxdepth, **kwargs)

    def _glob(
        self, path: str, parts: list[str], first: int, maxdepth: int | None, **kwargs: Any
    ) -> Any:
        if "**" in path or first >= len(parts) - 1:
            return super().glob(path, maxdepth, **kwargs)
        end = "/" if path.endswith("/") else ""
        rest = "/".join(parts[first + 1 :]) + end
        infos: dict[str, _Info] = {}
        detail = kwargs.pop("detail", False)
        for folder in super().glob("/".join(parts[: first + 1]) + "/"):
            if has_magic(folder):  # the name looks like a pattern: leave it to fsspec
                infos.update(super().glob(f"{escape(folder)}/{rest}", detail=True, **kwargs))
            else:
                infos.update(self._matching(f"{folder}/{rest}", None, detail=True, **kwargs))
        infos = dict(sorted(infos.items()))
        return infos if detail else list(infos)

    def du(
        self,
        path: str,
        total: bool = True,
        maxdepth: int | None = None,
        withdirs: bool = False,
        **_: Any,
    ) -> Any:
        """Return the size of the files below a folder."""
        infos = self.find(path, maxdepth=maxdepth, withdirs=withdirs, detail=True)
        sizes = {name: info["size"] for name, info in infos.items()}
        return sum(sizes.values()) if total else sizes

    def modified(self, path: str) -> datetime:
        """Return the time at which the bytes of a file were written."""
        moment = self.entry(path).mtime
        if moment is None:
            raise FileNotFoundError(errno.ENOENT, "the time of writing is unknown", path)
        return moment

    def created(self, path: str) -> datetime:
        """Return the same as `modified`: a file that is written again is a new file."""
        return self.modified(path)

    def ukey(self, path: str) -> str:
        """Return a key that changes only with the content of a file."""
        path = self._strip_protocol(path)
        address = Address.parse(path)
        self.entry(path)
        with translated(path), self._recording():
            value = find_value(self._view(address), path_key(address.path))
        return "" if value is None else value_identity(value).hex()

    def checksum(self, path: str) -> int:
        """Return the key of `ukey` as a number."""
        return int(self.ukey(path), 16)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> GravelerFile:
        return GravelerFile(
            self, path, mode, block_size, autocommit, cache_options=cache_options, **kwargs
        )

    def stores_of(self, path: str) -> Stores:
        """Return the repository that a path is in."""
        return self._repository(Address.parse(path).repository).stores

    def get_file(
        self, rpath: str, lpath: Any, callback: Any = DEFAULT_CALLBACK, **kwargs: Any
    ) -> None:
        """Write a file to a local file. If the bytes are damaged, the local file is removed."""
        path = self._strip_protocol(rpath)
        to_file = not isfilelike(lpath) and not self.isdir(path)
        if kwargs and to_file:
            with translated(path):
                lake_files(self.stores_of(path)).check(Path(os.path.realpath(lpath)))
        if kwargs or not to_file:
            super().get_file(path, lpath, callback=callback, **kwargs)
            return
        target = Path(lpath)
        target.parent.mkdir(parents=True, exist_ok=True)
        entry = self.entry(path)
        callback.set_size(entry.size)
        with translated(path):
            download(self.stores_of(path), entry, target, callback.relative_update)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        """Return the verified bytes of a file, or those from `start` up to `end`."""
        path = self._strip_protocol(path)
        entry = self.entry(path)
        first, last, _step = slice(start, end).indices(entry.size)
        with translated(path):
            if first == 0 and last == entry.size:
                return read_entry(self.stores_of(path), entry)
            return read_range(self.stores_of(path), entry, first, max(last - first, 0))

    def cat(self, path: Any, recursive: bool = False, **kwargs: Any) -> Any:
        """Return the bytes of a file, or those of files by path.

        All files below a folder are of the same listing.
        """
        with self._remembering():
            if recursive:
                found = self.expand_path(path, recursive=True)
                files = [each for each in found if not self.isdir(each)]
                path = path if files == [self._strip_protocol(path)] else files
            return super().cat(path, **kwargs)

    def get(self, rpath: Any, lpath: Any, recursive: bool = False, **kwargs: Any) -> None:
        """Write files to local files. All files below a folder are of the same listing."""
        with self._remembering():
            rpath, lpath = paired((self, rpath), (LocalFileSystem(), lpath), recursive, **kwargs)
            super().get(rpath, lpath, recursive, **kwargs)

    def cat_ranges(
        self,
        paths: list[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        on_error: str = "return",
        **_: Any,
    ) -> list[Any]:
        """Return the bytes of many ranges, read concurrently."""
        if max_gap is not None:
            raise NotImplementedError("cat_ranges with max_gap")  # like fsspec
        if not isinstance(paths, list):
            raise TypeError("paths: give a list")
        firsts = starts if isinstance(starts, list) else [starts] * len(paths)
        lasts = ends if isinstance(ends, list) else [ends] * len(paths)
        if not len(paths) == len(firsts) == len(lasts):
            raise ValueError(f"{len(paths)} paths, {len(firsts)} starts, {len(lasts)} ends")

        def read(wanted: tuple[str, int | None, int | None]) -> Any:
            try:
                return self.cat_file(*wanted)
            except Exception as error:
                if on_error == "return":
                    return error
                raise

        wanted = list(zip(paths, firsts, lasts, strict=True))
        if len(wanted) < 2:
            return [read(request) for request in wanted]
        with Threads(min(_READERS, len(wanted))) as readers:
            return list(readers.map(read, wanted))


_Place = tuple[AbstractFileSystem, Any]


def paired(
    source: _Place, dest: _Place, recursive: bool = False, maxdepth: int | None = None, **_: Any
) -> tuple[Any, Any]:
    """Return the paths of a transfer, as lists if a source that exists looks like a pattern."""
    (here, path), (there, to) = source, dest
    if not isinstance(path, str) or not has_magic(path) or not here.exists(path):
        return path, to
    paths = here.expand_path([path], recursive, maxdepth, assume_literal=True)
    paths = [each for each in paths if recursive or not here.isdir(each)]
    into = isinstance(to, str) and (trailing_sep(to) or there.isdir(to))
    return paths, other_paths(paths, to, exists=into and not trailing_sep(path))


def _folder(name: str) -> _Info:
    return {"name": name, "size": 0, "type": "directory"}
