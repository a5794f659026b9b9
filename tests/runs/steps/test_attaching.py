"""Several processes open one attempt together, and others come too late."""

from contextlib import contextmanager

import pytest

from graveler.errors import FencedError, InvalidInputError
from graveler.gates import gate
from graveler.runs import branch, opener, publication
from graveler.runs.state import RunState

KEY = "dagster hourly 2013-01-01-05:00"


def opened(repo, owner, **given):
    return repo.runs.open_or_attach(KEY, owner=owner, **given)


def write(run, step, path):
    with run.step(step) as work:
        work.put(path, b"1")


def test_the_first_opens_and_the_others_attach(repo, tree):
    first = opened(repo, "a", metadata={"hour": "05"})
    write(first, "one", "one")
    second = opened(repo, "a", metadata={"hour": "ignored"})
    assert second.handle == first.handle
    write(second, "two", "two")
    write(first, "three", "three")  # the first process is not fenced
    assert tree(first) == {"settled": "0", "one": "1", "two": "1", "three": "1"}
    assert first.record.metadata == {"hour": "05"}
    assert first.attempt == 1


def test_another_owner_goes_on_with_a_new_attempt(repo, tree):
    first = opened(repo, "a")
    write(first, "one", "one")
    second = opened(repo, "b")
    assert second.attempt == 2
    assert second.record.resumed
    assert tree(second) == {"settled": "0", "one": "1"}
    with pytest.raises(FencedError):
        write(first, "two", "two")
    with pytest.raises(FencedError, match="opened since a had it"):
        opened(repo, "a")  # its run was replaced
    assert opened(repo, "b").handle == second.handle
    repo.runs.open(KEY)  # by hand, which ends the time of the owner
    with pytest.raises(FencedError, match="stop"):
        opened(repo, "b")
    assert opened(repo, "c").attempt == 4


def test_an_owner_finds_its_published_run(repo):
    run = opened(repo, "a")
    write(run, "one", "one")
    done = run.publish()
    again = opened(repo, "a")
    assert again.publish() == publication.PublishResult(done.commit, already=True)
    with pytest.raises(FencedError):
        write(again, "two", "two")
    assert opened(repo, "b").attempt == 2


def overtaken(monkeypatch, act):
    """Let another process act just before the next opener takes the branch."""
    take = branch.take_branch

    def overtaken(stores, record, **read):
        monkeypatch.setattr(opener, "take_branch", take)
        act()
        take(stores, record, **read)

    monkeypatch.setattr(opener, "take_branch", overtaken)


@pytest.mark.parametrize("earlier", ["none", "parked", "published"])
def test_openers_beside_the_first_one_take_the_same_attempt(repo, tree, monkeypatch, earlier):
    if earlier != "none":
        before = opened(repo, "before")
        write(before, "zero", "zero")
        before.park() if earlier == "parked" else before.publish()
    overtaken(monkeypatch, lambda: write(opened(repo, "a"), "fast", "fast"))
    slow = opened(repo, "a")
    write(slow, "slow", "slow")
    expected = {"settled": "0", "fast": "1", "slow": "1"}
    assert tree(slow) == expected | ({"zero": "1"} if earlier != "none" else {})


@pytest.mark.parametrize("end", ["publish", "park", "abandon", "opened by another"])
def test_an_opener_beside_the_end_leaves_no_branch_to_write_to(repo, tree, monkeypatch, end):
    def act():
        fast = opened(repo, "a")
        write(fast, "fast", "fast")
        opened(repo, "b") if end == "opened by another" else getattr(fast, end)()

    overtaken(monkeypatch, act)
    if end == "publish":
        slow = opened(repo, "a")
        with pytest.raises(FencedError):
            write(slow, "slow", "slow")
        assert slow.publish().already
    else:
        with pytest.raises(FencedError):
            opened(repo, "a")
    assert "slow" not in tree(repo.ref("main"))
    if end in ("publish", "abandon"):
        assert [there.name for there in repo.branches(hidden=True)] == ["main"]


@contextmanager
def killed(monkeypatch, owner, call):
    """Let the process die at a call."""

    def dies(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(owner, call, dies)
        yield


def test_who_died_while_opening_is_replaced_by_who_comes_next(repo, tree, monkeypatch):
    with killed(monkeypatch, opener, "take_branch"):
        opened(repo, "a")
    run = opened(repo, "a")
    assert run.attempt == 1
    write(run, "one", "one")
    assert tree(run) == {"settled": "0", "one": "1"}


def test_an_opener_learns_how_an_unfinished_publish_ended(repo, monkeypatch):
    first = opened(repo, "a")
    write(first, "one", "one")
    with killed(monkeypatch, publication.RunCandidacy, "end"):
        first.publish()
    assert repo.runs.get(KEY).state is RunState.PUBLISHING
    found = opened(repo, "a").publish()
    assert (found.already, found.commit) == (True, repo.commit("main"))
    seen = []
    opened(repo, "b", accepts=lambda record: seen.append(record.state))
    assert set(seen) == {RunState.PUBLISHED}


@gate(version="1")
def strict(candidate):
    return None if candidate.exists("two") else "two is missing"


def test_judging_beforehand_moves_nothing_and_is_not_done_twice(repo):
    run = opened(repo, "a")
    before = repo.commit("main")
    assert [verdict.reason for verdict in run.judge([strict])] == ["two is missing"]
    write(run, "one", "one")
    assert [verdict.reason for verdict in run.judge([strict])] == ["two is missing"]
    write(run, "two", "two")
    assert [verdict.passed for verdict in run.judge([strict])] == [True]
    assert repo.commit("main") == before
    assert run.state is RunState.OPEN
    run.publish([strict])
    assert repo.gates.judgement("main").reused == ("strict",)


def test_the_record_shows_what_gates_beside_each_other_said_last(repo):
    @gate
    def other(candidate):
        return None if candidate.exists("three") else "three is missing"

    def said():
        return {verdict.gate: verdict.passed for verdict in repo.runs.get(run.key).verdicts}

    run = opened(repo, "a")
    run.judge([strict])
    assert said() == {"strict": False}
    write(run, "two", "two")
    run.judge([strict])
    run.judge([other])
    assert said() == {"strict": True, "other": False}
    run.park("refused")
    assert said() == {"strict": True, "other": False}
    run = opened(repo, "b")
    assert said() == {}
    write(run, "three", "three")
    run.judge([other])
    run.publish([strict])
    assert said() == {"strict": True}


def test_an_opener_may_refuse_the_run_that_is_there(repo):
    seen = []

    def nothing_parked(record):
        seen.append(record and record.state)
        if record is not None and record.state is RunState.PARKED:
            raise InvalidInputError("not that one")

    first = opened(repo, "a", accepts=nothing_parked)
    assert opened(repo, "a", accepts=nothing_parked).handle == first.handle
    assert seen == [None]  # an attached process opens nothing
    parked = first.park()
    with pytest.raises(InvalidInputError, match="not that one"):
        opened(repo, "b", accepts=nothing_parked)
    assert repo.runs.get(KEY) == parked
