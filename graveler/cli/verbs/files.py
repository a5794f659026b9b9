"""``graveler ls``, ``stat``, ``get``, ``put`` and ``rm``: files and folders of a tree."""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

from graveler.base.arguments import expand_home
from graveler.cli.arguments import Address, MetaOption, read_pairs
from graveler.cli.failure import UsageError
from graveler.cli.output import Output, counted, field_lines
from graveler.cli.selection import (
    LinesOption,
    Listing,
    folder_of,
    is_pattern,
    matching,
    matching_folded,
    total_text,
)
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.display import size_text
from graveler.errors import ObjectNotFoundError
from graveler.lake.shapes import moment, shape_of
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
def _ls(
    session: Session,
    where: str = "",
    *,
    recursive: _Recursive = False,
    limit: LinesOption = None,
) -> None:
    """List files; a folder is one line.

    Args:
        where ([REF[:PATH]]): A branch (with its staged files), a tag, a commit or main~2; then
            a folder or a pattern, as in 'main:output/*/part-*.parquet'.
    """
    ref, path = Address.parse(where)
    view, listing = session.view(ref), Listing(session.out, limit)
    files = folders = size = 0
    for item in _listing(view, path, recursive=recursive):
        if isinstance(item, Prefix):
            folders += 1
        else:
            files += 1
            size += item.size
        if listing.takes():
            _show_item(session.out, item)
    if path and not files + folders:
        raise ObjectNotFoundError(f"nothing at or below {path!r} in {view.name!r}")
    listing.end(total_text(files, size, folders))


def _listing(view: "View", path: str, *, recursive: bool) -> Iterator[Entry | Prefix]:
    if is_pattern(path, view):
        files_only = recursive or "**" in path
        yield from matching(view, path) if files_only else matching_folded(view, path)
        return
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
    file: str,
    into: str = _STREAM,
    *,
    recursive: _Recursive = False,
    delete: bool = False,
    exclude: list[str] | None = None,
    threads: _Threads = None,
) -> None:
    """Read a file, a folder, or the files that match a pattern; existing equal files stay.

    Args:
        file (REF:PATH): As in main:input/a.csv, or 'main:input/*/part-*.csv': files keep their
            paths below the part without pattern.
        into ([FILE]): The file to write, a folder with -r or a pattern; else the standard output.
        delete: With -r: delete files that the source does not have.
        exclude (PATTERN): With -r: leave these names out, as in '*.tmp'; repeat for more.
        threads (N): With -r: number of parallel transfers; by default it suits the store.
    """
    if recursive:
        options = {"delete": delete, "exclude": exclude or (), "threads": threads}
        _get_folder(session, file, into, options)
        return
    ref, path = Address.of_file(file)
    if is_pattern(path, view := session.view(ref)):
        _refuse(delete=delete)
        terms: dict[str, Any] = {"only": path, "exclude": exclude or (), "threads": threads}
        _download(session, view, folder_of(path), into, terms)
        return
    _refuse(delete=delete, exclude=exclude, threads=threads)
    if into == _STREAM and session.out.as_json:
        raise UsageError("--json would mix with the file's bytes: name a FILE to write to")
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
    sources: list[str],
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
    """Put files or a folder on a branch; a commit makes it permanent.

    Files of a folder that the branch already has are skipped. After an error or Ctrl-C the same
    command resumes.

    Args:
        sources (FILE...): Files, a folder with -r, or - for standard input.
        target (BRANCH:PATH): The target; if it ends with a slash, the folder. Several files
            need a folder.
        content_type (TYPE): The media type.
        replace: Write even if the branch has the same content, as a repair.
        delete: With -r: delete files that the source does not have.
        exclude (PATTERN): With -r: leave these names out, as in '*.tmp'; repeat for more.
        follow_links: With -r: follow symbolic links; by default they are left out.
        threads (N): For several files: number of parallel transfers; by default it suits the
            store.
    """
    name, path = Address.parse(target)
    if not path and "/" in name:  # a path without a colon, or a name that no branch has
        Address.of_file(target)
    if len(sources) > 1 and (recursive or (path and not path.endswith("/"))):
        raise UsageError(
            f"{len(sources)} sources for {target!r}: put one folder with -r, or several files into "
            "a folder, which ends with '/'"
        )
    options: dict[str, Any] = {
        "content_type": content_type,
        "metadata": read_pairs(meta),
        "replace": replace,
    }
    if recursive:
        options |= {"delete": delete, "exclude": exclude or (), "follow_links": follow_links}
        _put_folder(session, sources[0], name, path, {**options, "threads": threads})
        return
    _refuse(delete=delete, exclude=exclude, no_follow_links=not follow_links)
    bodies = dict(_body(source, path, target) for source in sources)
    if len(bodies) < len(sources):
        raise UsageError(f"two sources for {target!r} have one name: put one into another folder")
    branch = session.branch(name)
    if len(sources) > 1:
        with session.progress("put") as progress:
            done = branch.put_many(bodies, **options, threads=threads, progress=progress)
        _show_transfer(session, branch.name, path, done)
        return
    _refuse(threads=threads)
    entry = branch.put(*bodies.popitem(), **options)
    session.out.show(shape_of(entry), f"{entry.path}  {size_text(entry.size)}")


