"""``graveler branch``: branches, and which of them take merges only."""

from fnmatch import fnmatchcase
from typing import Annotated, Any

import typer

from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.model import BranchRecord

__all__ = ["add_to"]

_branch = typer.Typer(help="Branches: make, list, protect, delete.", no_args_is_help=True)

_Name = Annotated[str, typer.Argument(help="The branch.")]
_Pattern = Annotated[str, typer.Argument(help="A name, or a pattern as in 'release-*'.")]


def add_to(app: typer.Typer) -> None:
    """Add the verbs of this group."""
    app.add_typer(_branch, name="branch")


@verb(_branch, "create")
def _create(
    session: Session,
    name: _Name,
    source: Annotated[
        str, typer.Argument(help="Branch, tag or commit to start from; else the default branch.")
    ] = "",
    *,
    exist_ok: Annotated[
        bool, typer.Option("--exist-ok", help="No error where it exists already.")
    ] = False,
) -> None:
    """Make a branch; it copies nothing."""
    branch = session.repository.create_branch(
        name, source or session.default_branch, exist_ok=exist_ok
    )
    head = branch.head.id
    session.out.show({"name": name, "commit": head}, f"made branch {name} at {head[:12]}")


@verb(_branch, "list")
def _list(
    session: Session,
    *,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Those of runs and their steps too.")
    ] = False,
) -> None:
    """List the branches and their heads."""
    patterns = session.repository.protected()
    out = session.out
    for record in session.repository.branches(hidden=everything):
        shape = _shape(record, patterns)
        note = "  (protected)" if shape["protected"] else ""
        head = out.style(record.commit_id[:12], "yellow")
        out.show(shape, f"{head}  {record.name}{note}")


@verb(_branch, "delete")
def _delete(session: Session, name: _Name) -> None:
    """Delete a branch and what is staged on it; its commits stay."""
    session.repository.delete_branch(name)
    session.out.show({"deleted": name}, f"deleted branch {name}")


@verb(_branch, "reset")
def _reset(session: Session, name: _Name) -> None:
    """Discard what is staged on a branch."""
    branch = session.repository.branch(name)
    dropped = sum(1 for _ in branch.uncommitted())
    branch.reset()
    session.out.show(
        {"name": name, "discarded": dropped},
        f"discarded {dropped} uncommitted {'change' if dropped == 1 else 'changes'} on {name}",
    )


@verb(_branch, "protect")
def _protect(session: Session, pattern: _Pattern) -> None:
    """Let branches that match take merges only."""
    session.repository.protect(pattern)
    _show_protected(session)


@verb(_branch, "unprotect")
def _unprotect(session: Session, pattern: _Pattern) -> None:
    """Take a pattern of protected branches away again."""
    session.repository.unprotect(pattern)
    _show_protected(session)


def _show_protected(session: Session) -> None:
    patterns = session.repository.protected()
    session.out.show({"protected": patterns}, f"protected: {', '.join(patterns) or '(none)'}")


def _shape(record: BranchRecord, patterns: list[str]) -> dict[str, Any]:
    return {
        "name": record.name,
        "commit": record.commit_id,
        "hidden": record.hidden,
        "protected": any(fnmatchcase(record.name, pattern) for pattern in patterns),
        "attempt": record.attempt,
    }
