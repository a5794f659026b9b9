"""``graveler cp``, ``mv`` and ``import``: they give files other paths without copying bytes."""

from typing import Annotated

import typer

from graveler.cli.arguments import Address
from graveler.cli.failure import UsageError
from graveler.cli.output import size_text
from graveler.cli.session import Session
from graveler.cli.verb import verb

_Recursive = Annotated[
    bool, typer.Option("--recursive", "-r", help="Include everything below a folder.")
]
_Target = Annotated[
    str,
    typer.Argument(
        metavar="[BRANCH][:PATH]",
        help="The destination; a file keeps its name below PATH if that is empty or ends with '/'.",
    ),
]
_FILES = {True: "files", False: "file"}


def add_to(app: typer.Typer) -> None:
    """Add the verbs of this group."""
    for name, body in (("cp", _cp), ("mv", _mv), ("import", _import)):
        verb(app, name)(body)


def _cp(
    session: Session,
    source: Annotated[
        str,
        typer.Argument(
            metavar="REF:PATH",
            help="The source. A branch includes its staged files; any other ref, as in main@:PATH, "
            "has only committed files.",
        ),
    ],
    target: _Target,
    *,
    recursive: _Recursive = False,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Remove files that the source lacks from the target folder."
        ),
    ] = False,
) -> None:
    """Copy files to a branch, or within one; no byte is copied. A commit makes it permanent."""
    origin, goal = Address.parse(source), _goal(target)
    path, to = _paths(origin.path, goal.path, recursive=recursive)
    branch = session.branch(goal.ref)
    view = session.view(origin.ref)
    count = branch.copy(view, path, to, replace=replace)
    if path != origin.path and view.exists(origin.path):  # it is a file, too
        count += branch.copy(view, origin.path, to.rstrip("/"))
    shape = {"branch": branch.name, "path": path, "to": to, "count": count}
    done = f"copied {count} {_FILES[count != 1]} to {to or '/'} on {branch.name}"
    session.out.show(shape, done)


def _mv(
    session: Session,
    source: Annotated[str, typer.Argument(metavar="BRANCH:PATH", help="The source.")],
    target: _Target,
    *,
    recursive: _Recursive = False,
) -> None:
    """Move files within a branch; no byte is copied. A commit makes it permanent."""
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
    shape = {"branch": branch.name, "path": path, "to": to, "count": count}
    done = f"moved {count} {_FILES[count != 1]} to {to or '/'} on {branch.name}"
    session.out.show(shape, done)


def _import(
    session: Session,
    source: Annotated[
        str,
        typer.Argument(
            help="A folder, s3://bucket/prefix/, a manifest.json of an inventory of S3, or a CSV, "
            "Parquet or ORC file with a row for each file."
        ),
    ],
    target: Annotated[
        str,
        typer.Argument(
            metavar="[BRANCH[:FOLDER]]", help="The destination; else the default branch."
        ),
    ] = "",
    *,
    below: Annotated[
        str,
        typer.Option(
            metavar="PLACE",
            help="For an inventory: only files below this place; their paths begin after it.",
        ),
    ] = "",
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Leave out files whose paths in the source match, as in '**/_temporary/**'; may "
            "come several times.",
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Remove files that the source lacks from the folder.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Look up every file of an inventory in its store.")
    ] = False,
) -> None:
    """Import files of a store unchanged; no byte is copied. A commit makes it permanent.

    The files must be below places that the repository declares: `graveler links allow PLACE`.
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
