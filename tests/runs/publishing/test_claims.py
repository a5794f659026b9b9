"""What a retry replaces and a rollback withdraws is what the head of the target claims."""

from datetime import timedelta

import pytest

from graveler.errors import ExpiredError, MergeConflictError, NoChangesError, RunStateError
from tests.harness.operations.claims import KEY, files, publish
from tests.harness.worlds import ScriptedWorld


@pytest.fixture
def main(repo):
    repo.protection.remove("main")
    return repo.branch("main")


@pytest.fixture(params=["undo", "reset", "revert"])
def withdrawn(request, repo, main):
    """Return how the latest commit of main is withdrawn."""

    def undo():
        repo.undo("main")

    def reset():
        main.reset("main~1")

    def revert():
        repo.revert("main", parent=1)

    return {"undo": undo, "reset": reset, "revert": revert}[request.param]


def test_a_publish_to_another_branch_between_does_not_double(repo, main):
    repo.create_branch("pr-42", source="main")
    publish(repo, KEY, {"part-1": "1"})
    publish(repo, KEY, {"part-2": "1"}, into="pr-42")
    publish(repo, KEY, {"part-3": "1"})
    assert files(repo) == {"part-3": "1"}
    assert files(repo, "pr-42") == {"part-2": "1"}


@pytest.mark.parametrize("back", ["undo", "revert"])
def test_a_rollback_that_was_withdrawn_lets_the_publish_stand(repo, main, back):
    publish(repo, KEY, {"part-1": "1"})
    done = repo.runs.rollback(KEY)
    assert files(repo) == {}
    if back == "undo":
        repo.undo("main")
    else:
        repo.revert(done.commit)
    publish(repo, KEY, {"part-2": "1"})
    assert files(repo) == {"part-2": "1"}


def test_the_first_publish_is_replaced_after_the_second_is_gone(repo, withdrawn):
    publish(repo, KEY, {"part-1": "1"})
    publish(repo, KEY, {"part-2": "1"})
    withdrawn()
    assert files(repo) == {"part-1": "1"}
    publish(repo, KEY, {"part-3": "1"})
    assert files(repo) == {"part-3": "1"}


def test_the_first_of_many_publishes_is_replaced(repo, main):
    first = publish(repo, KEY, {"part-1": "1"}).id
    for number in range(60):
        publish(repo, KEY, {f"part-{number}": "1"}, into="main")
    assert files(repo) == {"part-59": "1"}
    main.reset(first)
    publish(repo, KEY, {"part-x": "1"})
    assert files(repo) == {"part-x": "1"}


def test_many_publishes_without_changes_do_not_hide_the_first(repo, main):
    publish(repo, KEY, {"part-1": "1"})
    for _ in range(60):
        publish(repo, KEY, {"part-1": "1"})
    repo.runs.rollback(KEY)
    assert files(repo) == {}


def test_a_publish_that_a_merge_brought_is_replaced(repo, main):
    repo.create_branch("pr", source="main")
    publish(repo, KEY, {"part-1": "1"}, into="pr")
    repo.merge("pr", into="main")
    publish(repo, KEY, {"part-2": "1"})
    assert files(repo) == {"part-2": "1"}


def test_a_publish_that_was_picked_is_replaced(repo, main):
    repo.create_branch("pr", source="main")
    picked = publish(repo, KEY, {"part-1": "1"}, into="pr")
    repo.cherry_pick(picked, "main", parent=1)
    publish(repo, KEY, {"part-2": "1"})
    assert files(repo) == {"part-2": "1"}


def test_a_revert_of_a_merge_takes_back_its_publishes(repo, main):
    repo.create_branch("pr", source="main")
    publish(repo, KEY, {"part-1": "1"}, into="pr")
    merged = repo.merge("pr", into="main").commit
    reverted = repo.revert(merged, parent=1)
    publish(repo, KEY, {"part-2": "1"})
    assert files(repo) == {"part-2": "1"}
    repo.undo("main")
    repo.revert(reverted)
    publish(repo, KEY, {"part-3": "1"})
    assert files(repo) == {"part-3": "1"}


