"""Merges, publishes, reverts and retries of branches whose tables both sides changed."""

import pytest
from pyiceberg.types import StringType

from graveler.errors import MergeConflictError, MissingDependencyError
from graveler.publishing import candidacy
from graveler.refs.mover import advance
from graveler.tables import layout
from tests.harness.iceberg import catalog_of, delays, entry_files, named_files, rows, with_table

T = "db.flights"


def append(branch, *numbers, hour="05"):
    catalog_of(branch).load_table(T).append(rows(*numbers, hour=hour))


def overwrite(branch, *numbers):
    catalog_of(branch).load_table(T).overwrite(rows(*numbers))


@pytest.fixture
def main(repo):
    main = repo.branch("main")
    with_table(catalog_of(main), 1, 2)
    return main


def fork(repo, name):
    return repo.create_branch(name, source="main")


def is_exact(repo, ref="main"):
    """Whether the entries of the table are the files that its metadata names."""
    table = catalog_of(repo.branch(ref)).load_table(T)
    return entry_files(repo, ref) == named_files(table)


def test_appends_of_two_branches_are_both_there(repo, main):
    one, other = fork(repo, "one"), fork(repo, "other")
    append(one, 3), append(one, 4), append(other, 5)
    assert repo.preview_merge("one", into="main").conflict_count == 0
    repo.merge("one", into="main")
    assert repo.preview_merge("other", into="main").conflict_count == 0
    repo.merge("other", into="main")
    assert delays(catalog_of(main)) == [1, 2, 3, 4, 5]
    assert is_exact(repo)
    append(main, 6)
    assert delays(catalog_of(main)) == [1, 2, 3, 4, 5, 6]
    assert is_exact(repo)


def test_a_conflict_names_table_operation_and_runs(repo, main):
    one, other = fork(repo, "one"), fork(repo, "other")
    overwrite(one, 9), append(other, 5)
    repo.merge("other", into="main")
    head = main.head.id
    preview = repo.preview_merge("one", into="main")
    assert [each.path for each in preview.conflicts] == ["db/flights/_table.json"]
    with pytest.raises(
        MergeConflictError, match=r"table 'db.flights': \w+ by .* new data since"
    ) as it:
        repo.merge("one", into="main")
    assert (it.value.count, main.head.id) == (1, head)
    for strategy, rows_of_it in (("dest-wins", [1, 2, 5]), ("source-wins", [9])):
        into = fork(repo, strategy)
        repo.merge("one", into=into, strategy=strategy)
        assert delays(catalog_of(into)) == rows_of_it
        assert is_exact(repo, strategy)


def test_dropped_and_created_tables_conflict(repo, main):
    one, other = fork(repo, "one"), fork(repo, "other")
    catalog_of(one).drop_table(T)
    append(other, 5)
    with_table(catalog_of(one), 7, table="db.new"), with_table(catalog_of(other), 8, table="db.new")
    repo.merge("other", into="main")
    with pytest.raises(MergeConflictError, match=r"drop by .*both sides created"):
        repo.merge("one", into="main")


def test_a_revert_takes_the_rows_of_its_commit(repo, main):
    one, other = fork(repo, "one"), fork(repo, "other")
    append(one, 3), append(other, 4)
    merged = repo.merge("one", into="main").commit
    repo.merge("other", into="main")
    repo.revert(merged, on="main")
    assert delays(catalog_of(main)) == [1, 2, 4]
    assert is_exact(repo)
    repo.revert(main.head, on="main")
    assert delays(catalog_of(main)) == [1, 2, 3, 4]
    assert is_exact(repo)


def test_a_cherry_pick_brings_the_rows_of_its_commit(repo, main):
    one = fork(repo, "one")
    append(one, 3), append(one, 4)
    append(main, 5)
    repo.cherry_pick(one.head, onto="main")
    assert delays(catalog_of(main)) == [1, 2, 4, 5]
    assert is_exact(repo)


def run_of(repo, hour, *numbers, step="load"):
    with repo.run(hour, into="main") as run, run.step(step) as work:
        append(work, *numbers, hour=hour)
        work.put(f"files/{hour}", b"x")


def test_runs_from_one_head_append_to_one_table(repo, main):
    runs = [repo.runs.open(f"hour {n}") for n in range(4)]
    for n, run in enumerate(runs):
        with run.step("load") as step:
            append(step, 10 + n)
    for run in runs:
        run.publish()
    assert delays(catalog_of(main)) == [1, 2, 10, 11, 12, 13]
    assert is_exact(repo)
    repo.runs.rollback("hour 1")
    assert delays(catalog_of(main)) == [1, 2, 10, 12, 13]
    assert is_exact(repo)


