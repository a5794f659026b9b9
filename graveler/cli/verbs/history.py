"""``graveler commit``, ``log``, ``show``, ``diff``, and what joins or undoes commits."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from heapq import merge
from typing import Annotated

import typer

from graveler.base.names import path_key
from graveler.cli.arguments import (
    Address,
    LimitOption,
    MetaOption,
    StrategyOption,
    read_pairs,
    read_strategy,
)
from graveler.cli.failure import CONFLICT, GATE, conflict_line, verdict_line
from graveler.cli.output import Output, field_lines, size_text
from graveler.cli.session import Session
from graveler.cli.shapes import moment, shape_of
from graveler.cli.verb import verb
from graveler.committed.diff import same_content
from graveler.errors import ExpiredError
from graveler.lake import Branch, MergePreview, Repository
from graveler.model import Change, ChangeKind, Commit
from graveler.reads.changes import change_of, range_reuse
from graveler.reads.view import find_value
from graveler.repository.merges import MergeTerms

_Ref = Annotated[str, "Branch, tag, commit or main~2; else the default branch."]


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
    made = target.commit(
        message,
        metadata=read_pairs(meta),
        committer=committer,
        allow_empty=allow_empty,
        paths=paths,
        mine=mine,
    )
    line = f"{target.name} is at {made.id[:12]}: {_title(made)}"
    if made.by_other:
        line = (
            f"{target.name}: another commit has the staged writes, {made.id[:12]}: {_title(made)}"
        )
    session.out.show({**shape_of(made), "by_other": made.by_other}, line)


@verb("log")
def _log(
    session: Session,
    ref: _Ref = "",
    path: str = "",
    *,
    limit: LimitOption = None,
    first_parent: bool = False,
    prefix: str = "",
    meta: list[str] | None = None,
    run: str = "",
    author: str = "",
    since: str = "",
    until: str = "",
) -> None:
    """List commits, the newest first.

    Args:
        path: Only commits that changed this path, or, if it ends with '/', any path below it.
        first_parent: Follow first parents only: merges, not the commits in them.
        prefix (TEXT): Only commits that changed paths with this prefix.
        meta (NAME=VALUE): Only commits with this pair; repeat.
        run (KEY): Only commits that this run made or published.
        author (NAME): Only commits by this committer.
        since (TIME): Only commits at this time, ISO 8601, or later.
        until (TIME): Only commits before this time.
    """
    if path.endswith("/") and not prefix:
        path, prefix = "", path
    repository = session.repository
    names: dict[str, list[str]] = {}
    for record in repository.branches():
        names.setdefault(record.commit_id, []).append(record.name)
    for tag, commit_id in repository.tags.list().items():
        names.setdefault(commit_id, []).append(f"tag {tag}")
    expired = {name for name, record in repository.stores.refs.expired.list() if record.gone}
    history = repository.log(
        ref or session.default_branch,
        limit=limit,
        first_parent=first_parent,
        path=path,
        prefix=prefix,
        metadata=read_pairs(meta),
        run=run,
        committer=author,
        since=since or None,
        until=until or None,
    )
    for commit in history:
        refs = names.get(commit.id, [])
        gone = commit.id in expired
        shape = {**shape_of(commit), "refs": refs, "expired": gone}
        line = _line(session.out, commit, refs)
        session.out.show(shape, line + session.out.style("  expired", dim=True) if gone else line)


def _line(out: Output, commit: Commit, refs: list[str]) -> str:
    shown = f"  {out.style('(' + ', '.join(refs) + ')', 'green')}" if refs else ""
    identifier = out.style(commit.id[:12], "yellow")
    return f"{identifier}  {commit.created:%Y-%m-%d %H:%M:%S}  {_title(commit)}{shown}"


def _title(commit: Commit) -> str:
    lines = commit.message.splitlines()
    return lines[0] if lines else "(no message)"


@verb("show")
def _show(session: Session, ref: _Ref = "") -> None:
    """Show a commit: its changes, and the ranges it wrote or reused.

    Both are relative to the first parent. Neither is known if the commit or that parent has
    expired.
    """
    repository, out = session.repository, session.out
    commit = repository.commit(ref or session.default_branch)
    first = commit.parents[:1]
    changes: list[Change] | None = []
    try:
        if first:
            changes = list(repository.diff(first[0], commit.id))
        written, reused = range_reuse(repository.stores, replace(commit, parents=first))
        ranges: dict[str, int] | None = {"written": written, "reused": reused}
        text = f"{written} written, {reused} reused"
    except ExpiredError as error:
        changes, ranges, text = None, None, str(error).partition(";")[0]
    fields = [
        ("parents", " ".join(parent[:12] for parent in commit.parents) or "(none)"),
        ("created", f"{commit.created:%Y-%m-%d %H:%M:%S} UTC"),
        ("committer", commit.committer or "(unknown)"),
        ("tree", commit.metarange[:12]),
        ("ranges", text),
        *sorted(commit.metadata.items()),
    ]
    out.show(
        {**shape_of(commit), "ranges": ranges, "changes": shape_of(changes)},
        out.style(f"commit {commit.id}", "yellow"),
        *field_lines(fields),
        "",
        *(f"    {line}" for line in commit.message.splitlines()),
        *([""] if changes else []),
        *(change_line(out, change) for change in changes or ()),
    )


_SIGNS = {
    ChangeKind.ADDED: ("+", "green"),
    ChangeKind.CHANGED: ("~", "yellow"),
    ChangeKind.REMOVED: ("-", "red"),
}


@verb("diff")
def _diff(session: Session, left: str, right: str = "", prefix: str = "") -> None:
    """List the differences from LEFT to RIGHT, or the changes that a commit would make.

    Args:
        left: A ref; or a branch alone, for its staged changes.
        right: The ref to compare it with.
        prefix: Only paths with this prefix.
    """
    changes: Iterable[Change]
    if right:
        changes = _between(session.repository, left, right, prefix)
    else:
        changes = session.repository.branch(left).uncommitted()
    for change in changes:
        staged = {} if right else {"author": change.author or None, "at": moment(change.at)}
        if session.out.as_json:
            session.out.show(shape_of(change) | staged)
        else:
            session.out.line(change_line(session.out, change) + ("" if right else _by(change)))


def _by(change: Change) -> str:
    """Return who staged a change, and when."""
    when = f" at {change.at:%Y-%m-%d %H:%M}" if change.at else ""
    return f"  by {change.author or '(unknown)'}{when}"


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
) -> None:
    """Merge one ref into a branch; if both changed a path, nothing moves.

    Args:
        source: The branch, tag or commit to merge.
        into: The branch that moves.
        message (-m): Message of the merge commit.
        dry_run: Only show what would change, what conflicts, and what gates say.
    """
    terms: MergeTerms = {
        "message": message or None,
        "metadata": read_pairs(meta),
        "strategy": read_strategy(strategy),
    }
    if dry_run:
        _show_preview(session, session.repository.preview_merge(source, into, **terms))
        return
    result = session.repository.merge(source, into, **terms)
    at = result.commit.id[:12]
    if result.already:
        done = f"{into} already has all commits of {source}: it is at {at}"
    else:
        done = f"merged {source}: {into} is at {at}"
    session.out.show({"commit": shape_of(result.commit), "already": result.already}, done)


def _show_preview(session: Session, preview: MergePreview) -> None:
    """Show the result that a merge would have; a conflict or a refusal ends the command as in a merge."""
    verdicts = () if preview.conflict_count else preview.judge()
    shape = {**shape_of(preview), "verdicts": shape_of(verdicts)}
    numbers = f"{preview.added} added, {preview.changed} changed, {preview.removed} removed"
    summary = f"{numbers}, {preview.conflict_count} in conflict; nothing was merged"
    lines = [*map(conflict_line, preview.conflicts), *map(verdict_line, verdicts)]
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
            + (f", dropped {_files(line.dropped)}" if line.dropped else "")
            + (f", by {line.actor}" if line.actor else ""),
        )


def _files(number: int) -> str:
    return f"{number:,} staged {'file' if number == 1 else 'files'}"


def _short(commit: str | None) -> str:
    return commit[:12] if commit else "(nothing)"


@verb("undo")
def _undo(session: Session, branch: str, *, to: Annotated[int, {"min": 1}] = 1) -> None:
    """Undo the last move of a branch: a commit, a merge, a reset, or its deletion.

    A second undo moves it forth again. Staged writes stay staged; what the undone resets dropped
    is staged again, unless something newer is staged there.

    Args:
        branch: The branch, or one that was deleted.
        to (N): Number of moves to undo, as reflog counts them.
    """
    lines = session.repository.moves(branch, limit=to, hidden=True)
    dropped = sum(line.dropped for line in lines)
    commit = session.repository.undo(branch, to=to)
    session.out.show(
        {"name": branch, "commit": commit.id, "staged": dropped},
        f"{branch} is at {commit.id[:12]} again"
        + (
            f", with {_files(dropped)} that {'was' if dropped == 1 else 'were'} dropped"
            if dropped
            else ""
        ),
    )
