"""``graveler init`` and ``graveler repo``: lakes and their repositories."""

from pathlib import Path
from typing import Annotated, Any

import typer

from graveler.base.privacy import shown_uri
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.config import KV_URI, STORAGE_URI

_links = typer.Typer(
    help="Links: the places outside of the storage that files may be linked from.",
    no_args_is_help=True,
)
_repo = typer.Typer(help="Repositories: each one versioned tree of paths.", no_args_is_help=True)

_Place = Annotated[str, typer.Argument(help="s3://bucket/prefix, or a folder.")]


def add_to(app: typer.Typer) -> None:
    """Add the verbs of this group."""
    verb(app, "init")(_init)
    app.add_typer(_repo, name="repo")
    app.add_typer(_links, name="links")


def _init(
    session: Session,
    folder: Annotated[str, typer.Argument(help="The folder; created if it is missing.")] = ".",
    *,
    kv: Annotated[
        str,
        typer.Option(
            metavar="URI",
            help="The store of branches and uncommitted entries: sqlite://kv.sqlite3, "
            "rocksdb://kv, postgresql://user@host/database.",
        ),
    ] = KV_URI,
    storage: Annotated[
        str,
        typer.Option(metavar="URI", help="The object store: file://objects, s3://bucket/prefix."),
    ] = STORAGE_URI,
    group: Annotated[
        bool, typer.Option("--group", help="The group of the folder shares the lake.")
    ] = False,
) -> None:
    """Make a new lake."""
    from graveler.lake.factory import init

    with init(folder, kv_uri=kv, storage_uri=storage, group=group) as lake:
        session.out.show(
            {"lake": lake.location, "kv": shown_uri(kv), "storage": shown_uri(storage)},
            f"made a lake in {lake.location}; next: graveler repo create NAME",
        )


@verb(_repo, "create")
def _create(
    session: Session,
    name: Annotated[str, typer.Argument(help="3 to 63 of a-z, 0-9 and '-'.")],
    *,
    storage: Annotated[
        str, typer.Option(metavar="URI", help="Root of its objects; else below the lake's.")
    ] = "",
    exist_ok: Annotated[
        bool, typer.Option("--exist-ok", help="No error if it exists already.")
    ] = False,
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over",
            help="Take over the storage of a repository unknown to this lake; it must no longer exist.",
        ),
    ] = False,
    adopt: Annotated[
        bool,
        typer.Option("--adopt", help="Accept a storage that holds something, which is left alone."),
    ] = False,
) -> None:
    """Make a repository with a first, empty commit on its branch main."""
    session.lake.create_repository(
        name, storage=storage or None, exist_ok=exist_ok, take_over=take_over, adopt=adopt
    )
    shape = _shape(session, name)
    session.out.show(shape, f"made repository {name}, its objects in {shape['storage']}")


@verb(_repo, "list")
def _list(session: Session) -> None:
    """List the repositories."""
    for name in session.lake.repositories():
        session.out.show(_shape(session, name), name)


@verb(_repo, "delete")
def _delete(
    session: Session,
    name: Annotated[str, typer.Argument(help="The repository.")],
    *,
    purge: Annotated[
        bool, typer.Option("--purge", help="Delete its records and files now, and for good.")
    ] = False,
    storage: Annotated[
        str, typer.Option(metavar="URI", help="Its storage, to choose one in the trash.")
    ] = "",
) -> None:
    """Put a repository into the trash; also one that was never finished."""
    session.lake.delete_repository(name, purge=purge, storage=storage or None)
    text = (
        f"deleted {name}" if purge else f"{name} is in the trash: `graveler repo undelete {name}`"
    )
    session.out.show({"repository": name, "purged": purge}, text)


@verb(_repo, "undelete")
def _undelete(
    session: Session, name: Annotated[str, typer.Argument(help="The repository.")]
) -> None:
    """Take a repository out of the trash."""
    session.lake.undelete_repository(name)
    session.out.show({"repository": name}, f"{name} is back")


@verb(_repo, "accept")
def _accept(
    session: Session,
    name: Annotated[str, typer.Argument(help="The repository; else the one of --repo.")] = "",
    *,
    missing: Annotated[
        int | None,
        typer.Option(metavar="N", help="Accept N commits whose trees are incomplete; they expire."),
    ] = None,
) -> None:
    """Accept a key-value store or a storage that was restored to an older state."""
    repository = session.lake.accept(name or session.repository_name, missing=missing)
    session.out.show(
        {"repository": repository.name, "accepted": True},
        f"{repository.name} continues from the stored state; next: graveler fsck",
    )


@verb(_repo, "show")
def _show(
    session: Session,
    name: Annotated[str, typer.Argument(help="The repository; else the one of --repo.")] = "",
) -> None:
    """Show a repository: its storage, branches, tags and runs."""
    repository = session.lake.repository(name) if name else session.repository
    branches = list(repository.branches(hidden=True))
    shown = [record.name for record in branches if not record.hidden]
    states = {str(state): count for state, count in repository.runs.states().items()}
    tags = sorted(repository.tags.list())
    protected = list(repository.protection.list())
    runs = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    session.out.show(
        {
            **_shape(session, repository.name),
            "branches": shown,
            "hidden_branches": len(branches) - len(shown),
            "protected": protected,
            "tags": tags,
            "runs": states,
        },
        f"repository  {repository.name}",
        f"storage     {repository.storage}",
        f"branches    {', '.join(shown)}"
        + (f" and {len(branches) - len(shown)} of runs" if len(branches) > len(shown) else ""),
        f"protected   {', '.join(protected) or '(none)'}",
        f"tags        {', '.join(tags) or '(none)'}",
        f"runs        {runs or '(none)'}",
    )


def _shape(session: Session, name: str) -> dict[str, Any]:
    repository = session.lake.repository(name)
    return {
        "name": repository.name,
        "storage": repository.storage,
        "default_branch": repository.stores.default_branch,
    }


def _whole(place: str) -> str:
    """Return a place as given; a path is below the working directory."""
    return place if "://" in place else str(Path(place).absolute())


@verb(_links, "allow")
def _allow(session: Session, place: _Place) -> None:
    """Allow linking and reading files below a place."""
    declared = session.repository.links.allow(_whole(place))
    session.out.show({"allowed": declared}, f"allowed links to {declared}")


@verb(_links, "disallow")
def _disallow(session: Session, place: _Place) -> None:
    """Forbid linking and reading files below a place."""
    declared = session.repository.links.disallow(_whole(place))
    session.out.show({"disallowed": declared}, f"disallowed links to {declared}")


@verb(_links, "accept")
def _accept_changes(session: Session, place: _Place) -> None:
    """Accept that a linked file, or all files below a folder, were moved or replaced."""
    accepted = session.repository.links.accept(_whole(place))
    session.out.show({"accepted": accepted}, f"accepted {accepted} as it is")


@verb(_links, "list")
def _list_links(session: Session) -> None:
    """List the places."""
    for place in session.repository.links.list():
        session.out.show({"place": place}, place)
