"""The metadata of tables: what a client gets to see of it, and what it may make of it.

Each branch has a folder of its own for the files of a table, and two properties are defended, because
what they allow would delete files that other refs need.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any
from uuid import UUID

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.exceptions import CommitFailedException, ValidationError
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    AssertCreate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertTableUUID,
    AssignUUIDUpdate,
    RemovePropertiesUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetLocationUpdate,
    TableRequirement,
    TableUpdate,
    UpgradeFormatVersionUpdate,
    update_table_metadata,
)

from graveler.errors import InvalidInputError

DEFENDED = {"gc.enabled": "false", "write.metadata.delete-after-commit.enabled": "false"}
"""The properties of every table: engines then delete no files, which may be on other refs."""
_WORDS: Mapping[type, str] = {
    AssertCreate: "table already exists",
    AssertTableUUID: "UUID does not match: expected {base.table_uuid} != {it.uuid}",
    AssertLastAssignedFieldId: "last assigned field id changed: expected id "
    "{it.last_assigned_field_id} != {base.last_column_id}",
    AssertCurrentSchemaId: "current schema changed: expected id {it.current_schema_id} != "
    "{base.current_schema_id}",
    AssertLastAssignedPartitionId: "last assigned partition id changed: expected id "
    "{it.last_assigned_partition_id} != {base.last_partition_id}",
    AssertDefaultSpecId: "default partition spec changed: expected id {it.default_spec_id} != "
    "{base.default_spec_id}",
    AssertDefaultSortOrderId: "default sort order changed: expected id "
    "{it.default_sort_order_id} != {base.default_sort_order_id}",
}
"""Iceberg's words for requirements for which PyIceberg has others; tests of engines compare them."""
_OVERTAKEN = ("older than last sequence number", "already exists")
FORMAT = "format-version"
RUN = "graveler.run"
"""In the summary of a snapshot: the run that made it."""
WRITER = "graveler.writer"
"""In the summary of a snapshot: the branch of the run, or of its step, on which it was made."""
UNDOES = "graveler.undoes"
"""In the summary of a snapshot: the snapshot whose changes it undoes."""
_FORMATS = ("1", "2")
_DIGITS = 32
_LAST = -1


def folder_of(owner: str, uuid: UUID) -> str:
    """Return the folder that graveler issues for a table: unique to the table and to the life of a branch.

    Args:
        owner: The birth of the branch, or the id of a commit.
    """
    return sha256(f"{owner}/{uuid}".encode()).hexdigest()[:_DIGITS]


def check_format(version: object) -> None:
    """Refuse a format that PyIceberg cannot write."""
    if str(version) not in _FORMATS:
        raise InvalidInputError(
            f"format version {version}: graveler keeps tables of format version 1 and 2"
        )


def check_properties(properties: Mapping[str, str]) -> None:
    """Refuse another value of a defended property."""
    for name, value in DEFENDED.items():
        found = properties.get(name, value)
        if found.lower() != value:
            raise InvalidInputError(
                f"property {name}={found or 'none'}: it is {value} for every table, because engines would "
                "delete files that other branches and commits need; garbage collection frees them"
            )


def presented(metadata: TableMetadata, location: str) -> TableMetadata:
    """Return metadata as a branch shows it: with its own location and the defended properties."""
    properties = {**metadata.properties, **DEFENDED}
    return metadata.model_copy(update={"location": location, "properties": properties})


def check_requirements(
    metadata: TableMetadata | None, requirements: Sequence[TableRequirement]
) -> None:
    """Raise CommitFailedException, with Iceberg's words, unless the requirements are met."""
    for requirement in requirements:
        try:
            requirement.validate(metadata)
        except CommitFailedException as error:
            words = _WORDS.get(type(requirement)) if metadata else None
            if words is None:
                raise CommitFailedException(str(error).replace(", found ", " != ")) from error
            told = words.format(base=metadata, it=requirement)
            raise CommitFailedException(f"Requirement failed: {told}") from error


def updated(
    base: TableMetadata | None, location: str, updates: Sequence[TableUpdate]
) -> TableMetadata:
    """Return metadata with updates.

    Args:
        base: The metadata as the branch shows it; None for a new table.
        location: Where that metadata is, or the location of a new table.

    Raises:
        CommitFailedException: A snapshot is older than the latest one, or an id is taken: another client
            has committed meanwhile.
        InvalidInputError: An update is not possible.
    """
    for each in updates:
        if isinstance(each, UpgradeFormatVersionUpdate):
            check_format(each.format_version)
    try:
        if base is None:
            empty = MetastoreCatalog._empty_table_metadata()
            issued = SetLocationUpdate(location=location)
            planned = _numbered(empty, (*updates, issued))
            found = update_table_metadata(empty, (*planned,), enforce_validation=True)
        else:
            planned = _numbered(base, _possible(base, updates))
            found = update_table_metadata(base, (*planned,), metadata_location=location)
    except (ValueError, LookupError, TypeError, ValidationError) as error:
        if any(words in str(error) for words in _OVERTAKEN):
            raise CommitFailedException(f"Requirement failed: {error}") from error
        raise InvalidInputError(f"an update is not possible: {error}") from error
    check_properties(found.properties)
    if base is not None and found.table_uuid != base.table_uuid:
        raise InvalidInputError(
            f"table {base.table_uuid} cannot get another id, {found.table_uuid}"
        )
    return found


def signed(updates: Sequence[TableUpdate], marks: Mapping[str, str]) -> Sequence[TableUpdate]:
    """Return updates with more in the summaries of their snapshots."""
    return [
        each.model_copy(update={"snapshot": noted(each.snapshot, marks)})
        if isinstance(each, AddSnapshotUpdate) and marks
        else each
        for each in updates
    ]


