"""Tables on the branches of runs and steps: written in this process, published with the run's files."""

from datetime import timedelta

import pytest
from pyiceberg.exceptions import BadRequestError, ForbiddenError

from graveler.errors import FencedError, RunStateError
from graveler.iceberg.engines import warehouse_of
from tests.harness.iceberg import catalog_of, delays, rest_catalog, rows, token_of, with_table


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


def client_of(server, run):
    return rest_catalog(server, warehouse_of(run))


def test_a_handle_lets_a_client_write_as_the_run(repo, main, server):
    with repo.run("hour") as run:
        with client_of(server, run) as client:
            client.load_table("db.flights").append(rows(2))
            with run.step("more") as step, client_of(server, step) as of_step:
                of_step.load_table("db.flights").append(rows(3))
                assert (delays(client), delays(of_step)) == ([1, 2], [1, 2, 3])
            assert delays(client) == [1, 2, 3]
        commit = next(each for each in repo.log(run.branch) if each.message == "append db.flights")
        assert commit.metadata["graveler.run"] == "hour"
    assert delays(main) == [1, 2, 3]
    record = repo.runs.get("hour")
    assert "db/flights/" in {each.prefix for each in record.inputs}


def test_without_its_handle_the_branch_of_a_run_is_read_only(repo, main, server):
    run = repo.runs.open("hour")
    with rest_catalog(server, f"flights@{run.branch}") as client:
        table = client.load_table("db.flights")
        assert delays(client) == [1]
        with pytest.raises(ForbiddenError, match="belongs to a run"):
            table.append(rows(2))
    for fence in ("", "0" * 32):
        with pytest.raises((ForbiddenError, BadRequestError)):
            rest_catalog(server, f"flights@{run.branch}:{fence}")
    with pytest.raises(BadRequestError, match="no run"):
        rest_catalog(server, "flights@main:")


def test_the_handle_of_an_attempt_that_is_over_is_refused(repo, main, server):
    old = repo.runs.open("hour", owner="a")
    with client_of(server, old) as client:
        table = client.load_table("db.flights")
        new = repo.runs.open("hour", owner="b")
        with pytest.raises(ForbiddenError, match="takes no more writes"):
            table.append(rows(2))
        with client_of(server, new) as other:
            other.load_table("db.flights").append(rows(3))
        new.publish()
        with pytest.raises(ForbiddenError, match="of the run is gone"):
            client_of(server, new)
    assert delays(main) == [1, 3]


def test_a_client_of_a_handle_keeps_the_lease(timed):
    world, lake, server = timed
    repo = lake.repository("flights")
    run = repo.runs.open("hour", lease="60s")
    before = repo.runs.get("hour").lease_until
    with client_of(server, run) as client:
        world.clock.sleep(50)
        client.create_namespace("db")
    assert repo.runs.get("hour").lease_until > before


def test_changes_in_this_process_keep_the_lease_too(timed):
    world, lake, _ = timed
    run = lake.repository("flights").runs.open("hour", lease="60s", metadata={"day": "1"})
    world.clock.sleep(50)
    catalog_of(run).create_namespace("db")
    assert run.record.lease_until - world.clock.now() > timedelta(seconds=50)
    assert run.head.metadata["day"] == "1"


def test_the_committer_is_who_has_the_token(lake, repo, main, server):
    run = repo.runs.open("hour")
    rules = ["allow read on flights", "allow write on flights@run-*"]
    token = token_of(lake, "ann", *rules)
    with rest_catalog(server, warehouse_of(run), token) as client:
        client.load_table("db.flights").append(rows(2))
    assert repo.branch(run.branch).head.committer == "ann"
