"""``graveler run``: the runs of pipelines, and giving one up."""

from typing import Annotated

import typer

from graveler.cli.failure import UsageError
from graveler.cli.output import printable
from graveler.cli.session import Session
from graveler.cli.shapes import run_shape
from graveler.cli.verb import verb

__all__ = ["add_to"]

_run = typer.Typer(help="Runs: each works on a branch of its own.", no_args_is_help=True)
_COLORS = {"PUBLISHED": "green", "PARKED": "red", "OPEN": "yellow", "PUBLISHING": "yellow"}
_ON_ITS_BRANCH = ("OPEN", "PUBLISHING", "PARKED")

_Key = Annotated[str, typer.Argument(help="What the run is called, as `run list` shows it.")]


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
            metavar="STATE", help="Only those: open, publishing, published, parked, reaped."
        ),
    ] = "",
) -> None:
    """List the runs, by key."""
    from graveler.runs import RunState  # noqa: PLC0415 - only when a verb needs it

    wanted = state.upper()
    states = [each for each in RunState if each is not RunState.NONE]
    if wanted and wanted not in states:
        raise UsageError(f"--state {state!r}: give one of {', '.join(states).lower()}")
    out = session.out
    for record in sorted(session.repository.runs.list(wanted or None), key=lambda run: run.key):
        shown = out.style(f"{record.state:10}", _COLORS.get(record.state, ""))
        where = f"  on {record.branch}" if record.state in _ON_ITS_BRANCH else ""
        reason = f": {printable(record.reason)}" if where and record.reason else ""
        out.show(
            run_shape(record),
            f"{shown}  attempt {record.attempt}  {record.updated:%Y-%m-%d %H:%M:%S}  "
            f"{printable(record.key)}{where}{reason}",
        )


@verb(_run, "show")
def _show(session: Session, key: _Key) -> None:
    """Show a run: where it stands, what its gates said."""
    record = session.repository.runs.get(key)
    fields = [
        ("run", record.key),
        ("state", f"{record.state}, attempt {record.attempt}"),
        ("branch", f"{record.branch} → {record.into}"),
        ("opened", f"{record.created:%Y-%m-%d %H:%M:%S} UTC"),
        ("changed", f"{record.updated:%Y-%m-%d %H:%M:%S} UTC"),
        *([("commit", record.commit)] if record.commit else []),
        *([("reason", record.reason)] if record.reason else []),
        *sorted(record.metadata.items()),
    ]
    gates = [
        f"gate       {said.gate}: "
        + ("passed" if said.passed else f"{said.severity}: {printable(said.reason)}")
        for said in record.verdicts
    ]
    lines = [f"{name:9}  {printable(value)}" for name, value in fields]
    session.out.show(run_shape(record), *lines, *gates)


@verb(_run, "abandon")
def _abandon(
    session: Session,
    key: _Key,
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for the record.")] = "",
) -> None:
    """Give a run up: its branch goes, its record stays."""
    session.repository.runs.get(key)
    record = session.repository.runs.abandon(key, reason=reason)
    session.out.show(run_shape(record), f"abandoned run {printable(key)}")
