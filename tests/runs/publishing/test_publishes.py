"""The publishes of a run are facts of their own, for any state of its latest attempt."""

import pytest

from graveler.errors import GateFailedError, NoChangesError, RunStateError
from graveler.runs.record import RunRecord
from graveler.runs.state import Publish, RunState
from tests.harness.operations.rollback import KEY, publish
from tests.harness.operations.states import publishing
from tests.harness.worlds import ScriptedWorld

GATES = ["complete"]


def complete(candidate):
    return bool(list(candidate.changes())) or "empty"


@pytest.fixture
def published(repo):
    with repo.run(KEY, gates=[complete]) as run, run.step("work") as step:
        step.put("a", b"1")
    return run.result.commit


def leave_open(repo):
    repo.runs.open(KEY)


def leave_parked(repo):
    repo.runs.open(KEY).park("one task was cleared")


def leave_abandoned(repo):
    repo.runs.open(KEY).abandon("never mind")


def leave_refused(repo):
    run = repo.runs.open(KEY)
    with run.step("more") as step:
        step.put("b", b"1")
    with pytest.raises(GateFailedError):
        run.publish([lambda candidate: "no"])


LEFT = [leave_open, leave_parked, leave_abandoned, leave_refused]


@pytest.mark.parametrize("leave", LEFT)
def test_a_later_attempt_does_not_hide_what_is_published(repo, published, leave):
    leave(repo)
    record = repo.runs.get(KEY)
    assert record.state is not RunState.PUBLISHED
    assert record.attempt == 2
    (fact,) = record.publishes
    assert record.published == fact
    assert (fact.commit, fact.attempt, fact.into) == (published.id, 1, "main")
    assert [verdict.gate for verdict in fact.verdicts] == GATES
    assert record.commit == published.id
    assert repo.runs.publishes(KEY) == record.publishes


@pytest.mark.parametrize("leave", LEFT)
def test_a_rollback_works_from_any_state(repo, tree, published, leave):
    leave(repo)
    state = repo.runs.get(KEY).state
    plan = repo.runs.plan_rollback(KEY)
    assert (plan.publish.commit, plan.publish.attempt) == (published.id, 1)
    assert plan.rests == (state is not RunState.REAPED)
    done = repo.runs.rollback(KEY)
    assert tree(repo.ref("main")) == {"settled": "0"}
    assert done.publish.rollback == done.commit.id
    assert (done.record.state, done.record.attempt) == (state, 2)
    assert done.record.published is None
    again = repo.runs.rollback(KEY)
    assert (again.commit, again.already) == (done.commit, True)
    assert repo.runs.plan_rollback(KEY).reverted == done.commit.id
    run = repo.runs.open(KEY)
    assert not run.record.resumed
    with run.step("work") as step:
        step.put("a", b"1")
    assert not run.publish().already
    assert tree(repo.ref("main")) == {"settled": "0", "a": "1"}


def test_half_an_hour_does_not_survive_its_rollback(repo, tree, published):
    """One task of a published hour runs alone. The hour's other files are only on the fork."""
    run = repo.runs.open(KEY)
    with run.step("other") as step:
        step.put("b", b"1")
    repo.runs.rollback(KEY)
    with pytest.raises(Exception, match="it would bring only a part of its files"):
        run.publish()
    assert tree(repo.ref("main")) == {"settled": "0"}


def test_an_hour_done_again_alike_is_rolled_back_by_its_key(repo, tree):
    publish(repo, KEY, {"a": "1"})
    first = repo.runs.get(KEY).published
    publish(repo, KEY, {"a": "1"})
    record = repo.runs.get(KEY)
    assert [fact.changed for fact in record.publishes] == [True, False]
    assert [fact.attempt for fact in record.publishes] == [1, 2]
    done = repo.runs.rollback(KEY)
    assert done.publish.commit == first.commit
    assert tree(repo.ref("main")) == {"settled": "0"}
    assert done.record.state is RunState.ROLLED_BACK
    assert {fact.rollback for fact in done.record.publishes} == {done.commit.id}
    with pytest.raises(NoChangesError, match="changed nothing"):
        repo.runs.rollback(record.publishes[1].commit)


def test_each_target_has_its_own_publishes(repo, tree):
    repo.create_branch("pr42", source="main")
    publish(repo, KEY, {"a": "1"})
    publish(repo, KEY, {"a": "2"}, into="pr42")
    with pytest.raises(RunStateError, match="published nothing to 'pr7'"):
        repo.runs.rollback(KEY, into="pr7")
    done = repo.runs.rollback(KEY, into="main")
    assert tree(repo.ref("main")) == {"settled": "0"}
    assert tree(repo.ref("pr42"))["a"] == "2"
    assert (done.publish.into, done.record.state) == ("main", RunState.PUBLISHED)
    assert done.record.published.into == "pr42"
    assert repo.runs.rollback(KEY).publish.into == "pr42"
    assert "a" not in tree(repo.ref("pr42"))


