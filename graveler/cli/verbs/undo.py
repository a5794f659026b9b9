"""``graveler revert``, ``cherry-pick``, ``reflog`` and ``undo``."""

from typing import Annotated

import typer

from graveler.cli.arguments import (
    LimitOption,
    MetaOption,
    StrategyOption,
    read_pairs,
    read_strategy,
)
from graveler.cli.session import Session
from graveler.cli.shapes import shape_of
from graveler.cli.verb import verb

_Commit = Annotated[str, typer.Argument(help="Branch, tag, commit or main~2.")]
_Branch = Annotated[str, typer.Argument(help="The branch; else the default branch.")]
_Parent = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="For a merge: the parent to compare with; 1 is the branch that was merged into.",
    ),
]
_Message = Annotated[str, typer.Option("--message", "-m", help="Message of the new commit.")]
_AllowEmpty = Annotated[bool, typer.Option("--allow-empty", help="Commit even if nothing changes.")]


def add_to(app: typer.Typer) -> None:
    """Add the verbs of this group."""
    _add_pick(app, "revert", "Revert the changes of a commit, by a new commit on a branch.")
    _add_pick(
        app, "cherry-pick", "Apply the changes of a commit again, by a new commit on a branch."
    )
    verb(app, "reflog")(_reflog)
    verb(app, "undo")(_undo)


def _add_pick(app: typer.Typer, name: str, summary: str) -> None:
    """Add a verb that applies the changes of a commit, or their inverse, to a branch."""

    def body(
        session: Session,
        commit: _Commit,
        branch: _Branch = "",
        *,
        parent: _Parent = None,
        strategy: StrategyOption = None,
        message: _Message = "",
        meta: MetaOption = None,
        allow_empty: _AllowEmpty = False,
    ) -> None:
        repository = session.repository
        target = branch or session.default_branch
        pick, done = (
            (repository.revert, "reverted")
            if name == "revert"
            else (repository.cherry_pick, "picked")
        )
        made = pick(
            commit,
            target,
            parent=parent,
            message=message or None,
            metadata=read_pairs(meta),
            strategy=read_strategy(strategy),
            allow_empty=allow_empty,
        )
        session.out.show(shape_of(made), f"{done} {commit}: {target} is at {made.id[:12]}")

    body.__doc__ = summary
    verb(app, name)(body)


def _reflog(
    session: Session,
    branch: Annotated[
        str, typer.Argument(help="A branch, which may be deleted; else all branches and tags.")
    ] = "",
    *,
    limit: LimitOption = None,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Include hidden branches and those of runs.")
    ] = False,
) -> None:
    """List the moves of branches, the latest first.

    The name at the start of a line, as in main@{2}, is a ref expression for that commit.
    """
    out = session.out
    for line in session.repository.moves(branch or None, limit=limit, hidden=everything):
        name = f"{line.ref}@{{{line.position}}}" if line.kind == "branch" else f"tag {line.ref}"
        out.show(
            shape_of(line),
            f"{out.style(f'{_short(line.after):12}', 'yellow')}  {line.at:%Y-%m-%d %H:%M:%S}  {name}: "
            f"{line.action} from {_short(line.before)}"
            + (f", by {line.actor}" if line.actor else ""),
        )


def _short(commit: str | None) -> str:
    return commit[:12] if commit else "(nothing)"


def _undo(
    session: Session,
    branch: Annotated[str, typer.Argument(help="The branch, or one that was deleted.")],
    *,
    to: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Number of moves to undo, as reflog counts them."),
    ] = 1,
) -> None:
    """Undo the last move of a branch: a commit, a merge, a reset, or its deletion.

    A second undo undoes the first. Staged writes stay staged.
    """
    commit = session.repository.undo(branch, to=to)
    session.out.show(
        {"name": branch, "commit": commit.id}, f"{branch} is at {commit.id[:12]} again"
    )
