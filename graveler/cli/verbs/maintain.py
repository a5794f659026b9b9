"""``graveler maintain``: the daily maintenance."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graveler.cli.output import size_text
from graveler.cli.session import Session
from graveler.cli.shapes import shape_of
from graveler.cli.verb import verb
from graveler.cli.verbs.gc import mark_lines, mark_shape

if TYPE_CHECKING:
    from graveler.lake.maintenance import BranchState, Maintenance


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    verb(app, "maintain")(_maintain)


def _maintain(
    session: Session,
    *,
    pack: Annotated[
        bool, typer.Option("--pack/--no-pack", help="Pack branches, as `packing show` says.")
    ] = True,
    reap: Annotated[
        bool, typer.Option("--reap/--no-reap", help="Reap runs, as `run reap --yes` does.")
    ] = True,
    gc: Annotated[
        bool,
        typer.Option("--gc/--no-gc", help="If there is a retention rule, do what `gc run` does."),
    ] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be done.")
    ] = False,
) -> None:
    """Pack branches, reap runs and collect garbage: for a daily job."""
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
        "marks": [mark_shape(mark) for mark in done.marks],
        "errors": [{"code": str(error.code), "message": str(error)} for error in done.errors],
    }


def _branch_shape(state: "BranchState") -> dict[str, Any]:
    packed = state.packed
    return {
        "branch": state.branch,
        "badly_cut": state.badly_cut,
        "due": state.due,
        "commit": packed.commit.id if packed is not None and packed.commit is not None else None,
        "before": 0 if packed is None else packed.before,
        "after": 0 if packed is None else packed.after,
        "bytes_read": 0 if packed is None else packed.bytes_read,
    }
