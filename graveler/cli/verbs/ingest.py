"""``graveler ingest``: ticks, states, quarantines and releases of an ingestion branch."""

from typing import TYPE_CHECKING, Annotated

import typer

from graveler.cli.arguments import MetaOption, StrategyOption, load_gates, read_pairs, read_strategy
from graveler.cli.failure import GATE
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.lake.shapes import shape_of

if TYPE_CHECKING:
    from graveler.ingest import Hour, Ingestion, Quarantine


_COLORS = {"published": "green", "held": "red", "quarantined": "yellow", "committed": "yellow"}
_SHORT = 12

_Branch = Annotated[str, "(NAME): The ingestion branch."]
_Into = Annotated[str, "(BRANCH): The branch to publish to. Else main."]
_Gates = Annotated[
    list[str] | None,
    "(MODULE:NAME): A gate, or the kind of a built-in one, in addition to those that the "
    "branch requires; repeat for more.",
]


@verb("ingest tick")
def _tick(
    session: Session,
    *,
    hour: str = "",
    branch: _Branch = "ingest",
    into: _Into = "",
    gate: _Gates = None,
    on_refusal: str = "hold",
    on_conflict: str = "refuse",
    meta: MetaOption = None,
) -> None:
    """Commit staged writes, judge and publish them; exit with 4 if publishing is held.

    Args:
        hour (TIME): As 2013-01-01T05:00Z. Else the last full hour.
        on_refusal (WHAT): After a refusal: hold publishing until it is fixed, or quarantine.
        on_conflict (WHAT): If others changed a path, too: refuse (sets it aside by
            --on-refusal), target (sets it aside), or ingest (the write wins).
    """
    ways = {"on_refusal": on_refusal, "on_conflict": on_conflict}
    ingestion = _ingestion(session, branch, into, gate, **ways)
    tick = ingestion.tick(hour or None, metadata=read_pairs(meta))
    session.out.show(shape_of(tick), *_hour_lines(session, tick))
    if tick.state == "held":
        raise typer.Exit(GATE)


@verb("ingest status")
def _status(session: Session, *, branch: _Branch = "ingest", into: _Into = "") -> None:
    """Show staged paths, hours that wait to be published, and quarantines."""
    status = _ingestion(session, branch, into).status()
    lines = [f"{status.branch} → {status.into}: {status.staged} staged"]
    if status.held is not None:
        lines.append(session.out.style(f"held: {status.held.reason}", "red"))
    for hour in status.pending:
        lines += _hour_lines(session, hour, reason=False)
    for kept in status.quarantined:
        lines += _shelf_lines(kept)
    session.out.show(shape_of(status), *lines)


@verb("ingest quarantined")
def _quarantined(session: Session, *, branch: _Branch = "ingest") -> None:
    """List the quarantines by branch."""
    for kept in _ingestion(session, branch).quarantined():
        session.out.show(shape_of(kept), *_shelf_lines(kept))


@verb("ingest release")
def _release(
    session: Session,
    name: str,
    *,
    branch: _Branch = "ingest",
    into: _Into = "",
    gate: _Gates = None,
    strategy: StrategyOption = None,
    meta: MetaOption = None,
) -> None:
    """Judge a quarantine again, publish it, and delete its branch.

    Args:
        name: The branch that is in quarantine.
    """
    ingestion = _ingestion(session, branch, into, gate)
    pairs = read_pairs(meta) if meta else None
    release = ingestion.release(name, strategy=read_strategy(strategy), metadata=pairs)
    done = "was released before" if release.already else "released"
    line = f"{done}: {name} → {ingestion.into} {release.commit.id[:_SHORT]}"
    session.out.show(shape_of(release), line)


def _ingestion(
    session: Session, branch: str, into: str = "", gate: list[str] | None = None, **ways: str
) -> "Ingestion":
    into = into or session.default_branch
    return session.repository.ingestion(branch, into=into, gates=load_gates(gate), **ways)


def _hour_lines(session: Session, hour: "Hour", *, reason: bool = True) -> list[str]:
    where = f"  {hour.published.id[:_SHORT]}" if hour.published is not None else ""
    shelf = f"  on {', '.join(hour.quarantined)}" if hour.quarantined else ""
    late = f"  late: {', '.join(hour.late)}" if hour.late else ""
    aside = f"  set aside: {', '.join(hour.set_aside)}" if hour.set_aside else ""
    state = session.out.style(f"{hour.state:11}", _COLORS.get(hour.state, ""))
    lines = [f"{hour.hour}  {state}{where}{shelf}{late}{aside}".rstrip()]
    if reason and hour.refused is not None:
        lines.append(f"  {hour.refused.reason}")
    return lines


def _shelf_lines(kept: "Quarantine") -> list[str]:
    return [
        f"{kept.name}  since {kept.created:%Y-%m-%d %H:%M:%S}  {', '.join(kept.hours)}",
        f"  {kept.refusal.reason}",
    ]
