"""``graveler put -r`` and ``graveler get -r``: transfers of whole folders."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from graveler.base.arguments import expand_home
from graveler.cli.arguments import Address
from graveler.cli.failure import UsageError
from graveler.cli.output import size_text
from graveler.cli.session import Session

if TYPE_CHECKING:
    from graveler.model import Transfer

DeleteOption = Annotated[
    bool,
    typer.Option("--delete", help="With -r: delete files that the source does not have."),
]
ExcludeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude",
        metavar="PATTERN",
        help="With -r: leave these names out, as in '*.tmp'; repeat for more.",
    ),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        "--threads",
        metavar="N",
        min=1,
        max=64,
        help="With -r: number of parallel transfers; by default it suits the store.",
    ),
]
LinksOption = Annotated[
    bool,
    typer.Option(
        "--follow-links/--no-follow-links",
        help="With -r: follow symbolic links; by default they are left out.",
    ),
]


@dataclass(frozen=True, slots=True)
class Choices:
    """The options that apply only to folders.

    Attributes:
        delete: Whether files that the source does not have are deleted.
        exclude: Patterns of the names that are left out.
        threads: Number of parallel transfers.
        follow_links: Whether symbolic links are followed.
    """

    delete: bool
    exclude: list[str] | None
    threads: int | None
    follow_links: bool = True

    def check_unused(self) -> None:
        """Refuse these options for a file.

        Raises:
            UsageError: One of them is given.
        """
        given = {
            "--delete": self.delete,
            "--exclude": self.exclude,
            "--threads": self.threads,
            "--no-follow-links": not self.follow_links,
        }
        if wrong := [name for name, value in given.items() if value]:
            raise UsageError(f"{', '.join(wrong)}: only with -r, for a folder")


def put_folder(
    session: Session,
    source: str,
    name: str,
    path: str,
    choices: Choices,
    *,
    content_type: str,
    metadata: dict[str, str] | None,
    replace: bool,
) -> None:
    """Put a folder on a branch and show the result."""
    folder = expand_home(source)
    if not folder.is_dir():
        raise UsageError(f"{source!r} is not a folder: put a file without -r")
    branch = session.branch(name)
    with session.progress("put") as progress:
        done = branch.upload(
            folder,
            path,
            delete=choices.delete,
            exclude=choices.exclude or (),
            follow_links=choices.follow_links,
            content_type=content_type,
            metadata=metadata,
            replace=replace,
            threads=choices.threads,
            progress=progress,
        )
    shape = {"branch": branch.name, "path": path, **asdict(done)}
    session.out.show(shape, f"{f'{branch.name}:{path}'}  {_told(done)}")


def get_folder(session: Session, place: str, into: str, choices: Choices) -> None:
    """Read a folder from the lake and show the result."""
    ref, path = Address.parse(place)
    if not path and "/" in ref:
        Address.of_file(place)
    if into == "-":
        raise UsageError("name the FOLDER to write to, after REF:PATH")
    view = session.view(ref)
    if path and view.exists(path):
        folder = f", and the folder as {path + '/'!r}" if view.has_below(f"{path}/") else ""
        raise UsageError(f"{path!r} is a file: get it without -r{folder}")
    with session.progress("get") as progress:
        done = view.download(
            path,
            into,
            delete=choices.delete,
            exclude=choices.exclude or (),
            threads=choices.threads,
            progress=progress,
        )
    shape = {"ref": view.name, "path": path, "folder": into, **asdict(done)}
    session.out.show(shape, f"{into}  {_told(done)}")


def _told(done: "Transfer") -> str:
    parts = [f"{done.files:,} file{'s' * (done.files != 1)} ({size_text(done.bytes)})"]
    parts += [f"{done.skipped:,} there already"] * bool(done.skipped)
    parts += [f"{done.deleted:,} deleted"] * bool(done.deleted)
    return ", ".join(parts)