@pytest.mark.parametrize("first", ["A", "C"])
def test_a_later_equal_write_keeps_the_path(repo, main, first):
    """A writes 1, B 2, C 1."""
    for key, text in (("A", "1"), ("B", "2"), ("C", "1")):
        publish(repo, key, {"p": text})
    repo.runs.rollback(first)
    assert files(repo) == {"p": "1" if first == "A" else "2"}
    if first == "A":
        repo.runs.rollback("C")
        assert files(repo) == {"p": "2"}
        repo.runs.rollback("B")
        assert files(repo) == {}


@pytest.mark.parametrize("order", [("05", "06"), ("06", "05")])
def test_the_success_file_of_two_hours_goes_with_the_last(repo, main, order):
    for hour in ("05", "06"):
        publish(repo, hour, {"out/_SUCCESS": "", f"out/{hour}": hour})
    repo.runs.rollback(order[0])
    assert files(repo) == {"out/_SUCCESS": "", f"out/{order[1]}": order[1]}
    repo.runs.rollback(order[1])
    assert files(repo) == {}


def delete(repo, who, step="s"):
    if who == "user":
        repo.branch("main").delete("dim")
        return repo.branch("main").commit("the user deletes it, too")
    with repo.run(who) as run:
        with run.step(step) as work:
            work.delete("dim")
            work.put(f"by-{who}", b"1")
    return run.result.commit


@pytest.mark.parametrize("second", ["06", "user"])
@pytest.mark.parametrize("away", ["rollback", "revert", "retry"])
def test_a_path_that_two_deleted_comes_back_with_the_last(repo, main, second, away):
    main.put("dim", b"old")
    main.commit("base")
    first = delete(repo, "05")
    later = delete(repo, second)
    if away == "rollback":
        repo.runs.rollback("05")
    elif away == "revert":
        repo.revert(first, "main", parent=1)
    else:
        with repo.run("05") as run, run.step("s") as step:
            step.put("part-1", b"1")
    assert "dim" not in files(repo)
    repo.revert(later, "main", **({} if second == "user" else {"parent": 1}))
    assert files(repo)["dim"] == "old"


def test_two_steps_of_one_run_delete_a_path_together(repo, main):
    main.put("dim", b"old")
    main.commit("base")
    run = repo.runs.open("05")
    for step in "ab":
        with run.step(step) as work:
            work.delete("dim")
    run.undo_step("a")
    assert not run.exists("dim")
    run.undo_step("b")
    assert run.get("dim") == b"old"


def test_a_deletion_of_what_never_was_is_no_claim(repo, main):
    with repo.run("05") as run, run.step("s") as step:
        step.delete("never")
    assert run.result.already


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_an_hour_that_ran_again_equally_is_rolled_back(repo, main, rounds):
    for hour in ("05", "06") * rounds + ("05",):
        publish(repo, hour, {"out/_SUCCESS": "", f"out/{hour}": hour})
    repo.runs.rollback("05")
    assert files(repo) == {"out/_SUCCESS": "", "out/06": "06"}
    repo.runs.rollback("06")
    assert files(repo) == {}


def test_after_an_undone_equal_round_a_rollback_repeats(repo, main):
    for hour in ("05", "06", "05"):
        publish(repo, hour, {"out/_SUCCESS": "", f"out/{hour}": hour})
    repo.undo("main")
    first = repo.runs.rollback("05")
    assert files(repo) == {"out/_SUCCESS": "", "out/06": "06"}
    again = repo.runs.rollback("05")
    assert (again.commit, again.already) == (first.commit, True)


def test_two_hours_that_wrote_a_file_at_once_hold_it_together(repo, main):
    runs = [repo.runs.open(hour) for hour in ("05", "06")]
    for run in runs:
        with run.step("work") as step:
            step.put("out/_SUCCESS", b"")
    for run in runs:
        run.publish()
    for hour in ("05", "06"):
        assert files(repo) == {"out/_SUCCESS": ""}
        repo.runs.rollback(hour)
    assert files(repo) == {}


