"""The rights of a client on files and folders.

A client knows of a file if it may read or write it, and of a folder if that is so for anything that may
be below it. Lists contain only these. What changes or counts a whole folder needs the right on all of it.
"""

from collections.abc import Iterable, Iterator, Sequence

from graveler.iam.access import Access, Identity
from graveler.server.webhdfs.memory import Folder
from graveler.server.webhdfs.tree import Node, Tree

_ANY = ("read", "write")
_WRITE = ("write",)


class Rights:
    """The rights of the client of one request."""

    def __init__(self, access: Access, identity: Identity) -> None:
        self._access = access
        self._identity = identity

    def knows(self, repository: str, ref: str = "") -> bool:
        """Return whether the client may know of a repository or a ref."""
        return any(self._access.sees(self._identity, each, repository, ref) for each in _ANY)

    def enter(self, repository: str, ref: str = "") -> None:
        """Refuse a repository or a ref that the client may not know of."""
        if not self.knows(repository, ref):
            self._access.check(self._identity, "read", repository, ref)

    def check(self, action: str, tree: Tree, path: str, node: Node | None = None) -> None:
        """Refuse an action on a file, or on a folder with all that is below it."""
        place = f"{path}/" if isinstance(node, Folder) and path else path
        self._access.check(self._identity, action, tree.repository, tree.ref, place)

    def look(self, tree: Tree, path: str, node: Node | None) -> None:
        """Refuse a file or folder that the client may not know of."""
        self._reach(_ANY, tree, path, node)

    def touch(self, tree: Tree, path: str, node: Node | None) -> None:
        """Refuse a file that the client may not write, and a folder in which it may write nothing."""
        self._reach(_WRITE, tree, path, node)

    def known(
        self, tree: Tree, folder: str, nodes: Iterable[tuple[str, Node]]
    ) -> Iterator[tuple[str, Node]]:
        """Yield what the client may know of in a folder."""
        prefix = f"{folder}/" if folder else ""
        if not tree.repository or self._access.allows(
            self._identity, "read", tree.repository, tree.ref, prefix
        ):
            yield from nodes
            return
        for name, node in nodes:
            if self._reaches(_ANY, tree, prefix + name, node):
                yield name, node

    def _reach(self, actions: Sequence[str], tree: Tree, path: str, node: Node | None) -> None:
        if not self._reaches(actions, tree, path, node):
            self.check(actions[0], tree, path, node)

    def _reaches(self, actions: Sequence[str], tree: Tree, path: str, node: Node | None) -> bool:
        folder = f"{path}/" if path else ""
        places = (
            [folder] if isinstance(node, Folder) else [path, folder] if node is None else [path]
        )
        return not tree.repository or any(
            self._access.sees(self._identity, action, tree.repository, tree.ref, place)
            for action in actions
            for place in places
        )
