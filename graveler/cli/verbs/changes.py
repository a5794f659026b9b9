"""``graveler diff`` and ``merge``."""

from collections.abc import Iterable, Iterator
from heapq import merge
from typing import Annotated

import typer

from graveler.base.names import path_key
from graveler.cli.arguments import MetaOption, StrategyOption, read_pairs, read_strategy
from graveler.cli.failure import CONFLICT, GATE, conflict_line, verdict_line
from graveler.cli.output import Output, size_text
from graveler.cli.session import Session
from graveler.cli.shapes import shape_of
from graveler.cli.verb import verb
from graveler.committed.diff import same_content
from graveler.lake import Branch, MergePreview, Repository
from graveler.model import Change, ChangeKind
from graveler.reads.changes import change_of
from graveler.reads.view import find_value

_SIGNS = {
    ChangeKind.ADDED: ("+", "green"),
    ChangeKind.CHANGED: ("~", "yellow"),
    ChangeKind.REMOVED: ("-", "red"),
}


def add_to(app: typer.Typer) -> None:
    """Add the verbs of this group."""
    for name, body in (("diff", _diff), ("merge", _merge)):
        verb(app, name)(body)


def _diff(
    session: Session,
    left: Annotated[str, typer.Argument(help="A ref; or a branch alone, for its staged changes.")],
    right: Annotated[str, typer.Argument(help="The ref to compare it with.")] = "",
    prefix: Annotated[str, typer.Argument(help="Only paths with this prefix.")] = "",
) -> None:
    """List the differences from LEFT to RIGHT, or the changes that a commit would make."""
    changes: Iterable[Change]
    if right:
        changes = _between(session.repository, left, right, prefix)
    else:
        changes = session.repository.branch(left).uncommitted()
    for change in changes:
        if session.as_json:
            session.out.show(shape_of(change))
        else:
            session.out.line(change_line(session.out, change))


def _between(repository: Repository, left: str, right: str, prefix: str) -> Iterator[Change]:
    """Yield the differences of two refs; a branch includes its staged changes."""
    views = [repository.view(side) for side in (left, right)]
    staged = {
        change.path
        for view in views
        if isinstance(view, Branch)
        for change in view.uncommitted()
        if change.path.startswith(prefix)
    }
    committed = repository.diff(left, right, prefix=prefix)
    found = (
        (path_key(path), [find_value(view, path_key(path)) for view in views]) for path in staged
    )
    own = [change_of(key, old, new) for key, (old, new) in found if not same_content(old, new)]
    return merge(
        (change for change in committed if change.path not in staged),
        sorted(own, key=_key),
        key=_key,
    )


def _key(change: Change) -> bytes:
    return path_key(change.path)


def change_line(out: Output, change: Change) -> str:
    """Return a change as a line: its sign, its path and the sizes."""
    sign, color = _SIGNS[change.kind]
    sizes = [size_text(side.size) for side in (change.before, change.after) if side is not None]
    return f"{out.style(f'{sign} {change.path}', color)}  {' → '.join(sizes)}"


def _merge(
    session: Session,
    source: Annotated[str, typer.Argument(help="The branch, tag or commit to merge.")],
    into: Annotated[str, typer.Argument(help="The branch that moves.")],
    *,
    strategy: StrategyOption = None,
    message: Annotated[
        str, typer.Option("--message", "-m", help="Message of the merge commit.")
    ] = "",
    meta: MetaOption = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Only show what would change, what conflicts, and what gates say."
        ),
    ] = False,
) -> None:
    """Merge one ref into a branch; if both changed a path, nothing moves."""
    merged = session.repository.merge
    words, pairs, chosen = message or None, read_pairs(meta), read_strategy(strategy)
    if dry_run:
        preview = merged(source, into, message=words, metadata=pairs, strategy=chosen, dry_run=True)
        _show_preview(session, preview)
        return
    result = merged(source, into, message=words, metadata=pairs, strategy=chosen)
    at = result.commit.id[:12]
    if result.already:
        done = f"{into} already has all commits of {source}: it is at {at}"
    else:
        done = f"merged {source}: {into} is at {at}"
    session.out.show({"commit": shape_of(result.commit), "already": result.already}, done)


def _show_preview(session: Session, preview: MergePreview) -> None:
    """Show the result that a merge would have; a conflict or a refusal ends the command as in a merge."""
    verdicts = () if preview.conflict_count else preview.judge()
    shape = {
        "source": preview.source.id,
        "dest": preview.dest.id,
        "already": preview.already,
        "added": preview.added,
        "changed": preview.changed,
        "removed": preview.removed,
        "conflict_count": preview.conflict_count,
        "conflicts": shape_of(preview.conflicts),
        "verdicts": shape_of(verdicts),
    }
    numbers = f"{preview.added} added, {preview.changed} changed, {preview.removed} removed"
    summary = f"{numbers}, {preview.conflict_count} in conflict; nothing was merged"
    lines = [*map(conflict_line, preview.conflicts), *map(verdict_line, verdicts)]
    session.out.show(shape, summary, *lines)
    if preview.conflict_count:
        raise typer.Exit(CONFLICT)
    if any(verdict.refuses for verdict in verdicts):
        raise typer.Exit(GATE)
