"""``graveler keep collection``: named sets of files in blocks, and for how long they are needed."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

from graveler.cli.arguments import LimitOption
from graveler.cli.failure import UsageError
from graveler.cli.output import field_lines
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.errors import NotFoundError

if TYPE_CHECKING:
    from graveler.collections.collections import Collection, Collections

_System = Annotated[str, "The system of the collection."]
_Given = Annotated[str, "The UUID of the collection, or its name: NAME, or OWNER/NAME."]
_NameOption = Annotated[str, "(NAME): Its name, or OWNER/NAME for one of a user's or group's own."]
_ReplicasOption = Annotated[
    int, "(N): The copies of its blocks, by default those of the system.", {"min": 0, "max": 16}
]
_PersistOption = Annotated[bool, "Keep it until it is made ephemeral or deleted."]
_IntoOption = Annotated[
    str, "(COLLECTION): Make a new version of this collection, not another one."
]
_PIECE_BYTES = 1 << 20


def _collections(session: Session, system: str) -> "Collections":
    return session.lake.keep.collections(system)


def _found(collections: "Collections", given: str) -> "Collection":
    owner, _, name = given.rpartition("/")
    return (name and collections.find(owner, name)) or collections.get(given)


@verb("keep collection list")
def _list(
    session: Session,
    system: _System,
    *,
    owner: str = "",
    limit: LimitOption = None,
    after: str = "",
) -> None:
    """List the collections that can be read, by their UUIDs.

    Args:
        owner (NAME): Only those of this user or group.
        after (UUID): Only what comes after this one.
    """
    found = _collections(session, system)
    most = {} if limit is None else {"limit": limit}
    for each in found.page(owner=owner, after=after, **most):
        _show(session, found, each)


@verb("keep collection show")
def _show_one(session: Session, system: _System, collection: _Given) -> None:
    """Show a collection and its manifest."""
    found = _collections(session, system)
    each = _found(found, collection)
    shape, manifest = _shape(found, each), found.manifest(each)
    shown = {**shape, "properties": dict(each.properties), "manifest": manifest}
    fields = [(name, value) for name, value in shape.items() if value]
    session.out.show(shown, *field_lines(fields), *manifest.splitlines())


@verb("keep collection versions")
def _versions(session: Session, system: _System, collection: _Given) -> None:
    """List the earlier versions of a collection, the oldest first."""
    found = _collections(session, system)
    for each in found.versions(_found(found, collection).uuid):
        session.out.show(
            _shape(found, each),
            f"{each.version}  {each.modified:%Y-%m-%d %H:%M:%S}  {each.data_hash}",
        )


@verb("keep collection create")
def _create(
    session: Session,
    system: _System,
    manifest: Annotated[Path, "The file of a manifest.", {"exists": True, "dir_okay": False}],
    *,
    name: _NameOption = "",
    replicas: _ReplicasOption = 0,
    persist: _PersistOption = False,
    into: _IntoOption = "",
) -> None:
    """Make a collection of blocks that are there, ephemeral unless --persist is given."""
    text = manifest.read_text("utf-8", "surrogateescape")
    _keep(session, system, text, name, replicas, into, persist=persist)


@verb("keep collection put")
def _put(
    session: Session,
    system: _System,
    files: Annotated[list[Path], "Files, and folders with all below them.", {"exists": True}],
    *,
    name: _NameOption = "",
    replicas: _ReplicasOption = 0,
    persist: _PersistOption = False,
    into: _IntoOption = "",
) -> None:
    """Store files, and make a collection of them, ephemeral unless --persist is given."""
    from graveler.keep.files import BlockWriter
    from graveler.keep.manifests import Manifest

    named: dict[str, Path] = {}
    for path, file in _files(files):
        if named.setdefault(path, file) is not file:
            raise UsageError(f"{named[path]} and {file} are both {path!r}: give their folders")
    with closing(session.lake.keep.client(system)) as client:
        writer = BlockWriter(client, replicas=replicas or None)
        text = str(Manifest.of(writer.write(_opened(named))).stripped())
    _keep(session, system, text, name, replicas, into, persist=persist)


@verb("keep collection get")
def _get(
    session: Session,
    system: _System,
    collection: _Given,
    path: Annotated[str, "The path of a file in it."],
) -> None:
    """Write a file of a collection to the standard output."""
    from graveler.keep.files import open_runs
    from graveler.keep.manifests import Manifest

    found = _collections(session, system)
    runs = Manifest.parse(found.manifest(_found(found, collection))).files().get(path)
    if runs is None:
        raise NotFoundError(f"{collection} has no file {path!r}: `graveler keep collection show`")
    with closing(session.lake.keep.client(system)) as client, open_runs(client, runs) as file:
        while piece := file.read(_PIECE_BYTES):
            session.out.data(piece)


@verb("keep collection name")
def _rename(
    session: Session,
    system: _System,
    collection: _Given,
    name: Annotated[str, "Its new name, unique among those of its owner; '' for none."],
) -> None:
    """Give a collection a name, in place of the one that it has."""
    found = _collections(session, system)
    _show(session, found, found.rename(_found(found, collection).uuid, name))


@verb("keep collection persist")
def _persist(session: Session, system: _System, collection: _Given) -> None:
    """Keep a collection until it is made ephemeral or deleted."""
    found = _collections(session, system)
    _show(session, found, found.persist(_found(found, collection).uuid))


@verb("keep collection ephemeral")
def _demote(session: Session, system: _System, collection: _Given) -> None:
    """Let a collection end one time to live from now, and not before."""
    found = _collections(session, system)
    _show(session, found, found.demote(_found(found, collection).uuid))


@verb("keep collection delete")
def _delete(session: Session, system: _System, collection: _Given) -> None:
    """Delete a collection. Its blocks stay for the life of a signature."""
    found = _collections(session, system)
    uuid = found.delete(_found(found, collection).uuid).uuid
    session.out.show({"deleted": uuid}, f"deleted {uuid}")


def _keep(
    session: Session, system: str, text: str, name: str, replicas: int, into: str, *, persist: bool
) -> None:
    """Make a collection, or a new version of one, and show it. Its blocks begin another time to live."""
    from graveler.keep.manifests import Manifest

    blocks = {each.digest: each for each in Manifest.parse(text).blocks()}
    with closing(session.lake.keep.client(system)) as client:
        missing = [digest for digest, copies in client.have(blocks.values()).items() if not copies]
    if missing:
        raise NotFoundError(
            f"no server has block {missing[0]} of the collection: store it, and repeat"
        )
    found = _collections(session, system)
    owner, _, short = name.rpartition("/")
    if not into:
        made = found.create(text, owner=owner, name=short, persisted=persist, replicas=replicas)
    elif name or persist:
        raise UsageError("--into: the collection keeps its name and its time, give no other")
    else:
        made = found.change(_found(found, into).uuid, manifest=text, replicas=replicas or None)
    _show(session, found, made)


def _files(given: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    """Yield files with their paths in a collection."""
    for path in given:
        below = sorted(path.rglob("*")) if path.is_dir() else [path]
        for each in below:
            if each.is_file():
                yield each.relative_to(path.parent).as_posix(), each


def _opened(files: dict[str, Path]) -> Iterator[tuple[str, BinaryIO]]:
    for name, path in files.items():
        with path.open("rb") as file:
            yield name, file


def _show(session: Session, collections: "Collections", each: "Collection") -> None:
    ends = each.ends(collections.ttl)
    kept = "persisted" if ends is None else f"until {ends:%Y-%m-%d %H:%M} UTC"
    name = f"{each.owner}/{each.name}" if each.owner else each.name or "-"
    session.out.show(_shape(collections, each), f"{each.uuid}  {kept}  {name}  {each.data_hash}")


def _shape(collections: "Collections", each: "Collection") -> dict[str, Any]:
    ends = each.ends(collections.ttl)
    return {
        "uuid": each.uuid,
        "name": each.name,
        "owner": each.owner,
        "data_hash": each.data_hash,
        "version": each.version,
        "created": each.created.isoformat(),
        "modified": each.modified.isoformat(),
        "ends": None if ends is None else ends.isoformat(),
        "replicas": each.replicas,
        "confirmed": each.confirmed,
    }
