"""Rollback: one commit reverts a published run, and the result names the runs that read it."""

import pytest

from graveler.committed.diff import diff
from graveler.errors import (
    GravelerError,
    InvalidInputError,
    MergeConflictError,
    NoChangesError,
    ProtectedBranchError,
    RunNotFoundError,
    RunStateError,
)
from graveler.publishing import tables
from graveler.refs.history import outside
from graveler.runs import rollback as readers
from graveler.runs.record import RunHandle
from graveler.runs.state import RunState
from graveler.testing.faults import ProcessDied
from tests.harness.operations.rollback import KEY, done, publish, take_back
from tests.harness.worlds import FAULTS, interleave, struck_worlds
from tests.harness.worlds import tree as tree_of


def test_a_follower_of_hours_learns_of_the_one_rolled_back(repo):
    metadata = {"hour": "2013-01-01T05:00Z", "late": "2013-01-01T04:00Z", "who": "me"}
    with repo.run(KEY, into="main", metadata=metadata) as run:
        run.put("out/05", b"5")
    made = repo.runs.rollback(KEY, metadata={"who": "you"}).commit
    assert {key: made.metadata[key] for key in metadata} == {**metadata, "who": "you"}


def test_a_run_is_taken_back_in_one_commit_and_later_runs_stay(repo, tree):
    publish(repo, KEY, {"out/05": "5", "settled": None})
    publish(repo, "hourly 06", {"out/06": "6"})
    head = repo.commit("main")
    done = repo.runs.rollback(KEY)
    assert tree(repo.ref("main")) == {"settled": "0", "out/06": "6"}
    assert repo.commit("main") == done.commit
    assert done.commit.parents == (head.id,)
    assert done.commit.message.startswith(f"roll back run {KEY}")
    assert done.commit.metadata["graveler.rollback"] == KEY
    assert not done.already
    record = repo.runs.get(KEY)
    assert done.record == record
    assert (record.state, record.rollback) == (RunState.ROLLED_BACK, done.commit.id)
    assert done.commit.id[:12] in record.reason
    assert done.readers == ()


def test_it_may_be_asked_for_again(repo):
    publish(repo, KEY, {"a": "1"})
    published = repo.runs.get(KEY).commit
    done = repo.runs.rollback(KEY, message="wrong", metadata={"ticket": "7"})
    assert (done.commit.message, done.commit.metadata["ticket"]) == ("wrong", "7")
    for again in (KEY, published, published[:12]):
        repeated = repo.runs.rollback(again)
        assert repeated.already
        assert (repeated.commit, repeated.record) == (done.commit, done.record)
    assert repo.commit("main") == done.commit


def test_an_hour_run_again_after_its_rollback_is_published_whole(repo, tree):
    publish(repo, KEY, {"a": "1", "b": "1"})
    repo.runs.rollback(KEY)
    publish(repo, KEY, {"a": "1"})
    assert tree(repo.ref("main")) == {"settled": "0", "a": "1"}
    record = repo.runs.get(KEY)
    assert (record.state, record.attempt, record.rollback) == (RunState.PUBLISHED, 2, "")
    repo.runs.rollback(KEY)
    assert tree(repo.ref("main")) == {"settled": "0"}


def test_of_two_publishes_of_an_hour_the_last_rolls_back_first(repo, tree):
    first = publish(repo, KEY, {"a": "1", "b": "1"})
    publish(repo, KEY, {"a": "2"})
    with pytest.raises(MergeConflictError):
        repo.runs.rollback(first.commit)
    repo.runs.rollback(KEY)
    assert tree(repo.ref("main")) == {"settled": "0", "a": "1", "b": "1"}
    done = repo.runs.rollback(first.commit)
    assert tree(repo.ref("main")) == {"settled": "0"}
    assert done.record.state is RunState.ROLLED_BACK
    assert done.record.commit != first.commit


