"""``graveler run``: list, show, park, abandon, reap and roll back the runs of pipelines."""

from typing import Annotated, Any

import typer

from graveler.cli.arguments import LimitOption, MetaOption, read_pairs
from graveler.cli.failure import UsageError
from graveler.cli.output import printable
from graveler.cli.session import Session
from graveler.cli.shapes import shape_of
from graveler.cli.verb import verb

_run = typer.Typer(help="Runs: each works on a branch of its own.", no_args_is_help=True)
_COLORS = {"PUBLISHED": "green", "PARKED": "red", "OPEN": "yellow", "PUBLISHING": "yellow"}
_ON_ITS_BRANCH = ("OPEN", "PUBLISHING", "PARKED")

_Key = Annotated[str, typer.Argument(help="The run's key, as `run list` shows it.")]

_Reason = Annotated[str, typer.Option(metavar="TEXT", help="Why, for the record.")]


def add_to(app: typer.Typer) -> None:
    """Add the verbs of this group."""
    app.add_typer(_run, name="run")


@verb(_run, "list")
def _list(
    session: Session,
    *,
    state: Annotated[
        str,
        typer.Option(
            metavar="STATE",
            help="Only those: open, publishing, published, parked, reaped, rolled_back.",
        ),
    ] = "",
    live: Annotated[
        bool, typer.Option("--live", help="Only those that are not over: open or parked.")
    ] = False,
    limit: LimitOption = None,
    after: Annotated[
        str, typer.Option(metavar="KEY", help="Only runs that come after this one.")
    ] = "",
) -> None:
    """List the runs, the one opened last first."""
    from graveler.runs import RunState  # noqa: PLC0415 - only when a verb needs it

    wanted = state.upper()
    states = [known for known in RunState if known is not RunState.NONE]
    if wanted and wanted not in states:
        raise UsageError(f"--state {state!r}: give one of {', '.join(states).lower()}")
    out = session.out
    for record in session.repository.runs.list(
        wanted or None, live=live, limit=limit, after=after or None
    ):
        shown = out.style(f"{record.state:10}", _COLORS.get(record.state, ""))
        where = f"  on {record.branch}" if record.state in _ON_ITS_BRANCH else ""
        reason = f": {printable(record.reason)}" if where and record.reason else ""
        out.show(
            shape_of(record),
            f"{shown}  attempt {record.attempt}  {record.updated:%Y-%m-%d %H:%M:%S}  "
            f"{printable(record.key)}{where}{reason}",
        )


@verb(_run, "show")
def _show(session: Session, key: _Key) -> None:
    """Show a run: its state and its verdicts."""
    record = session.repository.runs.get(key)
    fields = [
        ("run", record.key),
        ("state", f"{record.state}, attempt {record.attempt}"),
        ("branch", f"{record.branch} → {record.into}"),
        ("opened", f"{record.created:%Y-%m-%d %H:%M:%S} UTC"),
        ("changed", f"{record.updated:%Y-%m-%d %H:%M:%S} UTC"),
        *([("until", f"{record.expires:%Y-%m-%d %H:%M:%S} UTC")] if record.expires else []),
        *([("commit", record.commit)] if record.commit else []),
        *([("rollback", record.rollback)] if record.rollback else []),
        *([("reason", record.reason)] if record.reason else []),
        *sorted(record.metadata.items()),
    ]
    gates = [
        f"gate       {verdict.gate}: "
        + ("passed" if verdict.passed else f"{verdict.severity}: {printable(verdict.reason)}")
        for verdict in record.verdicts
    ]
    read = [
        f"read       {source.commit[:12]}:{printable(source.prefix)}" for source in record.inputs
    ]
    refusals = [
        f"refused    {refusal.at:%Y-%m-%d %H:%M:%S}: {printable(refusal.reason)}"
        for refusal in record.refusals
    ]
    lines = [f"{name:9}  {printable(value)}" for name, value in fields]
    session.out.show(shape_of(record), *lines, *gates, *read, *refusals)


@verb(_run, "park")
def _park(session: Session, key: _Key, *, reason: _Reason = "") -> None:
    """Park a run: staged writes are dropped, commits wait for the next attempt."""
    record = session.repository.runs.park(key, reason=reason)
    session.out.show(shape_of(record), f"run {printable(key)} is {record.state}")


@verb(_run, "abandon")
def _abandon(session: Session, key: _Key, *, reason: _Reason = "") -> None:
    """Abandon a run: its branch is deleted, its record stays."""
    session.repository.runs.get(key)
    record = session.repository.runs.abandon(key, reason=reason)
    session.out.show(shape_of(record), f"abandoned run {printable(key)}")


@verb(_run, "reap")
def _reap(
    session: Session,
    *,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", "--no-dry-run", help="Do it. Without it, only show what would be done."
        ),
    ] = False,
    limit: Annotated[int | None, typer.Option(metavar="N", min=0, help="Reap at most N.")] = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Check every run and branch, not only those that are due."),
    ] = False,
) -> None:
    """Park or delete runs whose lease has expired, or that are parked past their time to live."""
    out = session.out
    for reaped in session.repository.runs.reap(dry_run=not yes, limit=limit, everything=everything):
        out.show(
            {**shape_of(reaped), "dry_run": not yes},
            f"{reaped.from_state:10} -> {reaped.to_state:10}  {printable(reaped.key)}: "
            f"{printable(reaped.reason)}",
        )
    if not yes and not out.as_json:
        out.line("dry run: nothing was changed; give --yes to do it")


@verb(_run, "rollback")
def _rollback(
    session: Session,
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A run's key, or the commit that published it.")
    ],
    *,
    message: Annotated[
        str, typer.Option("--message", "-m", metavar="TEXT", help="Message of the commit.")
    ] = "",
    meta: MetaOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the runs that have read what it wrote.")
    ] = False,
) -> None:
    """Roll back a published run in one commit, and list the runs that have read what it wrote."""
    runs = session.repository.runs
    if dry_run:
        shape: dict[str, Any] = {"commit": None, "run": None, "already": False}
        lines, readers = ["dry run: nothing was changed"], runs.readers(run)
    else:
        done = runs.rollback(run, message=message or None, metadata=read_pairs(meta))
        shape = {
            "commit": shape_of(done.commit),
            "run": shape_of(done.record),
            "already": done.already,
        }
        was = "was rolled back before" if done.already else "is rolled back"
        lines = [f"run {printable(done.record.key)} {was}, by commit {done.commit.id}"]
        readers = done.readers
    session.out.show(
        {**shape, "dry_run": dry_run, "readers": [reader.key for reader in readers]},
        *lines,
        *(
            f"has read what it wrote: {printable(reader.key)} ({reader.state})"
            for reader in readers
        ),
    )