def test_a_retry_leaves_an_equal_file_of_another_run(repo, main):
    for hour in ("05", "06"):
        publish(repo, hour, {"out/_SUCCESS": "", f"out/{hour}": hour})
    publish(repo, "05", {"out/05": "5"})
    assert files(repo) == {"out/_SUCCESS": "", "out/05": "5", "out/06": "06"}
    repo.runs.rollback("06")
    assert files(repo) == {"out/05": "5"}


def test_two_steps_of_one_run_hold_a_file_together(repo, main):
    run = repo.runs.open(KEY)
    for name in ("one", "two"):
        with run.step(name) as step:
            step.put("_SUCCESS", b"")
            step.put(name, b"1")
    run.undo_step("one")
    assert {entry.path for entry in run.list()} == {"_SUCCESS", "settled", "two"}
    run.undo_step("two")
    assert {entry.path for entry in run.list()} == {"settled"}


def test_a_file_of_a_user_that_a_run_writes_again_stays(repo, main):
    main.put("p", b"1")
    main.commit("by hand")
    before = repo.commit("main")
    landed = publish(repo, KEY, {"p": "1"})
    assert landed.parents[0] == before.id
    assert landed.metarange == before.metarange
    repo.runs.rollback(KEY)
    assert files(repo) == {"p": "1"}


def test_a_user_who_writes_a_file_of_a_run_again_keeps_it(repo, main):
    publish(repo, KEY, {"p": "1", "q": "1"})
    main.put("p", b"1")
    main.put("other", b"1")
    main.commit("by hand")
    repo.runs.rollback(KEY)
    assert files(repo) == {"p": "1", "other": "1"}


def test_a_file_that_a_user_put_back_is_no_conflict(repo, main):
    main.put("p", b"0")
    main.commit("by hand")
    publish(repo, KEY, {"p": "1", "q": "1"})
    main.put("p", b"0")
    main.commit("put back")
    repo.runs.rollback(KEY)
    assert files(repo) == {"p": "0"}


def test_a_step_that_writes_equal_files_joins_with_its_claims(repo, main):
    run = repo.runs.open(KEY)
    head = run.head
    with run.step("work") as step:
        step.put("settled", b"0")
    assert run.head == step.result
    assert run.head.metarange == head.metarange
    assert run.head.trees != head.trees


@pytest.mark.parametrize("ingests", [False, True])
def test_a_file_that_a_merge_and_a_run_bring_at_once_stays(repo, main, ingests):
    repo.create_branch("dev", source="main")
    run = repo.runs.open(KEY)
    with run.step("work") as step:
        step.put("p", b"1")
        step.put("q", b"1")
    dev = repo.ingestion().branch if ingests else repo.branch("dev")
    dev.put("p", b"1")
    run.publish()
    if ingests:
        assert repo.ingestion().tick().published is not None
    else:
        dev.commit("by hand")
        repo.merge("dev", into="main")
    repo.runs.rollback(KEY)
    assert files(repo) == {"p": "1"}


def test_different_bytes_of_others_conflict_by_name(repo, main):
    publish(repo, "A", {"p": "1"})
    publish(repo, "B", {"p": "2"})
    with pytest.raises(MergeConflictError, match="'p' by run 'B'"):
        repo.runs.rollback("A")
    assert files(repo) == {"p": "2"}


def test_a_file_of_a_writer_that_ran_again_does_not_return(repo, main):
    publish(repo, "A", {"p": "1"})
    publish(repo, "B", {"p": "2"})
    publish(repo, "A", {"q": "1"})
    repo.runs.rollback("B")
    assert files(repo) == {"q": "1"}


def test_a_file_that_a_compaction_deleted_does_not_return_twice(repo, main):
    publish(repo, "A", {"part-1": "1"})
    publish(repo, "compact", {"part-1": None, "all": "1"})
    publish(repo, "A", {"part-2": "1"})
    repo.runs.rollback("compact")
    assert files(repo) == {"part-2": "1"}


def test_a_rollback_returns_to_what_the_run_published_first(repo, main):
    publish(repo, KEY, {"a": "1", "b": "1", "c": "1"})
    publish(repo, KEY, {"a": "2", "b": "1", "d": "1"})
    repo.runs.rollback(KEY)
    assert files(repo) == {"a": "1", "b": "1", "c": "1"}
    publish(repo, KEY, {"e": "1"})
    assert files(repo) == {"e": "1"}


