"""Trees as Hadoop clients see them: files and folders below one ref.

A read-only tree is a view of the library. A branch also has the empty folders and the working files
of jobs that the gateway keeps in memory.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from graveler.errors import ObjectNotFoundError
from graveler.gateway.failures import ACCESS, NOT_FOUND, RemoteError
from graveler.gateway.memory import Folder
from graveler.lake import Repository
from graveler.model import Entry, Prefix
from graveler.objects.store import Body
from graveler.reads import Stores, View

Node = Folder | Entry
"""A file or a folder."""


class Summary(NamedTuple):
    """The number and size of the files and folders at and below a path.

    Attributes:
        files: Number of files.
        folders: Number of folders.
        bytes: Size of the files.
    """

    files: int
    folders: int
    bytes: int


class Tree(ABC):
    """Files and folders below a ref; paths have no slash at either end, and "" is the root.

    Attributes:
        place: The path of the root, for messages.
        writable: Whether the tree can be changed.
    """

    writable = False

    def __init__(self, place: str) -> None:
        self.place = place

    def shown(self, path: str) -> str:
        """Return the path as clients write it."""
        return "/".join(part for part in (self.place, path) if part) or "/"

    @property
    def stores(self) -> Stores:
        """The repository of the files.

        Raises:
            RemoteError: The tree has none.
        """
        raise self.refusal("holds no files")

    @abstractmethod
    def find(self, path: str) -> Node | None:
        """Return the file or folder at a path, or None."""

    @abstractmethod
    def below(self, path: str) -> list[tuple[str, Node]]:
        """Return the direct content of a folder by name; nothing if there is no such folder."""

    @abstractmethod
    def summary(self, path: str) -> Summary:
        """Return the number and size of the files and folders at and below a path."""

    def get(self, path: str) -> Node:
        """Return the file or folder at a path.

        Raises:
            RemoteError: There is none.
        """
        node = self.find(path)
        if node is None:
            raise RemoteError(NOT_FOUND, f"File does not exist: {self.shown(path)}")
        return node

    def file(self, path: str) -> Entry:
        """Return the entry of a file.

        Raises:
            RemoteError: There is none, or the path is a folder.
        """
        node = self.get(path)
        if isinstance(node, Folder):
            raise RemoteError(NOT_FOUND, f"Path is not a file: {self.shown(path)}")
        return node

    def refusal(self, reason: str) -> RemoteError:
        """Return the error for an operation that this tree does not support."""
        return RemoteError(ACCESS, f"{self.place or '/'} {reason}")

    def make_folder(self, path: str) -> None:
        """Make a folder and its parents."""
        raise self._only_branches(path)

    def check_create(self, path: str, *, overwrite: bool, parents: bool) -> None:
        """Refuse a file that cannot be made, before its bytes are sent."""
        raise self._only_branches(path)

    def create(self, path: str, body: Body, *, overwrite: bool, parents: bool) -> None:
        """Make a file of a whole body."""
        raise self._only_branches(path)

    def rename(self, path: str, to: str) -> bool:
        """Move a file or a folder; return whether it was done."""
        raise self._only_branches(path)

    def replace(self, path: str, to: str, *, overwrite: bool) -> None:
        """Move a file or a folder to a path that is free, or may be overwritten."""
        raise self._only_branches(path)

    def delete(self, path: str, *, recursive: bool) -> bool:
        """Delete a file or a folder; return whether it existed."""
        raise self._only_branches(path)

    def commit(self, path: str, message: str) -> dict[str, str]:
        """Commit the staged writes at and below a path, and return the commit's fields."""
        raise self._only_branches(path)

    def mark_success(self, folder: str) -> bool:
        """Note that the job of a folder has succeeded; return False for a working folder.

        Spark overwrites partitions by a job that writes to a working folder and succeeds there. It
        then moves the partitions to their places and removes the folder.
        """
        raise self._only_branches(folder)

    def has_succeeded(self, folder: str) -> bool:
        """Return whether a folder is a working folder of a succeeded job, without files now."""
        del folder
        return False

    def _only_branches(self, path: str) -> RemoteError:
        return RemoteError(
            ACCESS,
            f"{self.shown(path)} cannot be written: only branches can, as /repository/branch/path; "
            "make one with `graveler branch create NAME`",
        )


class Names(Tree):
    """A folder of repositories, or of a repository's refs.

    Args:
        place: Its path.
        names: Its names, listed when they are needed.
    """

    def __init__(self, place: str, names: Iterable[str]) -> None:
        super().__init__(place)
        self._names = names

    def find(self, path: str) -> Node | None:
        """Return the folder."""
        return None if path else Folder()

    def below(self, path: str) -> list[tuple[str, Node]]:
        """Return the names."""
        return [] if path else [(name, Folder()) for name in sorted(self._names)]

    def summary(self, path: str) -> Summary:
        """Return the number of names; the content below them is not counted."""
        return Summary(0, 1 + len(self.below(path)), 0)


class RefTree(Tree):
    """The tree of a view.

    Args:
        place: Path of its root.
        view: The view.
    """

    def __init__(self, place: str, view: View) -> None:
        super().__init__(place)
        self.view = view

    @property
    def stores(self) -> Stores:
        """The repository of the files."""
        return self.view.repository

    def find(self, path: str) -> Node | None:
        """Return the file or folder at a path, or None."""
        if not path:
            return Folder()
        try:
            return self.view.stat(path)
        except ObjectNotFoundError:
            return Folder() if self.view.has_below(f"{path}/") else None

    def below(self, path: str) -> list[tuple[str, Node]]:
        """Return the direct content of a folder by name."""
        return sorted(self._listed(path), key=by_name)

    def _listed(self, path: str) -> Iterator[tuple[str, Node]]:
        prefix = f"{path}/" if path else ""
        for item in self.view.list(prefix, delimiter="/"):
            name = item.path[len(prefix) :].rstrip("/")
            if name:  # otherwise an imported path with an empty part, which no client can name
                yield name, Folder() if isinstance(item, Prefix) else item

    def summary(self, path: str) -> Summary:
        """Return the number and size of the files and folders at and below a path."""
        prefix = f"{path}/" if path else ""
        files = size = 0
        folders = {path}
        for entry in self.view.entries(prefix):
            files += 1
            size += entry.size
            folder = entry.path.rpartition("/")[0]
            while folder not in folders:
                folders.add(folder)
                folder = folder.rpartition("/")[0]
        return Summary(files, len(folders), size)


def refs_of(repository: Repository) -> Sequence[str]:
    """Return the names of the branches and tags of a repository."""
    branches = (record.name for record in repository.branches())
    return [*{*branches, *repository.tags.list()}]


def by_name(item: tuple[str, Node]) -> bytes:
    """Return the sort key of a folder's content."""
    return item[0].encode()
