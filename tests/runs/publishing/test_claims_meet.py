"""Claims that were withdrawn or made on two branches meet in a merge, a publish or a revert."""

import pytest

from graveler.errors import MergeConflictError, NoChangesError
from tests.harness.operations.claims import KEY, files, publish


@pytest.fixture
def main(repo):
    repo.protection.remove("main")
    return repo.branch("main")


@pytest.fixture(autouse=True)
def only_claims(repo, main):
    """Leave out what the fixture of the repository has."""
    main.delete("settled")
    main.commit("empty")


def again(repo, key, texts):
    """Return an attempt of a published run that has worked and not published."""
    run = repo.runs.open(key)
    with run.step("work") as step:
        for path, text in texts.items():
            step.put(path, text.encode())
    return run


def test_a_merge_never_returns_what_a_writer_stopped_writing(repo):
    publish(repo, "A", {"p": "old"})
    repo.create_branch("dev", source="main")
    publish(repo, "B", {"p": "B"}, into="dev")
    publish(repo, "A", {"p": "new"})
    repo.merge("dev", into="main", strategy="source-wins")
    publish(repo, "A", {"q": "1"})
    publish(repo, "B", {"z": "1"})
    assert files(repo) == {"q": "1", "z": "1"}


def test_a_rollback_returns_a_shared_file_of_an_earlier_publish(repo):
    publish(repo, "B", {"u": "1", "S": "x"})
    publish(repo, "A", {"S": "x"})
    publish(repo, "B", {"u": "2"})
    repo.runs.rollback("A")
    assert files(repo) == {"u": "2"}
    repo.runs.rollback("B")
    assert files(repo) == {"u": "1", "S": "x"}


def test_a_file_goes_whose_claims_both_sides_withdrew(repo):
    for name in ("pr", "dev"):
        repo.create_branch(name, source="main")
    publish(repo, "C", {"S": "x"}, into="dev")
    repo.merge("dev", into="pr")
    publish(repo, "A", {"S": "x"}, into="pr")
    repo.merge("pr", into="dev")
    repo.runs.rollback("C")
    repo.runs.rollback("A")
    repo.merge("pr", into="dev")
    assert files(repo, "dev") == {}


def test_a_merge_of_a_rollback_leaves_the_file_of_another_run(repo):
    repo.create_branch("pr", source="main")
    publish(repo, "A", {"S": "x"}, into="pr")
    publish(repo, "C", {"S": "x", "c": "1"})
    repo.merge("pr", into="main")
    repo.runs.rollback("A")
    repo.merge("pr", into="main")
    assert files(repo) == {"S": "x", "c": "1"}


def test_a_publish_leaves_a_file_that_another_run_claimed_since(repo):
    publish(repo, "B", {"S": "x", "b": "1"})
    run = again(repo, "B", {"b2": "1"})
    publish(repo, "A", {"S": "x", "a": "1"})
    run.publish()
    assert files(repo) == {"S": "x", "a": "1", "b2": "1"}


def test_a_revert_leaves_a_file_that_another_run_claimed_since(repo):
    publish(repo, "C", {"S": "x"})
    publish(repo, "C", {"c": "1"})
    back = repo.runs.rollback("C")
    publish(repo, "B", {"S": "x", "b": "1"})
    repo.revert(back.commit)
    assert files(repo) == {"S": "x", "b": "1", "c": "1"}


def test_a_file_goes_when_every_publish_is_rolled_back(repo):
    first = publish(repo, "A", {"S": "x", "u": "1"})
    publish(repo, "A", {"u": "2"})
    publish(repo, "C", {"S": "x"})
    repo.runs.rollback("A")
    repo.runs.rollback("C")
    repo.runs.rollback(first.id)
    assert files(repo) == {}


def test_a_deletion_passes_on_what_is_withdrawn_meanwhile(repo):
    publish(repo, "A", {"p": "1", "a": "1"})
    run = again(repo, "A", {"p2": "1"})
    publish(repo, "B", {"p": None})
    run.publish()
    publish(repo, "B", {"b": "1"})
    assert files(repo) == {"p2": "1", "b": "1"}


def test_a_rollback_above_an_open_attempt_returns_nothing_old(repo):
    publish(repo, "C", {"p": "C"})
    publish(repo, "B", {"p": "B"})
    run = again(repo, "C", {"p2": "1"})
    repo.runs.rollback("B")
    run.publish()
    assert files(repo) == {"p2": "1"}