def noted(snapshot: Snapshot, marks: Mapping[str, str]) -> Snapshot:
    """Return a snapshot with more in its summary."""
    old = snapshot.summary or Summary(Operation.OVERWRITE)
    summary = Summary(old.operation, **{**old.additional_properties, **marks})
    return snapshot.model_copy(update={"summary": summary})


def note_of(snapshot: Snapshot, name: str) -> str:
    """Return what the summary of a snapshot has by a name, or nothing."""
    return str(snapshot.summary.additional_properties.get(name, "")) if snapshot.summary else ""


def _possible(base: TableMetadata, updates: Sequence[TableUpdate]) -> list[TableUpdate]:
    """Return updates without what changes nothing: the issued location, and properties that are not there.

    Defended properties stay: dagster-iceberg removes with every write all that an asset does not name.
    """
    known = {*base.properties}
    for each in updates:
        known |= {*getattr(each, "updates", ())}
    known -= {*DEFENDED}
    return [
        RemovePropertiesUpdate(removals=[name for name in each.removals if name in known])
        if isinstance(each, RemovePropertiesUpdate)
        else each
        for each in updates
        if not isinstance(each, SetLocationUpdate)
    ]


class _Ids:
    """The ids that a client gives to what it adds, and those that this has in the table.

    Args:
        there: What the table has, by id.
    """

    def __init__(self, there: dict[int, object]) -> None:
        self._there = there
        self._given: dict[int | None, int] = {}

    def add(self, number: int, what: object) -> int | None:
        """Return a free id for what is added; None if the table has it."""
        same = next((known for known, each in self._there.items() if each == what), None)
        free = max(self._there) + 1 if number in self._there else number
        self._given[number] = self._given[_LAST] = free if same is None else same
        self._there.setdefault(self._given[_LAST], what)
        return free if same is None else None

    def of(self, number: Any) -> Any:
        """Return the id in the table for one that the client names."""
        return self._given.get(number, number)


def _numbered(base: TableMetadata, updates: Iterable[TableUpdate]) -> Iterator[TableUpdate]:
    """Yield updates in which new schemas and sort orders have free ids, as in Iceberg's own catalog.

    Another client may have added something meanwhile: the same, or another one with its id. A spec keeps
    its id, because manifests name it; PyIceberg refuses it if the id was taken.
    """
    schemas = _Ids({each.schema_id: each for each in base.schemas})
    orders = _Ids({each.order_id: each.fields for each in base.sort_orders})
    specs = _Ids({each.spec_id: each for each in base.partition_specs})
    for each in updates:
        match each:
            case AddSchemaUpdate(schema_=schema):
                if (free := schemas.add(schema.schema_id, schema)) is not None:
                    new = schema.model_copy(update={"schema_id": free})
                    yield each.model_copy(update={"schema_": new})
            case AddSortOrderUpdate(sort_order=order):
                if (free := orders.add(order.order_id, order.fields)) is not None:
                    sorted_ = order.model_copy(update={"order_id": free})
                    yield each.model_copy(update={"sort_order": sorted_})
            case AddPartitionSpecUpdate(spec=spec):
                if specs.add(spec.spec_id, spec) is not None:
                    yield each
            case _:
                yield _renamed(each, schemas, orders, specs)


def _renamed(update: TableUpdate, schemas: _Ids, orders: _Ids, specs: _Ids) -> TableUpdate:
    """Return an update that names what was added by its id in the table."""
    changed: dict[str, Any] = {}
    match update:
        case SetCurrentSchemaUpdate(schema_id=number):
            changed["schema_id"] = schemas.of(number)
        case SetDefaultSortOrderUpdate(sort_order_id=number):
            changed["sort_order_id"] = orders.of(number)
        case SetDefaultSpecUpdate(spec_id=number):
            changed["spec_id"] = specs.of(number)
        case AddSnapshotUpdate(snapshot=snapshot):
            named = {"schema_id": schemas.of(snapshot.schema_id)}
            changed["snapshot"] = snapshot.model_copy(update=named)
        case _:
            pass
    return update.model_copy(update=changed)


def check_location(location: str, updates: Sequence[TableUpdate]) -> None:
    """Refuse another location than the one that graveler issued."""
    for each in updates:
        if isinstance(each, SetLocationUpdate) and each.location.rstrip("/") != location:
            raise InvalidInputError(
                f"location {each.location!r}: graveler issues the location of a table, here {location}"
            )


def assigned(updates: Sequence[TableUpdate]) -> UUID | None:
    """Return the id that updates give a new table."""
    return next((each.uuid for each in updates if isinstance(each, AssignUUIDUpdate)), None)


def operation(updates: Sequence[TableUpdate]) -> str:
    """Return what updates do, for the message of a commit."""
    summaries = [each.snapshot.summary for each in updates if isinstance(each, AddSnapshotUpdate)]
    named = [str(each.operation.value) for each in summaries if each is not None]
    return named[-1] if named else "alter"


def as_json(metadata: TableMetadata, *, only_refs: bool = False) -> str:
    """Return metadata as JSON.

    Args:
        only_refs: Leave out the snapshots that no branch or tag of the table names.
    """
    if only_refs:
        named = {ref.snapshot_id for ref in metadata.refs.values()}
        some: dict[str, Any] = {
            "snapshots": [each for each in metadata.snapshots if each.snapshot_id in named]
        }
        metadata = metadata.model_copy(update=some)
    return metadata.model_dump_json(exclude_none=True)
