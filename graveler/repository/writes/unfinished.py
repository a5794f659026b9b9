"""Files of this process that were opened for writing and neither finished nor discarded.

They are not staged, whether they are still open or were left. Commits of the branch are refused until the path is written again, or the file is
discarded or accepted. A new attempt of a run or a step has another fence, so it is not stopped.
"""

from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakValueDictionary

from graveler.base.names import path_key
from graveler.errors import UnfinishedFileError
from graveler.reads.stores import Stores

Place = tuple[str, str, str]
"""A branch as its writer owns it: the repository's unique id, the branch, and its fence or ""."""

_files: dict[Place, dict[bytes, Any]] = {}
_open: dict[Place, WeakValueDictionary[tuple[bytes, int], Any]] = {}
_SHOWN = 5


def begin(place: Place, path: str, file: Any) -> None:
    """Note an open file. Its end must call `leave` or `end`."""
    _open.setdefault(place, WeakValueDictionary())[path_key(path), id(file)] = file


def leave(place: Place, path: str, file: Any) -> None:
    """Keep an unfinished file. Its ``discard`` must call `end`."""
    end(place, path, file)
    _files.setdefault(place, {})[path_key(path)] = file


def found(place: Place, path: str) -> Any:
    """Return the unfinished or open file at a path, or None."""
    key = path_key(path)
    still = (file for at, file in list(_open.get(place, {}).items()) if at[0] == key)
    return _files.get(place, {}).get(key) or next(still, None)


def end(place: Place, path: str, file: Any) -> None:
    """Forget a file, if it is unfinished or open."""
    key = path_key(path)
    if place in _open:
        _open[place].pop((key, id(file)), None)
    if _files.get(place, {}).get(key) is file:
        _files[place].pop(key, None)


def settle(stores: Stores, name: str, fence: str, keys: Iterable[bytes] | None = None) -> None:
    """Discard the unfinished files of a branch at paths that are written again. None: all files."""
    if files := _files.get((stores.uid, name, fence)):
        for key in list(files) if keys is None else keys:
            if key in files:
                files[key].discard()


def check(
    stores: Stores, name: str, fence: str, covers: Callable[[bytes], bool] = lambda _: True
) -> None:
    """Raise UnfinishedFileError if a branch has unfinished or open files that a commit would take."""
    place = stores.uid, name, fence
    files = {*_files.get(place, ()), *(key for key, _ in list(_open.get(place, ())))}
    if paths := [key.decode() for key in sorted(files) if covers(key)]:
        raise UnfinishedFileError(
            f"unfinished on branch {name!r}: {', '.join(map(repr, paths[:_SHOWN]))}: not "
            "closed, or closed while an error was handled, so not staged. Close or write again, or "
            "call unfinished(path).discard() or .accept() of a GravelerFileSystem"
        )
