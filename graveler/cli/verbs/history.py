"""``graveler commit``, and what joins or undoes commits."""

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from graveler.cli.arguments import (
    Address,
    LimitOption,
    MetaOption,
    StrategyOption,
    load_gates,
    read_pairs,
    read_strategy,
)
from graveler.cli.failure import CONFLICT, GATE, UsageError, conflict_line, verdict_lines
from graveler.cli.output import counted
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.config import default_committer
from graveler.display import title
from graveler.lake.shapes import shape_of
from graveler.refs.moves import UNDONE
from graveler.repository.branch import staged_by_others
from graveler.repository.resets import authors_text

if TYPE_CHECKING:
    from graveler.gates import Gate
    from graveler.lake import MergePreview
    from graveler.repository.merges import MergeTerms


@verb("commit")
def _commit(
    session: Session,
    where: list[str] | None = None,
    *,
    message: str,
    meta: MetaOption = None,
    committer: str = "",
    allow_empty: bool = False,
    mine: bool = False,
) -> None:
    """Commit the staged writes of a branch.

    Args:
        where ([BRANCH[:PATH]]...): The branch; else the default branch. With paths, folders
            (which end with '/') or patterns, as in main:tables/ :*.json, only staged files
            there.
        message (-m): The commit message.
        committer (NAME): The committer; else GRAVELER_COMMITTER, else your login.
        allow_empty: Commit even if nothing is staged.
        mine: Only what the committer has staged; `diff BRANCH` shows who staged what.
    """
    name, paths = Address.of_staged(where or [""])
    target = session.branch(name)
    me = committer or default_committer()
    others = Counter() if mine else staged_by_others(target, paths, me)
    made = target.commit(
        message,
        metadata=read_pairs(meta),
        committer=committer,
        allow_empty=allow_empty,
        paths=paths,
        mine=mine,
    )
    line = f"{target.name} is at {made.id[:12]}: {title(made.message)}"
    if made.by_other:
        line = f"{target.name}: another commit has the staged writes, {made.id[:12]}: {title(made.message)}"
    session.out.show({**shape_of(made), "by_other": made.by_other, "others": dict(others)}, line)
    if others and not made.by_other:
        session.out.tell(
            f"among them {counted(others.total(), 'file')} of others: {authors_text(others)}; "
            "`--mine` commits only yours"
        )


@verb("merge")
def _merge(
    session: Session,
    source: str,
    into: str,
    *,
    strategy: StrategyOption = None,
    message: str = "",
    meta: MetaOption = None,
    dry_run: bool = False,
    gate: list[str] | None = None,
) -> None:
    """Merge one ref into a branch; if both changed a path, nothing moves.

    Args:
        source: The branch, tag or commit to merge.
        into: The branch that moves.
        message (-m): Message of the merge commit.
        dry_run: Only show what would change, what conflicts, and what gates say.
        gate (--gates, --gate MODULE:NAME): With --dry-run: a gate beside those that the branch requires; repeat
            for more.
    """
    terms: MergeTerms = {
        "message": message or None,
        "metadata": read_pairs(meta),
        "strategy": read_strategy(strategy),
    }
    if dry_run:
        preview = session.repository.preview_merge(source, into, **terms)
        _show_preview(session, preview, load_gates(gate))
        return
    if gate:
        raise UsageError(
            "--gates: only with --dry-run; `graveler gates require` makes a branch ask them"
        )
    result = session.repository.merge(source, into, **terms)
    at = result.commit.id[:12]
    if result.already:
        done = f"{into} already has all commits of {source}: it is at {at}"
    else:
        done = f"merged {source}: {into} is at {at}"
    session.out.show({"commit": shape_of(result.commit), "already": result.already}, done)


def _show_preview(session: Session, preview: "MergePreview", gates: "list[Gate]") -> None:
    """Show the result that a merge would have; a conflict or a refusal ends the command as in a merge."""
    verdicts = () if preview.conflict_count else preview.judge(gates)
    shape = {**shape_of(preview), "verdicts": shape_of(verdicts)}
    numbers = f"{preview.added} added, {preview.changed} changed, {preview.removed} removed"
    summary = f"{numbers}, {preview.conflict_count} in conflict; nothing was merged"
    lines = [
        *map(conflict_line, preview.conflicts),
        *(line for verdict in verdicts for line in verdict_lines(verdict)),
    ]
    session.out.show(shape, summary, *lines)
    if preview.conflict_count:
        raise typer.Exit(CONFLICT)
    if any(verdict.refuses for verdict in verdicts):
        raise typer.Exit(GATE)


