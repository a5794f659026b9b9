"""``graveler run``: list, show, park, abandon, reap and roll back the runs of pipelines."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graveler.cli.arguments import LimitOption, MetaOption, read_pairs
from graveler.cli.failure import UsageError
from graveler.cli.session import Session
from graveler.cli.shapes import shape_of
from graveler.cli.verb import verb
from graveler.cli.verbs import programs
from graveler.cli.verbs.gates import fact_rows

if TYPE_CHECKING:
    from graveler.gates import Verdict
    from graveler.runs.rollback import RollbackPlan
    from graveler.runs.state import Publish

_run = typer.Typer(help="Runs: each works on a branch of its own.", no_args_is_help=True)
_COLORS = {"PUBLISHED": "green", "PARKED": "red", "OPEN": "yellow", "PUBLISHING": "yellow"}
_ON_ITS_BRANCH = ("OPEN", "PUBLISHING", "PARKED")
_UNDONE = {"added": "removes", "changed": "restores", "removed": "brings back"}
_CHANGES = 20
_SHORT = 12

_Key = Annotated[str, typer.Argument(help="The run's key, as `run list` shows it.")]

_Reason = Annotated[str, typer.Option(metavar="TEXT", help="Why, for the record.")]


def add_to(app: typer.Typer) -> None:
    """Add the verbs of this group."""
    programs.add_to(_run)
    app.add_typer(_run, name="run")


@verb(_run, "list")
def _list(
    session: Session,
    *,
    state: Annotated[
        str,
        typer.Option(
            metavar="STATE",
            help="Only this state: open, publishing, published, parked, reaped, rolled_back.",
        ),
    ] = "",
    live: Annotated[
        bool, typer.Option("--live", help="Only unfinished runs: open or parked.")
    ] = False,
    limit: LimitOption = None,
    after: Annotated[
        str, typer.Option(metavar="KEY", help="Only runs that come after this one.")
    ] = "",
) -> None:
    """List the runs, the last opened first."""
    from graveler.runs.state import RunState

    wanted = state.upper()
    states = [known for known in RunState if known is not RunState.NONE]
    if wanted and wanted not in states:
        raise UsageError(f"--state {state!r}: give one of {', '.join(states).lower()}")
    out, runs = session.out, session.repository.runs
    records = runs.list(wanted or None, live=live, limit=limit, after=after or None)
    for record in runs.on_targets(records):
        shown = out.style(f"{record.state:11}", _COLORS.get(record.state, ""))
        where = f"  on {record.branch}" if record.state in _ON_ITS_BRANCH else ""
        reason = f": {record.reason}" if where and record.reason else ""
        stands = record.published is not None or record.state is RunState.PUBLISHED
        published = f"  {record.on_target}" if stands else ""
        out.show(
            shape_of(record),
            f"{shown}  attempt {record.attempt}  {record.updated:%Y-%m-%d %H:%M:%S}  "
            f"{record.key}{published}{where}{reason}",
        )


@verb(_run, "show")
def _show(session: Session, key: _Key) -> None:
    """Show a run: the state of its latest attempt, and what all attempts have published."""
    runs = session.repository.runs
    record, publishes = runs.get(key), runs.publishes(key)
    last = record.refusals[-1] if record.refusals else None
    refused = last is not None and last.reason == record.reason
    # the lines of the gates have the reasons
    shown = last if refused and any(verdict.refuses for verdict in record.verdicts) else None
    fields = [
        ("run", record.key),
        ("state", f"{record.state}, attempt {record.attempt}"),
        *(
            ("published", _publish_text(publish) + _gates_text(publish))
            for publish in publishes[::-1]
        ),
        *([] if publishes else [("published", "nothing yet")]),
        ("branch", f"{record.branch} → {record.into}"),
        ("opened", f"{record.created:%Y-%m-%d %H:%M:%S} UTC"),
        ("changed", f"{record.updated:%Y-%m-%d %H:%M:%S} UTC"),
        *([("until", f"{record.expires:%Y-%m-%d %H:%M:%S} UTC")] if record.expires else []),
        *([("reason", record.reason)] if record.reason and not refused else []),
        *sorted(record.metadata.items()),
    ]
    gates = [
        line
        for verdict in record.verdicts
        for line in (_verdict_line(verdict), *(f"           {row}" for row in fact_rows(verdict)))
    ]
    read = [f"read       {source.commit[:12]}:{source.prefix}" for source in record.inputs]
    refusals = [
        f"refused    {refusal.at:%Y-%m-%d %H:%M:%S}: "
        + (f"by {', '.join(refusal.gates)}" if refusal is shown else refusal.reason)
        for refusal in record.refusals
    ]
    lines = [f"{name:9}  {value}" for name, value in fields]
    shape = {**shape_of(record), "publishes": shape_of(publishes)}
    session.out.show(shape, *lines, *gates, *read, *refusals)


def _verdict_line(verdict: "Verdict") -> str:
    outcome = "passed" if verdict.passed else f"{verdict.severity}: {verdict.reason}"
    return f"gate       {verdict.gate}: {outcome}"


def _gates_text(publish: "Publish") -> str:
    """Return the gates' verdicts on a publish."""
    words = [
        f"{verdict.gate} {'passed' if verdict.passed else 'warned'}" for verdict in publish.verdicts
    ]
    return f"; gates: {', '.join(words)}" if words else ""


