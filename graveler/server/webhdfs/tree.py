"""Trees as Hadoop clients see them: files and folders below one ref.

A read-only tree is a view of the library. A branch also has the empty folders and the working files
of jobs that the server keeps in memory.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from graveler.errors import ObjectNotFoundError
from graveler.lake import Repository
from graveler.model import Entry, Prefix
from graveler.reads.view import View
from graveler.server.webhdfs.errors import NOT_FOUND, RemoteError
from graveler.server.webhdfs.memory import Folder

Node = Folder | Entry
"""A file or a folder."""


class Summary(NamedTuple):
    """The number and size of the files and folders at and below a path."""

    files: int
    folders: int
    bytes: int


class Tree(ABC):
    """Files and folders below a ref; paths have no slash at either end, and "" is the root.

    Attributes:
        place: The path of the root, for messages.
        repository: The repository of the tree; "" for a folder of names.
        ref: The branch or tag; "" for a commit.
        writable: Whether the tree can be changed.
    """

    writable = False

    def __init__(self, place: str, repository: str = "", ref: str = "") -> None:
        self.place = place
        self.repository = repository
        self.ref = ref

    def shown(self, path: str) -> str:
        """Return the path as clients write it."""
        return "/".join(part for part in (self.place, path) if part) or "/"

    @abstractmethod
    def find(self, path: str) -> Node | None:
        """Return the file or folder at a path, or None."""

    @abstractmethod
    def below(self, path: str, after: str = "") -> Iterator[tuple[str, Node]]:
        """Yield the direct content of a folder in the order of `key_of`.

        Args:
            path: The folder. There may be none.
            after: The key after which it starts.
        """

    @abstractmethod
    def summary(self, path: str) -> Summary:
        """Return the number and size of the files and folders at and below a path."""

    def get(self, path: str) -> Node:
        """Return the file or folder at a path."""
        node = self.find(path)
        if node is None:
            raise RemoteError(NOT_FOUND, f"File does not exist: {self.shown(path)}")
        return node

    def file(self, path: str) -> Entry:
        """Return the entry of a file."""
        node = self.get(path)
        if isinstance(node, Folder):
            raise RemoteError(NOT_FOUND, f"Path is not a file: {self.shown(path)}")
        return node


class Names(Tree):
    """A folder of repositories, or of a repository's refs."""

    def __init__(self, place: str, names: Iterable[str]) -> None:
        super().__init__(place)
        self._names = list(names)

    def find(self, path: str) -> Node | None:
        """Return the folder, or that of a name."""
        return Folder() if path in {"", *self._names} else None

    def below(self, path: str, after: str = "") -> Iterator[tuple[str, Node]]:
        """Yield the names."""
        keys = sorted(f"{name}/" for name in self._names) if not path else ()
        yield from ((key[:-1], Folder()) for key in keys if key > after)

    def summary(self, path: str) -> Summary:
        """Return the number of names; the content below them is not counted."""
        return Summary(0, 1 + sum(1 for _ in self.below(path)), 0)


class RefTree(Tree):
    """The tree of a view."""

    def __init__(self, place: str, view: View, ref: str) -> None:
        super().__init__(place, view.repository.name, ref)
        self.view = view

    def find(self, path: str) -> Node | None:
        """Return the file or folder at a path, or None."""
        if not path:
            return Folder()
        try:
            return self.view.stat(path)
        except ObjectNotFoundError:
            return Folder() if self.view.has_below(f"{path}/") else None

    def below(self, path: str, after: str = "") -> Iterator[tuple[str, Node]]:
        """Yield the direct content of a folder in the order of `key_of`."""
        prefix = f"{path}/" if path else ""
        for item in self.view.list(prefix, after=after and prefix + after, delimiter="/"):
            name = item.path[len(prefix) :].rstrip("/")
            if name:  # otherwise an imported path with an empty part, which no client can name
                yield name, Folder() if isinstance(item, Prefix) else item

    def summary(self, path: str) -> Summary:
        """Return the number and size of the files and folders at and below a path."""
        prefix = f"{path}/" if path else ""
        return summed(path, ((entry.path, entry) for entry in self.view.entries(prefix)))


def summed(path: str, nodes: Iterable[tuple[str, Node]]) -> Summary:
    """Return the number and size of files, with their folders down from `path`, and of folders."""
    files = size = 0
    folders = {path}
    for place, node in nodes:
        folder = place
        if not isinstance(node, Folder):
            files += 1
            size += node.size
            folder = place.rpartition("/")[0]
        while folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return Summary(files, len(folders), size)


def refs_of(repository: Repository) -> Sequence[str]:
    """Return the names of the branches and tags of a repository."""
    branches = (record.name for record in repository.branches())
    return [*{*branches, *repository.tags.list()}]


def key_of(item: tuple[str, Node]) -> str:
    """Return the sort key of a folder's content: a folder's name ends with a slash, as in a path."""
    name, node = item
    return f"{name}/" if isinstance(node, Folder) else name
