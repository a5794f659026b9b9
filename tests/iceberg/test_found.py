"""Histories in which rows were lost, doubled or kept, and conflicts that said too little."""

import pytest
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import NestedField, StringType

from graveler.errors import MergeConflictError
from tests.harness.iceberg import (
    catalog_of,
    compact,
    delays,
    entry_files,
    named_files,
    rows,
    with_table,
)

T = "db.flights"


def append(branch, *numbers, to=None):
    catalog_of(branch).load_table(T).append(rows(*numbers), **({"branch": to} if to else {}))


@pytest.fixture
def main(repo):
    main = repo.branch("main")
    with_table(catalog_of(main), 1, 2)
    return main


def run_of(repo, key, *numbers):
    with repo.run(key, into="main") as run, run.step("load") as step:
        append(step, *numbers)
        step.put(f"files/{key}", b"x")


def expire(branch, *which):
    """Expire snapshots by their place in the history, oldest first."""
    table = catalog_of(branch).load_table(T)
    numbers = [each.snapshot_id for each in table.snapshots()]
    table.maintenance.expire_snapshots().by_ids([numbers[at] for at in which]).commit()


def test_rewritten_rows_are_not_taken_for_gone(repo, main):
    run_of(repo, "05", 3, 4)
    catalog_of(main).load_table(T).delete("delay = 3")
    for again in (lambda: run_of(repo, "05", 5), lambda: repo.runs.rollback("05")):
        with pytest.raises(MergeConflictError, match="lost rows since"):
            again()
    assert delays(catalog_of(main)) == [1, 2, 4]
    assert repo.ref("main").exists("files/05")


def test_a_rollback_of_expired_snapshots_is_refused(repo, main):
    run_of(repo, "05", 3)
    append(main, 4)
    expire(main, 0, 1)
    with pytest.raises(MergeConflictError, match="snapshots have expired"):
        repo.runs.rollback("05")
    assert delays(catalog_of(main)) == [1, 2, 3, 4]
    assert repo.ref("main").exists("files/05")


def test_expired_appends_are_not_added_twice(repo, main):
    one = repo.create_branch("one", source="main")
    append(one, 3), append(main, 6)
    repo.cherry_pick(one.head, onto="main")
    append(main, 7)
    expire(main, 0, 1, 2)
    with pytest.raises(MergeConflictError, match="are there already"):
        repo.merge("one", into="main")
    assert delays(catalog_of(main)) == [1, 2, 3, 6, 7]


def test_merges_drop_old_metadata_as_commits_do(repo, main):
    with catalog_of(main).load_table(T).transaction() as change:
        change.set_properties({"write.metadata.previous-versions-max": "2"})
    for number in range(3, 7):
        append(run := repo.runs.open(f"hour {number}"), number)
        append(main, 10 + number)
        run.publish()
    table = catalog_of(main).load_table(T)
    assert entry_files(repo) == named_files(table)
    assert len(table.metadata.metadata_log) == 2


def test_a_step_that_lost_one_snapshot_is_refused(repo, main):
    with repo.run("05") as run, run.step("load") as step:
        append(step, 3), append(step, 4)
    append(main, 5)
    expire(main, 0, 1)
    with pytest.raises(MergeConflictError, match=r"have expired.*tables=\"keep\""):
        run_of(repo, "05", 6)
    assert delays(catalog_of(main)) == [1, 2, 3, 4, 5]


def test_rows_on_another_ref_of_a_table_are_refused(repo, main):
    table = catalog_of(main).load_table(T)
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "audit").commit()
    with repo.run("05") as run:
        with run.step("a") as step:
            append(step, 3), append(step, 4, to="audit")
        with run.step("b") as step:
            append(step, 9)
        with pytest.raises(MergeConflictError, match="another ref"):
            run.step("a")


def test_a_step_that_expires_snapshots_runs_again(repo, main):
    append(main, 3)
    with repo.run("05") as run:
        with run.step("expire") as step:
            expire(step, 0)
        with run.step("load") as step:
            append(step, 4)
        with run.step("expire") as step:
            expire(step, 0)
    assert delays(catalog_of(main)) == [1, 2, 3, 4]


