"""Tables by both ways in: create, load, commit, rename, register and drop."""

from uuid import UUID

import pytest
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table.update import (
    AssertCreate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePropertiesUpdate,
    SetLocationUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    UpgradeFormatVersionUpdate,
)
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType

from tests.harness.iceberg import (
    REFUSED,
    SCHEMA,
    delays,
    entry_files,
    named_files,
    rows,
    with_table,
)


def upgrade(version):
    return UpgradeFormatVersionUpdate.model_validate({"format-version": version})


BY_HOUR = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "hour"))


def test_a_table_is_written_and_read(repo, main):
    table = with_table(main, 1, 2)
    assert main.list_tables("db") == [("db", "flights")]
    assert main.table_exists("db.flights")
    table.append(rows(3, hour="06"))
    table.delete("delay = 1")
    table.overwrite(rows(9), overwrite_filter="hour = '06'")
    assert delays(main) == [2, 9]
    with table.update_schema() as update:
        update.add_column("carrier", StringType())
    loaded = main.load_table("db.flights")
    assert loaded.schema().column_names == ["hour", "delay", "carrier"]
    assert loaded.metadata == table.metadata
    assert entry_files(repo) == named_files(loaded)


def test_a_table_is_partitioned_and_its_partitions_are_folders(repo, main):
    main.create_namespace("db")
    table = main.create_table("db.flights", SCHEMA, partition_spec=BY_HOUR)
    table.append(rows(1))
    table.append(rows(2, hour="06"))
    folders = {entry.path.rpartition("/")[0] for entry in repo.ref("main").list("db/flights/data/")}
    assert folders == {"db/flights/data/hour=05", "db/flights/data/hour=06"}


def test_each_branch_has_its_own_rows(repo, catalog, main):
    with_table(main, 1)
    repo.create_branch("dev")
    dev = catalog("dev")
    dev.load_table("db.flights").append(rows(2))
    main.load_table("db.flights").append(rows(3))
    assert (delays(main), delays(dev)) == ([1, 3], [1, 2])
    repo.create_branch("late", "dev")
    repo.merge("late", into="dev")
    dev.drop_table("db.flights")
    assert not dev.table_exists("db.flights")
    assert delays(main) == [1, 3]
    assert delays(catalog("late")) == [1, 2]


def test_a_merge_brings_a_table_that_one_side_changed(repo, catalog, main):
    with_table(main, 1)
    repo.create_branch("dev")
    catalog("dev").load_table("db.flights").append(rows(2))
    repo.merge("dev", into="main")
    assert delays(main) == [1, 2]
    main.load_table("db.flights").append(rows(3))
    assert delays(main) == [1, 2, 3]
    assert entry_files(repo) == named_files(main.load_table("db.flights"))


def test_tags_commits_and_expressions_are_read_only(repo, catalog, main):
    table = with_table(main, 1)
    repo.tags.create("v1")
    table.append(rows(2))
    for ref in ("v1", repo.commit("main~1").id, "main~1", "main@{1}"):
        old = catalog(ref)
        assert delays(old) == [1]
        with pytest.raises(REFUSED):
            old.load_table("db.flights").append(rows(3))
        with pytest.raises(REFUSED):
            old.create_namespace("other")
    assert delays(main) == [1, 2]


def test_what_is_missing_or_there_is_said(main):
    main.create_namespace("db")
    with pytest.raises(NoSuchNamespaceError):
        main.create_table("none.flights", SCHEMA)
    for call in (main.load_table, main.drop_table, main.purge_table):
        with pytest.raises(NoSuchTableError):
            call("db.none")
    with_table(main)
    with pytest.raises(TableAlreadyExistsError):
        main.create_table("db.flights", SCHEMA)
    with pytest.raises(TableAlreadyExistsError):
        main.create_table_transaction("db.flights", SCHEMA)


def test_a_staged_table_appears_with_its_rows(repo, main):
    main.create_namespace("db")
    head = repo.branch("main").head
    with main.create_table_transaction("db.flights", SCHEMA) as transaction:
        transaction.append(rows(1))
        assert repo.branch("main").head == head
        assert not main.table_exists("db.flights")
    assert delays(main) == [1]
    assert repo.branch("main").head.parents == (head.id,)
    late = main.create_table_transaction("db.other", SCHEMA)
    late.append(rows(2))
    with_table(main, 3, table="db.other")
    with pytest.raises(CommitFailedException):
        late.commit_transaction()
    assert delays(main, "db.other") == [3]