def test_a_revert_returns_nothing_its_writer_stopped_writing(repo):
    publish(repo, "A", {"p": "A"})
    published = publish(repo, "C", {"p": "C"})
    publish(repo, "A", {"q": "1"})
    repo.revert(published, parent=1)
    assert files(repo) == {"q": "1"}


def test_a_user_keeps_an_equal_file_across_branches(repo):
    publish(repo, "A", {"p": "1"})
    repo.create_branch("dev", source="main")
    dev = repo.branch("dev")
    dev.put("p", b"1")
    dev.commit("only an equal file")
    repo.runs.rollback("A")
    repo.merge("dev", into="main")
    assert files(repo) == {"p": "1"}


def test_an_uploaded_file_that_is_there_is_claimed(repo, tmp_path):
    (tmp_path / "up").mkdir()
    (tmp_path / "up" / "p").write_bytes(b"1")
    publish(repo, "A", {"p": "1"})
    with repo.run("B") as run, run.step("work") as step:
        assert step.upload(tmp_path / "up", "").skipped == 1
    repo.runs.rollback("A")
    assert files(repo) == {"p": "1"}
    repo.runs.rollback("B")
    assert files(repo) == {}


def test_an_equal_write_over_a_change_of_others_is_refused(repo, main):
    main.put("p", b"1")
    main.commit("by hand")
    run = again(repo, "A", {"p": "1"})
    main.put("p", b"2")
    main.commit("by hand")
    with pytest.raises(MergeConflictError, match="'p'"):
        run.publish()


def test_a_revert_of_an_older_publish_leaves_later_work_known(repo):
    first = publish(repo, "A", {"p": "1"})
    publish(repo, "A", {"b": "1"})
    with pytest.raises(NoChangesError):
        repo.revert(first, parent=1)
    assert repo.runs.open("A").joined_steps()["work"].changed


@pytest.mark.parametrize("back", ["undo", "revert"])
def test_a_run_that_rests_on_a_rolled_back_one_is_rolled_back(repo, back):
    published = publish(repo, KEY, {"p": "1"})
    done = repo.runs.rollback(KEY)
    if back == "undo":
        repo.undo("main")
    else:
        repo.revert(done.commit)
    repo.runs.open(KEY).publish()
    repo.runs.rollback(published.id)
    assert repo.runs.get(KEY).state == "ROLLED_BACK"


def test_an_empty_publish_after_a_revert_does_not_rest_on_it(repo):
    published = publish(repo, KEY, {"p": "1"})
    repo.revert(published, parent=1)
    repo.runs.open(KEY).publish()
    repo.runs.rollback(published.id)
    assert repo.runs.get(KEY).state == "PUBLISHED"


def test_a_rollback_never_returns_what_a_lower_writer_withdrew(repo):
    publish(repo, "A", {"latest": "A1", "a": "1"})
    publish(repo, "B", {"latest": "B1", "b": "1"})
    publish(repo, "A", {"latest": "A2", "a": "2"})
    publish(repo, "B", {"b": "2"})
    repo.runs.rollback("A")
    assert files(repo) == {"latest": "A1", "a": "1", "b": "2"}


def test_an_equal_file_lands_though_its_first_writer_left(repo):
    publish(repo, "B", {"S": "x"})
    run = again(repo, "A", {"S": "x", "a": "1"})
    repo.runs.rollback("B")
    run.publish()
    assert files(repo) == {"S": "x", "a": "1"}


def test_a_picked_publish_comes_whole(repo):
    for name in ("dev", "pr", "pr2"):
        repo.create_branch(name, source="main")
    publish(repo, "B", {"S": "x"}, into="dev")
    repo.cherry_pick(publish(repo, "A", {"S": "x", "a": "1"}, into="dev"), "pr", parent=1)
    assert files(repo, "pr") == {"S": "x", "a": "1"}
    publish(repo, "K", {"same": "1", "k": "2"})
    picked = publish(repo, "K", {"same": "1", "k": "3"})
    repo.cherry_pick(picked, "pr2", parent=1, strategy="source-wins")
    assert files(repo, "pr2") == {"same": "1", "k": "3"}


def test_a_merged_publish_comes_whole_where_one_is_gone(repo):
    repo.create_branch("dev", source="main")
    publish(repo, "B", {"S": "x", "b": "1"})
    repo.merge("main", into="dev")
    repo.runs.rollback("B")
    publish(repo, "B", {"S": "x", "b2": "1"}, into="dev")
    repo.merge("dev", into="main")
    assert files(repo) == {"S": "x", "b2": "1"}