def test_a_revert_by_hand_and_a_reset_are_seen_on_the_target(repo, published):
    reverted = repo.revert(published, parent=1)
    assert repo.runs.get(KEY).published.commit == published.id
    (fact,) = repo.runs.publishes(KEY)
    assert (fact.rollback, fact.lost) == (reverted.id, False)
    repo.protection.remove("main")
    repo.branch("main").reset("main~2")
    (fact,) = repo.runs.publishes(KEY)
    assert fact.lost
    with pytest.raises(RunStateError, match="not in 'main' any more"):
        repo.runs.plan_rollback(KEY)


def present(repo):
    """Return the publishes on the targets: whether each changed it, its rollback, and its loss."""
    (record,) = repo.runs.on_targets([repo.runs.get(KEY)])
    assert record.publishes == repo.runs.publishes(KEY)
    return [(fact.changed, fact.rollback, fact.lost) for fact in record.publishes]


def test_what_changed_nothing_shares_the_fate_of_what_it_found(repo):
    repo.protection.remove("main")
    before = repo.commit("main")
    publish(repo, KEY, {"a": "1"})
    publish(repo, KEY, {"a": "1"})
    assert present(repo) == [(True, "", False), (False, "", False)]
    first, second = repo.runs.publishes(KEY)
    revert = repo.revert(first.commit, parent=1)
    assert present(repo) == [(True, revert.id, False), (False, revert.id, False)]
    repo.undo("main")
    assert present(repo) == [(True, "", False), (False, "", False)]
    repo.branch("main").reset(before)
    assert present(repo) == [(True, "", True), (False, "", True)]
    assert second.commit not in {commit.id for commit in repo.log("main")}


def test_files_found_of_others_do_not_go_with_a_rollback(repo):
    repo.protection.remove("main")
    publish(repo, KEY, {"a": "1"})
    revert = repo.revert(repo.runs.get(KEY).commit, parent=1)
    repo.branch("main").put("a", b"1")
    repo.branch("main").commit("by hand")
    publish(repo, KEY, {"a": "1"})
    assert present(repo) == [(True, revert.id, False), (True, "", False)]
    before = repo.commit("main")
    done = repo.runs.rollback(KEY)
    assert done.commit.parents == (before.id,)
    assert done.commit.metarange == before.metarange
    assert repo.ref("main").get("a") == b"1"


@pytest.mark.parametrize("back", ["undo", "revert"])
def test_an_hour_whose_rollback_was_undone_is_rolled_back_again(repo, tree, back):
    """The second publish has equal content, and so changes nothing."""
    repo.protection.remove("main")
    publish(repo, KEY, {"a": "1"})
    first = repo.runs.rollback(KEY)
    if back == "undo":
        repo.undo("main")
    else:
        repo.revert(first.commit)
    publish(repo, KEY, {"a": "1"})
    done = repo.runs.rollback(KEY)
    assert (done.publish.attempt, done.already) == (1, False)
    assert tree(repo.ref("main")) == {"settled": "0"}


def test_of_a_lost_publish_the_one_before_it_is_named(repo):
    repo.protection.remove("main")
    first = publish(repo, KEY, {"a": "1"}).commit
    publish(repo, KEY, {"a": "2"})
    repo.branch("main").reset(first)
    with pytest.raises(RunStateError, match=f"graveler run rollback {first[:12]}"):
        repo.runs.rollback(KEY)
    assert repo.runs.rollback(first).publish.attempt == 1
    with pytest.raises(RunStateError, match="there is nothing to roll back"):
        repo.runs.rollback(KEY)


def test_a_target_without_a_publish_on_its_first_parents_has_it(repo):
    repo.create_branch("side", source="main")
    repo.branch("side").put("b", b"1")
    repo.branch("side").commit("b")
    publish(repo, KEY, {"a": "1"})
    repo.merge("main", into="side")
    repo.protection.remove("main")
    repo.branch("main").reset("side")
    assert present(repo) == [(True, "", False)]
    done = repo.runs.rollback(KEY)
    assert present(repo) == [(True, done.commit.id, False)]


def test_a_deleted_target_has_lost_what_was_published_to_it(repo):
    repo.create_branch("pr42", source="main")
    publish(repo, KEY, {"a": "1"}, into="pr42")
    repo.delete_branch("pr42")
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


def test_an_opener_learns_that_a_branch_is_not_resumed(repo, published):
    """The opener must not skip steps whose work was only on that branch."""
    repo.runs.open(KEY).park("one task was cleared")
    repo.runs.rollback(KEY)
    records: list[RunRecord | None] = []
    repo.runs.open_or_attach(KEY, owner="me", accepts=records.append)
    assert [record is not None and record.live for record in records] == [False]