def test_a_table_is_renamed_with_its_files(repo, main):
    table = with_table(main, 1)
    before = entry_files(repo)
    main.create_namespace("other")
    with_table(main, 5, table="other.taken")
    with pytest.raises(TableAlreadyExistsError):
        main.rename_table("db.flights", "other.taken")
    with pytest.raises(NoSuchNamespaceError):
        main.rename_table("db.flights", "none.flights")
    with pytest.raises(NoSuchTableError):
        main.rename_table("db.none", "db.new")
    renamed = main.rename_table("db.flights", "other.trips")
    assert renamed.metadata.table_uuid == table.metadata.table_uuid
    assert (main.list_tables("db"), delays(main, "other.trips")) == ([], [1])
    assert entry_files(repo, table="other/trips/") == before
    assert not list(repo.ref("main").list("db/flights"))
    with pytest.raises((NoSuchTableError, RESTError), match="Table does not exist"):
        table.append(rows(2))


def test_a_dropped_table_is_registered_again(repo, main):
    table = with_table(main, 1, 2)
    before = named_files(table)
    main.drop_table("db.flights")
    assert [entry.path for entry in repo.ref("main")] == ["db/_namespace.json"]
    again = main.register_table("db.again", table.metadata_location)
    assert again.metadata.table_uuid == table.metadata.table_uuid
    again.append(rows(3))
    assert delays(main, "db.again") == [1, 2, 3]
    assert before - {each.metadata_file for each in table.metadata.metadata_log} <= entry_files(
        repo, table="db/again/"
    )
    with pytest.raises(TableAlreadyExistsError):
        main.register_table("db.again", table.metadata_location)


def test_a_purge_is_a_drop(repo, catalog, main):
    with_table(main, 1)
    repo.create_branch("dev")
    catalog("dev").purge_table("db.flights")
    assert delays(main) == [1]


@pytest.mark.parametrize("version", ["3", "4", "0", "x"])
def test_other_formats_are_refused_by_name(repo, main, version):
    main.create_namespace("db")
    head = repo.branch("main").head
    with pytest.raises((*REFUSED, ValueError), match=version):
        main.create_table("db.flights", SCHEMA, properties={"format-version": version})
    assert repo.branch("main").head == head


def test_an_upgrade_is_from_one_to_two_and_not_to_three(repo, main):
    table = with_table(main, 1, **{"format-version": "1"})
    assert table.metadata.format_version == 1
    main.commit_table(table, (), (upgrade(2),))
    table.refresh().append(rows(2))
    assert (table.metadata.format_version, delays(main)) == (2, [1, 2])
    with pytest.raises(REFUSED, match="format version 3"):
        main.commit_table(table, (), (upgrade(3),))
    assert main.load_table("db.flights").metadata == table.metadata


def expects(ref, snapshot):
    return AssertRefSnapshotId.model_validate({"ref": ref, "snapshot-id": snapshot})


def requires(kind):
    """Return a requirement that its one number is 7."""
    (field,) = kind.model_fields.keys() - {"type"}
    return kind.model_validate({kind.model_fields[field].alias: 7})


@pytest.mark.parametrize(
    ("requirement", "words"),
    [
        (AssertTableUUID(uuid=UUID(int=4)), "UUID does not match: expected"),
        (expects("main", 7), "branch main has changed: expected id 7 != "),
        (expects("none", 7), "branch or tag none is missing, expected 7"),
        (requires(AssertLastAssignedFieldId), "last assigned field id changed: expected id 7 != 2"),
        (requires(AssertCurrentSchemaId), "current schema changed: expected id 7 != 0"),
        (
            requires(AssertLastAssignedPartitionId),
            "last assigned partition id changed: expected id 7 != 999",
        ),
        (requires(AssertDefaultSpecId), "default partition spec changed: expected id 7 != 0"),
        (requires(AssertDefaultSortOrderId), "default sort order changed: expected id 7 != 0"),
        (AssertCreate(), "table already exists"),
    ],
)
def test_a_requirement_that_is_not_met_is_a_failed_commit(repo, main, requirement, words):
    table = with_table(main, 1)
    head = repo.branch("main").head
    with pytest.raises(CommitFailedException, match=f"Requirement failed: {words}"):
        main.commit_table(table, (requirement,), (SetPropertiesUpdate(updates={"a": "b"}),))
    assert repo.branch("main").head == head


