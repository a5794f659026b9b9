"""Tables on the branches of runs and steps: written in this process, published with the run's files."""

import pytest

from graveler.errors import FencedError, RunStateError
from tests.harness.iceberg import catalog_of, delays, rows, with_table


@pytest.fixture
def main(repo):
    made = catalog_of(repo.branch("main"))
    with_table(made, 1)
    return made


def test_a_run_publishes_its_tables_with_its_files(repo, main):
    with repo.run("hour") as run:
        catalog = catalog_of(run)
        catalog.load_table("db.flights").append(rows(2))
        with_table(catalog, 5, table="db.new")
        run.put("report", b"2")
        with run.step("more") as step:
            catalog_of(step).load_table("db.flights").append(rows(3))
        assert delays(catalog) == [1, 2, 3]
        assert delays(main) == [1]
    assert (delays(main), delays(main, "db.new")) == ([1, 2, 3], [5])
    assert repo.ref("main").get("report") == b"2"
    assert repo.fsck().sound


def test_a_run_that_fails_leaves_main_as_it_was(repo, main):
    with pytest.raises(ZeroDivisionError), repo.run("hour") as run:
        catalog_of(run).load_table("db.flights").append(rows(2))
        raise ZeroDivisionError
    assert delays(main) == [1]


def test_an_attempt_that_was_replaced_commits_nothing(repo, main):
    old = repo.runs.open("hour", owner="a")
    table = catalog_of(old).load_table("db.flights")
    new = repo.runs.open("hour", owner="b")
    with pytest.raises((FencedError, RunStateError)):
        table.append(rows(2))
    catalog_of(new).load_table("db.flights").append(rows(3))
    new.publish()
    assert delays(main) == [1, 3]


def test_a_run_notes_the_tables_that_it_reads(repo, main):
    with repo.run("hour") as run:
        catalog_of(run).load_table("db.flights")
        run.put("report", b"1")
    record = repo.runs.get("hour")
    assert "db/flights/" in {each.prefix for each in record.inputs}
