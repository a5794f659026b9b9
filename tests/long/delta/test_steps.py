"""Steps of two runs write one Delta table, run again, and are rolled back."""

import json

import pytest

from graveler.errors import MergeConflictError

BOTH = [("05", 1), ("05", 2), ("06", 3)]
AGAIN = [("05", 1), ("05", 4), ("06", 3)]


@pytest.fixture
def repo(lake):
    return lake.create_repository("tables")


@pytest.fixture
def load(repo, sql):
    """Run the step of an hour, publish it, and return the id of the commit."""

    def run_hour(hour, ids, **options):
        run = repo.runs.open(f"load {hour}")
        with run.step("load", **options) as step:
            work = repo.create_branch(f"load-{hour}", step.name)
            base = work.head
            rows = " union all ".join(f"select '{hour}' as hour, {number} as id" for number in ids)
            sql(rows, to=f"tables/{work.name}/orders", where=f"hour = '{hour}'")
            work.commit("orders")
            for change in repo.diff(base, work.name):
                step.copy(work.name, change.path, change.path)
            repo.delete_branch(work)
        return run.publish().commit.id

    return run_hour


def test_an_hour_below_another_one_replaces_its_own_rows(repo, sql, load):
    def rows():
        return sql("select hour, id from {orders}")

    load("05", [1, 2])
    load("06", [3])
    assert rows() == BOTH
    with pytest.raises(MergeConflictError, match=r"'orders/': others wrote .* tables=.keep"):
        load("05", [1, 4])
    assert rows() == BOTH
    first = load("05", [1, 4], tables="keep")
    assert rows() == AGAIN
    load("05", [1, 4], tables="keep")
    assert rows() == AGAIN
    with pytest.raises(MergeConflictError, match=r"orders.*RESTORE or DELETE"):
        repo.runs.rollback("load 06")
    repo.runs.rollback("load 05")
    assert rows() == AGAIN
    repo.runs.rollback(first)
    assert rows() == BOTH
    repo.runs.rollback("load 06")
    assert rows() == [("05", 1), ("05", 2)]
    load("06", [3])
    load("05", [1, 4], tables="keep")
    sql("delete from {orders} where hour = '06'")
    repo.branch("main").commit("without 06")
    assert rows() == [("05", 1), ("05", 4)]
    sql("restore table {orders} to version as of 0")
    repo.branch("main").commit("as in the beginning")
    assert rows() == [("05", 1), ("05", 2)]


def test_delta_rs_does_the_same_on_a_local_copy(program, tmp_path):
    seen = json.loads(program("delta_rs.py", str(tmp_path / "lake")))
    assert 'tables="keep"' in seen.pop("refused")
    assert "RESTORE or DELETE" in seen.pop("rollback refused")
    assert {name: [*map(tuple, rows)] for name, rows in seen.items()} == {
        "two hours": BOTH,
        "05 again": AGAIN,
        "rolled back": [("05", 1), ("05", 2)],
    }
