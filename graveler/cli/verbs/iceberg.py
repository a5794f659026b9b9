"""``graveler iceberg``: tables of Iceberg come and go, and expire what they no longer need."""

from types import ModuleType
from typing import Annotated

from graveler.cli.arguments import RefArgument, read_duration, split_pair
from graveler.cli.failure import UsageError
from graveler.cli.output import counted
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.model import Change, ChangeKind
from graveler.tables.layout import POINTER, Identifier, check_library, folder, shown

_Properties = Annotated[
    list[str] | None,
    "(--with NAME=VALUE): A property of the other catalog, as in warehouse=s3://lake; repeat for more.",
]
_NAMED = "The other catalog: its name in PyIceberg's configuration, or its URI."
_Branch = Annotated[str, "The branch."]


@verb("iceberg tables")
def _tables(session: Session, ref: RefArgument = "") -> None:
    """List the tables of a ref, with their rows, files and snapshots."""
    room, view = _room(), session.view(ref)
    from graveler.tables.differences import table_difference

    tables = room.Tables(view)
    for table in tables.every():
        record = view.stat(folder(table) + POINTER)
        found = table_difference(
            view.repository, Change(record.path, ChangeKind.ADDED, None, record)
        )
        counts = {"rows": found.rows[0], "files": found.files[0], "snapshots": found.snapshots[0]}
        texts = [counted(number, name[:-1]) for name, number in counts.items()]
        session.out.show({"table": shown(table), **counts}, "  ".join([shown(table), *texts]))


@verb("iceberg expire")
def _expire(
    session: Session,
    branch: _Branch,
    *,
    table: list[str] | None = None,
    older_than: str = "",
    keep: Annotated[int | None, {"min": 1}] = None,
) -> None:
    """Expire snapshots of the tables of a branch, in one commit that deletes no file.

    Garbage collection deletes the files that nothing needs any more. What a branch or a tag of a
    table names stays. What is not given is as the table says it, by history.expire.max-snapshot-age-ms (5 days)
    and history.expire.min-snapshots-to-keep (1).

    Args:
        table (NAME): Only this table, as in db.flights; repeat for more.
        older_than (TIME): Keep younger snapshots, as in 7d.
        keep (N): Keep the newest N. Given alone, their age does not count.
    """
    age = read_duration("--older-than", older_than) if older_than else None
    names = [_identifier(text) for text in table or ()]
    gone = _room().expire(session.branch(branch), names, older_than=age, keep=keep)
    for name, count in gone.items():
        told = {"table": shown(name), "expired": count}
        session.out.show(told, f"{shown(name)}  {counted(count, 'snapshot')} expired")
    if not gone:
        session.out.tell("no snapshot expires")


@verb("iceberg register")
def _register(
    session: Session,
    branch: _Branch,
    name: str,
    *,
    source: Annotated[str, f"(--from CATALOG): {_NAMED}"],
    properties: _Properties = None,
    replace: bool = False,
) -> None:
    """Register tables of another catalog in one commit. Their files are linked where they are.

    The files must be below places that the repository declares: `graveler links allow PLACE`. They are
    never deleted.

    Args:
        name: A table, as in db.flights, or a namespace with all below it.
        replace: Replace tables of these names.
    """
    room, onto = _room(), session.branch(branch)
    other = room.connect(source, _pairs(properties))
    for table in room.register(onto, other, _identifier(name), overwrite=replace):
        told = {"table": shown(table), "branch": onto.name}
        session.out.show(told, f"registered {shown(table)} on {onto.name}")


@verb("iceberg export")
def _export(
    session: Session,
    ref: str,
    name: str = "",
    *,
    target: Annotated[str, f"(--to CATALOG): {_NAMED}"],
    properties: _Properties = None,
) -> None:
    """Register the tables of a ref in another catalog, which is then their catalog.

    Their new metadata lets engines delete files, which may be files of this lake.

    Args:
        ref: Branch, tag, commit or main~2; a tag keeps the files.
        name: A table, as in db.flights, or a namespace with all below it; else all tables.
    """
    room = _room()
    other = room.connect(target, _pairs(properties))
    found = room.export(session.view(ref), other, _identifier(name) if name else ())
    for table, location in found.items():
        told = {"table": shown(table), "metadata": location}
        session.out.show(told, f"exported {shown(table)} as {location}")


def _room() -> ModuleType:
    """Return the room of Iceberg, whose names need PyIceberg."""
    check_library()
    from graveler import iceberg

    return iceberg


def _identifier(text: str) -> Identifier:
    names = tuple(text.split("."))
    if "" in names:
        raise UsageError(f"{text!r}: give names with dots between them, as in db.flights")
    return names


def _pairs(texts: list[str] | None) -> dict[str, str]:
    return dict(split_pair("--with", text) for text in texts or ())