def test_a_step_run_again_after_a_rollback_replaces_the_target(repo, tree):
    """Each round names its files differently. No file of an earlier round may remain."""
    commits = [publish(repo, KEY, {f"out/{number}": "x"}).commit for number in range(4)]
    assert tree(repo.ref("main")) == {"settled": "0", "out/3": "x"}
    repo.runs.rollback(KEY)
    assert tree(repo.ref("main")) == {"settled": "0", "out/2": "x"}
    publish(repo, KEY, {"out/4": "x"})
    assert tree(repo.ref("main")) == {"settled": "0", "out/4": "x"}
    repo.runs.rollback(KEY)
    repo.runs.rollback(commits[2])
    assert tree(repo.ref("main")) == {"settled": "0", "out/1": "x"}
    publish(repo, KEY, {"out/5": "x"})
    assert tree(repo.ref("main")) == {"settled": "0", "out/5": "x"}
    for commit in (repo.runs.get(KEY).commit, commits[1], commits[0]):
        repo.runs.rollback(commit)
    assert tree(repo.ref("main")) == {"settled": "0"}
    publish(repo, KEY, {"out/6": "x"})
    assert tree(repo.ref("main")) == {"settled": "0", "out/6": "x"}


def test_later_changes_that_overlap_are_listed_and_nothing_moves(repo, tree):
    publish(repo, KEY, {"a": "1", "b": "1", "c": "1"})
    publish(repo, "fix of a", {"a": "2"})
    repo.create_branch("manual").put("b", b"3")
    repo.branch("manual").commit("by hand")
    merged = repo.merge("manual", into="main").commit
    before = tree(repo.ref("main"))
    with pytest.raises(MergeConflictError) as caught:
        repo.runs.rollback(KEY)
    assert [conflict.path for conflict in caught.value.conflicts] == ["a", "b"]
    assert "'a' by run 'fix of a'" in str(caught.value)
    assert f"'b' by commit {merged.id[:12]}" in str(caught.value)
    assert tree(repo.ref("main")) == before
    assert repo.runs.get(KEY).state is RunState.PUBLISHED


def test_runs_that_read_what_it_wrote_are_named_and_no_others(repo):
    publish(repo, KEY, {"raw/05/x": "5", "raw/05/y": "5"})

    def read(key, reader, **terms):
        with repo.run(key, **terms) as run:
            reader(run)
            run.put(f"out/{key}", b"1")

    read("by path", lambda run: run.get("raw/05/x"))
    read("by listing", lambda run: list(run.list("raw/")))
    read("by uris", lambda run: run.uris("raw/05/"))
    read("by view", lambda run: run.view().get("raw/05/y"))
    read("by ref", lambda run: run.view("main").get("raw/05/y"))
    read("told", lambda run: run.reads("raw/05/"))
    read("elsewhere", lambda run: run.get("settled"))
    read("nothing", lambda run: None)
    with repo.run("in a step") as run, run.step("one") as step:
        step.get("raw/05/x")
        step.put("out/step", b"1")
    parked = repo.runs.open("parked")
    with parked.step("one") as step:
        step.get("raw/05/x")
        step.put("out/parked", b"1")
    parked.park()
    publish(repo, "mended", {"raw/05/x": "6"})
    read("reads the mended one", lambda run: run.get("raw/05/x"), into="main")
    repo.runs.open("has not committed").get("raw/05/x")

    named = [
        "by listing",
        "by path",
        "by ref",
        "by uris",
        "by view",
        "in a step",
        "parked",
        "reads the mended one",  # raw/05/y is in the same folder
        "told",
    ]
    assert [record.key for record in repo.runs.readers(KEY)] == named
    assert [record.key for record in repo.runs.readers("mended")] == ["reads the mended one"]
    assert [record.key for record in repo.runs.rollback("mended").readers] == [
        "reads the mended one"
    ]
    done = repo.runs.rollback(KEY)
    assert [record.key for record in done.readers] == named