def test_a_rollback_below_later_merges_arrives(repo, main):
    dev = repo.create_branch("dev", source="main")
    with repo.run("05", into="dev") as run, run.step("load") as step:
        append(step, 3)
        step.put("files/05", b"x")
    append(main, 4)
    repo.merge("dev", into="main")
    repo.runs.rollback("05")
    append(main, 5)
    repo.merge("main", into="dev")
    append(main, 6)
    repo.merge("dev", into="main")
    assert not repo.ref("main").exists("files/05")
    assert (delays(catalog_of(dev)), delays(catalog_of(main))) == ([1, 2, 4, 5], [1, 2, 4, 5, 6])


def test_a_table_that_a_step_replaced_is_not_lost(repo, main):
    with repo.run("05") as run:
        with run.step("a") as step:
            catalog_of(step).drop_table(T)
            with_table(catalog_of(step), 4)
        with run.step("b") as step:
            append(step, 9)
        with pytest.raises(MergeConflictError, match="it replaced the table"):
            run.undo_step("a")
    assert delays(catalog_of(main)) == [4, 9]


def table_of(branch):
    return catalog_of(branch).load_table(T)


def settings(branch, **properties):
    with table_of(branch).transaction() as change:
        change.set_properties(properties)


def retried(run, between=lambda run: None):
    """Append in a step, do something else, and append in the step again."""
    for name, number in (("s", 4), ("t", 5)):
        with run.step(name) as step:
            append(step, number)
    between(run)
    with run.step("s") as step:
        append(step, 6)


def test_a_retried_step_is_published_after_a_rollback(repo, main):
    with repo.run("a") as run, run.step("s") as step:
        append(step, 3)
    retried(run := repo.runs.open("b"))
    repo.runs.rollback("a")
    append(main, 7)
    run.publish()
    assert delays(catalog_of(main)) == [1, 2, 5, 6, 7]
    assert repo.fsck().sound


def test_a_retried_step_is_published_after_deletes(repo, main):
    retried(run := repo.runs.open("b"))
    table_of(main).delete("delay = 1")
    append(main, 7)
    run.publish()
    assert delays(catalog_of(main)) == [2, 5, 6, 7]


def test_an_undone_append_with_a_tag_keeps_it(repo, main):
    def tag(run):
        table = table_of(run)
        line = [one.snapshot_id for one in table.snapshots()]
        table.manage_snapshots().create_tag(line[1], "four").commit()

    retried(run := repo.runs.open("b"), tag)
    append(main, 7)
    run.publish()
    assert delays(catalog_of(main)) == [1, 2, 5, 6, 7]
    tagged = table_of(main).scan(snapshot_id=table_of(main).refs()["four"].snapshot_id)
    assert sorted(tagged.to_arrow()["delay"].to_pylist()) == [1, 2, 4, 7]


def test_a_compaction_in_between_is_undone_with_it(repo, main):
    retried(run := repo.runs.open("b"), lambda run: compact(table_of(run)))
    append(main, 7)
    run.publish()
    assert delays(catalog_of(main)) == [1, 2, 5, 6, 7]


def test_a_branch_that_ends_in_an_undo_merges_again(repo, main):
    append(main, 7)
    dev = repo.create_branch("dev", source="main")
    with repo.run("a", into="dev") as run:
        for name, number in (("s", 4), ("t", 5)):
            with run.step(name) as step:
                append(step, number)
        run.undo_step("s")
    table_of(main).delete("delay = 7")
    repo.merge("dev", into="main")
    assert delays(catalog_of(main)) == [1, 2, 5]
    table_of(dev).delete("delay = 5")
    repo.merge("dev", into="main")
    assert delays(catalog_of(main)) == [1, 2]
    settings(dev, owner="me")
    repo.merge("main", into="dev")
    assert delays(catalog_of(dev)) == [1, 2]