def test_a_rollback_is_not_reverted_beneath_a_later_publish(repo):
    publish(repo, KEY, {"p": "1"})
    back = repo.runs.rollback(KEY)
    publish(repo, KEY, {"p": "1", "q": "1"})
    with pytest.raises(NoChangesError):
        repo.revert(back.commit)
    repo.runs.rollback(KEY)
    publish(repo, KEY, {"p2": "1"})
    assert files(repo) == {"p2": "1"}


def test_a_publish_is_not_picked_onto_itself(repo):
    picked = publish(repo, KEY, {"p": "1"})
    with pytest.raises(NoChangesError):
        repo.cherry_pick(picked, "main", parent=1)
    publish(repo, KEY, {"p2": "1"})
    assert files(repo) == {"p2": "1"}


def test_a_revert_leaves_what_a_later_publish_of_the_run_wrote(repo):
    first = publish(repo, "B", {"S": "x", "b": "1"})
    publish(repo, "B", {"b2": "1"})
    publish(repo, "B", {"S": "x", "b3": "1"})
    with pytest.raises(NoChangesError):
        repo.revert(first, parent=1)
    assert files(repo) == {"S": "x", "b3": "1"}


def test_a_publish_over_newer_content_rolls_back_to_it(repo):
    publish(repo, "A", {"p": "A1"})
    run = again(repo, "B", {"p": "B"})
    publish(repo, "A", {"p": "A2"})
    run.publish(strategy="source-wins")
    assert files(repo) == {"p": "B"}
    repo.runs.rollback("B")
    assert files(repo) == {"p": "A2"}


@pytest.mark.parametrize(("answer", "expected"), [("delete", {}), ("source-wins", {"p": "B"})])
def test_a_function_decides_a_path_that_runs_wrote(repo, main, answer, expected):
    main.put("p", b"0")
    main.commit("by hand")
    repo.create_branch("dev", source="main")
    publish(repo, "A", {"p": "A"})
    publish(repo, "B", {"p": "B"}, into="dev")
    repo.merge("dev", into="main", strategy=lambda _: answer)
    assert files(repo) == expected


def test_two_runs_hold_an_equal_version_of_a_table(repo, main):
    log = "t/_delta_log/{:020}.json"
    main.put(log.format(0), b"0")
    main.commit("create")
    runs = [again(repo, key, {log.format(1): "1", "t/a": "1"}) for key in "AB"]
    for run in runs:
        run.publish()
    repo.runs.rollback("A")
    assert set(files(repo)) == {log.format(0), log.format(1), "t/a"}
    repo.runs.rollback("B")
    assert set(files(repo)) == {log.format(0)}


def test_a_claim_made_again_below_a_rollback_goes(repo):
    first, other = (again(repo, key, {"S": "x", key: "1"}) for key in "CB")
    other.publish()
    first.publish()
    run = again(repo, "B", {"S": "x", "B": "2"})
    repo.runs.rollback("C")
    run.publish()
    publish(repo, "B", {"B": "3"})
    assert files(repo) == {"B": "3"}


def test_a_revert_of_a_users_commit_leaves_what_a_run_claims(repo, main):
    main.put("p", b"1")
    commit = main.commit("by hand")
    publish(repo, KEY, {"p": "1", "q": "1"})
    repo.revert(commit)  # from now on, the run alone holds the file
    assert files(repo) == {"p": "1", "q": "1"}
    repo.runs.rollback(KEY)
    assert files(repo) == {}


def test_a_revert_of_a_merge_leaves_what_the_run_wrote_since(repo):
    repo.create_branch("pr", source="main")
    publish(repo, "B", {"S": "x", "b": "1"}, into="pr")
    merged = repo.merge("pr", into="main").commit
    publish(repo, "B", {"S": "x", "b2": "1"})
    with pytest.raises(NoChangesError):
        repo.revert(merged)
    assert files(repo) == {"S": "x", "b2": "1"}


def test_a_user_who_uploads_an_equal_file_keeps_it(repo, main, tmp_path):
    (tmp_path / "up").mkdir()
    (tmp_path / "up" / "p").write_bytes(b"1")
    publish(repo, "A", {"p": "1"})
    assert main.upload(tmp_path / "up", "").skipped == 1
    main.commit("by hand")
    repo.runs.rollback("A")
    assert files(repo) == {"p": "1"}


