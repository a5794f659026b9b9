"""``graveler links``: the places outside of the storage that files may be linked from."""

from typing import Annotated

import typer

from graveler.cli.output import printable
from graveler.cli.session import Session
from graveler.cli.verb import verb

__all__ = ["add_to"]

_links = typer.Typer(
    help="Links: the places outside of the storage that files may be linked from.",
    no_args_is_help=True,
)

_Place = Annotated[str, typer.Argument(help="s3://bucket/prefix, or a folder's absolute path.")]


def add_to(app: typer.Typer) -> None:
    """Add the verbs of this group."""
    app.add_typer(_links, name="links")


@verb(_links, "allow")
def _allow(session: Session, place: _Place) -> None:
    """Let files below a place be linked and read."""
    declared = session.repository.links.allow(place)
    session.out.show({"allowed": declared}, f"allowed links to {printable(declared)}")


@verb(_links, "disallow")
def _disallow(session: Session, place: _Place) -> None:
    """Let files below a place be linked and read no more."""
    declared = session.repository.links.disallow(place)
    session.out.show({"disallowed": declared}, f"disallowed links to {printable(declared)}")


@verb(_links, "list")
def _list(session: Session) -> None:
    """List the places."""
    for place in session.repository.links.list():
        session.out.show({"place": place}, printable(place))
