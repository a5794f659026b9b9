"""The trees of a lake, found by the paths of requests: ``/repository/ref/path``."""

from collections import defaultdict

from graveler.errors import InvalidInputError
from graveler.fs.address import Address
from graveler.gateway.branch_tree import BranchTree, Memory
from graveler.gateway.tree import Names, RefTree, Tree, refs_of
from graveler.lake import Branch, Lake, Repository

_ODD_PARTS = frozenset({".", ".."})


class Namespace:
    """The trees of a lake.

    Args:
        lake: The lake.
        read_only: Whether branches cannot be written.
        commits_on_success: Whether a job's files are committed when it marks its success.

    Attributes:
        commits_on_success: Whether a job's files are committed when it marks its success.
    """

    def __init__(self, lake: Lake, *, read_only: bool, commits_on_success: bool) -> None:
        self.commits_on_success = commits_on_success
        self._lake = lake
        self._read_only = read_only
        self._repositories: dict[str, Repository] = {}
        self._memories: defaultdict[str, Memory] = defaultdict(Memory)

    def at(self, path: str) -> tuple[Tree, str]:
        """Return the tree of a path, and the path in it.

        Raises:
            InvalidInputError: The path is not valid.
            NotFoundError: There is no such repository or ref.
        """
        address = Address.parse(_plain(path))
        if not address.repository:
            return Names("", self._lake.repositories()), ""
        repository = self._repository(address.repository)
        if not address.ref:
            return Names(f"/{repository.name}", refs_of(repository)), ""
        place = f"/{repository.name}/{address.ref}"
        view = repository.view(address.ref)
        if isinstance(view, Branch):
            tree = BranchTree(place, view, self._memories[place])
            tree.writable = not self._read_only
            return tree, address.path
        return RefTree(place, view), address.path

    def _repository(self, name: str) -> Repository:
        known = self._repositories.get(name)
        if known is None:
            known = self._repositories[name] = self._lake.repository(name)
        return known


def _plain(path: str) -> str:
    """Return a path without empty parts.

    Raises:
        InvalidInputError: A part is ``.`` or ``..``, or the path has a NUL.
    """
    parts = [part for part in path.split("/") if part]
    if not _ODD_PARTS.isdisjoint(parts) or "\0" in path:
        raise InvalidInputError(f"path {path!r}: '.', '..' and NUL are not allowed in a path")
    return "/".join(parts)
