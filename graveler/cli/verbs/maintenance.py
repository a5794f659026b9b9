"""``graveler gc``, ``pack``, ``packing``, ``stats`` and ``maintain``: what keeps a repository small."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

from graveler.cli.arguments import duration_text, read_duration
from graveler.cli.failure import UsageError
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.display import size_text
from graveler.lake.shapes import moment, shape_of

if TYPE_CHECKING:
    from graveler.gc.marks import Mark, Tally
    from graveler.gc.rules import Keep, Retention
    from graveler.lake.maintenance import BranchState, Maintenance
    from graveler.refs.pack_rule import PackRule
    from graveler.repository.commits.packing import PackResult


_Mark = Annotated[str, "(MARK): A mark, as `gc list` shows it."]
_DryRun = Annotated[bool, "Only show what would be deleted; condemn and delete nothing."]
_Grace = Annotated[str, "(TIME): Keep younger objects; longer than a write takes to commit."]
_Window = Annotated[str, "(TIME): Time from mark to sweep; longer than any operation on the lake."]
_Pattern = Annotated[
    str | None, "([PATTERN]): Branches, as `main` or `run-*`; without one, all others."
]


@verb("gc run")
def _run(
    session: Session, *, grace: _Grace = "1d", window: _Window = "7d", dry_run: _DryRun = False
) -> None:
    """Mark, then sweep every mark whose window is over."""
    if dry_run:
        _mark(session, grace=grace, window=window, dry_run=True)
        return
    with session.progress("gc") as progress:
        marks = session.repository.gc.run(**_times(grace, window), progress=progress)
    for mark in marks:
        _show_mark(session, mark)


@verb("gc mark")
def _mark(
    session: Session, *, grace: _Grace = "1d", window: _Window = "7d", dry_run: _DryRun = False
) -> None:
    """Condemn unreachable objects; delete nothing."""
    with session.progress("gc") as progress:
        times = _times(grace, window)
        mark = session.repository.gc.mark(**times, dry_run=dry_run, progress=progress)
    _show_mark(session, mark)


def _times(grace: str, window: str) -> dict[str, timedelta]:
    return {"grace": read_duration("--grace", grace), "window": read_duration("--window", window)}


@verb("gc sweep")
def _sweep(session: Session, mark: _Mark, *, dry_run: _DryRun = False) -> None:
    """Delete the condemned objects that are still not needed; repeat it after a crash."""
    with session.progress("gc") as progress:
        swept = session.repository.gc.sweep(mark, dry_run=dry_run, progress=progress)
    _show_mark(session, swept)


@verb("gc undelete")
def _undelete(session: Session, mark: _Mark) -> None:
    """Undo a mark; a branch or a tag can then name its commits again."""
    undone = session.repository.gc.undelete(mark)
    session.out.show(
        mark_shape(undone),
        f"mark {undone.id} is undone: name what you want to keep before the next mark",
    )


@verb("gc adopt")
def _adopt(session: Session, *, agree: bool = False) -> None:
    """List unneeded files that may be of version 0.2 or of another program; adopt them.

    Args:
        agree: Let collection delete what the last list has.
    """
    found = session.repository.gc.adopt(agree=agree)
    last = f"{len(found.keys)} files, {size_text(found.bytes)}: `graveler gc adopt --agree` if all are graveler's"
    lines = [*found.keys, last]
    shape = {"agreed": agree, "bytes": found.bytes, "keys": list(found.keys)}
    session.out.show(shape, *(["the listed files are adopted"] if agree else lines))


@verb("gc list")
def _list(session: Session) -> None:
    """List the marks, oldest first."""
    for mark in session.repository.gc.marks():
        size = mark.bytes_freed if mark.swept else mark.bytes_condemned
        out = session.out
        out.show(
            mark_shape(mark),
            f"{out.style(mark.id, 'yellow')}  {mark.state:10}  {size_text(size):>10}{_ripe(mark)}",
        )


@verb("gc show")
def _show(session: Session, mark: _Mark) -> None:
    """Show a mark: the objects it condemned, and those that a sweep deleted."""
    _show_mark(session, session.repository.gc.get(mark))


@verb("gc rules")
def _rules(session: Session) -> None:
    """Show how much of the history of each branch is kept."""
    _show_rules(session, session.repository.gc.rules)


@verb("gc keep")
def _keep(
    session: Session,
    pattern: _Pattern = None,
    *,
    days: float | None = None,
    count: int | None = None,
    everything: bool = False,
) -> None:
    """Set how much history is kept; with both numbers, a commit is kept if either keeps it.

    Heads, tagged commits and merge bases are always kept.

    Args:
        days (N): Commits younger than N days, and the head at that time.
        count (N): The latest N commits; the head counts.
        everything: All history.
    """
    if everything == (days is not None or count is not None):
        raise UsageError("give --days, --count or both, or --everything")
    rules = session.repository.gc.keep(pattern, days=days, count=count)
    _show_rules(session, rules)


@verb("gc forget")
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
        shapes = {}
        for kind, tally in of.items():
            shapes[str(kind)] = {"count": tally.count}
            if kind != "commits":
                shapes[str(kind)]["rows" if kind == "staging" else "bytes"] = tally.size
        return shapes

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


@verb("pack")
def _pack(
    session: Session,
    branch: str = "main",
    *,
    everything: bool = False,
    limit: Annotated[int | None, {"min": 1}] = None,
) -> None:
    """Rewrite small and badly cut ranges of a branch's head, in a commit that changes no path.

    Args:
        branch (BRANCH):
        everything: Cut all ranges again, after a change of the policy.
        limit (BYTES): Read about this much, and leave the rest.
    """
    packed = session.repository.pack(branch, everything=everything, limit=limit)
    shape = {**_pack_shape(packed), "left": packed.left}
    line = "no range is badly cut"
    if packed.commit is not None:
        line = (
            f"{packed.before} ranges of {size_text(packed.bytes_read)} became "
            f"{packed.after}, in commit {packed.commit.id[:12]}"
        )
    left = [f"{packed.left} more are badly cut: run it again"] if packed.left else []
    session.out.show(shape, f"{branch}: {line}", *left)


@verb("stats")
def _stats(session: Session, ref: str = "main") -> None:
    """Show how a tree is cut into ranges, and the result that a pack would have.

    Args:
        ref (REF):
    """
    stats = session.repository.stats(ref)
    session.out.show(
        asdict(stats),
        f"entries      {stats.entries:,}, {size_text(stats.bytes)} of records",
        f"ranges       {stats.ranges:,}: {size_text(stats.smallest)} to {size_text(stats.largest)}, "
        f"median {size_text(stats.median)}",
        f"small        {stats.small:,}",
        f"fragments    {stats.fragments:,}",
        f"badly cut    {stats.badly_cut:,}, {size_text(stats.badly_cut_bytes)}",
        f"after a pack {stats.packed_ranges:,} ranges, about",
        f"cold listing {stats.scan_cost} object reads of 4 MiB, {stats.packed_scan_cost} after a pack",
    )


@verb("packing show")
def _show_packing(session: Session) -> None:
    """Show the rule: the number of badly cut ranges that starts a pack, and the branches."""
    _show_rule(session, session.repository.packing.show())


@verb("packing set")
def _set_packing(
    session: Session,
    *,
    after: Annotated[int | None, {"min": 0}] = None,
    branch: list[str] | None = None,
) -> None:
    """Change the rule: when a branch is packed, and which branches.

    Args:
        after (N): Pack a branch from N badly cut ranges on; 0: never.
        branch (PATTERN): Branches, as `main` or `release-*`; may be repeated. `--branch ''`
            stands for the default branch.
    """
    if after is None and not branch:
        raise UsageError("nothing to set: give --after, --branch or both")
    branches = [pattern for pattern in branch if pattern] if branch else None
    _show_rule(session, session.repository.packing.set(after=after, branches=branches))


def _show_rule(session: Session, rule: "PackRule") -> None:
    after = f"{rule.after:,} badly cut ranges" if rule.after else "never"
    branches = ", ".join(rule.branches) or "the default branch"
    session.out.show(asdict(rule), f"after     {after}", f"branches  {branches}")


@verb("maintain")
def _maintain(
    session: Session,
    *,
    pack: bool = True,
    reap: bool = True,
    gc: bool = True,
    dry_run: bool = False,
) -> None:
    """Pack branches, reap runs and branches, and collect garbage: for a daily job.

    Args:
        pack: Pack branches, as `packing show` says.
        reap: Reap runs, as `run reap --yes` does, and branches whose time to live is over.
        gc: If there is a retention rule, do what `gc run` does.
        dry_run: Only show what would be done.
    """
    with session.progress("gc") as progress:
        done = session.repository.maintain(
            pack=pack, reap=reap, gc=gc, dry_run=dry_run, progress=progress
        )
    session.out.show(_shape(done), *_lines(session, done))
    done.check()


def _lines(session: Session, done: "Maintenance") -> Iterator[str]:
    for state in done.branches:
        yield f"{state.branch}: {_packed(state)}"
    for reaped in done.reaped:
        yield (f"run {reaped.key}: {reaped.from_state} -> {reaped.to_state}: {reaped.reason}")
    for end in done.ending:
        told = f"ended at {end.ends:%Y-%m-%d %H:%M} UTC, "
        if end.deleted:
            told += f"and is deleted; `graveler undo {end.branch}` restores it"
        else:
            told = end.reason if end.reason.startswith("ends") else f"{told}but {end.reason}"
        yield f"branch {end.branch}: {told}"
    for mark in done.marks:
        yield from mark_lines(session, mark)
    if done.dry_run:
        yield "dry run: nothing was changed"


def _packed(state: "BranchState") -> str:
    found = f"{state.badly_cut:,} ranges are badly cut"
    if not state.due:
        return f"{found}, too few for a pack"
    packed = state.packed
    if packed is None:
        return f"{found}: a pack is due"
    if packed.commit is None:
        return "was packed meanwhile"
    return (
        f"{packed.before:,} ranges of {size_text(packed.bytes_read)} became {packed.after:,}, in "
        f"commit {packed.commit.id[:12]}"
    )


def _shape(done: "Maintenance") -> dict[str, Any]:
    return {
        "dry_run": done.dry_run,
        "branches": [_branch_shape(state) for state in done.branches],
        "reaped": [shape_of(reaped) for reaped in done.reaped],
        "ending": [{**asdict(end), "ends": moment(end.ends)} for end in done.ending],
        "marks": [mark_shape(mark) for mark in done.marks],
        "errors": [{"code": str(error.code), "message": str(error)} for error in done.errors],
    }


def _branch_shape(state: "BranchState") -> dict[str, Any]:
    shape = {"branch": state.branch, "badly_cut": state.badly_cut, "due": state.due}
    return {**shape, **_pack_shape(state.packed)}


def _pack_shape(packed: "PackResult | None") -> dict[str, Any]:
    if packed is None:
        return {"commit": None, "before": 0, "after": 0, "bytes_read": 0}
    return {
        "commit": None if packed.commit is None else packed.commit.id,
        "before": packed.before,
        "after": packed.after,
        "bytes_read": packed.bytes_read,
    }
