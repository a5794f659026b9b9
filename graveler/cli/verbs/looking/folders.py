"""``graveler tree`` and ``du``: the folders of a tree, and their sizes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from graveler.cli.arguments import Address
from graveler.cli.selection import LinesOption, Listing, chosen, folder_of, is_pattern, total_text
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.display import size_text

if TYPE_CHECKING:
    from graveler.model import Entry
    from graveler.reads.view import View

_Where = Annotated[
    str, "([REF[:PATH]]): A branch, a tag or a commit; then a folder, or a pattern of files."
]
_Levels = Annotated[int | None, "(-L, -d N): Show N levels; by default all.", {"min": 0}]


@dataclass(slots=True)
class _Folder:
    """A folder with the sums of all files below it.

    Attributes:
        path: Its whole path with a slash at its end, or "" for the root.
        shown: Its folders, and its files with their sizes, by name.
    """

    path: str
    files: int = 0
    size: int = 0
    shown: "dict[str, _Folder | int]" = field(default_factory=dict)

    @property
    def shape(self) -> dict[str, Any]:
        return {"path": self.path, "files": self.files, "size": self.size}


def _at(session: Session, where: str, levels: int | None, *, files: bool) -> "tuple[View, _Folder]":
    ref, path = Address.parse(where)
    view = session.view(ref)
    start = path
    if is_pattern(path, view) or (path and not path.endswith("/") and view.exists(path)):
        start = folder_of(path)
    elif path and not path.endswith("/"):
        start += "/"
    return view, _summed(chosen(view, path), start, levels, files=files)


def _summed(entries: "Iterable[Entry]", start: str, levels: int | None, *, files: bool) -> _Folder:
    root = _Folder(start)
    for entry in entries:
        size, (*folders, name) = entry.size, entry.path[len(start) :].split("/")
        at = root
        root.files += 1
        root.size += size
        for folder in folders[:levels]:
            below = at.shown.get(f"{folder}/")
            if not isinstance(below, _Folder):
                below = at.shown[f"{folder}/"] = _Folder(f"{at.path}{folder}/")
            at = below
            at.files += 1
            at.size += size
        if files and (levels is None or len(folders) < levels):
            at.shown[name] = size
    return root


@verb("tree")
def _tree(
    session: Session, where: _Where = "", *, levels: _Levels = None, limit: LinesOption = None
) -> None:
    """Show folders and files as a tree; a folder has the number and the size of all files below."""
    out, listing = session.out, Listing(session.out, limit)
    view, root = _at(session, where, levels, files=True)
    out.show({"type": "folder", **root.shape}, out.style(f"{view.name}:{root.path}", bold=True))
    folders = 0
    for stem, name, item in _branches(root, ""):
        folders += isinstance(item, _Folder)
        if not listing.takes():
            continue
        if isinstance(item, _Folder):
            sums = out.style(total_text(item.files, item.size), dim=True)
            out.show({"type": "folder", **item.shape}, f"{stem}{out.style(name, 'blue')}  {sums}")
        else:
            sums = out.style(size_text(item), dim=True)
            out.show({"type": "file", "path": name, "size": item}, f"{stem}{_last(name)}  {sums}")
    listing.end()
    out.tell(total_text(root.files, root.size, folders))


def _branches(folder: _Folder, indent: str) -> Iterator[tuple[str, str, _Folder | int]]:
    """Yield the stem, the name (of a file, its path) and the item of each line."""
    left = len(folder.shown)
    for name, item in folder.shown.items():
        left -= 1
        stem, more = ("├── ", "│   ") if left else ("└── ", "    ")
        if isinstance(item, _Folder):
            yield indent + stem, name, item
            yield from _branches(item, indent + more)
        else:
            yield indent + stem, folder.path + name, item


def _last(path: str) -> str:
    return path.rpartition("/")[2]


@verb("du")
def _du(
    session: Session, where: _Where = "", *, depth: _Levels = None, limit: LinesOption = None
) -> None:
    """List folders with the size and the number of all files below; the last line is the total."""
    out, listing = session.out, Listing(session.out, limit)
    view, root = _at(session, where, depth, files=False)
    for _, _, item in _branches(root, ""):
        if isinstance(item, _Folder) and listing.takes():
            out.show(item.shape, f"{_sums(item)}  {out.style(item.path, 'blue')}")
    listing.end()
    out.show(root.shape, f"{_sums(root)}  {view.name}:{root.path}")


def _sums(folder: _Folder) -> str:
    return f"{size_text(folder.size):>10}  {folder.files:>9,}"