def test_an_hour_that_runs_again_replaces_its_rows(repo, main):
    for n, hour in enumerate(("05", "06", "07")):
        run_of(repo, hour, 10 + n, 20 + n)
    run_of(repo, "06", 99)
    assert delays(catalog_of(main)) == [1, 2, 10, 12, 20, 22, 99]
    assert is_exact(repo)
    run_of(repo, "06", 98)
    run_of(repo, "07", 97)
    assert delays(catalog_of(main)) == [1, 2, 10, 20, 97, 98]
    assert is_exact(repo)
    repo.runs.rollback("07")
    assert delays(catalog_of(main)) == [1, 2, 10, 12, 20, 22, 98]
    assert is_exact(repo)


def test_a_retry_beside_other_steps_replaces_its_rows(repo, main):
    with repo.run("hour", into="main") as run:
        with run.step("a") as step:
            append(step, 3)
        with run.step("b") as step:
            append(step, 4)
        with run.step("a") as again, run.step("c") as other:
            append(again, 5)
            append(other, 6)
    assert delays(catalog_of(main)) == [1, 2, 4, 5, 6]
    assert is_exact(repo)


def test_a_retried_overwrite_brings_back_what_it_replaced(repo, main):
    with repo.run("hour", into="main") as run:
        with run.step("a") as step:
            overwrite(step, 3)
        with run.step("b") as step:
            append(step, 4)
        with run.step("a") as step:
            append(step, 5)
    assert delays(catalog_of(main)) == [1, 2, 4, 5]
    assert is_exact(repo)


def test_an_undone_step_takes_its_rows_along(repo, main):
    with repo.run("hour", into="main") as run:
        with run.step("a") as step:
            append(step, 3)
        append(main, 9)
        with run.step("b") as step:
            append(step, 4)
        run.undo_step("a")
    assert delays(catalog_of(main)) == [1, 2, 4, 9]
    assert is_exact(repo)


def test_an_expired_snapshot_cannot_be_told_apart(repo, main):
    run_of(repo, "05", 3)
    append(main, 4)
    table = catalog_of(main).load_table(T)
    old = table.snapshots()[:-1]
    table.maintenance.expire_snapshots().by_ids([each.snapshot_id for each in old]).commit()
    with (
        pytest.raises(MergeConflictError, match=r"expired.*tables=\"keep\""),
        repo.run("05") as run,
    ):
        with run.step("load") as step:
            append(step, 5)


def test_a_merge_without_pyiceberg_names_the_package(repo, main, monkeypatch):
    one = fork(repo, "one")
    append(one, 3), append(main, 4)
    monkeypatch.setattr(layout, "find_spec", lambda _: None)
    with pytest.raises(MissingDependencyError, match=r"graveler\[iceberg\]"):
        repo.merge("one", into="main")


def test_a_kept_table_keeps_its_rows(repo, main):
    run_of(repo, "05", 3)
    with repo.run("05", into="main") as run, run.step("load", tables="keep") as step:
        append(step, 5)
    assert delays(catalog_of(main)) == [1, 2, 3, 5]
    assert is_exact(repo)


def test_a_lost_race_merges_the_table_again(repo, main, monkeypatch):
    run = repo.runs.open("hour")
    with run.step("load") as step:
        append(step, 3)
    append(main, 4)
    late = iter([5, 6])

    def overtaken(*args, **more):
        for number in late:
            append(main, number)
            return False
        return advance(*args, **more)

    monkeypatch.setattr(candidacy, "advance", overtaken)
    run.publish()
    assert delays(catalog_of(main)) == [1, 2, 3, 4, 5, 6]
    assert is_exact(repo)


def test_a_new_column_and_an_append_are_both_there(repo, main):
    one, other = fork(repo, "one"), fork(repo, "other")
    with catalog_of(one).load_table(T).update_schema() as update:
        update.add_column("carrier", StringType())
    append(other, 5)
    repo.merge("one", into="main"), repo.merge("other", into="main")
    assert delays(catalog_of(main)) == [1, 2, 5]
    assert "carrier" in catalog_of(main).load_table(T).schema().column_names
    assert is_exact(repo)
