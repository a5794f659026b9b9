"""``graveler revert``, ``cherry-pick``, ``reflog`` and ``undo``."""

from typing import Annotated, Any

import typer

from graveler.cli.arguments import (
    LimitOption,
    MetaOption,
    StrategyOption,
    read_pairs,
    read_strategy,
)
from graveler.cli.output import printable
from graveler.cli.session import Session
from graveler.cli.shapes import commit_shape, moment
from graveler.cli.verb import verb
from graveler.refs import RefMove

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
    for name, body in (
        ("revert", _revert),
        ("cherry-pick", _cherry_pick),
        ("reflog", _reflog),
        ("undo", _undo),
    ):
        verb(app, name)(body)


def _revert(  # noqa: PLR0913 - the options of the verb
    session: Session,
    commit: _Commit,
    on: _Branch = "",
    *,
    parent: _Parent = None,
    strategy: StrategyOption = "",
    message: _Message = "",
    meta: MetaOption = None,
    allow_empty: _AllowEmpty = False,
) -> None:
    """Revert the changes of a commit, by a new commit on a branch."""
    branch = on or session.default_branch
    made = session.repository.revert(
        commit,
        branch,
        parent=parent,
        message=message or None,
        metadata=read_pairs(meta),
        strategy=read_strategy(strategy),
        allow_empty=allow_empty,
    )
    session.out.show(commit_shape(made), f"reverted {commit}: {branch} is at {made.id[:12]}")


def _cherry_pick(  # noqa: PLR0913 - the options of the verb
    session: Session,
    commit: _Commit,
    onto: _Branch = "",
    *,
    parent: _Parent = None,
    strategy: StrategyOption = "",
    message: _Message = "",
    meta: MetaOption = None,
    allow_empty: _AllowEmpty = False,
) -> None:
    """Apply the changes of a commit again, by a new commit on a branch."""
    branch = onto or session.default_branch
    made = session.repository.cherry_pick(
        commit,
        branch,
        parent=parent,
        message=message or None,
        metadata=read_pairs(meta),
        strategy=read_strategy(strategy),
        allow_empty=allow_empty,
    )
    session.out.show(commit_shape(made), f"picked {commit}: {branch} is at {made.id[:12]}")


def _reflog(
    session: Session,
    branch: Annotated[
        str, typer.Argument(help="The branch, deleted ones too; else all branches and tags.")
    ] = "",
    *,
    limit: LimitOption = None,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Hidden branches and those of runs too.")
    ] = False,
) -> None:
    """List where branches were, move by move, the latest first.

    The name in front, as in main@{2}, stands for that place wherever a ref is asked for.
    """
    out = session.out
    for line in session.repository.moves(branch or None, limit=limit, hidden=everything):
        name = f"{line.ref}@{{{line.position}}}" if line.kind == "branch" else f"tag {line.ref}"
        out.show(
            _shape(line),
            f"{out.style(f'{_short(line.after):12}', 'yellow')}  {line.at:%Y-%m-%d %H:%M:%S}  {name}: "
            f"{printable(line.action)} from {_short(line.before)}"
            + (f", by {printable(line.actor)}" if line.actor else ""),
        )


def _short(commit: str | None) -> str:
    return commit[:12] if commit else "(nothing)"


def _shape(line: RefMove) -> dict[str, Any]:
    return {
        "ref": line.ref,
        "kind": line.kind,
        "position": line.position,
        "at": moment(line.at),
        "action": line.action,
        "before": line.before,
        "after": line.after,
        "actor": line.actor,
    }


def _undo(
    session: Session,
    branch: Annotated[str, typer.Argument(help="The branch, or one that was deleted.")],
    *,
    to: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="Back to where it was N moves ago, as reflog counts."
        ),
    ] = 1,
) -> None:
    """Undo the last move of a branch: a commit, a merge, a reset, or its deletion.

    A second undo undoes the first. Staged writes stay staged.
    """
    commit = session.repository.undo(branch, to=to)
    session.out.show(
        {"name": branch, "commit": commit.id}, f"{branch} is at {commit.id[:12]} again"
    )
