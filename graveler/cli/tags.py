"""``graveler tag``: names for commits that do not move."""

from typing import Annotated

import typer

from graveler.cli.session import Session
from graveler.cli.verb import verb

__all__ = ["add_to"]

_tag = typer.Typer(help="Tags: names for commits that do not move.", no_args_is_help=True)

_Name = Annotated[str, typer.Argument(help="The tag.")]


def add_to(app: typer.Typer) -> None:
    """Add the verbs of this group."""
    app.add_typer(_tag, name="tag")


@verb(_tag, "create")
def _create(
    session: Session,
    name: _Name,
    ref: Annotated[
        str, typer.Argument(help="Branch, tag or commit; else the default branch.")
    ] = "",
) -> None:
    """Name a commit."""
    commit = session.repository.tags.create(name, ref or session.default_branch)
    session.out.show({"name": name, "commit": commit.id}, f"tagged {commit.id[:12]} as {name}")


@verb(_tag, "list")
def _list(session: Session) -> None:
    """List the tags and the commits they name."""
    for name, commit in session.repository.tags.list().items():
        head = session.out.style(commit[:12], "yellow")
        session.out.show({"name": name, "commit": commit}, f"{head}  {name}")


@verb(_tag, "undelete")
def _undelete(session: Session, name: _Name) -> None:
    """Make a deleted tag again, for the commit it named."""
    commit = session.repository.tags.undelete(name)
    session.out.show(
        {"name": name, "commit": commit.id}, f"tagged {commit.id[:12]} as {name} again"
    )


@verb(_tag, "delete")
def _delete(session: Session, name: _Name) -> None:
    """Remove a tag; the commit stays."""
    session.repository.tags.delete(name)
    session.out.show({"deleted": name}, f"deleted tag {name}")
