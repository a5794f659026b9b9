"""The trees of a lake, found by the paths of requests: ``/repository/ref/path``."""

from collections import defaultdict
from contextlib import suppress

from graveler.errors import InvalidInputError
from graveler.fs.address import Address
from graveler.lake import Branch, Lake, Repository
from graveler.model import BranchRecord
from graveler.server.webhdfs.branch_tree import BranchTree, Memory
from graveler.server.webhdfs.errors import NOT_FOUND, RemoteError
from graveler.server.webhdfs.tree import Names, RefTree, Tree, refs_of

_ODD_PARTS = frozenset({".", ".."})


class Namespace:
    """The trees of a lake."""

    def __init__(self, lake: Lake, *, read_only: bool) -> None:
        self._lake = lake
        self._read_only = read_only
        self._repositories: dict[str, Repository] = {}
        self._memories: defaultdict[tuple[str, str], Memory] = defaultdict(Memory)

    def at(self, path: str) -> tuple[Tree, str]:
        """Return the tree of a path, and the path in it."""
        address = Address.parse(_plain(path))
        if not address.repository:
            return Names("", self._lake.repositories()), ""
        place = f"/{address.repository}"
        try:
            repository = self._repository(address.repository)
            if not address.ref:
                return Names(place, refs_of(repository)), ""
            place = f"{place}/{address.ref}"
            record = _branch(repository, address.ref)
            if record is None:
                return RefTree(place, repository.ref(address.ref)), address.path
        except InvalidInputError as error:
            raise RemoteError(NOT_FOUND, f"File does not exist: {place}: {error}") from error
        branch = Branch(repository.stores, record.name)
        memory = self._memories[repository.stores.uid, record.born]
        return BranchTree(place, branch, memory, writable=not self._read_only), address.path

    def _repository(self, name: str) -> Repository:
        known = self._repositories.get(name)
        if known is None or not self._lake.has(known):  # made again under its name
            known = self._repositories[name] = self._lake.repository(name)
        return known


def _branch(repository: Repository, ref: str) -> BranchRecord | None:
    with suppress(InvalidInputError):
        return repository.stores.refs.branches.find(ref)
    return None


def _plain(path: str) -> str:
    parts = [part for part in path.split("/") if part]
    if not _ODD_PARTS.isdisjoint(parts) or "\0" in path:
        raise InvalidInputError(f"path {path!r}: '.', '..' and NUL are not allowed in a path")
    return "/".join(parts)
