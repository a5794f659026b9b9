"""``graveler cp``, ``mv`` and ``import``: they give files other paths without copying bytes."""

from typing import Annotated

from graveler.cli.arguments import Address
from graveler.cli.failure import UsageError
from graveler.cli.output import size_text
from graveler.cli.session import Session
from graveler.cli.verb import verb

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
        source (REF:PATH): The source. A branch includes its staged files; any other ref, as in
            main@:PATH, has only committed files.
        replace: Remove files that the source lacks from the target folder.
    """
    origin, goal = Address.parse(source), _goal(target)
    path, to = _paths(origin.path, goal.path, recursive=recursive)
    branch = session.branch(goal.ref)
    view = session.view(origin.ref)
    count = branch.copy(view, path, to, replace=replace)
    if path != origin.path and view.exists(origin.path):  # it is a file, too
        count += branch.copy(view, origin.path, to.rstrip("/"))
    _show(session, "copied", branch.name, path, to, count)


@verb("mv")
def _mv(session: Session, source: str, target: _Target, *, recursive: _Recursive = False) -> None:
    """Move files within a branch; no byte is copied. A commit makes it permanent.

    Args:
        source (BRANCH:PATH): The source.
    """
    origin, goal = Address.parse(source), _goal(target)
    if goal.ref not in {"", origin.ref}:
        raise UsageError(
            f"{source!r} to {target!r}: files move within one branch; copy them to another one with "
            "`graveler cp`, and remove them with `graveler rm`"
        )
    if not goal.path and ":" not in target:
        Address.of_file(target)
    path, to = _paths(origin.path, goal.path, recursive=recursive)
    branch = session.branch(origin.ref)
    count = branch.move(path, to)
    if path != origin.path and branch.exists(origin.path):  # it is a file, too
        count += branch.move(origin.path, to.rstrip("/"))
    _show(session, "moved", branch.name, path, to, count)


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


def _paths(path: str, to: str, *, recursive: bool) -> tuple[str, str]:
    """Return the two files, or the two folders with a slash at their ends."""
    if recursive:
        return _folder(path), _folder(to)
    if not path or path.endswith("/"):
        raise UsageError(f"{path!r} is a folder: give -r to include everything below it")
    if not to or to.endswith("/"):
        to += path.rpartition("/")[2]
    return path, to


def _folder(path: str) -> str:
    return path if not path or path.endswith("/") else f"{path}/"