DEFENDED = ("gc.enabled", "write.metadata.delete-after-commit.enabled")


@pytest.mark.parametrize("name", DEFENDED)
def test_a_property_that_lets_engines_delete_stays_false(repo, main, name):
    with pytest.raises(REFUSED, match=name):
        with_table(main, **{name: "true"})
    table = with_table(main, 1)
    assert table.properties[name] == "false"
    head = repo.branch("main").head
    with pytest.raises(REFUSED, match=name), table.transaction() as transaction:
        transaction.set_properties(**{name: "true"})
    assert repo.branch("main").head == head
    with table.transaction() as transaction:
        transaction.set_properties(**{name: "false", "a": "b"})
    with table.transaction() as transaction:
        transaction.remove_properties(name)
    main.commit_table(table, (), (RemovePropertiesUpdate(removals=["a", "none"]),))
    table.refresh()
    assert table.properties == dict.fromkeys(DEFENDED, "false")


def test_the_location_is_issued(repo, main):
    main.create_namespace("db")
    table = main.create_table("db.flights", SCHEMA, location="file:///elsewhere")
    start = f"{repo.storage}/tables/{repo.stores.storage_id}/"
    assert table.location().startswith(start)
    with pytest.raises(REFUSED, match="graveler issues the location"):
        main.commit_table(table, (), (SetLocationUpdate(location="file:///elsewhere"),))
    main.commit_table(table, (), (SetLocationUpdate(location=table.location()),))
    assert main.load_table("db.flights").metadata == table.metadata


def test_an_update_that_is_not_possible_is_refused(repo, main):
    table = with_table(main, 1)
    head = repo.branch("main").head
    unknown = SetSnapshotRefUpdate.model_validate(
        {"type": "branch", "ref-name": "main", "snapshot-id": 7}
    )
    with pytest.raises(REFUSED, match="not possible"):
        main.commit_table(table, (), (unknown,))
    assert repo.branch("main").head == head


def test_the_log_of_metadata_has_an_end(repo, main):
    table = with_table(main, **{"write.metadata.previous-versions-max": "2"})
    for number in range(4):
        with table.transaction() as transaction:
            transaction.set_properties(number=str(number))
    assert len(main.load_table("db.flights").metadata.metadata_log) == 2
    assert entry_files(repo) == named_files(main.load_table("db.flights"))


def test_removed_snapshots_take_their_files_along(repo, catalog, main):
    table = with_table(main, 1)
    table.append(rows(2))
    table.overwrite(rows(3))
    repo.create_branch("dev")
    dev = catalog("dev").load_table("db.flights")
    before = entry_files(repo, "dev")
    current = dev.current_snapshot().snapshot_id
    others = [each.snapshot_id for each in dev.snapshots() if each.snapshot_id != current]
    dev.maintenance.expire_snapshots().by_ids(others).commit()
    assert entry_files(repo, "dev") == named_files(dev)
    assert len(before - entry_files(repo, "dev")) >= 4
    assert (delays(catalog("dev")), delays(main)) == ([3], [3])
    assert entry_files(repo) == named_files(main.load_table("db.flights")) == before


def test_a_table_is_registered_over_another(repo, main):
    """What both have stays, and what only the replaced one had goes."""
    table = with_table(main, 1)
    early = table.metadata_location
    table.append(rows(2))
    other = with_table(main, 5, table="db.other")
    main.register_table("db.flights", early, overwrite=True)
    assert delays(main) == [1]
    main.register_table("db.flights", other.metadata_location, overwrite=True)
    assert (delays(main), delays(main, "db.other")) == ([5], [5])
    main.register_table("db.new", early, overwrite=True)
    assert delays(main, "db.new") == [1]
    assert repo.fsck().sound
    for name in ("flights", "new", "other"):
        loaded = main.load_table(f"db.{name}")
        logged = {each.metadata_file for each in loaded.metadata.metadata_log}
        assert named_files(loaded) - logged <= entry_files(repo, table=f"db/{name}/")