def test_an_append_that_returns_is_judged_as_one(repo, main):
    settings(main, **{"graveler.merge": "partition"})
    dev = repo.create_branch("dev", source="main")
    append(dev, 4)
    first = dev.head
    append(dev, 5)
    back = repo.revert(first, on="dev")
    assert delays(catalog_of(dev)) == [1, 2, 5]
    append(dev, 6)
    repo.revert(back, on="dev")
    assert delays(catalog_of(dev)) == [1, 2, 4, 5, 6]
    append(main, 7)
    with pytest.raises(MergeConflictError, match="there is new data"):
        repo.merge("dev", into="main")


def test_columns_of_a_step_stay_beneath_later_work(repo, main):
    def load(run, number):
        with run.step("s") as step:
            with table_of(step).update_schema() as update:
                update.union_by_name(Schema(NestedField(1, "carrier", StringType())))
            append(step, number)

    with repo.run("a") as run:
        load(run, 3)
    append(main, 9)
    with repo.run("a") as run:
        load(run, 4)
    assert delays(catalog_of(main)) == [1, 2, 4, 9]
    assert "carrier" in table_of(main).schema().column_names


@pytest.mark.parametrize("publishes", [True, False])
def test_settings_of_a_step_are_withdrawn_with_its_rows(repo, main, publishes):
    settings(main, kept="0", changed="0", removed="0")
    run = repo.runs.open("a")
    with run.step("s") as step:
        append(step, 3)
        table = table_of(step)
        table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "mine").commit()
        settings(step, kept="1", changed="1", new="1")
        with table_of(step).transaction() as change:
            change.remove_properties("removed")
        with table_of(step).update_spec() as spec:
            spec.add_field("hour", IdentityTransform(), "by_hour")
    if publishes:
        append(main, 8), settings(main, theirs="1")
        run.publish()
        run = repo.runs.open("a")
    with run.step("t") as step:
        append(step, 9), settings(step, changed="2", later="1")
    run.undo_step("s")
    table = table_of(run)
    found = {name: table.properties.get(name) for name in ("kept", "changed", "new", "removed")}
    assert found == {"kept": "0", "changed": "2", "new": None, "removed": "0"}
    assert table.properties["later"] == "1"
    assert ("theirs" in table.properties) == publishes
    assert [*table.refs()] == ["main"]
    assert table.spec().is_unpartitioned()
    assert delays(catalog_of(run)) == ([1, 2, 8, 9] if publishes else [1, 2, 9])


@pytest.mark.parametrize("again", ["pick", "merge"])
def test_a_publish_that_was_taken_back_arrives_again(repo, main, again):
    dev = repo.create_branch("dev", source="main")
    run_of(repo, "05", 3)
    publish = repo.branch("main").head
    picked = repo.cherry_pick(publish, onto="dev")
    append(dev, 4)
    repo.revert(picked, on="dev")
    if again == "pick":
        repo.cherry_pick(publish, onto="dev")
    else:
        repo.merge("main", into="dev")
    assert repo.ref("dev").exists("files/05")
    assert delays(catalog_of(dev)) == [1, 2, 3, 4]


def test_an_undo_arrives_where_the_same_was_redone(repo, main):
    run_of(repo, "05", 3)
    run = repo.runs.open("05", into="main")
    with run.step("more") as step:
        append(step, 4)
    run.undo_step("load")
    append(main, 5)
    rolled_back = repo.runs.rollback("05").commit
    append(main, 6)
    repo.revert(rolled_back, on="main")
    run.publish()
    assert not repo.ref("main").exists("files/05")
    assert delays(catalog_of(main)) == [1, 2, 4, 5, 6]


def test_what_was_picked_before_its_revert_stays(repo, main):
    dev = repo.create_branch("dev", source="main")
    with repo.run("a") as run, run.step("s") as step:
        append(step, 3)
        step.put("rows/3", b"3")
    published = main.head
    append(main, 9)
    repo.revert(published, on="main")
    repo.cherry_pick(published, onto="dev")
    repo.merge("main", into="dev")
    assert "rows/3" in dev
    assert delays(catalog_of(dev)) == [1, 2, 3, 9]