def test_a_revert_has_nothing_left_to_roll_back(repo, main):
    published = publish(repo, KEY, {"a": "1"})
    revert = repo.revert(published, parent=1)
    assert repo.runs.rollback(KEY).commit == revert
    main.reset(published.parents[0])
    with pytest.raises(RunStateError):
        repo.runs.rollback(KEY)


def test_an_equal_publish_costs_no_new_tree(repo, main):
    publish(repo, KEY, {f"part-{number}": "1" for number in range(100)})
    before = repo.commit("main")
    publish(repo, KEY, {f"part-{number}": "1" for number in range(100)})
    assert repo.commit("main").trees == before.trees


@pytest.fixture
def expired():
    """A lake with empty caches: retention has passed an hour, and one that replaced a file."""
    world = ScriptedWorld()
    repo = world.repo(scripted=False)
    main = repo.branch("main")
    main.put("latest", b"0")
    main.commit("by hand")
    publish(repo, KEY, {"part-1": "1"})
    publish(repo, "other", {"latest": "1"})
    for number in range(3):
        main.put(f"later-{number}", b"1")
        main.commit("later")
    repo.stores.clock.sleep(timedelta(days=30).total_seconds())
    repo.gc.keep(days=1)
    now = timedelta(0)
    repo.gc.sweep(repo.gc.mark(grace=now, window=now).id)
    return world.repo(scripted=False)


def test_an_hour_older_than_retention_runs_again(expired):
    publish(expired, KEY, {"part-2": "1"})
    assert {path for path in files(expired) if "part" in path} == {"part-2"}


def test_a_file_whose_earlier_bytes_are_gone_is_named(expired):
    with pytest.raises(ExpiredError, match=r"'latest'.*--fresh"):
        publish(expired, "other", {"else": "1"})
    run = expired.runs.open("other", fresh=True)
    with run.step("work") as step:
        step.put("else", b"1")
    run.publish()
    assert "latest" not in files(expired)


def test_a_publish_whose_trees_are_collected_is_not_rolled_back(expired):
    before = files(expired)
    with pytest.raises(ExpiredError):
        expired.runs.rollback(KEY)
    assert files(expired) == before


def test_a_run_without_changes_has_nothing_to_roll_back(repo, main):
    repo.runs.open(KEY).publish()
    with pytest.raises(NoChangesError):
        repo.runs.rollback(KEY)


LOG = "t/_delta_log/{:020}.json"


@pytest.fixture
def table(repo, main):
    """A Delta table: version 0 of a user, version 1 of an hour, version 2 of another one."""
    main.put(LOG.format(0), b"0")
    main.commit("create")
    publish(repo, "05", {LOG.format(1): "1", "t/part-05": "1"})
    publish(repo, "06", {LOG.format(2): "1", "t/part-06": "1"})
    return set(files(repo))


def test_a_table_with_later_versions_is_not_torn_by_a_retry(repo, table):
    with pytest.raises(MergeConflictError, match=r"'t/'.*00002.json.*tables=\"keep\"") as refused:
        publish(repo, "05", {"x": "1"})
    assert [conflict.path for conflict in refused.value.conflicts] == ["t/_delta_log"]
    assert set(files(repo)) == table
    run = repo.runs.open("05")
    with run.step("work", tables="keep") as step:
        step.put(LOG.format(3), b"replaceWhere")
        step.put("t/part-05b", b"1")
    run.publish()
    assert set(files(repo)) == table | {LOG.format(3), "t/part-05b"}


def test_the_latest_version_of_a_table_is_replaced_as_a_whole(repo, table):
    publish(repo, "06", {LOG.format(2): "2", "t/part-06b": "1"})
    assert set(files(repo)) == table - {"t/part-06"} | {"t/part-06b"}