def test_reads_before_the_run_was_published_do_not_count(repo):
    early = repo.runs.open("early")
    early.exists("raw/05/x")
    early.put("out", b"1")
    publish(repo, KEY, {"raw/05/x": "5"})
    early.commit("out")
    early.publish()
    assert repo.runs.readers(KEY) == ()


def test_what_is_no_published_run_is_refused(repo):
    with pytest.raises(RunNotFoundError, match="neither"):
        repo.runs.rollback("unknown")
    with pytest.raises(RunNotFoundError, match="graveler revert"):
        repo.runs.rollback(repo.commit("main").id)
    run = repo.runs.open(KEY)
    with pytest.raises(RunStateError, match="OPEN and has published nothing"):
        repo.runs.rollback(KEY)
    run.publish()
    with pytest.raises(NoChangesError, match="changed nothing"):
        repo.runs.rollback(KEY)
    with pytest.raises(InvalidInputError):
        repo.runs.rollback(KEY, metadata={"graveler.run": "x"})
    assert repo.runs.get(KEY).state is RunState.PUBLISHED


@pytest.mark.parametrize("between", [False, True])
def test_a_round_that_changed_nothing_is_passed_over(repo, tree, between):
    others = {"settled": "0"} | ({"c": "3"} if between else {})
    publish(repo, KEY, {"a": "1"})
    publish(repo, KEY, {"b": "2"})
    second = repo.runs.get(KEY).commit
    if between:
        publish(repo, "other", {"c": "3"})
    assert repo.runs.open(KEY).publish().already
    taken = repo.runs.rollback(KEY)
    assert taken.commit.metadata["graveler.revert"] == second
    assert taken.record.state is RunState.ROLLED_BACK
    assert tree(repo.ref("main")) == {"a": "1"} | others
    again = repo.runs.rollback(KEY)
    assert (again.commit, again.already) == (taken.commit, True)
    assert repo.runs.open(KEY).publish().already
    assert repo.runs.rollback(KEY).commit != taken.commit
    assert tree(repo.ref("main")) == others
    assert repo.runs.open(KEY).publish().already
    with pytest.raises(NoChangesError, match="changed nothing"):
        repo.runs.rollback(KEY)


@pytest.mark.parametrize("later", [0, 1])
def test_an_empty_round_that_was_undone_is_rolled_back(repo, later):
    """However many commits the target has since: the work that the round rested on is withdrawn."""
    repo.protection.remove("main")
    main = repo.branch("main")
    with repo.run("05") as run:
        run.put("a", b"1")
    first = run.result.commit
    again = repo.runs.open("05")
    main.put("b", b"1")
    main.commit("other")
    again.publish()
    repo.undo("main")
    for number in range(later):
        main.put("c", b"%d" % number)
        main.commit("other")
    repo.runs.rollback(first.id)
    assert repo.runs.get("05").state is RunState.ROLLED_BACK


def test_a_run_whose_target_was_reset_is_not_rolled_back_again(repo):
    repo.protection.remove("main")
    publish(repo, KEY, {"a": "1"})
    repo.branch("main").reset("main~1")
    with pytest.raises(RunStateError, match="not in 'main' any more"):
        repo.runs.rollback(KEY)
    publish(repo, "other", {"b": "1"})
    reverted = repo.revert(repo.runs.get("other").commit, parent=1)
    done = repo.runs.rollback("other")
    assert (done.commit, done.already) == (reverted, True)
    assert done.record.state is RunState.ROLLED_BACK


def test_a_rollback_that_was_undone_can_be_done_once_more(repo, tree):
    publish(repo, KEY, {"a": "1"})
    published = repo.runs.get(KEY).commit
    done = repo.runs.rollback(KEY)
    repo.revert(done.commit.id)
    assert tree(repo.ref("main"))["a"] == "1"
    again = repo.runs.rollback(published)
    assert not again.already
    assert tree(repo.ref("main")) == {"settled": "0"}


