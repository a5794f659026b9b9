"""Expiry takes snapshots from metadata, in one commit, and deletes no byte."""

from datetime import timedelta

import pytest
from pyiceberg.exceptions import NoSuchTableError

from graveler.errors import InvalidInputError
from graveler.iceberg import Tables, expire
from tests.harness.iceberg import (
    catalog_of,
    delays,
    entry_files,
    named_files,
    rows,
    with_table,
)

FLIGHTS = ("db", "flights")
DAY = timedelta(days=1)


@pytest.fixture
def main(repo):
    return catalog_of(repo.branch("main"))


def numbers(catalog, table="db.flights"):
    return [each.snapshot_id for each in catalog.load_table(table).snapshots()]


def appended(catalog, count, table="db.flights", **properties):
    """Return a new table with so many appends of one row."""
    made = with_table(catalog, 1, table=table, **properties)
    for number in range(2, count + 1):
        made.append(rows(number))
    return made


def test_snapshots_of_all_tables_expire_in_one_commit(repo, main):
    appended(main, 4)
    appended(main, 2, "db.raw.trips")
    appended(main, 1, "db.one")
    repo.create_branch("dev")
    newest = numbers(main)[-2:]
    head, before = repo.branch("main").head, entry_files(repo)
    assert expire(repo.branch("main"), keep=2) == {FLIGHTS: 2}
    assert repo.branch("main").head.parents == (head.id,)
    assert (numbers(main), delays(main)) == (newest, [1, 2, 3, 4])
    assert len(before - entry_files(repo)) == 2  # the two lists: the manifests and files are needed
    assert entry_files(repo) == named_files(main.load_table("db.flights"))
    assert expire(repo.branch("main"), keep=1) == {FLIGHTS: 1, ("db", "raw", "trips"): 1}
    assert len(numbers(catalog_of(repo.branch("dev")))) == 4
    assert repo.fsck().sound


def test_files_that_no_snapshot_needs_leave_the_branch(repo, main):
    table = appended(main, 2)
    table.overwrite(rows(9))
    old = {each for each in entry_files(repo) if each.endswith(".parquet")}
    expire(repo.branch("main"), [FLIGHTS], keep=1)
    new = {each for each in entry_files(repo) if each.endswith(".parquet")}
    assert (len(old), len(new), delays(main)) == (3, 1, [9])
    repo.gc.keep("*", days=0)
    repo.gc.run(grace="0s", window="0s")
    assert {repo.stores.uri(one.key) for one in repo.stores.objects.list("tables/")} >= new
    assert not old - new & {repo.stores.uri(one.key) for one in repo.stores.objects.list("tables/")}
    assert delays(main) == [9]


def test_without_limits_the_table_says_what_stays(repo, main):
    appended(main, 3)
    head = repo.branch("main").head
    assert expire(repo.branch("main")) == {}
    assert repo.branch("main").head == head
    limits = {
        "history.expire.max-snapshot-age-ms": "1",
        "history.expire.min-snapshots-to-keep": "2",
    }
    appended(main, 3, "db.short", **limits)
    assert expire(repo.branch("main")) == {("db", "short"): 1}
    with main.load_table("db.short").manage_snapshots() as manage:
        manage.create_branch(numbers(main, "db.short")[-1], "main", min_snapshots_to_keep=1)
    assert expire(repo.branch("main")) == {("db", "short"): 1}


def test_what_is_named_or_young_stays(repo, main):
    table = appended(main, 5)
    ids = numbers(main)
    table.manage_snapshots().create_tag(ids[0], "first").create_branch(ids[1], "audit").commit()
    assert expire(repo.branch("main"), older_than=DAY) == {}
    assert expire(repo.branch("main"), older_than=timedelta(0), keep=2) == {FLIGHTS: 1}
    assert numbers(main) == [ids[0], ids[1], ids[3], ids[4]]
    table.refresh().manage_snapshots().remove_branch("audit").commit()
    assert expire(repo.branch("main"), older_than=DAY, keep=1) == {}
    assert expire(repo.branch("main"), keep=1) == {FLIGHTS: 1}, "the beheaded one is younger"
    assert expire(repo.branch("main"), older_than=timedelta(0)) == {FLIGHTS: 1}
    assert numbers(main) == [ids[0], ids[4]]


def test_a_wrong_request_changes_nothing(repo, main):
    appended(main, 2)
    head = repo.branch("main").head
    with pytest.raises(NoSuchTableError, match=r"db\.none"):
        expire(repo.branch("main"), [FLIGHTS, ("db", "none")], keep=1)
    with pytest.raises(InvalidInputError, match="keep=0"):
        expire(repo.branch("main"), keep=0)
    assert repo.branch("main").head == head


def test_an_append_beside_an_expiry_is_kept(repo, main, monkeypatch):
    """The expiry finds its snapshots again, on the new head."""
    table = appended(main, 3)
    revise, late = Tables._change, [4]

    def change(self, *given):
        done = revise(self, *given)
        if late:
            late.pop()
            table.append(rows(4))
        return done

    monkeypatch.setattr(Tables, "_change", change)
    assert expire(repo.branch("main"), keep=2) == {FLIGHTS: 2}
    assert (len(numbers(main)), delays(main)) == (2, [1, 2, 3, 4])
