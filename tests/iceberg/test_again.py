"""A run that was published runs again: the rows of its earlier attempt are replaced."""

import pytest

from graveler.errors import MergeConflictError
from tests.harness.iceberg import SCHEMA, catalog_of, delays, rows


@pytest.fixture
def main(repo):
    """The catalog of main, with a table that is partitioned by hour."""
    made = catalog_of(repo.branch("main"))
    made.create_namespace("db")
    for name in ("db.flights", "db.late"):
        table = made.create_table(name, SCHEMA, properties={"graveler.merge": "partition"})
        with table.update_spec() as spec:
            spec.add_identity("hour")
    return made


def run_hour(repo, hour, *values):
    """Publish an hour whose step appends to two tables and writes a file."""
    with repo.run(f"hour {hour}") as run, run.step("load") as step:
        for name in ("db.flights", "db.late"):
            catalog_of(step).load_table(name).append(rows(*values, hour=hour))
        step.put(f"raw/{hour}", repr(values).encode())


def both(main):
    return delays(main), delays(main, "db.late")


def test_nothing_was_published_since(repo, main):
    run_hour(repo, "05", 1, 2)
    run_hour(repo, "05", 3)
    assert both(main) == ([3], [3])
    assert repo.ref("main").get("raw/05") == b"(3,)"
    assert repo.fsck().sound


def test_another_hour_was_published_since(repo, main):
    for hour, values in (("05", (1, 2)), ("06", (7,)), ("05", (3,)), ("06", (8, 9)), ("05", (4,))):
        run_hour(repo, hour, *values)
    assert both(main) == ([4, 8, 9], [4, 8, 9])
    assert repo.ref("main").get("raw/05") == b"(4,)"
    assert repo.fsck().sound


def test_another_hour_is_published_meanwhile(repo, main):
    for hour, values in (("05", (1, 2)), ("06", (7,))):
        run_hour(repo, hour, *values)
    again = repo.runs.open("hour 05")
    with again.step("load") as step:
        catalog_of(step).load_table("db.flights").append(rows(3, hour="05"))
    run_hour(repo, "07", 8)
    again.publish()
    assert both(main) == ([3, 7, 8], [7, 8])
    assert not repo.ref("main").exists("raw/05")
    assert repo.fsck().sound


def test_all_rows_were_rewritten_since(repo, main):
    for hour, values in (("05", (1, 2)), ("06", (7,))):
        run_hour(repo, hour, *values)
    table = main.load_table("db.flights")
    table.overwrite(table.scan().to_arrow())  # PyIceberg does not say that the rows are the same
    with pytest.raises(MergeConflictError, match=r"db\.flights"):
        run_hour(repo, "05", 3)
    assert both(main) == ([1, 2, 7], [1, 2, 7])


def test_a_rollback_takes_the_rows_of_a_run_back(repo, main):
    for hour, values in (("05", (1, 2)), ("06", (7,))):
        run_hour(repo, hour, *values)
    repo.runs.rollback("hour 05")
    assert both(main) == ([7], [7])
    assert repo.fsck().sound


def test_a_later_step_has_changed_the_rows(repo, main):
    def two_steps():
        with repo.run("hour 05") as run:
            with run.step("load") as step:
                catalog_of(step).load_table("db.flights").append(rows(1, 2, hour="05"))
            with run.step("mend") as step:
                catalog_of(step).load_table("db.flights").delete("delay = 1")

    two_steps()
    run_hour(repo, "06", 7)
    with pytest.raises(MergeConflictError, match="there is new data"):
        two_steps()
    repo.runs.rollback("hour 05")
    assert delays(main) == [7]
    two_steps()
    assert delays(main) == [2, 7]
