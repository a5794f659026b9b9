"""Tables come from other catalogs and go to other catalogs, and no file is copied."""

from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError

import graveler
from graveler.errors import InvalidInputError, PermissionDeniedError
from graveler.iceberg import connect, export, register
from graveler.server import Server
from tests.harness.iceberg import (
    TOKEN,
    catalog_of,
    delays,
    entry_files,
    named_files,
    rest_catalog,
    rows,
    with_table,
)

FLIGHTS = ("db", "flights")


def sql_catalog(folder, name):
    return SqlCatalog(
        name, uri=f"sqlite:///{folder}/{name}.db", warehouse=f"file://{folder}/{name}"
    )


@pytest.fixture
def others(tmp_path):
    """A catalog with tables in nested namespaces."""
    catalog = sql_catalog(tmp_path, "others")
    for number, name in enumerate(("db.flights", "db.raw.us", "db2.flights", "db2.raw.us")):
        with_table(catalog, number, table=name)
    yield catalog
    catalog.close()


@pytest.fixture
def goal(tmp_path):
    catalog = sql_catalog(tmp_path, "goal")
    yield catalog
    catalog.close()


@pytest.fixture
def main(repo):
    return catalog_of(repo.branch("main"))


def files_below(folder):
    return {str(path): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def test_a_namespace_is_registered_in_one_commit(repo, main, others, tmp_path):
    repo.links.allow(f"file://{tmp_path}/others")
    head, before = repo.branch("main").head, files_below(tmp_path / "others")
    assert register(repo.branch("main"), others, ("db",)) == [FLIGHTS, ("db", "raw", "us")]
    assert repo.branch("main").head.parents == (head.id,)
    assert main.list_namespaces() == [("db",)]
    assert (delays(main), delays(main, "db.raw.us")) == ([0], [1])
    assert files_below(tmp_path / "others") == before
    theirs = others.load_table("db.flights")
    assert named_files(theirs) - {each.metadata_file for each in theirs.metadata.metadata_log} == (
        entry_files(repo)
    )
    main.load_table("db.flights").append(rows(5))
    assert delays(others) == [0]


def test_one_table_is_registered_and_replaced(repo, main, others, tmp_path):
    repo.links.allow(f"file://{tmp_path}/others")
    branch = repo.branch("main")
    assert register(branch, others, FLIGHTS) == [FLIGHTS]
    others.load_table("db.flights").append(rows(7))
    with pytest.raises(TableAlreadyExistsError):
        register(branch, others, FLIGHTS)
    register(branch, others, FLIGHTS, overwrite=True)
    assert (delays(main), main.list_namespaces("db")) == ([0, 7], [])


def test_places_are_named_that_must_be_declared(repo, others):
    head = repo.branch("main").head
    with pytest.raises(PermissionDeniedError) as refused:
        register(repo.branch("main"), others, ("db", "raw"))
    assert "graveler links allow" in str(refused.value)
    assert f"the tables are below {others.load_table('db.raw.us').location()}" in str(refused.value)
    assert repo.branch("main").head == head


def test_a_damaged_table_stops_its_whole_namespace(repo, others, tmp_path):
    repo.links.allow(f"file://{tmp_path}/others")
    listed = others.load_table("db.raw.us").current_snapshot().manifest_list
    Path(listed.removeprefix("file://")).unlink()
    head = repo.branch("main").head
    with pytest.raises(InvalidInputError, match="missing"):
        register(repo.branch("main"), others, ("db",))
    assert repo.branch("main").head == head


def test_what_the_other_catalog_lacks_is_said(repo, main, others):
    with pytest.raises(NoSuchNamespaceError):
        register(repo.branch("main"), others, ("none",))
    others.create_namespace("empty")
    with pytest.raises(NoSuchTableError, match="no table at or below empty"):
        register(repo.branch("main"), others, ("empty",))
    with pytest.raises(InvalidInputError, match="'nowhere': give its URI"):
        connect("nowhere", {})


def test_collection_never_deletes_what_is_registered(repo, main, others, tmp_path):
    repo.links.allow(f"file://{tmp_path}/others")
    before = files_below(tmp_path / "others")
    register(repo.branch("main"), others, ("db",))
    main.load_table("db.flights").overwrite(rows(9))
    main.drop_table("db.raw.us")
    repo.gc.keep("*", days=0)
    for _ in range(2):
        repo.gc.run(grace="0s", window="0s")
    assert files_below(tmp_path / "others") == before
    assert delays(others, "db.raw.us") == [1]


@pytest.fixture
def far(tmp_path, monkeypatch):
    """A repository of another lake, and its server."""
    monkeypatch.setattr("graveler.server.server._POLL_SECONDS", 0.01)
    with graveler.init(tmp_path / "far") as lake:
        theirs = lake.create_repository("theirs")
        with Server(lake, token=TOKEN) as server:
            yield theirs, server


def test_a_table_of_a_rest_catalog_is_registered(repo, main, far):
    theirs, server = far
    with_table(catalog_of(theirs.branch("main")), 4)
    repo.links.allow(theirs.storage)
    other = connect(server.iceberg, {"warehouse": "theirs@main", "token": TOKEN})
    assert register(repo.branch("main"), other, FLIGHTS) == [FLIGHTS]
    assert delays(main) == [4]
    other.close()


def test_an_exported_table_goes_on_in_the_other_catalog(repo, main, goal, tmp_path):
    table = with_table(main, 1, 2, owner="ann")
    table.append(rows(3))
    table.delete("delay = 1")
    with_table(main, 5, table="db.raw.us")
    repo.tags.create("exported")
    head = repo.branch("main").head
    found = export(repo.ref("exported"), goal)
    assert list(found) == [FLIGHTS, ("db", "raw", "us")]
    assert repo.branch("main").head == head
    theirs = goal.load_table("db.flights")
    assert theirs.metadata_location == found[FLIGHTS]
    assert theirs.location() == f"file://{tmp_path}/goal/db/flights"
    assert theirs.properties == {"owner": "ann"}
    assert theirs.metadata.metadata_log == []
    assert theirs.snapshots() == table.snapshots()
    assert (delays(goal), delays(goal, "db.raw.us")) == ([2, 3], [5])
    theirs.append(rows(6))
    assert (delays(goal), delays(main)) == ([2, 3, 6], [2, 3])
    main.drop_table("db.flights")
    repo.gc.keep("*", days=0)
    repo.gc.run(grace="0s", window="0s")
    assert delays(goal) == [2, 3, 6], "the tag keeps what was exported"


def test_an_export_replaces_no_table(repo, main, goal):
    with_table(main, 1)
    with_table(main, 2, table="db.trips")
    with_table(goal, 7, table="db.trips")
    with pytest.raises(TableAlreadyExistsError, match=r"db\.trips already: drop it there"):
        export(repo.branch("main"), goal, ("db",))
    assert goal.list_tables("db") == [("db", "trips")]
    assert list(export(repo.branch("main"), goal, FLIGHTS)) == [FLIGHTS]
    with pytest.raises(NoSuchNamespaceError):
        export(repo.branch("main"), goal, ("db", "none"))


def test_a_table_comes_back_from_where_it_went(repo, main, goal, tmp_path):
    with_table(main, 1)
    export(repo.branch("main"), goal)
    goal.load_table("db.flights").append(rows(2))
    repo.links.allow(f"file://{tmp_path}/goal")
    register(repo.branch("main"), goal, FLIGHTS, overwrite=True)
    assert delays(main) == [1, 2]
    assert main.load_table("db.flights").properties["gc.enabled"] == "false"
    assert repo.fsck().sound


def test_a_table_goes_to_a_catalog_by_rest(repo, main, far):
    theirs, server = far
    with_table(main, 1)
    theirs.links.allow(repo.storage)
    with rest_catalog(server, "theirs@main") as goal:
        export(repo.branch("main"), goal)
        goal.load_table("db.flights").append(rows(2))
        assert (delays(goal), delays(main)) == ([1, 2], [1])


def test_a_repository_of_the_lake_registers_no_table_of_another(lake, repo, main):
    """Its garbage collection would not know of the links."""
    theirs = lake.create_repository("theirs")
    with_table(main, 1)
    theirs.links.allow(repo.storage)
    head = theirs.branch("main").head
    with pytest.raises(InvalidInputError, match="garbage collection ignores links from here"):
        register(theirs.branch("main"), main, FLIGHTS)
    assert theirs.branch("main").head == head