def test_a_target_that_takes_no_reverts_is_left_alone(repo):
    publish(repo, KEY, {"a": "1"})
    repo.protection.add("main", ["revert"])
    with pytest.raises(ProtectedBranchError):
        repo.runs.rollback(KEY)
    assert repo.runs.get(KEY).state is RunState.PUBLISHED


@pytest.mark.parametrize("fault", FAULTS)
def test_a_rollback_with_any_fault_is_done_by_a_second_call(fault):
    for world, what, _ in struck_worlds(fault, done, take_back):
        repo = world.repo()
        now = tree_of(repo.ref("main"))
        assert now in ({"settled": "0"}, {"settled": "0", "a": "1"}), what
        if repo.runs.get(KEY).state is RunState.ROLLED_BACK:
            assert "a" not in now, what
        repo.runs.rollback(KEY)
        assert tree_of(repo.ref("main")) == {"settled": "0"}, what
        rollbacks = [
            commit for commit in repo.log("main") if commit.metadata.get("graveler.rollback")
        ]
        assert len(rollbacks) == 1, what
        assert repo.runs.get(KEY).rollback == rollbacks[0].id, what
        publish(world.repo(), KEY, {"a": "2"})
        assert tree_of(repo.ref("main")) == {"settled": "0", "a": "2"}, what


@pytest.mark.parametrize("fault", FAULTS)
def test_it_is_repeated_until_acknowledged_and_happens_once(fault):
    def persist(repo):
        while True:
            try:
                return repo.runs.rollback(KEY)
            except (GravelerError, ProcessDied):
                continue

    for world, what, failed in struck_worlds(fault, done, persist):
        assert failed is None, what
        repo = world.repo()
        assert len([1 for one in repo.log("main") if "graveler.revert" in one.metadata]) == 1, what


def test_two_at_once_make_one_commit():
    def check(world, one, other):
        repo = world.repo(scripted=False)
        assert one.commit == other.commit == repo.commit("main")
        assert [one.already, other.already].count(False) == 1
        assert repo.runs.get(KEY).state is RunState.ROLLED_BACK

    interleave(done, take_back, take_back, check, least=4)


def test_a_new_attempt_beside_a_rollback_goes_on_or_starts_anew():
    def check(world, rolled_back, run):
        repo = world.repo(scripted=False)
        record = repo.runs.get(KEY)
        assert (record.state, record.attempt) == (RunState.OPEN, 2)
        assert record.rollback == rolled_back.commit.id
        run.put("b", b"1")
        run.commit("b")
        try:
            run.publish()
        except MergeConflictError:  # the run was forked before the rollback
            publish(repo, KEY, {"b": "1"})
        assert tree_of(repo.ref("main")) == {"settled": "0", "b": "1"}

    interleave(done, take_back, lambda repo: repo.runs.open(KEY), check, least=4)


def test_downstream_runs_are_found_with_one_walk_and_one_diff(repo, monkeypatch):
    publish(repo, KEY, {f"raw/05/{number}": "5" for number in range(20)})
    for number in range(30):
        with repo.run(f"reader {number:02}") as run:
            run.get("raw/05/3") if number % 2 else run.get("settled")
            run.put(f"out/{number}", b"1")
    asked: list[str] = []
    compared: list[int] = []
    find = repo.stores.refs.commits.find

    def finds(name):
        asked.append(name)
        return find(name)

    def compares(*trees, **named):
        compared.append(1)
        return diff(*trees, **named)

    monkeypatch.setattr(repo.stores.refs.commits, "find", finds)
    monkeypatch.setattr(readers, "diff", compares)
    ancestors: list[object] = []
    monkeypatch.setattr(readers, "is_ancestor", ancestors.append)
    found = repo.runs.readers(KEY)
    assert [record.key for record in found] == [f"reader {n:02}" for n in range(1, 30, 2)]
    assert (len(compared), ancestors) == (1, [])
    assert len(asked) < 4 * 31 + 20


