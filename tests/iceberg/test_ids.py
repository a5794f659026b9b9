"""Ids of schemas, sort orders and specs that two clients gave to different things at once."""

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table.sorting import SortDirection, SortField, SortOrder
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    RemovePartitionSpecsUpdate,
    RemoveSchemasUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
)
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType

from tests.harness.iceberg import REFUSED, delays, with_table

LAST = -1
UP, DOWN = (
    SortOrder(SortField(1, IdentityTransform(), direction), order_id=1)
    for direction in (SortDirection.ASC, SortDirection.DESC)
)


def by(source, name, field=1000):
    return PartitionSpec(PartitionField(source, field, IdentityTransform(), name), spec_id=1)


def ordered(order, number=LAST):
    return (
        AddSortOrderUpdate.model_validate({"sort-order": order}),
        SetDefaultSortOrderUpdate.model_validate({"sort-order-id": number}),
    )


def divided(spec, number=LAST):
    return (
        AddPartitionSpecUpdate(spec=spec),
        SetDefaultSpecUpdate.model_validate({"spec-id": number}),
    )


def columns(table, *names, number=LAST):
    """Return updates that make these columns the schema, under an id that others may have, too."""
    fields = [each for each in table.schema().fields if each.name in names]
    new = table.schema().model_copy(update={"fields": tuple(fields), "schema_id": 1})
    return (
        AddSchemaUpdate.model_validate({"schema": new}),
        SetCurrentSchemaUpdate.model_validate({"schema-id": number}),
    )


def after(table, **fields):
    """Return an update that adds a snapshot with the files of the current one."""
    current = table.current_snapshot()
    new = {
        "snapshot_id": 7,
        "parent_snapshot_id": current.snapshot_id,
        "sequence_number": current.sequence_number + 1,
    }
    return AddSnapshotUpdate(snapshot=current.model_copy(update=new | fields))


@pytest.fixture
def table(main):
    return with_table(main, 1)


@pytest.mark.parametrize("number", [LAST, 1])
def test_an_order_whose_id_was_taken_gets_another(main, table, number):
    for order in (DOWN, UP):
        main.commit_table(table, (), ordered(order, number))
    found = main.load_table("db.flights")
    assert found.sort_order() == SortOrder(*UP.fields, order_id=2)
    assert found.sort_orders()[1] == DOWN
    main.commit_table(table, (), ordered(DOWN, number))
    assert main.load_table("db.flights").sort_order() == DOWN
    assert [*main.load_table("db.flights").sort_orders()] == [0, 1, 2]


@pytest.mark.parametrize("number", [LAST, 1])
def test_a_schema_whose_id_was_taken_gets_another(main, table, number):
    """The snapshots of its commit name the new id."""
    main.commit_table(table, (), columns(table, "hour"))
    change = (*columns(table, "delay", number=number), after(table, schema_id=1))
    main.commit_table(table, (), change)
    found = main.load_table("db.flights")
    assert found.schema().column_names == ["delay"]
    assert found.snapshot_by_id(7).schema_id == found.schema().schema_id == 2
    assert found.schemas()[1].column_names == ["hour"]


@pytest.mark.parametrize("number", [LAST, 1])
def test_what_is_there_already_is_not_added_again(repo, main, table, number):
    """Iceberg's own library does not read metadata that has an id twice."""
    change = (
        *columns(table, "hour", number=number),
        *divided(by(1, "hour"), number),
        *ordered(UP, number),
    )
    main.commit_table(table, (), change)
    head = repo.branch("main").head
    found = main.load_table("db.flights").metadata
    assert [each.schema_id for each in found.schemas] == [0, 1]
    assert [each.spec_id for each in found.partition_specs] == [0, 1]
    assert [each.order_id for each in found.sort_orders] == [0, 1]
    current = found.current_schema_id, found.default_spec_id, found.default_sort_order_id
    assert current == (1, 1, 1)
    main.commit_table(table, (), change)
    assert main.load_table("db.flights").metadata == found
    assert repo.branch("main").head == head


def test_a_spec_whose_id_was_taken_is_refused(repo, main, table):
    """Manifests name it."""
    main.commit_table(table, (), divided(by(1, "hour")))
    head = repo.branch("main").head
    with pytest.raises(CommitFailedException, match="already exists"):
        main.commit_table(table, (), divided(by(2, "delay", 1001)))
    assert repo.branch("main").head == head


def test_specs_and_schemas_that_nothing_uses_are_removed(main, table):
    main.commit_table(table, (), (*columns(table, "hour"), *divided(by(1, "hour"))))
    main.commit_table(table, (), (*columns(table, "hour", "delay"), *divided(PartitionSpec(), 0)))
    removals = (
        RemoveSchemasUpdate.model_validate({"schema-ids": [1]}),
        RemovePartitionSpecsUpdate.model_validate({"spec-ids": [1]}),
    )
    main.commit_table(table, (), removals)
    found = main.load_table("db.flights")
    assert ([*found.schemas()], [*found.specs()]) == ([0], [0])
    assert delays(main) == [1]


def test_a_snapshot_is_not_added_again(repo, main, table):
    head = repo.branch("main").head
    with pytest.raises(CommitFailedException, match="already exists"):
        main.commit_table(table, (), (AddSnapshotUpdate(snapshot=table.current_snapshot()),))
    assert repo.branch("main").head == head


def test_the_last_one_must_have_been_added(main, table):
    with table.update_schema() as update:
        update.add_column("carrier", StringType())
    for change in (columns(table, "hour"), divided(by(1, "hour")), ordered(UP)):
        with pytest.raises(REFUSED, match="not possible"):
            main.commit_table(table, (), change[1:])
    assert delays(main) == [1]
