"""``graveler gc``: condemn unreachable objects, and delete them after a window."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graveler.cli.arguments import duration_text, read_duration
from graveler.cli.failure import UsageError
from graveler.cli.output import size_text
from graveler.cli.session import Session
from graveler.cli.shapes import moment
from graveler.cli.verb import verb

if TYPE_CHECKING:
    from graveler.gc.marks import Mark, Tally
    from graveler.gc.rules import Keep, Retention


_HELP = """Garbage collection.

`gc mark` condemns unreachable objects and deletes nothing. `gc sweep` deletes them once the undelete
window is over, if a second check still finds them unreachable. `gc undelete` undoes a mark. `gc run`
marks and sweeps, for a daily job."""

_gc = typer.Typer(help=_HELP, no_args_is_help=True)

_Mark = Annotated[str, typer.Argument(metavar="MARK", help="A mark, as `gc list` shows it.")]
_DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Only show what would be deleted; condemn and delete nothing."),
]
_Grace = Annotated[
    str,
    typer.Option(metavar="TIME", help="Keep younger objects; longer than a write takes to commit."),
]
_Window = Annotated[
    str,
    typer.Option(
        metavar="TIME", help="Time from mark to sweep; longer than any operation on the lake."
    ),
]
_Pattern = Annotated[
    str | None,
    typer.Argument(
        metavar="[PATTERN]", help="Branches, as `main` or `run-*`; without one, all others."
    ),
]


def add_to(app: typer.Typer) -> None:
    """Add the verbs of this group."""
    app.add_typer(_gc, name="gc")


@verb(_gc, "run")
def _run(
    session: Session, *, grace: _Grace = "1d", window: _Window = "7d", dry_run: _DryRun = False
) -> None:
    """Mark, then sweep every mark whose window is over."""
    collector = session.repository.gc
    times = {
        "grace": read_duration("--grace", grace),
        "window": read_duration("--window", window),
    }
    with session.progress("gc") as progress:
        if dry_run:
            _show_mark(session, collector.mark(**times, dry_run=True, progress=progress))
            return
        marks = collector.run(**times, progress=progress)
    for mark in marks:
        _show_mark(session, mark)


@verb(_gc, "mark")
def _mark(
    session: Session, *, grace: _Grace = "1d", window: _Window = "7d", dry_run: _DryRun = False
) -> None:
    """Condemn unreachable objects; delete nothing."""
    with session.progress("gc") as progress:
        mark = session.repository.gc.mark(
            grace=read_duration("--grace", grace),
            window=read_duration("--window", window),
            dry_run=dry_run,
            progress=progress,
        )
    _show_mark(session, mark)


@verb(_gc, "sweep")
def _sweep(session: Session, mark: _Mark, *, dry_run: _DryRun = False) -> None:
    """Delete the condemned objects that are still not needed; repeat it after a crash."""
    with session.progress("gc") as progress:
        swept = session.repository.gc.sweep(mark, dry_run=dry_run, progress=progress)
    _show_mark(session, swept)


@verb(_gc, "undelete")
def _undelete(session: Session, mark: _Mark) -> None:
    """Undo a mark; a branch or a tag can then name its commits again."""
    undone = session.repository.gc.undelete(mark)
    session.out.show(
        mark_shape(undone),
        f"mark {undone.id} is undone: name what you want to keep before the next mark",
    )


@verb(_gc, "adopt")
def _adopt(
    session: Session,
    *,
    agree: Annotated[
        bool, typer.Option("--agree", help="Let collection delete what the last list has.")
    ] = False,
) -> None:
    """List unneeded files that may be of version 0.2 or of another program; adopt them."""
    found = session.repository.gc.adopt(agree=agree)
    last = f"{len(found.keys)} files, {size_text(found.bytes)}: `graveler gc adopt --agree` if all are graveler's"
    lines = [*found.keys, last]
    shape = {"agreed": agree, "bytes": found.bytes, "keys": list(found.keys)}
    session.out.show(shape, *(["the listed files are adopted"] if agree else lines))


@verb(_gc, "list")
def _list(session: Session) -> None:
    """List the marks, oldest first."""
    for mark in session.repository.gc.marks():
        size = mark.bytes_freed if mark.swept else mark.bytes_condemned
        out = session.out
        out.show(
            mark_shape(mark),
            f"{out.style(mark.id, 'yellow')}  {mark.state:10}  {size_text(size):>10}{_ripe(mark)}",
        )


@verb(_gc, "show")
def _show(session: Session, mark: _Mark) -> None:
    """Show a mark: the objects it condemned, and those that a sweep deleted."""
    _show_mark(session, session.repository.gc.get(mark))


@verb(_gc, "rules")
def _rules(session: Session) -> None:
    """Show how much of the history of each branch is kept."""
    _show_rules(session, session.repository.gc.rules)


@verb(_gc, "keep")
def _keep(
    session: Session,
    pattern: _Pattern = None,
    *,
    days: Annotated[
        float | None,
        typer.Option(metavar="N", help="Commits younger than N days, and the head at that time."),
    ] = None,
    count: Annotated[
        int | None, typer.Option(metavar="N", help="The latest N commits; the head counts.")
    ] = None,
    everything: Annotated[bool, typer.Option("--everything", help="All history.")] = False,
) -> None:
    """Set how much history is kept; with both numbers, a commit is kept if either keeps it.

    Heads, tagged commits and merge bases are always kept.
    """
    if everything == (days is not None or count is not None):
        raise UsageError("give --days, --count or both, or --everything")
    rules = session.repository.gc.keep(pattern, days=days, count=count)
    _show_rules(session, rules)


@verb(_gc, "forget")
def _forget(session: Session, pattern: _Pattern = None) -> None:
    """Remove the rule of a pattern, or the rule of all other branches."""
    _show_rules(session, session.repository.gc.forget(pattern))


def _show_rules(session: Session, rules: "Retention") -> None:
    shape = {
        "default": _keep_shape(rules.default),
        "patterns": {pattern: _keep_shape(keep) for pattern, keep in rules.patterns.items()},
    }
    width = max([len(pattern) for pattern in rules.patterns] + [len("all others")])
    lines = [f"{name:{width}}  {keep}" for name, keep in rules.patterns.items()]
    others = "all others" if lines else "all branches"
    session.out.show(shape, *lines, f"{others:{width}}  {rules.default}")


def _keep_shape(keep: "Keep") -> dict[str, Any]:
    return {"days": keep.days, "count": keep.count}


def _show_mark(session: Session, mark: "Mark") -> None:
    session.out.show(mark_shape(mark), *mark_lines(session, mark))


def mark_lines(session: Session, mark: "Mark") -> Iterator[str]:
    """Yield the lines that show a mark to people."""
    style = session.out.style
    if mark.id:
        yield f"mark {style(mark.id, 'yellow')}: {mark.state}{_ripe(mark)}"
    else:
        yield "dry run: nothing is condemned, nothing deleted"
    done = bool(mark.freed)
    tables = [("kept", mark.kept), ("condemned", mark.condemned)]
    if done:
        freed = "freed" if mark.swept else "would go"
        tables += [(freed, mark.freed), ("spared", mark.spared)]
    yield f"{'':12}" + "".join(f"{title:>22}" for title, _ in tables)
    for kind in mark.condemned:
        cells = "".join(f"{_cell(kind, table):>22}" for _, table in tables)
        yield f"{kind:12}{cells}"
    if mark.state == "lost":
        yield "swept before the key-value store was restored from a backup; nothing was deleted now"
        return
    size = mark.bytes_freed if done else mark.bytes_condemned
    word = "freed" if mark.swept else "would be freed"
    yield style(f"{size_text(size)} {word}", bold=True)
    if mark.unknown:
        names = ", ".join(mark.unknown_keys[:3])
        more = f" and {mark.unknown - 3} more" if mark.unknown > len(mark.unknown_keys[:3]) else ""
        yield f"unknown, left alone: {names}{more}"


def _cell(kind: str, tallies: "Mapping[Any, Tally]") -> str:
    tally = tallies.get(kind)
    if tally is None:
        return ""
    if not tally.count or kind == "commits":
        return str(tally.count)
    if kind == "staging":
        return f"{tally.count} ({tally.size} rows)"
    return f"{tally.count} ({size_text(tally.size)})"


def _ripe(mark: "Mark") -> str:
    if mark.state != "condemned":
        return ""
    return f", to be swept from {mark.ripe:%Y-%m-%d %H:%M} UTC on"


def mark_shape(mark: "Mark") -> dict[str, Any]:
    """Return a mark as JSON."""

    def tallies(of: "Mapping[Any, Tally]") -> dict[str, dict[str, int]]:
        return {
            str(kind): {
                "count": tally.count,
                **({} if kind == "commits" else {_MEASURE.get(kind, "bytes"): tally.size}),
            }
            for kind, tally in of.items()
        }

    return {
        "id": mark.id or None,
        "state": str(mark.state) if mark.id else "dry-run",
        "created": moment(mark.made),
        "window": duration_text(mark.window),
        "grace": duration_text(mark.grace),
        "ripe": moment(mark.ripe) if mark.marked else None,
        "kept": tallies(mark.kept),
        "condemned": tallies(mark.condemned),
        "bytes_condemned": mark.bytes_condemned,
        "freed": tallies(mark.freed),
        "spared": tallies(mark.spared),
        "bytes_freed": mark.bytes_freed,
        "unknown": {"count": mark.unknown, "keys": list(mark.unknown_keys)},
    }


_MEASURE = {"staging": "rows"}