@pytest.mark.parametrize("parked", [False, True])
def test_equal_bytes_published_after_a_rollback_are_on_target(repo, tree, parked):
    def work(run):
        with run.step("work") as step:
            step.put("a", b"same")
        run.put("b", b"same")
        run.commit("b")

    run = repo.runs.open(KEY)
    work(run)
    if parked:
        run.park()
        run = repo.runs.open(KEY)
    run.publish()
    repo.runs.rollback(KEY)
    assert tree(repo.ref("main")) == {"settled": "0"}
    again = repo.runs.open(KEY)
    work(again)
    if parked:
        again.park()
        again = repo.runs.open(KEY)
    assert not again.publish().already
    assert tree(repo.ref("main")) == {"settled": "0", "a": "same", "b": "same"}


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("late", [False, True])
def test_writes_rolled_back_under_an_attempt_are_not_published(repo, tree, by_hand, late):
    def work(run):
        with run.step("work") as step:
            step.put("a", b"same")

    publish(repo, KEY, {"a": "same"})
    published = repo.commit("main").id
    again = repo.runs.open(KEY)
    if late:
        work(again)
    if by_hand:
        repo.revert(published, parent=1)
    else:
        repo.runs.rollback(published)
    if not late:
        work(again)
    with pytest.raises(MergeConflictError, match="the next attempt starts from 'main'"):
        again.publish()
    assert repo.runs.get(KEY).state is RunState.PARKED
    assert tree(repo.ref("main")) == {"settled": "0"}
    publish(repo, KEY, {"a": "same"})
    assert tree(repo.ref("main")) == {"settled": "0", "a": "same"}


def test_readers_are_known_of_a_run_whose_target_is_gone(repo):
    repo.create_branch("side")
    publish(repo, KEY, {"raw/x": "1"}, into="side")
    with repo.run("reader", into="side") as run:
        run.get("raw/x")
        run.put("y", b"1")
    repo.delete_branch("side")
    assert [record.key for record in repo.runs.readers(KEY)] == ["reader"]


def test_a_publish_beside_a_rollback_is_never_left_as_a_half():
    """The attempt was forked from the reverted publish. Its one file is only a part of an hour."""
    handles: list[RunHandle] = []

    def prepare(repo):
        done(repo)
        run = repo.runs.open(KEY)
        with run.step("other") as step:
            step.put("b", b"1")
        handles[:] = [run.handle]

    def check(world, rolled_back, published):
        repo = world.repo(scripted=False)
        now = tree_of(repo.ref("main"))
        if isinstance(published, MergeConflictError):
            assert now == {"settled": "0"}
        else:
            assert rolled_back.publish.commit == published.commit.id
            assert now == {"settled": "0", "a": "1"}

    def publishes(repo):
        return repo.runs.attach(handles[0]).publish()

    interleave(prepare, take_back, publishes, check, least=4)


def test_an_earlier_publish_is_not_rolled_back_under_a_later_one(repo, tree):
    first = publish(repo, KEY, {"a": "1"}).commit
    run = repo.runs.open(KEY)
    with run.step("other") as step:
        step.put("b", b"1")
    run.publish()
    with pytest.raises(MergeConflictError, match="attempt 2 was published on top of that"):
        repo.runs.rollback(first)
    assert tree(repo.ref("main")) == {"settled": "0", "a": "1", "b": "1"}
    repo.runs.rollback(KEY)
    repo.runs.rollback(first)
    assert tree(repo.ref("main")) == {"settled": "0"}


def test_a_rollback_does_not_walk_the_commits_since(repo, monkeypatch):
    publish(repo, KEY, {"old": "1"})
    for number in range(10):
        publish(repo, f"later {number}", {f"later/{number}": "1"})
    walked = []

    def watched(*given):
        for commit in outside(*given):
            walked.append(commit)
            yield commit

    monkeypatch.setattr(tables, "outside", watched)
    repo.runs.rollback(KEY)
    assert len(walked) <= 2  # the published commit, and that of its step
