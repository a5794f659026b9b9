"""Files of this process that were opened for writing and neither finished nor discarded.

Such a file is not staged. Commits of its branch are refused until the path is written again, or the
file is discarded or accepted. A new attempt of a run or a step has another fence, so files of an
earlier attempt do not stop it.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

from graveler.errors import UnfinishedFileError
from graveler.names import path_key
from graveler.reads.stores import Stores

_SHOWN: Final = 5


class Place(NamedTuple):
    """A branch, as one writer owns it.

    Attributes:
        repository: The unique id of the repository.
        branch: Name of the branch.
        fence: The fence of the run that owns the branch, or "" for a user's branch.
    """

    repository: str
    branch: str
    fence: str


class OpenFile(Protocol):
    """A file that is written."""

    def discard(self) -> None:
        """Discard the file, and call `end`."""


_files: Final[dict[Place, dict[bytes, OpenFile]]] = {}
"""The files by their paths. Single operations on dictionaries need no lock."""


def leave(place: Place, path: str, file: OpenFile) -> None:
    """Keep an unfinished file."""
    _files.setdefault(place, {})[path_key(path)] = file


def found(place: Place, path: str) -> OpenFile | None:
    """Return the unfinished file at a path, or None."""
    return _files.get(place, {}).get(path_key(path))


def end(place: Place, path: str, file: OpenFile) -> None:
    """Forget a file, if it is unfinished."""
    if found(place, path) is file:
        _files[place].pop(path_key(path), None)


def settle(stores: Stores, name: str, fence: str, keys: Iterable[bytes] | None = None) -> None:
    """Discard the unfinished files of a branch at paths that are written again. None: all files."""
    files = _files.get(Place(stores.uid, name, fence)) if _files else None
    if files:
        for key in list(files) if keys is None else keys:
            if key in files:
                files[key].discard()


def check(
    stores: Stores, name: str, fence: str, covers: Callable[[bytes], bool] = lambda _: True
) -> None:
    """Refuse a commit of a branch with unfinished files.

    Args:
        stores: The repository.
        name: The branch.
        fence: The fence of its owner.
        covers: Whether the commit takes the path of a key.

    Raises:
        UnfinishedFileError: This process has not finished a file of the branch.
    """
    files = _files.get(Place(stores.uid, name, fence)) if _files else None
    paths = [key.decode() for key in sorted(files or ()) if covers(key)]
    if paths:
        shown = ", ".join(map(repr, paths[:_SHOWN]))
        more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
        raise UnfinishedFileError(
            f"unfinished: {shown}{more} on branch {name!r}: never closed, or closed while an error was "
            "handled, so not staged. Write it again, or call discard(path) or accept(path) of a "
            "GravelerFileSystem"
        )
