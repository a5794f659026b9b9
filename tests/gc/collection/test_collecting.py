"""Which files a collection deletes and which it keeps."""

from contextlib import suppress
from itertools import count

import pytest

from graveler.errors import CorruptionError, ExpiredError
from graveler.fsck.check import fsck
from graveler.reads import view
from graveler.repository.commits.sealing import _seal
from graveler.runs.state import RunState
from graveler.testing.faults import ProcessDied
from tests.harness.faults import dies
from tests.harness.gc_lakes import (
    check_sound,
    collect,
    commit,
    counts,
    keys,
    pass_days,
)


def test_a_deleted_branch_goes_and_leaves_what_others_share(repo):
    seen = check_sound(repo)
    before = keys(repo)
    lost = commit(repo, "dev", x="dev", p0="dev")
    repo.delete_branch("dev")
    mark = collect(repo)
    assert counts(mark.freed)["data"] == 2
    assert mark.freed == mark.condemned
    assert keys(repo) == before
    assert check_sound(repo) == seen
    with pytest.raises(ExpiredError, match="expired: garbage collection"):
        repo.ref(lost.id)
    assert repo.commit(lost.id) == lost


@pytest.mark.parametrize("rule", [None, "main"])
def test_the_history_of_a_tag_is_kept_without_a_rule_for_it(repo, rule):
    commit(repo, "release", "first", x="1")
    commit(repo, "release", "second", x="2")
    repo.tags.create("v1", "release")
    repo.delete_branch("release")
    if rule:
        repo.gc.keep(rule, count=1)
    collect(repo)
    assert repo.ref("v1~1").get("x") == b"1"
    repo.gc.keep(count=1)
    collect(repo)
    assert repo.ref("v1").get("x") == b"2"
    with pytest.raises(ExpiredError):
        repo.ref("v1~1")


def staged_behind(repo):
    """Stage an older write behind a newer one: a commit may still include it."""
    repo.branch("main").put("x", b"old")
    _seal(repo.stores, "main", "")
    repo.branch("main").put("x", b"new")


def test_what_is_named_stays(world, repo):
    """A branch, a tag, staged and sealed writes, and runs that are not over."""
    lost = commit(repo, "dev", x="dev")
    repo.create_branch("keeper", lost.id)
    commit(repo, "tagged", y="tagged")
    repo.tags.create("v1", "tagged")
    repo.delete_branch("tagged")
    repo.branch("keeper").put("x", b"staged")
    staged_behind(repo)
    run = repo.runs.open("open")
    run.put("x", b"run")
    run.commit("half")
    run.put("y", b"run")
    run.step("step").put("z", b"step")
    parked = repo.runs.open("parked")
    parked.put("x", b"run")
    parked.commit("half")
    parked.park("enough")
    seen, before = check_sound(repo), keys(repo, "data/")
    repo.gc.keep(count=1)
    pass_days(world, 400)
    for _ in range(2):
        collect(world.repo())
        assert check_sound(world.repo()) == seen
    assert keys(repo, "data/") == before
    repo.branch("main").commit("what a sealed token hid, and what is newer")
    assert check_sound(repo)["main"]["x"] == "new"


def test_what_a_run_is_about_to_publish_stays(world, repo):
    """A process dies after it has recorded the candidate and before the target moves."""
    run = repo.runs.open("hour")
    run.put("x", b"run")
    run.commit("all of it")
    commit(repo, "main", elsewhere="so that the candidate's tree is no branch's")
    record = repo.runs.get("hour")
    for number in count(1):
        world.script.arm(number, dies)
        with suppress(ProcessDied):
            world.repo().runs.attach(run.handle).publish()
        assert world.script.disarm(), "it never died while publishing"
        record = repo.runs.get("hour")
        if record.state is RunState.PUBLISHING:
            break
    repo.gc.keep(count=1)
    pass_days(world, 400)
    collect(repo)
    assert repo.ref(record.candidate).get("x") == b"run"
    assert fsck(repo.stores, also={"run": record.candidate}).sound
    collect(repo)
    run.publish()
    assert check_sound(repo)["main"]["x"] == "run"


def test_a_step_beside_another_can_be_undone_after_a_collection(world, repo):
    """No other branch had the tree of the step's own branch: only the commit names it."""
    run = repo.runs.open("hour")
    with run.step("one") as one, run.step("two") as two:
        one.put("a", b"1")
        two.put("b", b"2")
    collect(repo)
    for name in ("one", "two"):
        # in another process, without tables in memory
        with world.repo().runs.attach(run.handle).step(name) as step:
            step.put(f"again {name}", name.encode())
        collect(repo)
    paths = {entry.path for entry in run.list()}
    assert "a" not in paths
    assert "b" not in paths


@pytest.mark.parametrize("staged", [False, True])
def test_a_listing_that_outlives_a_sweep_says_expired(repo, monkeypatch, staged):
    commit(repo, "lost", x="lost")
    branch = repo.branch("lost")
    if staged:
        branch.put("staged", b"")

    def swept(*_):
        if repo.stores.refs.branches.find("lost") is not None:
            repo.delete_branch("lost")
            collect(repo)
            raise CorruptionError("a range is missing")
        yield from ()

    monkeypatch.setattr(view, "runs", swept)
    with pytest.raises(ExpiredError, match="garbage collection"):
        list(branch.entries())
