"""The trees of a lake, found by the paths of requests: ``/repository/ref/path``."""

import re
from collections import defaultdict
from contextlib import suppress

from graveler.errors import InvalidInputError
from graveler.fs.address import Address
from graveler.lake import Branch, Lake, Repository
from graveler.model import BranchRecord
from graveler.server.webhdfs.branch_tree import BranchTree, Memory
from graveler.server.webhdfs.errors import NOT_FOUND, RemoteError
from graveler.server.webhdfs.rights import Rights
from graveler.server.webhdfs.tree import Names, RefTree, Tree, refs_of

_COMMIT = re.compile(r"[0-9a-f]{4,64}")
_HISTORY = re.compile(r"[~^@]")
"""Goes back in the history of a ref; ``^2`` may be a commit of another branch."""
_ODD_PARTS = frozenset({".", ".."})


class Namespace:
    """The trees of a lake."""

    def __init__(self, lake: Lake, *, read_only: bool) -> None:
        self._lake = lake
        self._read_only = read_only
        self._repositories: dict[str, Repository] = {}
        self._memories: defaultdict[tuple[str, str], Memory] = defaultdict(Memory)

    def at(self, path: str, rights: Rights) -> tuple[Tree, str]:
        """Return the tree of a path, and the path in it.

        Only names that the client has a right on are looked up, so that a client learns of no others.
        """
        address = Address.parse(_plain(path))
        name = address.repository
        if not name:
            return Names("", filter(rights.knows, self._lake.repositories())), ""
        rights.enter(name)
        place = f"/{name}"
        try:
            repository = self._repository(name)
            if not address.ref:
                refs = (ref for ref in refs_of(repository) if rights.knows(name, ref))
                return Names(place, refs), ""
            place = f"{place}/{address.ref}"
            tree = self._tree(place, repository, address.ref, rights)
        except InvalidInputError as error:
            raise RemoteError(NOT_FOUND, f"File does not exist: {place}: {error}") from error
        return tree, address.path

    def _tree(self, place: str, repository: Repository, expression: str, rights: Rights) -> Tree:
        name = _HISTORY.split(expression, maxsplit=1)[0]
        if not _COMMIT.fullmatch(name):
            rights.enter(repository.name, name)
        record = _branch(repository, expression)
        if record is not None:
            rights.enter(repository.name, record.name)
            branch = Branch(repository.stores, record.name)
            memory = self._memories[repository.stores.uid, record.born]
            return BranchTree(place, branch, memory, writable=not self._read_only)
        ref = name if _has_ref(repository, name) and "^" not in expression else ""
        rights.enter(repository.name, ref)
        return RefTree(place, repository.ref(expression), ref)

    def _repository(self, name: str) -> Repository:
        known = self._repositories.get(name)
        if known is None or not self._lake.has(known):  # made again under its name
            known = self._repositories[name] = self._lake.repository(name)
        return known


def _branch(repository: Repository, ref: str) -> BranchRecord | None:
    with suppress(InvalidInputError):
        return repository.stores.refs.branches.find(ref)
    return None


def _has_ref(repository: Repository, name: str) -> bool:
    """Return whether a name is that of a branch or a tag, not the id of a commit."""
    with suppress(InvalidInputError):
        refs = repository.stores.refs
        return refs.branches.find(name) is not None or refs.tags.find(name) is not None
    return False


def _plain(path: str) -> str:
    parts = [part for part in path.split("/") if part]
    if not _ODD_PARTS.isdisjoint(parts) or "\0" in path:
        raise InvalidInputError(f"path {path!r}: '.', '..' and NUL are not allowed in a path")
    return "/".join(parts)
