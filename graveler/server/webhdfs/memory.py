"""The folders and files that a lake does not hold: empty folders, and the working files of jobs.

A lake has paths of files and no folders. Hadoop's committers make folders, check that they exist,
write below them and rename them. The server keeps such a tree in memory for each branch.
"""

from collections.abc import Iterator

from graveler.model import Entry

_WORKING = ("_temporary", ".spark-staging", ".hive-staging")


class Folder:
    """A folder that is kept in memory.

    Attributes:
        children: Its files and folders by name. An entry stands for stored bytes that no path
            of the lake names yet; its path is not used.
    """

    __slots__ = ("children",)

    def __init__(self) -> None:
        self.children: dict[str, Folder | Entry] = {}

    def find(self, path: str) -> "Folder | Entry | None":
        """Return the file or folder at a path below this folder; "" is the folder itself."""
        node: Folder | Entry | None = self
        for name in path.split("/") if path else ():
            if not isinstance(node, Folder):
                return None
            node = node.children.get(name)
        return node

    def make(self, path: str) -> "Folder":
        """Return the folder at a path; missing folders are made."""
        node = self
        for name in path.split("/") if path else ():
            child = node.children.get(name)
            if not isinstance(child, Folder):
                child = node.children[name] = Folder()
            node = child
        return node

    def put(self, path: str, node: "Folder | Entry") -> None:
        """Put a file or a folder at a path."""
        parent, _, name = path.rpartition("/")
        self.make(parent).children[name] = node

    def remove(self, path: str) -> None:
        """Remove the file or folder at a path, if there is one."""
        parent, _, name = path.rpartition("/")
        folder = self.find(parent)
        if isinstance(folder, Folder):
            folder.children.pop(name, None)

    def walk(self, path: str = "") -> Iterator[tuple[str, "Folder | Entry"]]:
        """Yield everything below the folder with its path after `path`; a folder comes first."""
        for name, node in list(self.children.items()):
            below = f"{path}/{name}" if path else name
            yield below, node
            if isinstance(node, Folder):
                yield from node.walk(below)


def is_working(path: str) -> bool:
    """Return whether a path is the working folder of a job or below it.

    The committers of Hadoop, Spark and Hive write there. When the job has succeeded, they move the
    files to their place and remove the folder.
    """
    return any(part.startswith(_WORKING) for part in path.split("/"))
