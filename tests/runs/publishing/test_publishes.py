"""The publishes of a run are facts of their own, for any state of its latest attempt."""

import pytest

from graveler.errors import GateFailedError, NoChangesError, RunStateError
from graveler.runs.record import RunRecord
from graveler.runs.state import Publish, RunState
from tests.harness.operations.rollback import KEY
from tests.harness.operations.states import publishing
from tests.harness.worlds import ScriptedWorld


def complete(candidate):
    return bool(list(candidate.changes())) or "empty"


@pytest.fixture
def published(repo):
    with repo.run(KEY, gates=[complete]) as run, run.step("work") as step:
        step.put("a", b"1")
    return run.result.commit


def refused(run):
    with run.step("more") as step:
        step.put("b", b"1")
    with pytest.raises(GateFailedError):
        run.publish([lambda candidate: "no"])


LEFT = {
    "open": lambda run: None,
    "parked": lambda run: run.park("one task was cleared"),
    "abandoned": lambda run: run.abandon("never mind"),
    "refused": refused,
}


@pytest.mark.parametrize("leave", LEFT.values(), ids=LEFT)
def test_a_later_attempt_does_not_hide_what_is_published(repo, tree, published, leave):
    leave(repo.runs.open(KEY))
    record = repo.runs.get(KEY)
    state = record.state
    assert (record.attempt, state is RunState.PUBLISHED) == (2, False)
    (fact,) = record.publishes
    assert record.published == fact
    assert (fact.commit, fact.attempt, fact.into) == (published.id, 1, "main")
    assert [verdict.gate for verdict in fact.verdicts] == ["complete"]
    assert record.commit == published.id
    assert repo.runs.publishes(KEY) == record.publishes

    plan = repo.runs.plan_rollback(KEY)
    assert (plan.publish.commit, plan.publish.attempt) == (published.id, 1)
    assert plan.rests == (state is not RunState.REAPED)
    assert ("was forked from it" in str(plan)) == plan.rests
    done = repo.runs.rollback(KEY)
    assert tree(repo.ref("main")) == {"settled": "0"}
    assert done.publish.rollback == done.commit.id
    assert (done.record.state, done.record.attempt) == (state, 2)
    assert done.record.published is None
    again = repo.runs.rollback(KEY)
    assert (again.commit, again.already) == (done.commit, True)
    assert repo.runs.plan_rollback(KEY).reverted == done.commit.id
    records: list[RunRecord | None] = []  # the opener must not skip steps of that branch
    run = repo.runs.open_or_attach(KEY, owner="me", accepts=records.append)
    assert [record is not None and record.live for record in records] == [False]
    assert not run.record.resumed
    with run.step("work") as step:
        step.put("a", b"1")
    assert not run.publish().already
    assert tree(repo.ref("main")) == {"settled": "0", "a": "1"}


def present(repo, key="A"):
    """Return the publishes on the targets: whether each changed it, its rollback, and its loss."""
    (record,) = repo.runs.on_targets([repo.runs.get(key)])
    assert record.publishes == repo.runs.publishes(key)
    return [(fact.changed, fact.rollback, fact.lost) for fact in record.publishes]


def test_an_hour_done_again_alike_is_rolled_back_by_its_key(history):
    repo = history.play("first: A a=1; A a=1").repo
    record = repo.runs.get("A")
    assert [(fact.attempt, fact.changed) for fact in record.publishes] == [(1, True), (2, False)]
    done = repo.runs.rollback("A")
    assert done.publish.commit == history.made["first"].id
    history.play("main; state A ROLLED_BACK")
    assert {fact.rollback for fact in done.record.publishes} == {done.commit.id}
    with pytest.raises(NoChangesError, match="changed nothing"):
        repo.runs.rollback(record.publishes[1].commit)


def test_what_changed_nothing_shares_the_fate_of_what_it_found(history):
    repo = history.play("it: A a=1; A a=1").repo
    assert present(repo) == [(True, "", False), (False, "", False)]
    second = repo.runs.publishes("A")[1]
    revert = history.play("back: revert it").made["back"].id
    assert present(repo) == [(True, revert, False), (False, revert, False)]
    assert repo.runs.get("A").published.commit == second.commit
    assert present(history.play("undo").repo) == [(True, "", False), (False, "", False)]
    assert present(history.play("reset main~2").repo) == [(True, "", True), (False, "", True)]
    assert second.commit not in {commit.id for commit in repo.log("main")}
    with pytest.raises(RunStateError, match="not in 'main' any more"):
        repo.runs.plan_rollback("A")


def test_files_found_of_others_do_not_go_with_a_rollback(history):
    repo = history.play("it: A a=1; back: revert it; user a=1; A a=1").repo
    assert present(repo) == [(True, history.made["back"].id, False), (True, "", False)]
    before = repo.commit("main")
    history.play("rollback A; main a=1")
    assert repo.commit("main").parents == (before.id,)
    assert repo.commit("main").metarange == before.metarange


@pytest.mark.parametrize("back", ["undo", "revert it"])
def test_an_hour_whose_rollback_was_undone_is_rolled_back_again(history, back):
    """The second publish has equal content, and so changes nothing."""
    done = history.play(f"A a=1; it: rollback A; {back}; A a=1; rollback A; main").last
    assert (done.publish.attempt, done.already) == (1, False)


def test_a_target_without_a_publish_on_its_first_parents_has_it(history):
    history.play("branch side; user@side b=1; A a=1; merge main>side; reset side")
    assert present(history.repo) == [(True, "", False)]
    commit = history.play("rollback A").last.commit
    assert present(history.repo) == [(True, commit.id, False)]


def test_a_deleted_target_has_lost_what_was_published_to_it(history):
    repo = history.play("branch pr; A@pr a=1; delete pr").repo
    assert present(repo) == [(True, "", True)]
    (record,) = repo.runs.on_targets(repo.runs.list())
    assert (record.published, record.commit) == (None, "")


def test_of_many_publishes_the_latest_are_kept(repo):
    for number in range(53):
        with repo.run(KEY, gates=[complete]) as run:
            run.put("a", str(number).encode())
    facts = repo.runs.get(KEY).publishes
    assert [fact.attempt for fact in facts] == list(range(4, 54))
    assert [bool(fact.verdicts) for fact in facts] == [False] * 40 + [True] * 10
    assert all(isinstance(fact, Publish) for fact in facts)
    oldest = [commit for commit in repo.log("main") if "graveler.published" in commit.metadata][-1]
    assert repo.runs.plan_rollback(oldest).publish.attempt == 1


def test_a_landed_publish_is_seen_before_it_is_recorded():
    """The publisher died. A page or a plan that reads the run writes nothing."""
    world = ScriptedWorld()
    run = publishing(world, landed=True)
    repo = world.repo()
    before = repo.runs.get(run.key)
    (fact,) = repo.runs.publishes(run.key)
    assert fact.commit == repo.commit("main").id == before.candidate
    assert repo.runs.plan_rollback(run.key).publish.commit == fact.commit
    assert repo.runs.get(run.key) == before
    assert repo.runs.rollback(run.key).publish.commit == fact.commit


def test_a_candidate_that_did_not_land_is_no_publish():
    world = ScriptedWorld()
    run = publishing(world, landed=False)
    assert world.repo().runs.publishes(run.key) == ()
    with pytest.raises(RunStateError, match="PUBLISHING and has published nothing"):
        world.repo().runs.plan_rollback(run.key)
