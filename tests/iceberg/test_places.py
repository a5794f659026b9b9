"""Where the files of tables are: what metadata may name, what is missing, and tables of other catalogs."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AddSnapshotUpdate

from tests.harness.iceberg import REFUSED, delays, entry_files, named_files, rows, with_table


def path_of(location):
    return Path(location.removeprefix("file://"))


@pytest.fixture
def others(tmp_path):
    """A table of another catalog."""
    catalog = SqlCatalog(
        "others",
        uri=f"sqlite:///{tmp_path}/others.db",
        warehouse=f"file://{tmp_path}/others",
    )
    yield with_table(catalog, 1, 2)
    catalog.close()


def test_each_branch_writes_below_a_folder_of_its_own(repo, catalog, main):
    table = with_table(main, 1)
    repo.create_branch("dev")
    dev = catalog("dev").load_table("db.flights")
    assert table.location() != dev.location()
    assert catalog("dev").load_table("db.flights").location() == dev.location()
    dev.append(rows(2))
    new = entry_files(repo, "dev") - entry_files(repo)
    assert new
    assert all(each.startswith(dev.location() + "/") for each in new)
    repo.delete_branch("dev")
    repo.create_branch("dev")
    again = catalog("dev").load_table("db.flights").location()
    assert again not in (table.location(), dev.location())
    repo.tags.create("v1")
    assert catalog("v1").load_table("db.flights").location() != table.location()


def test_a_new_file_may_be_beside_a_file_that_the_table_has(repo, catalog, main):
    """DuckDB writes deletes into the folder of the data, which another branch may have written."""
    table = with_table(main, 1)
    data = path_of(next(each for each in entry_files(repo) if each.endswith(".parquet")))
    repo.create_branch("dev")
    dev = catalog("dev").load_table("db.flights")
    elsewhere = data.parent / "other"
    elsewhere.mkdir()
    for folder in (data.parent, elsewhere):
        pq.write_table(rows(2), folder / "new.parquet")
    with pytest.raises(REFUSED, match="not below the table's location on this branch"):
        dev.add_files([f"file://{elsewhere}/new.parquet"])
    dev.refresh().add_files([f"file://{data.parent}/new.parquet"])
    assert (delays(catalog("dev")), delays(main)) == ([1, 2], [1])
    assert table.location() != dev.location()
    assert repo.fsck().sound


def test_a_snapshot_with_files_of_another_table_is_refused(repo, main):
    secret, table = with_table(main, 7, table="db.secret"), with_table(main, 1)
    stolen = secret.current_snapshot()
    head = repo.branch("main").head
    with pytest.raises(REFUSED, match="not below the table's location on this branch"):
        main.commit_table(table, (), (AddSnapshotUpdate(snapshot=stolen),))
    assert repo.branch("main").head == head


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("data/x.avro", "not below"),
        ("_graveler/x.avro", "neither a full URI"),
        ("tables/x.avro", "not below"),
        ("tables/../data/x.avro", "not below|unusual spelling"),
    ],
)
def test_a_snapshot_with_files_of_the_storage_is_refused(repo, main, place, words):
    table = with_table(main, 1)
    head = repo.branch("main").head
    listed = Snapshot.model_validate(
        {"snapshot-id": 5, "manifest-list": f"{repo.storage}/{place}", "sequence-number": 9}
    )
    with pytest.raises(REFUSED, match=words):
        main.commit_table(table, (), (AddSnapshotUpdate(snapshot=listed),))
    assert repo.branch("main").head == head


@pytest.mark.parametrize("content", [None, b"", b"no avro", b"Obj\x01"])
def test_a_snapshot_with_damaged_files_is_refused(repo, main, content):
    table = with_table(main, 1)
    head = repo.branch("main").head
    place = f"{table.location()}/metadata/snap-5.avro"
    if content is not None:
        path_of(place).write_bytes(content)
    listed = Snapshot.model_validate(
        {"snapshot-id": 5, "manifest-list": place, "sequence-number": 9}
    )
    with pytest.raises(REFUSED):
        main.commit_table(table, (), (AddSnapshotUpdate(snapshot=listed),))
    assert repo.branch("main").head == head


def test_a_data_file_that_is_gone_fails_the_commit(repo, main):
    table = with_table(main, 1)
    head = repo.branch("main").head
    transaction = table.transaction()
    transaction.append(rows(2))
    before = entry_files(repo)
    for path in path_of(table.location()).glob("data/*.parquet"):
        if f"file://{path}" not in before:
            path.unlink()
    with pytest.raises(REFUSED, match="no object"):
        transaction.commit_transaction()
    assert (repo.branch("main").head, delays(main)) == (head, [1])


def test_two_files_of_one_name_are_refused(repo, catalog, main):
    """The names of files on two branches differ; this one is forged."""
    table = with_table(main, 1)
    repo.create_branch("dev")
    dev = catalog("dev").load_table("db.flights")
    listed = table.current_snapshot().manifest_list
    forged = listed.replace(table.location(), dev.location())
    path_of(forged).parent.mkdir(parents=True, exist_ok=True)
    path_of(forged).write_bytes(path_of(listed).read_bytes())
    snapshot = Snapshot.model_validate(
        {"snapshot-id": 5, "manifest-list": forged, "sequence-number": 9}
    )
    with pytest.raises(REFUSED, match="another file already"):
        catalog("dev").commit_table(dev, (), (AddSnapshotUpdate(snapshot=snapshot),))


@pytest.mark.parametrize("damage", ["missing", "empty", "other", "format"])
def test_damaged_metadata_is_said(repo, main, damage):
    table, other = with_table(main, 1), with_table(main, table="db.other")
    path = path_of(table.metadata_location)
    if damage == "missing":
        path.unlink()
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "other":
        path.write_bytes(path_of(other.metadata_location).read_bytes())
    else:
        path.write_text(json.dumps({**json.loads(path.read_text()), "format-version": 9}))
    refused = (*REFUSED, NoSuchTableError)  # what the client makes of 404
    with pytest.raises(refused, match=r"Failed to open|cannot be read|altered"):
        main.load_table("db.flights")
    assert main.table_exists("db.flights")
    assert main.load_table("db.other")
    main.drop_table("db.flights")


def test_a_table_of_another_catalog_needs_a_declared_place(repo, main, others, tmp_path):
    main.create_namespace("db")
    head = repo.branch("main").head
    with pytest.raises(REFUSED, match="no place that repository 'flights' may link to"):
        main.register_table("db.flights", others.metadata_location)
    assert repo.branch("main").head == head
    repo.links.allow(f"file://{tmp_path}/others")
    table = main.register_table("db.flights", others.metadata_location)
    assert delays(main) == [1, 2]
    assert table.properties["gc.enabled"] == "false"
    table.append(rows(3))
    table.delete("delay = 1")
    assert delays(main) == [2, 3]
    loaded = main.load_table("db.flights")
    logged = {each.metadata_file for each in loaded.metadata.metadata_log}
    assert named_files(loaded) - logged <= entry_files(repo)
    assert sorted(others.scan().to_arrow()["delay"].to_pylist()) == [1, 2]


def test_files_elsewhere_are_never_deleted(repo, main, others, tmp_path):
    repo.links.allow(f"file://{tmp_path}/others")
    main.create_namespace("db")
    table = main.register_table("db.flights", others.metadata_location)
    table.overwrite(rows(9))
    table.maintenance.expire_snapshots().by_ids(
        [each.snapshot_id for each in table.snapshots()[:-1]]
    ).commit()
    main.drop_table("db.flights")
    repo.gc.run(grace="0s", window="0s")
    assert sorted(others.scan().to_arrow()["delay"].to_pylist()) == [1, 2]


def test_a_file_that_others_changed_is_noticed(repo, main, others, tmp_path):
    repo.links.allow(f"file://{tmp_path}/others")
    main.create_namespace("db")
    main.register_table("db.flights", others.metadata_location)
    data = next(entry for entry in repo.ref("main") if entry.path.endswith(".parquet"))
    path_of(data.address).write_bytes(b"other")
    (problem,) = repo.fsck().problems
    assert data.path in str(problem)