@pytest.mark.parametrize("strategy", [None, "source-wins", "dest-wins"])
def test_two_rounds_of_a_run_are_not_merged_into_one(repo, strategy):
    publish(repo, KEY, {"part-1": "1"})
    repo.create_branch("dev", source="main")
    publish(repo, KEY, {"part-2": "1"}, into="dev")
    publish(repo, KEY, {"part-3": "1"})
    if strategy is None:
        with pytest.raises(MergeConflictError, match="part-3"):
            repo.merge("dev", into="main")
    else:
        repo.merge("dev", into="main", strategy=strategy)
        assert files(repo) == {"part-2" if strategy == "source-wins" else "part-3": "1"}


def test_a_revert_that_is_repeated_changes_nothing(repo, main):
    run = repo.runs.open(KEY)
    run.put("p", b"1")
    run.commit("direct")
    with run.step("one") as step:
        step.put("p", b"2")
    revert = repo.revert(run.publish().commit, parent=1)
    repo.revert(revert)
    with pytest.raises(NoChangesError):
        repo.revert(revert)
    repo.runs.rollback(KEY)
    assert files(repo) == {}


def test_a_rollback_returns_what_the_revert_of_a_revert_brought(repo, main):
    main.put("p", b"1")
    revert = repo.revert(main.commit("by hand"))
    publish(repo, KEY, {"p": "1", "q": "1"})
    repo.revert(revert)
    repo.runs.rollback(KEY)
    assert files(repo) == {"p": "1"}


def test_a_deletion_stands_on_a_claim_that_lost_its_equal(repo):
    repo.create_branch("pr", source="main")
    brought = publish(repo, "07", {"latest": "x"}, into="pr")
    run = repo.runs.open("05")
    repo.cherry_pick(brought, "main")
    with run.step("work") as step:
        step.put("latest", b"x")
    run.publish()
    run = repo.runs.open("06")
    repo.runs.rollback("05")
    with run.step("work") as step:
        step.delete("latest")
    run.publish()
    assert files(repo) == {}


def test_a_deletion_returns_with_its_run(repo, main):
    publish(repo, "06", {"S": "a"})
    main.put("S", b"b")
    main.commit("by hand")
    publish(repo, "07", {"S": None})
    rollback = repo.runs.rollback("07")
    for text in (b"c", b"b"):
        main.put("S", text)
        main.commit("by hand")
    repo.revert(rollback.commit, "main")
    assert files(repo) == {}


def test_nothing_returns_of_two_steps_that_were_rolled_back(repo):
    run = repo.runs.open("05")
    for name in ("one", "two"):
        with run.step(name) as step:
            step.put("latest", name.encode())
    run.publish()
    publish(repo, "07", {"latest": None})
    repo.runs.rollback("05")
    publish(repo, "07", {"other": "x"})
    assert files(repo) == {"other": "x"}


def test_a_merge_names_what_a_user_wrote_over_a_rolled_back_run(repo, main):
    publish(repo, "05", {"S": "a"})
    repo.create_branch("pr", source="main")
    repo.runs.rollback("05")
    publish(repo, "06", {"S": "b"}, into="pr")
    main.put("S", b"c")
    main.commit("by hand")
    with pytest.raises(MergeConflictError):
        repo.merge("main", into="pr")


def test_a_rollback_reverts_no_publish_on_another_target(repo):
    publish(repo, "06", {"latest": "a"})
    repo.create_branch("pr", source="main")
    publish(repo, "06", {"latest": "a"}, into="pr")
    repo.delete_branch("pr")
    with pytest.raises(NoChangesError):
        repo.runs.rollback("06")
    assert files(repo) == {"latest": "a"}


def test_a_pick_brings_a_file_that_a_user_has_deleted(repo, main):
    published = publish(repo, "07", {"S": "x"})
    repo.create_branch("pr", source=f"{published.id}~1")
    brought = repo.cherry_pick(published, "pr")
    main.delete("S")
    main.commit("by hand")
    repo.cherry_pick(brought, "main")
    assert files(repo) == {"S": "x"}
    repo.runs.rollback("07")
    assert files(repo) == {}


def test_all_writers_of_a_path_come_if_one_meets_a_change(repo, main):
    """A pick moves the run's own claim; the file that its step wrote over a deletion lands."""
    root = repo.branch("main").head
    with repo.run(KEY) as run:
        run.put("p", b"3")
        run.commit_staged()
        with run.step("two") as step:
            step.put("q", b"3")
    main.put("p", b"1")
    main.commit("users")
    repo.create_branch("dev", root.id)
    merged = repo.merge("main", "dev").commit
    with repo.run(KEY) as run:
        run.delete("p")
        run.commit_staged()
        repo.cherry_pick(merged, "main", parent=1)
        with run.step("one") as step:
            step.put("p", b"3")
    assert files(repo) == {"p": "3", "q": "3"}
