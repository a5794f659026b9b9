"""Files of this process that were opened for writing and neither finished nor discarded.

They are not staged. Commits of the branch are refused until the path is written again, or the file is
discarded or accepted. A new attempt of a run or a step has another fence, so it is not stopped.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from graveler.errors import UnfinishedFileError
from graveler.names import path_key
from graveler.reads.stores import Stores

Place = tuple[str, str, str]
"""A branch as its writer owns it: the repository's unique id, the branch, and its fence or ""."""

_files: Final[dict[Place, dict[bytes, Any]]] = {}
_SHOWN: Final = 5


def leave(place: Place, path: str, file: Any) -> None:
    """Keep an unfinished file. Its ``discard`` must call `end`."""
    _files.setdefault(place, {})[path_key(path)] = file


def found(place: Place, path: str) -> Any:
    """Return the unfinished file at a path, or None."""
    return _files.get(place, {}).get(path_key(path))


def end(place: Place, path: str, file: Any) -> None:
    """Forget a file, if it is unfinished."""
    if found(place, path) is file:
        _files[place].pop(path_key(path), None)


def settle(stores: Stores, name: str, fence: str, keys: Iterable[bytes] | None = None) -> None:
    """Discard the unfinished files of a branch at paths that are written again. None: all files."""
    if files := _files.get((stores.uid, name, fence)):
        for key in list(files) if keys is None else keys:
            if key in files:
                files[key].discard()


def check(
    stores: Stores, name: str, fence: str, covers: Callable[[bytes], bool] = lambda _: True
) -> None:
    """Raise UnfinishedFileError if a branch has unfinished files at paths that a commit takes."""
    files = _files.get((stores.uid, name, fence), ())
    if paths := [key.decode() for key in sorted(files) if covers(key)]:
        raise UnfinishedFileError(
            f"unfinished on branch {name!r}: {', '.join(map(repr, paths[:_SHOWN]))}: never "
            "closed, or closed while an error was handled, so not staged. Write again, or call "
            "unfinished(path).discard() or .accept() of a GravelerFileSystem"
        )