def _body(source: str, path: str, target: str) -> tuple[str, "Path | BinaryIO"]:
    """Return the path on the branch, and the file or the standard input."""
    file = expand_home(source)
    if source != _STREAM and not file.is_file():
        raise UsageError(f"no file {source!r}" + (": put a folder with -r" * file.is_dir()))
    if not path or path.endswith("/"):
        if source == _STREAM:
            raise UsageError(f"{target!r} is a folder: give the standard input a file name")
        path += file.name
    if source == _STREAM and sys.stdin is None:
        raise UsageError("the standard input is closed: name a file")
    return path, sys.stdin.buffer if source == _STREAM else file


@verb("rm")
def _rm(
    session: Session,
    files: list[str],
    *,
    recursive: _Recursive = False,
    limit: LinesOption = None,
) -> None:
    """Remove files from a branch; a commit makes it permanent.

    Args:
        files (BRANCH:PATH...): The files to remove, or patterns of them, as in
            'main:tmp/**/*.csv'.
    """
    removed: list[dict[str, Any]] = []
    for text in files:
        address = Address.of_file(text)
        branch = session.branch(address.ref)
        paths = _paths(branch, address.path, recursive=recursive)
        branch.delete_many(paths)
        removed += [{"branch": branch.name, "path": path} for path in paths]
    listing = Listing(session.out, limit)
    for item in removed:
        if listing.takes():
            session.out.show(item, f"removed {item['path']} from {item['branch']}")
    listing.end(f"removed {counted(len(removed), 'file')}")


def _paths(branch: "Branch", path: str, *, recursive: bool) -> list[str]:
    if is_pattern(path, branch):
        return [entry.path for entry in matching(branch, path)]
    paths = [entry.path for entry in branch.entries(path.rstrip("/") + "/")] if recursive else []
    if not path.endswith("/") and branch.exists(path):
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
    _show_transfer(session, branch.name, path, done)


def _show_transfer(session: Session, branch: str, path: str, done: "Transfer") -> None:
    shape = {"branch": branch, "path": path, **asdict(done)}
    session.out.show(shape, f"{branch}:{path}  {_told(done)}")


def _get_folder(session: Session, place: str, into: str, options: dict[str, Any]) -> None:
    ref, path = Address.parse(place)
    if not path and "/" in ref:
        Address.of_file(place)
    view = session.view(ref)
    if path and not path.endswith("/") and view.exists(path):
        folder = f", and the folder as {path + '/'!r}" if view.has_below(f"{path}/") else ""
        raise UsageError(f"{path!r} is a file: get it without -r{folder}")
    _download(session, view, path, into, options)


def _download(
    session: Session, view: "View", path: str, into: str, options: dict[str, Any]
) -> None:
    if into == _STREAM:
        raise UsageError("name the FOLDER to write to, after REF:PATH")
    with session.progress("get") as progress:
        done = view.download(path, into, **options, progress=progress)
    shape = {"ref": view.name, "path": path, "folder": into, **asdict(done)}
    session.out.show(shape, f"{into}  {_told(done)}")


def _told(done: "Transfer") -> str:
    parts = [f"{counted(done.files, 'file')} ({size_text(done.bytes)})"]
    parts += [f"{done.skipped:,} there already"] * bool(done.skipped)
    parts += [f"{done.deleted:,} deleted"] * bool(done.deleted)
    return ", ".join(parts)