def _add_pick(name: str, method: str, done: str, about: str) -> None:
    """Add a verb that applies the changes of a commit, or their inverse, to a branch."""

    def body(
        session: Session,
        commit: str,
        branch: str = "",
        *,
        parent: int | None = None,
        strategy: StrategyOption = None,
        message: str = "",
        meta: MetaOption = None,
        allow_empty: bool = False,
    ) -> None:
        target = branch or session.default_branch
        made = getattr(session.repository, method)(
            commit,
            target,
            parent=parent,
            message=message or None,
            metadata=read_pairs(meta),
            strategy=read_strategy(strategy),
            allow_empty=allow_empty,
        )
        session.out.show(shape_of(made), f"{done} {commit}: {target} is at {made.id[:12]}")

    body.__doc__ = f"""{about}

    Args:
        commit: Branch, tag, commit or main~2.
        branch: The branch; else the default branch.
        parent (N): For a merge: the parent to compare with; 1 is the branch that was merged into.
        message (-m): Message of the new commit.
        allow_empty: Commit even if nothing changes.
    """
    verb(name)(body)


_add_pick(
    "revert", "revert", "reverted", "Revert the changes of a commit, by a new commit on a branch."
)
_add_pick(
    "cherry-pick",
    "cherry_pick",
    "picked",
    "Apply the changes of a commit again, by a new commit on a branch.",
)


@verb("reflog")
def _reflog(
    session: Session, branch: str = "", *, limit: LimitOption = None, everything: bool = False
) -> None:
    """List the moves of branches, the latest first.

    The name at the start of a line, as in main@{2}, is a ref expression for that commit.

    Args:
        branch: A branch, which may be deleted; else all branches and tags.
        everything (--all, -a): Include hidden branches and those of runs.
    """
    out = session.out
    for line in session.repository.moves(branch or None, limit=limit, hidden=everything):
        name = f"{line.ref}@{{{line.position}}}" if line.kind == "branch" else f"tag {line.ref}"
        out.show(
            shape_of(line),
            f"{out.style(f'{_short(line.after):12}', 'yellow')}  {line.at:%Y-%m-%d %H:%M:%S}  {name}: "
            f"{line.action} from {_short(line.before)}"
            + (f", dropped {counted(line.dropped, 'staged file')}" if line.dropped else "")
            + (f", by {line.actor}" if line.actor else ""),
        )


def _short(commit: str | None) -> str:
    return commit[:12] if commit else "(nothing)"


@verb("undo")
def _undo(session: Session, branch: str, *, to: Annotated[int, {"min": 1}] = 1) -> None:
    """Undo the last move of a branch: a commit, a merge, a reset, or its deletion.

    A second undo moves it forth again. The files of an undone commit are not staged: BRANCH@{1}
    keeps them. Staged writes stay staged; what the undone resets dropped is staged again, unless
    something newer is staged there.

    Args:
        branch: The branch, or one that was deleted.
        to (N): Number of moves to undo, as reflog counts them.
    """
    lines = [*session.repository.moves(branch, limit=to, hidden=True)]
    dropped = sum(line.dropped for line in lines)
    commit = session.repository.undo(branch, to=to)
    undone = lines[0].after if lines[0].after != commit.id else None
    kept = f"{branch}@{{1}}"
    session.out.show(
        {"name": branch, "commit": commit.id, "undone": undone, "staged": dropped},
        f"{branch} is at {commit.id[:12]} again"
        + ": an undo was undone" * (lines[0].action == UNDONE)
        + (
            f", with {counted(dropped, 'staged file')} that {'was' if dropped == 1 else 'were'} dropped"
            if dropped
            else ""
        ),
    )
    if undone:
        older = (
            f", `graveler undo {branch} --to {line.position}` goes further back"
            for line in session.repository.moves(branch, hidden=True)
            if line.position > to and line.after not in {None, undone, commit.id}
        )
        session.out.tell(
            f"{kept} keeps what was undone: `graveler diff {branch} {kept}` lists it, "
            f"`graveler undo {branch}` brings it back{next(older, '')}"
        )
