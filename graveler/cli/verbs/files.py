"""``graveler ls``, ``stat``, ``get``, ``put`` and ``rm``: files and folders of a tree."""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from graveler.base.arguments import expand_home
from graveler.cli.arguments import Address, MetaOption, read_pairs
from graveler.cli.failure import UsageError
from graveler.cli.output import Output, field_lines, size_text
from graveler.cli.session import Session
from graveler.cli.shapes import moment, shape_of
from graveler.cli.verb import verb
from graveler.errors import ObjectNotFoundError
from graveler.model import Entry, Prefix

if TYPE_CHECKING:
    from graveler.lake import Branch
    from graveler.model import Transfer
    from graveler.reads.view import View


_PIECE_BYTES = 1 << 20
_STREAM = "-"

_File = Annotated[str, "(REF:PATH): As in main:input/a.csv."]
_Recursive = Annotated[bool, "(-r): Include everything below."]
_Threads = Annotated[int | None, {"min": 1, "max": 64}]


@verb("ls")
def _ls(session: Session, where: str = "", *, recursive: _Recursive = False) -> None:
    """List files; a folder is one line.

    Args:
        where ([REF[:PATH]]): A branch (with its staged files), a tag, a commit or main~2; then
            a folder.
    """
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
        line = f"{'':30}{out.style(item.path, 'blue')}"
        out.show({"type": "folder", "path": item.path}, line)
        return
    when = "" if item.mtime is None else f"{item.mtime:%Y-%m-%d %H:%M}"
    line = f"{size_text(item.size):>10}  {when:16}  {item.path}"
    out.show({"type": "file", **shape_of(item)} if out.as_json else {}, line)


@verb("stat")
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
    session.out.show({**shape_of(entry), "uri": uri}, *field_lines(fields, 10))


@verb("get")
def _get(
    session: Session,
    file: _File,
    into: str = _STREAM,
    *,
    recursive: _Recursive = False,
    delete: bool = False,
    exclude: list[str] | None = None,
    threads: _Threads = None,
) -> None:
    """Read a file or a folder from the lake; existing files with equal content stay.

    Args:
        into ([FILE]): The file to write, a folder with -r; else the standard output.
        delete: With -r: delete files that the source does not have.
        exclude (PATTERN): With -r: leave these names out, as in '*.tmp'; repeat for more.
        threads (N): With -r: number of parallel transfers; by default it suits the store.
    """
    if recursive:
        options = {"delete": delete, "exclude": exclude or (), "threads": threads}
        _get_folder(session, file, into, options)
        return
    _refuse(delete=delete, exclude=exclude, threads=threads)
    ref, path = Address.of_file(file)
    if into == _STREAM and session.out.as_json:
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


@verb("put")
def _put(
    session: Session,
    source: str,
    target: str,
    *,
    recursive: _Recursive = False,
    content_type: str = "",
    meta: MetaOption = None,
    replace: bool = False,
    delete: bool = False,
    exclude: list[str] | None = None,
    follow_links: bool = True,
    threads: _Threads = None,
) -> None:
    """Put a file or a folder on a branch; a commit makes it permanent.

    Files of a folder that the branch already has are skipped. After an error or Ctrl-C the same
    command resumes.

    Args:
        source (FILE): A file, a folder with -r, or - for standard input.
        target (BRANCH:PATH): The target; if it ends with a slash, the folder.
        content_type (TYPE): The media type.
        replace: Write even if the branch has the same content, as a repair.
        delete: With -r: delete files that the source does not have.
        exclude (PATTERN): With -r: leave these names out, as in '*.tmp'; repeat for more.
        follow_links: With -r: follow symbolic links; by default they are left out.
        threads (N): With -r: number of parallel transfers; by default it suits the store.
    """
    name, path = Address.parse(target)
    if not path and "/" in name:  # a path without a colon, or a name that no branch has
        Address.of_file(target)
    file = expand_home(source)
    options: dict[str, Any] = {
        "content_type": content_type,
        "metadata": read_pairs(meta),
        "replace": replace,
    }
    if recursive:
        options |= {"delete": delete, "exclude": exclude or (), "follow_links": follow_links}
        _put_folder(session, source, name, path, {**options, "threads": threads})
        return
    _refuse(delete=delete, exclude=exclude, threads=threads, no_follow_links=not follow_links)
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
    entry = branch.put(path, body, **options)
    session.out.show(shape_of(entry), f"{path}  {size_text(entry.size)}")


@verb("rm")
def _rm(session: Session, files: list[str], *, recursive: _Recursive = False) -> None:
    """Remove files from a branch; a commit makes it permanent.

    Args:
        files (BRANCH:PATH...): The files to remove.
    """
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
        hint = "" if recursive else " (-r removes everything below a folder)"
        raise ObjectNotFoundError(f"nothing at {path!r} in {branch.name!r}{hint}")
    return paths


def _refuse(**given: object) -> None:
    """Refuse options of folders that are given for a file."""
    if wrong := [f"--{name.replace('_', '-')}" for name, value in given.items() if value]:
        raise UsageError(f"{', '.join(wrong)}: only with -r, for a folder")


def _put_folder(
    session: Session, source: str, name: str, path: str, options: dict[str, Any]
) -> None:
    folder = expand_home(source)
    if not folder.is_dir():
        raise UsageError(f"{source!r} is not a folder: put a file without -r")
    branch = session.branch(name)
    with session.progress("put") as progress:
        done = branch.upload(folder, path, **options, progress=progress)
    shape = {"branch": branch.name, "path": path, **asdict(done)}
    session.out.show(shape, f"{f'{branch.name}:{path}'}  {_told(done)}")


def _get_folder(session: Session, place: str, into: str, options: dict[str, Any]) -> None:
    ref, path = Address.parse(place)
    if not path and "/" in ref:
        Address.of_file(place)
    if into == _STREAM:
        raise UsageError("name the FOLDER to write to, after REF:PATH")
    view = session.view(ref)
    if path and view.exists(path):
        folder = f", and the folder as {path + '/'!r}" if view.has_below(f"{path}/") else ""
        raise UsageError(f"{path!r} is a file: get it without -r{folder}")
    with session.progress("get") as progress:
        done = view.download(path, into, **options, progress=progress)
    shape = {"ref": view.name, "path": path, "folder": into, **asdict(done)}
    session.out.show(shape, f"{into}  {_told(done)}")


def _told(done: "Transfer") -> str:
    parts = [f"{done.files:,} file{'s' * (done.files != 1)} ({size_text(done.bytes)})"]
    parts += [f"{done.skipped:,} there already"] * bool(done.skipped)
    parts += [f"{done.deleted:,} deleted"] * bool(done.deleted)
    return ", ".join(parts)
