"""``graveler commit``, ``log`` and ``show``: history."""

from dataclasses import replace
from typing import Annotated

import typer

from graveler.cli.arguments import Address, LimitOption, MetaOption, read_pairs
from graveler.cli.failure import UsageError
from graveler.cli.output import Output
from graveler.cli.session import Session
from graveler.cli.shapes import shape_of
from graveler.cli.verb import verb
from graveler.cli.verbs.changes import change_line
from graveler.errors import ExpiredError
from graveler.model import Change, Commit
from graveler.reads.changes import range_reuse

_Ref = Annotated[
    str, typer.Argument(help="Branch, tag, commit or main~2; else the default branch.")
]


def add_to(app: typer.Typer) -> None:
    """Add the verbs of this group."""
    for name, body in (("commit", _commit), ("log", _log), ("show", _show)):
        verb(app, name)(body)


def _commit(
    session: Session,
    where: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[BRANCH[:PATH]]...",
            help="The branch; else the default branch. With paths, folders (which end with '/') or "
            "patterns, as in main:tables/ :*.json, only staged files there.",
        ),
    ] = None,
    *,
    message: Annotated[str, typer.Option("--message", "-m", help="The commit message.")],
    meta: MetaOption = None,
    committer: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="The committer; else GRAVELER_COMMITTER, else your login."
        ),
    ] = "",
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="Commit even if nothing is staged.")
    ] = False,
) -> None:
    """Commit the staged writes of a branch."""
    addresses = [Address.parse(text) for text in where or [""]]
    names = {address.ref for address in addresses if address.ref}
    paths = [address.path for address in addresses if address.path]
    if len(names) > 1 or (paths and len(paths) < len(addresses)):
        raise UsageError(
            f"{' '.join(where or [])!r}: name one branch, or paths of one, as in main:tables/ :*.json"
        )
    target = session.branch(min(names, default=""))
    made = target.commit(
        message,
        metadata=read_pairs(meta),
        committer=committer,
        allow_empty=allow_empty,
        paths=paths or None,
    )
    line = f"{target.name} is at {made.id[:12]}: {_title(made)}"
    if made.by_other:
        line = (
            f"{target.name}: another commit has the staged writes, {made.id[:12]}: {_title(made)}"
        )
    session.out.show({**shape_of(made), "by_other": made.by_other}, line)


def _log(
    session: Session,
    ref: _Ref = "",
    path: Annotated[
        str,
        typer.Argument(
            help="Only commits that changed this path, or, if it ends with '/', any path below it."
        ),
    ] = "",
    *,
    limit: LimitOption = None,
    first_parent: Annotated[
        bool,
        typer.Option(
            "--first-parent", help="Follow first parents only: merges, not the commits in them."
        ),
    ] = False,
    prefix: Annotated[
        str, typer.Option(metavar="TEXT", help="Only commits that changed paths with this prefix.")
    ] = "",
    meta: Annotated[
        list[str] | None,
        typer.Option("--meta", metavar="NAME=VALUE", help="Only commits with this pair; repeat."),
    ] = None,
    run: Annotated[
        str, typer.Option(metavar="KEY", help="Only commits that this run made or published.")
    ] = "",
    author: Annotated[
        str, typer.Option(metavar="NAME", help="Only commits by this committer.")
    ] = "",
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Only commits at this time, ISO 8601, or later.")
    ] = "",
    until: Annotated[str, typer.Option(metavar="TIME", help="Only commits before this time.")] = "",
) -> None:
    """List commits, the newest first."""
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
        {
            **shape_of(commit),
            "ranges": ranges,
            "changes": shape_of(changes),
        },
        out.style(f"commit {commit.id}", "yellow"),
        *(f"{name:9}  {value}" for name, value in fields),
        "",
        *(f"    {line}" for line in commit.message.splitlines()),
        *([""] if changes else []),
        *(change_line(out, change) for change in changes or ()),
    )