def test_a_rollback_names_the_later_versions_of_a_table(repo, table):
    with pytest.raises(MergeConflictError, match=r"t/_delta_log.*RESTORE"):
        repo.runs.rollback("05")
    assert set(files(repo)) == table
    repo.runs.rollback("06")
    repo.runs.rollback("05")
    assert set(files(repo)) == {LOG.format(0)}


def steps(run, **writes):
    """Do steps one after the other: files by step."""
    for name, texts in writes.items():
        with run.step(name) as step:
            for path, text in texts.items():
                step.put(path, text.encode())


def names(run):
    return {entry.path: run.get(entry.path).decode() for entry in run.list()}


def test_a_claim_above_equal_ones_keeps_what_they_wrote(repo, main):
    """A and C wrote 1, D wrote 2 over it."""
    publish(repo, "A", {"p": "1"})
    publish(repo, "C", {"p": "1"})
    publish(repo, "D", {"p": "2"})
    publish(repo, "A", {"q": "1"})
    repo.runs.rollback("D")
    assert files(repo) == {"p": "1", "q": "1"}


def test_a_writer_that_changes_a_shared_file_leaves_it(repo, main):
    run = repo.runs.open("A")
    run.put("p", b"1")
    run.commit("direct")
    run.publish()
    publish(repo, "C", {"p": "1"})
    again = repo.runs.open("A")
    again.put("p", b"2")
    again.commit("direct")
    again.publish()
    repo.runs.rollback("A")
    assert files(repo) == {"p": "1"}


def test_a_step_writes_what_its_neighbour_stopped_writing(repo, main):
    run = repo.runs.open(KEY)
    steps(run, one={"p": "1"})
    with run.step("two") as two:
        steps(run, one={"q": "1"})
        two.put("p", b"1")
    assert names(run) == {"settled": "0", "p": "1", "q": "1"}


def test_a_step_leaves_what_its_neighbour_writes_now(repo, main):
    run = repo.runs.open(KEY)
    steps(run, two={"p": "1"})
    with run.step("two") as two:
        steps(run, one={"p": "1"})
        two.put("q", b"1")
    assert names(run) == {"settled": "0", "p": "1", "q": "1"}


def test_a_run_that_wrote_a_path_twice_rolls_back(repo, main):
    run = repo.runs.open(KEY)
    steps(run, one={"p": "1"}, two={"p": "2"})
    run.put("p", b"3")
    run.commit("direct")
    run.publish()
    repo.runs.rollback(KEY)
    assert files(repo) == {}


def test_a_rollback_returns_a_file_that_another_step_wrote_first(repo, main):
    publish(repo, KEY, {"b": "1"})
    run = repo.runs.open(KEY)
    steps(run, work={"c": "1"})
    run.put("b", b"2")
    run.commit("direct")
    run.publish()
    repo.runs.rollback(KEY)
    assert files(repo) == {"b": "1"}


def test_a_rollback_leaves_what_another_run_claimed_since(repo, main):
    main.put("p", b"0")
    main.commit("by hand")
    publish(repo, KEY, {"p": "1"})
    publish(repo, KEY, {"q": "1"})
    publish(repo, "B", {"p": "0"})
    repo.runs.rollback(KEY)
    assert files(repo) == {"p": "0"}
    repo.runs.rollback("B")
    assert files(repo) == {"p": "1"}


def test_steps_are_known_after_a_rollback_was_undone(repo, main):
    publish(repo, KEY, {"p": "1"})
    repo.runs.rollback(KEY)
    assert not repo.runs.open(KEY).joined_steps()
    repo.undo("main")
    assert repo.runs.open(KEY).joined_steps()["work"].changed


def test_a_file_that_a_rollback_restored_names_its_run(repo, main):
    first = publish(repo, "A", {"p": "1"})
    publish(repo, "B", {"p": "2"})
    repo.runs.rollback("B")
    found = repo.why("p")
    assert (found.key, found.commit.id) == ("A", first.id)


def test_a_move_is_a_read(repo, main):
    first = publish(repo, "A", {"p": "1"})
    with repo.run("B") as run, run.step("work") as step:
        step.move("p", "q")
    assert [reader.key for reader in repo.runs.readers(first.id)] == ["B"]