def _publish_text(publish: "Publish") -> str:
    """Return a publish and its later fate, such as a rollback."""
    text = (
        f"attempt {publish.attempt} into {publish.into}, {publish.at:%Y-%m-%d %H:%M:%S} UTC, "
        f"commit {publish.commit}"
    )
    if publish.rollback:
        return f"{text}: rolled back by commit {publish.rollback}"
    if publish.lost:
        return f"{text}: {publish.into} has lost it"
    return text if publish.changed else f"{text}: changed nothing"


@verb(_run, "park")
def _park(session: Session, key: _Key, *, reason: _Reason = "") -> None:
    """Park a run: staged writes are dropped, commits wait for the next attempt."""
    record = session.repository.runs.park(key, reason=reason)
    session.out.show(shape_of(record), f"run {key} is {record.state}")


@verb(_run, "abandon")
def _abandon(session: Session, key: _Key, *, reason: _Reason = "") -> None:
    """Abandon a run: its branch is deleted, its record stays."""
    session.repository.runs.get(key)
    record = session.repository.runs.abandon(key, reason=reason)
    session.out.show(shape_of(record), f"abandoned run {key}")


@verb(_run, "reap")
def _reap(
    session: Session,
    *,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", "--no-dry-run", help="Reap. By default only show what would be done."
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
            f"{reaped.from_state:10} -> {reaped.to_state:10}  {reaped.key}: {reaped.reason}",
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
        bool, typer.Option("--dry-run", help="Only show what would be rolled back.")
    ] = False,
    into: Annotated[
        str, typer.Option(metavar="BRANCH", help="Only what was published to this branch.")
    ] = "",
) -> None:
    """Roll back what a run published, in one commit. Its latest attempt may be in any state.

    The command first prints what is rolled back, and the runs that have read it.
    """
    runs, out = session.repository.runs, session.out
    pairs = read_pairs(meta)
    plan = runs.plan_rollback(run, into=into or None)
    shape: dict[str, Any] = {
        "commit": None,
        "run": None,
        "already": bool(plan.reverted),
        "dry_run": dry_run,
        "publish": shape_of(plan.publish),
        "rests": plan.rests,
        "readers": [reader.key for reader in plan.readers],
    }
    if not out.as_json:
        for line in _plan_lines(session, plan):
            out.line(line)
    if dry_run:
        out.show(shape, "dry run: nothing was changed")
        return
    done = runs.rollback(plan.publish.commit, message=message or None, metadata=pairs)
    was = "was rolled back before" if done.already else "is rolled back"
    shape |= {
        "commit": shape_of(done.commit),
        "run": shape_of(done.record),
        "already": done.already,
        "publish": shape_of(done.publish),
    }
    out.show(shape, f"run {done.record.key} {was}, by commit {done.commit.id}")


def _plan_lines(session: Session, plan: "RollbackPlan") -> Iterator[str]:
    """Yield the lines that describe a rollback."""
    record, publish, repository = plan.record, plan.publish, session.repository
    yield f"run {record.key}: attempt {record.attempt} is {record.state}"
    if plan.reverted:
        yield f"{_publish_text(replace(publish, rollback=plan.reverted))}"
        return
    yield f"rolls back {_publish_text(publish)}"
    parent = repository.commit(publish.commit).parents[0]
    changes = list(islice(repository.diff(parent, publish.commit), _CHANGES + 1))
    yield from (f"  {_UNDONE[change.kind]} {change.path}" for change in changes[:_CHANGES])
    if len(changes) > _CHANGES:
        yield f"  and more: graveler diff {parent[:_SHORT]} {publish.commit[:_SHORT]}"
    if plan.rests:
        yield (
            f"attempt {record.attempt} was forked from it and cannot be published; the next attempt "
            f"starts from {publish.into}"
        )
    for reader in plan.readers:
        yield f"has read what it wrote: {reader.key} ({reader.state})"
