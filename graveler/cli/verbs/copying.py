"""``graveler cp``, ``mv`` and ``import``: they give files other paths without copying bytes."""

from typing import TYPE_CHECKING, Annotated

from graveler.cli.arguments import Address
from graveler.cli.failure import UsageError
from graveler.cli.selection import folder_of, is_pattern
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.display import size_text

if TYPE_CHECKING:
    from graveler.reads.view import View

_Recursive = Annotated[bool, "(-r): Include everything below a folder."]
_Target = Annotated[
    str,
    "([BRANCH][:PATH]): The destination; a file keeps its name below PATH if that is "
    "empty or ends with '/'.",
]
_FILES = {True: "files", False: "file"}


@verb("cp")
def _cp(
    session: Session,
    source: str,
    target: _Target,
    *,
    recursive: _Recursive = False,
    replace: bool = False,
) -> None:
    """Copy files to a branch, or within one; no byte is copied. A commit makes it permanent.

    Args:
        source (REF:PATH): The source: a file, a folder with -r, or a pattern, whose files keep
            their paths below the part without pattern. A branch includes its staged files; any
            other ref, as in main@:PATH, has only committed files.
        replace: Remove files that the source lacks from the target folder.
    """
    origin, goal = Address.parse(source), _goal(target)
    branch = session.branch(goal.ref)
    view = session.view(origin.ref)
    path, to, only = _paths(view, origin.path, goal.path, recursive=recursive)
    count = branch.copy(view, path, to, replace=replace, only=only)
    if path != origin.path and not only and view.exists(origin.path):  # it is a file, too
        count += branch.copy(view, origin.path, to.rstrip("/"))
    _show(session, "copied", branch.name, only or path, to, count)


@verb("mv")
def _mv(session: Session, source: str, target: _Target, *, recursive: _Recursive = False) -> None:
    """Move files within a branch; no byte is copied. A commit makes it permanent.

    Args:
        source (BRANCH:PATH): The source: a file, a folder with -r, or a pattern, as for cp.
    """
    origin, goal = Address.parse(source), _goal(target)
    if goal.ref not in {"", origin.ref}:
        raise UsageError(
            f"{source!r} to {target!r}: files move within one branch; copy them to another one with "
            "`graveler cp`, and remove them with `graveler rm`"
        )
    if not goal.path and ":" not in target:
        Address.of_file(target)
    branch = session.branch(origin.ref)
    path, to, only = _paths(branch, origin.path, goal.path, recursive=recursive)
    count = branch.move(path, to, only=only)
    if path != origin.path and not only and branch.exists(origin.path):  # it is a file, too
        count += branch.move(origin.path, to.rstrip("/"))
    _show(session, "moved", branch.name, only or path, to, count)


def _show(session: Session, done: str, branch: str, path: str, to: str, count: int) -> None:
    line = f"{done} {count} {_FILES[count != 1]} to {to or '/'} on {branch}"
    session.out.show({"branch": branch, "path": path, "to": to, "count": count}, line)


@verb("import")
def _import(
    session: Session,
    source: str,
    target: str = "",
    *,
    below: str = "",
    exclude: list[str] | None = None,
    replace: bool = False,
    verify: bool = False,
) -> None:
    """Import files of a store unchanged; no byte is copied. A commit makes it permanent.

    The files must be below places that the repository declares: `graveler links allow PLACE`.

    Args:
        source: A folder, s3://bucket/prefix/, a manifest.json of an inventory of S3, or a CSV,
            Parquet or ORC file with a row for each file.
        target ([BRANCH[:FOLDER]]): The destination; else the default branch.
        below (PLACE): For an inventory: only files below this place; their paths begin after
            it.
        exclude (PATTERN): Leave out files whose paths in the source match, as in
            '**/_temporary/**'; may come several times.
        replace: Remove files that the source lacks from the folder.
        verify: Look up every file of an inventory in its store.
    """
    goal = Address.parse(target)
    branch, folder = session.branch(goal.ref), _folder(goal.path)
    done = branch.import_(
        source, folder, below=below, exclude=exclude or (), replace=replace, verify=verify
    )
    shape = {
        "branch": branch.name,
        "prefix": folder,
        "files": done.files,
        "size": done.size,
        "removed": done.removed,
    }
    removed = f", removed {done.removed}" if done.removed else ""
    line = f"imported {done.files} {_FILES[done.files != 1]} ({size_text(done.size)}){removed}"
    session.out.show(shape, f"{line} to {folder or '/'} on {branch.name}")


def _goal(text: str) -> Address:
    """Return a target; a text without a colon is a branch, as for every verb.

    Raises:
        UsageError: The text has a slash, so it can only be a path.
    """
    goal = Address.parse(text)
    return goal if goal.path or "/" not in goal.ref else Address.of_file(text)


def _paths(view: "View", path: str, to: str, *, recursive: bool) -> tuple[str, str, str]:
    """Return two files, or two folders, which end with a slash, and the pattern of the files or ""."""
    if is_pattern(path, view):
        return folder_of(path), _folder(to), path
    if recursive:
        return _folder(path), _folder(to), ""
    if not path or path.endswith("/"):
        raise UsageError(f"{path!r} is a folder: give -r to include everything below it")
    if not to or to.endswith("/"):
        to += path.rpartition("/")[2]
    return path, to, ""


def _folder(path: str) -> str:
    return path if not path or path.endswith("/") else f"{path}/"
