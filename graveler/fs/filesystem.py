"""The filesystem."""

import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Final

from fsspec import AbstractFileSystem
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.spec import make_instance
from fsspec.utils import stringify_path

from graveler.errors import InvalidInputError, NotFoundError, RefNotFoundError
from graveler.fs.address import PROTOCOL, Address
from graveler.fs.file import GravelerFile
from graveler.fs.lakes import lake_at, location_of
from graveler.fs.pending import Pending
from graveler.fs.transaction import CommitTransaction
from graveler.fs.translating import translated
from graveler.lake import Repository
from graveler.model import Commit, Entry, Prefix
from graveler.names import path_key
from graveler.objects.store import Body
from graveler.records import value_identity
from graveler.repository import Branch, View
from graveler.repository.writing import check_writable
from graveler.runs import RunHandle

__all__ = ["GravelerFileSystem"]

_READERS: Final = 8
_Info = dict[str, Any]


class GravelerFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The trees of a lake as files: ``grav://repository/ref/path``.

    A ref is whatever names a commit (``main``, ``v1``, ``main~2``, ``main@{1}``, a commit id),
    and the name of a branch is the branch with what is staged on it. Branches can be written;
    what is written is staged, for ``commit`` or a run to commit, unless it is written in a
    transaction, which is one commit.

    Args:
        lake: The lake: its folder or its ``graveler.toml``; else the one of GRAVELER_LAKE.
        run: The handle of a run (the object or its JSON), to write to its branch.
        fences: What lets its holder write to a run's or step's branch, by ``repository/branch``;
            made by ``graveler.fs.storage_options``.
        options: fsspec's own.
    """

    protocol: ClassVar[str] = PROTOCOL
    transaction_type = CommitTransaction

    def __init__(
        self,
        lake: str | os.PathLike[str] = "",
        *,
        run: RunHandle | str | None = None,
        fences: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        handle = RunHandle.from_json(run) if isinstance(run, str) else run
        named = lake or (handle.location if handle is not None else "")
        with translated(str(named)):
            self.location = location_of(named)
        self._handle = handle
        self._fences = dict(fences or {})
        self._repositories: dict[tuple[int, str], Repository] = {}
        self._links: dict[str, list[Entry]] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        options = {**self.storage_options, "lake": self.location}
        return make_instance, (type(self), (), options)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        text = stringify_path(path)
        return text.removeprefix(f"{PROTOCOL}://").strip("/")

    @property
    def fsid(self) -> str:
        """Name of the lake among all filesystems."""
        return f"{PROTOCOL}+{self.location}"

    # -- from addresses to trees

    def _repository(self, name: str) -> Repository:
        lake = lake_at(self.location)
        key = (id(lake), name)  # a fork, and close_lakes, bring another lake
        found = self._repositories.get(key)
        if found is None:
            found = lake.repository(name)
            self._repositories = {key: found, **self._repositories}
        return found

    def _branch(self, address: Address) -> Branch:
        """Return the branch an address is in, as its writers have it."""
        repository = self._repository(address.repository)
        place = f"{address.repository}/{address.ref}"
        handle = self._handle
        if handle is not None and place == f"{handle.repository}/{handle.branch}":
            return repository.runs.attach(handle)
        if place in self._fences:
            return Branch(repository.stores, address.ref, fence=self._fences[place])
        return repository.branch(address.ref)

    def _view(self, address: Address) -> View:
        """Return the tree an address is in, as its readers have it."""
        pending = self._known_pending(address)
        if pending is not None:
            return pending
        try:
            return self._branch(address)
        except (RefNotFoundError, InvalidInputError):
            return self._repository(address.repository).ref(address.ref)

    def _known_pending(self, address: Address) -> Pending | None:
        if not self._intrans:
            return None
        found: Pending | None = self.transaction.known(f"{address.repository}/{address.ref}")
        return found

    def _target(self, address: Address) -> Branch | Pending:
        """Return the branch to write to, or what stands for it in a transaction.

        Raises:
            FileNotFoundError: There is no such ref.
            OSError: It is no branch: nothing else can be written.
        """
        if not address.path:
            raise IsADirectoryError(errno.EISDIR, "no path to write to", address.text)
        try:
            branch = self._branch(address)
        except (RefNotFoundError, InvalidInputError):
            self._repository(address.repository).ref(address.ref)
            raise OSError(
                errno.EROFS, "only branches can be written, and this is another ref", address.text
            ) from None
        if not self._intrans:
            return branch
        pending: Pending = self.transaction.pending(f"{address.repository}/{address.ref}", branch)
        return pending

    # -- what there is

    def entry(self, path: str) -> Entry:
        """Return the entry of a file.

        Raises:
            IsADirectoryError: It is the start of paths.
            FileNotFoundError: There is nothing.
        """
        path = self._strip_protocol(path)
        address = Address.parse(path)
        with translated(path):
            if address.ref and address.path:
                view = self._view(address)
                try:
                    return view.stat(address.path)
                except NotFoundError:
                    if _has_below(view, address):
                        raise IsADirectoryError(errno.EISDIR, "is a folder", path) from None
                    raise
            self._check_folder(address)
        raise IsADirectoryError(errno.EISDIR, "is a folder", path)

    def _check_folder(self, address: Address) -> None:
        """Look whether what an address without path names is there."""
        if address.ref:
            self._view(address)
        elif address.repository:
            self._repository(address.repository)

    def info_of(self, path: str, entry: Entry) -> _Info:
        """Return what ``info`` says of a file."""
        return {
            "name": path,
            "size": entry.size,
            "type": "file",
            "mtime": entry.mtime,
            "checksum": entry.checksum,
            "content_type": entry.content_type,
            "metadata": dict(entry.metadata),
            "address": self._repository(Address.parse(path).repository).stores.uri(entry.address),
        }

    def info(self, path: str, **_: Any) -> _Info:
        """Return what is known of a file or folder."""
        path = self._strip_protocol(path)
        try:
            return self.info_of(path, self.entry(path))
        except IsADirectoryError:
            return _folder(path)

    def exists(self, path: str, **_: Any) -> bool:
        """Return whether there is such a file or folder."""
        try:
            self.info(path)
        except (FileNotFoundError, ValueError):
            return False
        return True

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """Return what is directly below a folder; of a file, the file itself."""
        path = self._strip_protocol(path)
        address = Address.parse(path)
        with translated(path):
            found = list(self._below(address))
            if not found and address.path:
                found = [self.info_of(path, self.entry(path))]
        return found if detail else [info["name"] for info in found]

    def _below(self, address: Address) -> Iterator[_Info]:
        if not address.repository:
            for name in lake_at(self.location).repositories():
                yield _folder(name)
        elif not address.ref:
            repository = self._repository(address.repository)
            branches = (record.name for record in repository.branches())
            for name in sorted({*branches, *repository.tags()}):
                yield _folder(f"{address.repository}/{name}")
        else:
            for item in self._view(address).list(address.folder, delimiter="/"):
                name = address.tree + item.path
                if isinstance(item, Prefix):
                    yield _folder(name.rstrip("/"))
                else:
                    yield self.info_of(name, item)

    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Return the files below a folder, in one reading of the tree."""
        path = self._strip_protocol(path)
        address = Address.parse(path)
        if maxdepth is not None or not address.ref:
            return super().find(path, maxdepth, withdirs, detail, **kwargs)
        with translated(path):
            found = self._everything(address, withdirs=withdirs)
        return found if detail else list(found)

    def _everything(self, address: Address, *, withdirs: bool) -> dict[str, _Info]:
        found: dict[str, _Info] = {}
        try:
            view = self._view(address)
        except NotFoundError:
            return found
        for entry in view.entries(address.folder):
            found[address.tree + entry.path] = self.info_of(address.tree + entry.path, entry)
        if withdirs:
            here = address.text
            folders = {here} if found else set()
            for name in found:
                while (name := name.rpartition("/")[0]) not in folders and len(name) > len(here):
                    folders.add(name)
            found.update((name, _folder(name)) for name in folders)
        if not found and address.path and view.exists(address.path):
            found[address.text] = self.info_of(address.text, view.stat(address.path))
        return dict(sorted(found.items()))

    def du(
        self,
        path: str,
        total: bool = True,
        maxdepth: int | None = None,
        withdirs: bool = False,
        **_: Any,
    ) -> Any:
        """Return the bytes of the files below a folder."""
        found = self.find(path, maxdepth=maxdepth, withdirs=withdirs, detail=True)
        sizes = {name: info["size"] for name, info in found.items()}
        return sum(sizes.values()) if total else sizes

    def modified(self, path: str) -> datetime:
        """Return when the bytes of a file were written."""
        moment = self.entry(path).mtime
        if moment is None:
            raise FileNotFoundError(errno.ENOENT, "nobody knows when it was written", path)
        return moment

    def created(self, path: str) -> datetime:
        """Return the same: what is written again is another file."""
        return self.modified(path)

    def ukey(self, path: str) -> str:
        """Return what changes with the content of a file, and with nothing else."""
        path = self._strip_protocol(path)
        address = Address.parse(path)
        self.entry(path)
        with translated(path):
            value = self._view(address).find_value(path_key(address.path))
        return "" if value is None else value_identity(value).hex()

    def checksum(self, path: str) -> int:
        """Return the same as a number."""
        return int(self.ukey(path), 16)

    # -- reading

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

    def read_range(self, path: str, entry: Entry, start: int, end: int) -> bytes:
        """Return the bytes of a file from `start` up to `end`."""
        stores = self._repository(Address.parse(path).repository).stores
        store, key = stores.locate(entry.address)
        if start <= 0 and end >= entry.size:
            return store.get(key)
        return store.get_range(key, start, max(end - start, 0))

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        """Return the bytes of a file, or those from `start` up to `end`."""
        path = self._strip_protocol(path)
        entry = self.entry(path)
        first, last, _step = slice(start, end).indices(entry.size)
        with translated(path):
            return self.read_range(path, entry, first, last) if last > first else b""

    def cat_ranges(
        self,
        paths: list[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        on_error: str = "return",
        **_: Any,
    ) -> list[Any]:
        """Return the bytes of many ranges, several at a time."""
        if max_gap is not None:
            raise NotImplementedError("cat_ranges with max_gap")
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
            return [read(one) for one in wanted]
        with ThreadPoolExecutor(min(_READERS, len(wanted))) as readers:
            return list(readers.map(read, wanted))

    # -- writing

    def check_writable(self, path: str) -> None:
        """Refuse a write before it costs anything."""
        path = self._strip_protocol(path)
        with translated(path):
            target = self._target(Address.parse(path))
            branch = target if isinstance(target, Branch) else target.branch
            check_writable(branch.repository, branch.name, branch.fence)

    def write_stream(self, path: str, body: Body) -> Entry:
        """Store bytes and stage their entry; in a transaction, note it."""
        path = self._strip_protocol(path)
        address = Address.parse(path)
        with translated(path):
            return self._target(address).put(address.path, body)

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **_: Any) -> None:
        """Write bytes to a file."""
        if mode == "create" and self.exists(path):
            raise FileExistsError(errno.EEXIST, "there is a file", path)
        self.write_stream(path, bytes(value))

    def put_file(
        self,
        lpath: str,
        rpath: str,
        callback: Any = DEFAULT_CALLBACK,
        mode: str = "overwrite",
        **_: Any,
    ) -> None:
        """Store a local file; a local folder needs nothing."""
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
        """Make an empty file; without `truncate`, only say of one that it was written now."""
        if truncate or not self.exists(path):
            self.write_stream(path, b"")
            return
        entry = replace(self.entry(path), mtime=None)
        with translated(path):
            self._target(Address.parse(self._strip_protocol(path))).link_many([entry])

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Give a file a second name; only into another repository are bytes copied."""
        source, dest = (Address.parse(self._strip_protocol(path)) for path in (path1, path2))
        try:
            entry = self.entry(path1)
        except IsADirectoryError:
            return  # folders come with the files in them
        with translated(dest.text):
            target = self._target(dest)
            if source.repository != dest.repository:
                store, key = self._repository(source.repository).stores.locate(entry.address)
                with store.open(key) as body:
                    target.put(dest.path, body)
                return
            copied = replace(entry, path=dest.path)
            if self._links is None:
                target.link_many([copied])
            else:
                self._links.setdefault(f"{dest.repository}/{dest.ref}", []).append(copied)

    def copy(self, path1: Any, path2: Any, *args: Any, **kwargs: Any) -> None:
        """Copy files without copying bytes, staged all together."""
        with self._linking_together():
            super().copy(path1, path2, *args, **kwargs)

    @contextmanager
    def _linking_together(self) -> Iterator[None]:
        links: dict[str, list[Entry]] = {}
        self._links = links
        try:
            yield
        finally:
            self._links = None
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
        """Move files without copying bytes."""
        if self._strip_protocol(path1) == self._strip_protocol(path2):
            return
        self.copy(path1, path2, recursive=recursive, maxdepth=maxdepth, on_error="raise")
        self.rm(path1, recursive=recursive, maxdepth=maxdepth)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Delete files; with `recursive`, folders and what is in them."""
        expanded = self.expand_path(path, recursive=recursive, maxdepth=maxdepth)
        files = []
        for one in expanded:
            try:
                self.entry(one)
                files.append(one)
            except IsADirectoryError:
                if not recursive:
                    raise
        self._delete(files)

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
        """Do nothing: a folder is there with its first file."""
        path = self._strip_protocol(path)
        if self.isfile(path):
            raise FileExistsError(errno.EEXIST, "there is a file", path)

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Do nothing: a folder is there with its first file."""
        del create_parents
        self.makedirs(path)

    def rmdir(self, path: str) -> None:
        """Do nothing: a folder is gone with its last file."""
        if self.isdir(path) and self.ls(path):
            raise OSError(errno.ENOTEMPTY, "the folder is not empty", path)

    def commit(
        self, path: str, message: str, *, metadata: Mapping[str, str] | None = None
    ) -> Commit:
        """Commit what is staged on a branch (``repository/branch``) and return the commit."""
        path = self._strip_protocol(path)
        with translated(path):
            return self._branch(Address.parse(path)).commit(message, metadata=metadata)


def _folder(name: str) -> _Info:
    return {"name": name, "size": 0, "type": "directory"}


def _has_below(view: View, address: Address) -> bool:
    return next(view.entries(address.folder), None) is not None
