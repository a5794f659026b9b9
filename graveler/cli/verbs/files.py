"""``graveler ls``, ``stat``, ``get``, ``put`` and ``rm``: the files of a tree."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graveler.base.arguments import expand_home
from graveler.cli.arguments import Address, MetaOption, read_pairs
from graveler.cli.failure import UsageError
from graveler.cli.folders import (
    Choices,
    DeleteOption,
    ExcludeOption,
    LinksOption,
    ThreadsOption,
    get_folder,
    put_folder,
)
from graveler.cli.output import Output, size_text, to_json
from graveler.cli.session import Session
from graveler.cli.shapes import moment, shape_of
from graveler.cli.verb import verb
from graveler.errors import ObjectNotFoundError
from graveler.model import Entry, Prefix

if TYPE_CHECKING:
    from graveler.lake import Branch
    from graveler.reads.view import View


_PIECE_BYTES = 1 << 20
_STREAM = "-"

_File = Annotated[str, typer.Argument(metavar="REF:PATH", help="As in main:input/a.csv.")]
_Recursive = Annotated[bool, typer.Option("--recursive", "-r", help="Include everything below.")]


def add_to(app: typer.Typer) -> None:
    """Add the verbs of this group."""
    for name, body in (("ls", _ls), ("stat", _stat), ("get", _get), ("put", _put), ("rm", _rm)):
        verb(app, name)(body)


def _ls(
    session: Session,
    where: Annotated[
        str,
        typer.Argument(
            metavar="[REF[:PATH]]",
            help="A branch (with its staged files), a tag, a commit or main~2; then a folder.",
        ),
    ] = "",
    *,
    recursive: _Recursive = False,
) -> None:
    """List files; a folder is one line."""
    ref, path = Address.parse(where)
    view = session.view(ref)
    empty = True
    for item in _listing(view, path, recursive=recursive):
        empty = False
        _show_item(session.out, item)
    if path and empty:
        raise ObjectNotFoundError(f"nothing at or below {path!r} in {view.name!r}")


def _listing(view: "View", path: str, *, recursive: bool) -> Iterator[Entry | Prefix]:
    folder = path
    if path and not path.endswith("/"):
        folder = path + "/"
        if view.exists(path):
            yield view.stat(path)
    yield from view.list(folder, delimiter="" if recursive else "/")


def _show_item(out: Output, item: Entry | Prefix) -> None:
    if isinstance(item, Prefix):
        if out.as_json:
            out.line(to_json({"type": "folder", "path": item.path}))
        else:
            out.line(f"{'':30}{out.style(item.path, 'blue')}")
    elif out.as_json:
        out.line(to_json({"type": "file", **shape_of(item)}))
    else:
        when = "" if item.mtime is None else f"{item.mtime:%Y-%m-%d %H:%M}"
        out.line(f"{size_text(item.size):>10}  {when:16}  {item.path}")


def _stat(session: Session, file: _File) -> None:
    """Show the entry of a file."""
    ref, path = Address.of_file(file)
    view = session.view(ref)
    entry = view.stat(path)
    uri = view.repository.uri(entry.address)
    fields = [
        ("path", entry.path),
        ("size", f"{entry.size} ({size_text(entry.size)})"),
        ("checksum", entry.checksum or "(unknown)"),
        ("type", entry.content_type or "(unknown)"),
        ("written", moment(entry.mtime) or "(unknown)"),
        ("bytes in", uri),
        *((f"meta {name}", value) for name, value in sorted(entry.metadata.items())),
    ]
    lines = [f"{name:10}  {value}" for name, value in fields]
    session.out.show({**shape_of(entry), "uri": uri}, *lines)


def _get(
    session: Session,
    file: _File,
    into: Annotated[
        str,
        typer.Argument(
            metavar="[FILE]", help="The file to write, a folder with -r; else the standard output."
        ),
    ] = _STREAM,
    *,
    recursive: _Recursive = False,
    delete: DeleteOption = False,
    exclude: ExcludeOption = None,
    threads: ThreadsOption = None,
) -> None:
    """Read a file or a folder from the lake; existing files with equal content stay."""
    choices = Choices(delete, exclude, threads)
    if recursive:
        get_folder(session, file, into, choices)
        return
    choices.check_unused()
    ref, path = Address.of_file(file)
    if into == _STREAM and session.as_json:
        raise UsageError("--json would mix with the file's bytes: name a FILE to write to")
    view = session.view(ref)
    entry = view.stat(path)
    target = expand_home(into)
    if target.is_dir():
        target /= path.rpartition("/")[2]
    if into == _STREAM:
        with view.open(entry) as stream:
            while piece := stream.read(_PIECE_BYTES):
                session.out.data(piece)
        return
    from graveler.reads.files import download

    try:
        download(view.repository, entry, target)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror}") from error
    session.out.show(
        {**shape_of(entry), "file": str(target)},
        f"{path} → {target} ({size_text(entry.size)})",
    )


def _put(
    session: Session,
    source: Annotated[
        str,
        typer.Argument(metavar="FILE", help="A file, a folder with -r, or - for standard input."),
    ],
    target: Annotated[
        str,
        typer.Argument(
            metavar="BRANCH:PATH", help="The target; if it ends with a slash, the folder."
        ),
    ],
    *,
    recursive: _Recursive = False,
    content_type: Annotated[str, typer.Option(metavar="TYPE", help="The media type.")] = "",
    meta: MetaOption = None,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Write even if the branch has the same content, as a repair."
        ),
    ] = False,
    delete: DeleteOption = False,
    exclude: ExcludeOption = None,
    follow_links: LinksOption = True,
    threads: ThreadsOption = None,
) -> None:
    """Put a file or a folder on a branch; a commit makes it permanent.

    Files of a folder that the branch already has are skipped. After an error or Ctrl-C the same
    command resumes.
    """
    name, path = Address.parse(target)
    if not path and "/" in name:  # a path without a colon, or a name that no branch has
        Address.of_file(target)
    file = expand_home(source)
    pairs = read_pairs(meta)
    choices = Choices(delete, exclude, threads, follow_links)
    if recursive:
        put_folder(
            session,
            source,
            name,
            path,
            choices,
            content_type=content_type,
            metadata=pairs or None,
            replace=replace,
        )
        return
    choices.check_unused()
    if source != _STREAM and not file.is_file():
        raise UsageError(f"no file {source!r}" + (": put a folder with -r" * file.is_dir()))
    if not path or path.endswith("/"):
        if source == _STREAM:
            raise UsageError(f"{target!r} is a folder: give the standard input a file name")
        path += file.name
    if source == _STREAM and sys.stdin is None:
        raise UsageError("the standard input is closed: name a file")
    body = sys.stdin.buffer if source == _STREAM else file
    branch = session.branch(name)
    entry = branch.put(path, body, content_type=content_type, metadata=pairs, replace=replace)
    session.out.show(shape_of(entry), f"{path}  {size_text(entry.size)}")


def _rm(
    session: Session,
    files: Annotated[
        list[str], typer.Argument(metavar="BRANCH:PATH...", help="The files to remove.")
    ],
    *,
    recursive: _Recursive = False,
) -> None:
    """Remove files from a branch; a commit makes it permanent."""
    removed: list[dict[str, Any]] = []
    for text in files:
        address = Address.of_file(text)
        branch = session.branch(address.ref)
        paths = _paths(branch, address.path, recursive=recursive)
        branch.delete_many(paths)
        removed += [{"branch": branch.name, "path": path} for path in paths]
    for item in removed:
        session.out.show(item, f"removed {item['path']} from {item['branch']}")


def _paths(branch: "Branch", path: str, *, recursive: bool) -> list[str]:
    paths = [entry.path for entry in branch.entries(path.rstrip("/") + "/")] if recursive else []
    if branch.exists(path):
        paths.append(path)
    if not paths:
        way_out = "" if recursive else " (-r removes everything below a folder)"
        raise ObjectNotFoundError(f"nothing at {path!r} in {branch.name!r}{way_out}")
    return paths
