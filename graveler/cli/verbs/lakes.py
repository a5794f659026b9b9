"""``graveler init`` and ``graveler repo``: lakes and their repositories."""

from pathlib import Path
from typing import Annotated, Any

from graveler.base.names import check_repository
from graveler.base.privacy import shown_uri
from graveler.cli.failure import UsageError
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.config import KV_URI, STORAGE_URI
from graveler.display import size_text

_Place = Annotated[str, "s3://bucket/prefix, or a folder."]


@verb("init")
def _init(
    session: Session,
    folder: str = ".",
    *,
    kv: str = KV_URI,
    storage: str = STORAGE_URI,
    endpoint: str = "",
    region: str = "",
    existing: str = "",
    group: bool = False,
) -> None:
    """Make a new lake; with -R NAME also its first repository.

    Args:
        folder: The folder; created if it is missing.
        kv (URI): The store of branches and uncommitted entries: sqlite://kv.sqlite3,
            rocksdb://kv, postgresql://user@host/database.
        storage (URI): The object store: file://objects, s3://bucket/prefix.
        endpoint (URL): The address of the S3 service; else that of AWS.
        region (NAME): The region of the S3 service.
        existing (--import PLACE): With -R: data that exists already, a folder or s3://bucket/prefix/.
            Its files are committed to main where they are, and no byte is copied.
        group: The group of the folder shares the lake.
    """
    from graveler.lake.factory import init

    name = session.options.repo
    if existing and not name:
        raise UsageError("--import: name the repository of the files, as in -R flights")
    if name:
        check_repository(name)  # before the folder becomes a lake
    if existing and "://" not in existing and not Path(existing).exists():
        raise UsageError(f"--import {existing!r}: there is no such file or folder")
    s3 = {"endpoint_url": endpoint, "region": region}
    given = {setting: value for setting, value in s3.items() if value}
    with init(folder, kv_uri=kv, storage_uri=storage, s3=given, group=group) as lake:
        shape = {"lake": lake.location, "kv": shown_uri(kv), "storage": shown_uri(storage)}
        said = [
            f"made a lake in {lake.location}" + "; next: graveler repo create NAME" * (not name)
        ]
        if name:
            repository = lake.create_repository(name)
            shape["repository"] = name
            said.append(f"made repository {name}")
            if existing:
                place, main = repository.links.allow(_whole(existing)), repository.branch("main")
                done = main.import_(place)
                files = "file" if done.files == 1 else "files"
                shape["commit"] = main.commit(f"import {place}").id
                said.append(f"imported {done.files:,} {files} ({size_text(done.size)}) to main")
        session.out.show(shape, *said)


@verb("repo create")
def _create(
    session: Session,
    name: str,
    *,
    storage: str = "",
    exist_ok: bool = False,
    take_over: bool = False,
    adopt: bool = False,
) -> None:
    """Make a repository with a first, empty commit on its branch main.

    Args:
        name: 3 to 63 of a-z, 0-9 and '-'.
        storage (URI): Root of its objects; else below the lake's.
        exist_ok: No error if it exists already.
        take_over: Take over the storage of a repository unknown to this lake; it must no longer
            exist.
        adopt: Accept a storage that holds something, which is left alone.
    """
    session.lake.create_repository(
        name, storage=storage or None, exist_ok=exist_ok, take_over=take_over, adopt=adopt
    )
    shape = _shape(session, name)
    session.out.show(shape, f"made repository {name}, its objects in {shape['storage']}")


@verb("repo list")
def _list(session: Session) -> None:
    """List the repositories."""
    for name in session.lake.repositories():
        session.out.show(_shape(session, name), name)


@verb("repo delete")
def _delete(session: Session, name: str, *, purge: bool = False, storage: str = "") -> None:
    """Put a repository into the trash; also one that was never finished.

    Args:
        name: The repository.
        purge: Delete its records and files now, and for good.
        storage (URI): Its storage, to choose one in the trash.
    """
    session.lake.delete_repository(name, purge=purge, storage=storage or None)
    text = (
        f"deleted {name}" if purge else f"{name} is in the trash: `graveler repo undelete {name}`"
    )
    session.out.show({"repository": name, "purged": purge}, text)


@verb("repo undelete")
def _undelete(session: Session, name: str) -> None:
    """Take a repository out of the trash.

    Args:
        name: The repository.
    """
    session.lake.undelete_repository(name)
    session.out.show({"repository": name}, f"{name} is back")


@verb("repo accept")
def _accept(session: Session, name: str = "", *, missing: int | None = None) -> None:
    """Accept a key-value store or a storage that was restored to an older state.

    Args:
        name: The repository; else the one of --repo.
        missing (N): Accept N commits whose trees are incomplete; they expire.
    """
    repository = session.lake.accept(name or session.repository_name, missing=missing)
    session.out.show(
        {"repository": repository.name, "accepted": True},
        f"{repository.name} continues from the stored state; next: graveler fsck",
    )


@verb("repo show")
def _show(session: Session, name: str = "") -> None:
    """Show a repository: its storage, branches, tags and runs.

    Args:
        name: The repository; else the one of --repo.
    """
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


@verb("links allow")
def _allow(session: Session, place: _Place) -> None:
    """Allow linking and reading files below a place."""
    declared = session.repository.links.allow(_whole(place))
    session.out.show({"allowed": declared}, f"allowed links to {declared}")


@verb("links disallow")
def _disallow(session: Session, place: _Place) -> None:
    """Forbid linking and reading files below a place."""
    declared = session.repository.links.disallow(_whole(place))
    session.out.show({"disallowed": declared}, f"disallowed links to {declared}")


@verb("links accept")
def _accept_changes(session: Session, place: _Place) -> None:
    """Accept that a linked file, or all files below a folder, were moved or replaced."""
    accepted = session.repository.links.accept(_whole(place))
    session.out.show({"accepted": accepted}, f"accepted {accepted} as it is")


@verb("links list")
def _list_links(session: Session) -> None:
    """List the places."""
    for place in session.repository.links.list():
        session.out.show({"place": place}, place)
