"""``graveler refs``: dump all branches, tags and commits to one file, and restore them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.config import environment

if TYPE_CHECKING:
    from graveler.refs.dump import Contents


_refs = typer.Typer(help="Refs: dump them to one file, and restore them.", no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    """Add the verbs of this group."""
    app.add_typer(_refs, name="refs")


@verb(_refs, "dump")
def _dump(
    session: Session,
    file: Annotated[Path, typer.Argument(help="The file; replaced if it exists.", dir_okay=False)],
) -> None:
    """Write branches, tags, protection and all commits they reach to a file.

    The file lacks staged writes, runs and the log of moves. Objects stay where they are.
    """
    contents = session.repository.dump_refs(file)
    shape = _shape(session.repository.name, contents)
    session.out.show(shape, f"dumped {_counts(shape)} to {file}")


@verb(_refs, "restore")
def _restore(
    session: Session,
    file: Annotated[Path, typer.Argument(help="A dump.", dir_okay=False, exists=True)],
    *,
    storage: Annotated[
        str, typer.Option(metavar="URI", help="Root of the objects; else the one in the dump.")
    ] = "",
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over",
            help="Take over the storage of the lake that its marker names; it must no longer exist.",
        ),
    ] = False,
    missing: Annotated[
        int | None,
        typer.Option(metavar="N", help="Accept N commits whose trees are incomplete; they expire."),
    ] = None,
) -> None:
    """Restore a dump into the repository that it names; a missing repository is made.

    Existing refs stay. Every id is recomputed before anything is written.
    """
    from graveler.refs.dump import read_dump

    named = session.options.repo or environment("GRAVELER_REPO")
    repository = session.lake.restore_repository(
        file, name=named or None, storage=storage or None, take_over=take_over, missing=missing
    )
    contents = read_dump(file)
    expired = repository.stores.refs.expired
    gone = {name for name, record in expired.list() if record.gone}
    branches = [name for name, (head, _) in contents.branches.items() if head in gone]
    tags = [name for name, head in contents.tags.items() if head in gone]
    shape = _shape(repository.name, contents)
    shape["branches"] -= len(branches)
    shape["tags"] -= len(tags)
    shape["left_out"] = {"branches": branches, "tags": tags}
    lines = [f"restored {_counts(shape)} into {repository.name}"]
    if branches or tags:
        names = [*(f"branch {name!r}" for name in branches), *(f"tag {name!r}" for name in tags)]
        lines.append(f"left out, because parts of their trees are missing: {', '.join(names)}")
    session.out.show(shape, *lines)


def _shape(name: str, contents: "Contents") -> dict[str, Any]:
    return {
        "repository": name,
        "commits": len(contents.generations),
        "branches": len(contents.branches),
        "tags": len(contents.tags),
    }


def _counts(shape: dict[str, Any]) -> str:
    return f"{shape['commits']} commits, {shape['branches']} branches and {shape['tags']} tags"
