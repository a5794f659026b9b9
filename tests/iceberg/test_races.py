"""Several clients at once: no acknowledged commit is lost, and of two that exclude each other one lands."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
)
from pyiceberg.table.update import AssertRefSnapshotId, SetPropertiesUpdate
from pyiceberg.types import LongType

from graveler.errors import GravelerError
from graveler.tables.landing import TableCommit
from graveler.tables.namespaces import Tables
from graveler.testing.faults import ProcessDied
from tests.harness.iceberg import SCHEMA, delays, entry_files, named_files, rows, with_table
from tests.harness.worlds import FAULTS, interleave, struck_worlds

CLIENTS = 12
OFTEN = {
    "commit.retry.num-retries": "100",
    "commit.retry.min-wait-ms": "5",
    "commit.retry.max-wait-ms": "100",
}
FLIGHTS = ("db", "flights")
EMPTY = AssertRefSnapshotId.model_validate({"ref": "main", "snapshot-id": None})


def test_appends_at_once_are_all_kept(repo, catalog, main):
    with_table(main, **OFTEN)
    catalogs = [catalog() for _ in range(CLIENTS)]

    def append(number):
        catalogs[number].load_table("db.flights").append(rows(number))

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(append, range(CLIENTS)))
    table = main.load_table("db.flights")
    assert delays(main) == list(range(CLIENTS))
    assert len(table.snapshots()) == CLIENTS
    assert entry_files(repo) >= named_files(table)


def test_commits_to_tables_of_one_branch_do_not_interfere(repo, catalog, main):
    names = [f"db.t{number}" for number in range(4)]
    tables = [with_table(catalog(), table=name) for name in names]

    def append(table):
        for number in range(3):
            table.append(rows(number))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, tables))
    assert [delays(main, name) for name in names] == [[0, 1, 2]] * 4


def test_of_two_clients_the_second_fails_with_its_requirement(repo, catalog, main):
    with_table(main, 1)
    first, second = (catalog().load_table("db.flights") for _ in range(2))
    with first.update_schema() as update:
        update.add_column("first", LongType())
    head = repo.branch("main").head
    with pytest.raises(CommitFailedException), second.update_schema() as update:
        update.add_column("second", LongType())
    assert repo.branch("main").head == head
    assert main.load_table("db.flights").schema().column_names == ["hour", "delay", "first"]


def test_a_client_that_dies_before_its_commit_changes_nothing(repo, main):
    table = with_table(main, 1)
    head, before = repo.branch("main").head, entry_files(repo)
    transaction = table.transaction()
    transaction.append(rows(2))  # its files are written, and it never commits
    assert (repo.branch("main").head, delays(main)) == (head, [1])
    table.append(rows(3))
    assert delays(main) == [1, 3]
    assert before < entry_files(repo) == named_files(table)


def start(repo):
    tables = Tables(repo.branch("main"))
    tables.create_namespace(("db",), {})
    for name in ("flights", "trips"):
        tables.create(("db", name), SCHEMA)


def change(repo, *names, **properties):
    """Set properties of tables in one commit."""
    update = SetPropertiesUpdate(updates=properties)
    changes = [TableCommit(("db", name), (EMPTY,), (update,)) for name in names]
    return Tables(repo.branch("main")).commit(changes)


def found(world, name="flights"):
    loaded = Tables(world.repo(scripted=False).branch("main")).load(("db", name))
    return {key: value for key, value in loaded.metadata.properties.items() if "." not in key}


def test_two_committers_at_any_point_keep_both_changes():
    def check(world, *outcomes):
        assert not [each for each in outcomes if isinstance(each, Exception)]
        assert found(world) == {"mine": "1", "theirs": "1"}

    interleave(
        start,
        lambda repo: change(repo, "flights", mine="1"),
        lambda repo: change(repo, "flights", theirs="1"),
        check,
        step=4,
    )


@pytest.mark.parametrize("fault", FAULTS)
def test_with_a_fault_at_any_call_all_tables_change_or_none(fault):
    for world, what, failed in struck_worlds(
        fault, start, lambda repo: change(repo, "flights", "trips", a="1")
    ):
        seen = found(world)
        assert seen in ({}, {"a": "1"}), what
        assert found(world, "trips") == seen, what
        assert failed is not None or seen, what
        assert isinstance(failed, GravelerError | ProcessDied | None), what


def test_a_failed_requirement_of_one_table_fails_all(repo, main):
    table = with_table(main, 1)
    with_table(main, table="db.trips")
    head = repo.branch("main").head
    with pytest.raises(CommitFailedException, match="created concurrently"):
        change(repo, "trips", "flights", a="1")
    assert repo.branch("main").head == head
    assert "a" not in main.load_table("db.trips").properties
    assert table.refresh().properties == table.properties


def test_a_namespace_is_dropped_or_gets_a_table():
    """Neither of two processes finds a namespace that the other one has dropped or filled."""

    def check(world, dropped, created):
        tables = Tables(world.repo(scripted=False).branch("main"))
        if isinstance(dropped, Exception):
            assert tables.tables(("db",)) == [FLIGHTS]
        else:
            assert isinstance(created, Exception)
            assert tables.namespaces() == []

    def attempt(work):
        def run(repo):
            try:
                return work(Tables(repo.branch("main")))
            except (NamespaceNotEmptyError, NoSuchNamespaceError, CommitFailedException) as error:
                return error

        return run

    interleave(
        lambda repo: Tables(repo.branch("main")).create_namespace(("db",), {}),
        attempt(lambda tables: tables.drop_namespace(("db",))),
        attempt(lambda tables: tables.create(FLIGHTS, SCHEMA)),
        check,
        step=3,
    )


def test_a_dropped_table_does_not_come_back():
    """A commit that read the table before it was dropped finds no table."""

    def check(world, committed, dropped):
        tables = Tables(world.repo(scripted=False).branch("main"))
        assert dropped is None
        assert isinstance(committed, NoSuchTableError | list)
        assert tables.tables(("db",)) == [("db", "trips")]
        paths = [entry.path for entry in world.repo(scripted=False).ref("main").list("db/flights")]
        assert paths == []

    def commit(repo):
        try:
            return change(repo, "flights", a="1")
        except NoSuchTableError as error:
            return error

    interleave(start, commit, lambda repo: Tables(repo.branch("main")).drop(FLIGHTS), check, step=4)


def test_a_staged_record_of_a_table_stops_its_commits(repo, main):
    table = with_table(main, 1, **{"commit.retry.num-retries": "0"})
    branch = repo.branch("main")
    branch.put("db/flights/_table.json", b"{}")
    with pytest.raises(CommitFailedException, match="commit or reset it"):
        table.append(rows(2))
    branch.reset()
    table.refresh().append(rows(2))
    assert delays(main) == [1, 2]
