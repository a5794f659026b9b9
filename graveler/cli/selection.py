"""The files that a path of the command line names, and the limits of lists of them."""

from collections.abc import Iterator
from glob import has_magic
from typing import TYPE_CHECKING, Annotated

from graveler.base.globs import literal_start, matches
from graveler.cli.output import Output, counted
from graveler.display import size_text
from graveler.errors import ObjectNotFoundError
from graveler.model import Prefix
from graveler.reads.view import literal_in

if TYPE_CHECKING:
    from graveler.model import Entry
    from graveler.reads.view import View

_ON_A_TERMINAL = 1_000
_LONG = 20

LinesOption = Annotated[
    int | None,
    "(--limit N): List at most N; 0 lists all. By default 1,000 on a terminal, and all elsewhere.",
    {"min": 0},
]


def is_pattern(path: str, *views: "View") -> bool:
    """Return whether a path is a pattern: the text of a path or folder of a view is none."""
    return has_magic(path) and literal_in(lambda: views, path) == path


def matching(view: "View", pattern: str) -> "Iterator[Entry]":
    """Yield the files that match a pattern.

    Raises:
        ObjectNotFoundError: There is none.
    """
    found = False
    for entry in view.entries(literal_start(pattern)):
        if matches(pattern, entry.path):
            found = True
            yield entry
    if not found:
        raise ObjectNotFoundError(
            f"no file of {view.name!r} matches {pattern!r}: '*' stays within a folder, '**/' is any "
            "folders, and a pattern that ends with '/' has all files below"
        )


def matching_folded(view: "View", pattern: str) -> "Iterator[Entry | Prefix]":
    """Yield the files and folders that match a pattern, and nothing below such a folder."""
    folder = "/"  # the start of no path
    for entry in view.entries(literal_start(pattern)):
        path = entry.path
        if path.startswith(folder):
            continue
        cuts = (path[:at] for at, letter in enumerate(path) if letter == "/")
        if name := next((name for name in cuts if matches(pattern, name)), ""):
            folder = f"{name}/"
            yield Prefix(folder)
        elif matches(pattern, path):
            yield entry


def chosen(view: "View", path: str) -> "Iterator[Entry]":
    """Yield the file at a path and all files below it, or the files that match it as a pattern.

    Raises:
        ObjectNotFoundError: There is none.
    """
    if is_pattern(path, view):
        yield from matching(view, path)
        return
    found = not path
    if path and not path.endswith("/"):
        if view.exists(path):
            found = True
            yield view.stat(path)
        path += "/"
    for entry in view.entries(path):
        found = True
        yield entry
    if not found:
        raise ObjectNotFoundError(f"nothing at or below {path.rstrip('/')!r} in {view.name!r}")


def folder_of(pattern: str) -> str:
    """Return the folder that all matches have in common, "" or with a slash at its end."""
    folder, slash, _ = literal_start(pattern).rpartition("/")
    return folder + slash


class Listing:
    """A list that ends with its totals if it is long, and that is cut if a person reads it."""

    def __init__(self, out: Output, limit: int | None) -> None:
        self._out = out
        self._most = limit if limit is not None else _ON_A_TERMINAL * out.terminal
        self._count = 0

    def takes(self) -> bool:
        """Count one more item, and return whether it is shown."""
        self._count += 1
        return not self._most or self._count <= self._most

    def end(self, total: str = "") -> None:
        """Write on a terminal how much is not shown, and the total."""
        if not self._out.terminal:
            return
        if self._most and self._count > self._most:
            self._out.line(f"… {self._count - self._most:,} more: --limit 0 lists all")
        if total and self._count > _LONG:
            self._out.line(self._out.style(total, dim=True))


def total_text(files: int, size: int, folders: int = 0) -> str:
    """Return the total of a list: ``2 folders, 1,234 files, 5.6 GiB``."""
    parts = [counted(folders, "folder")] * bool(folders)
    return ", ".join([*parts, counted(files, "file"), size_text(size)])
