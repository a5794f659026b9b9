"""The reaper ends runs by lease and by time to live, and leaves other runs alone."""

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from itertools import count

import pytest

from graveler.errors import CorruptionError, FencedError, GravelerError
from graveler.runs.record import LEASE
from graveler.runs.run import Run
from graveler.runs.state import RunState
from graveler.testing.faults import ProcessDied
from tests.harness.faults import dies
from tests.harness.worlds import ScriptedWorld, interleave

KEY = "hourly 05"
DEAD = LEASE + timedelta(minutes=6)
STALE = timedelta(days=15)


def ready(repo, key=KEY, **terms):
    run = repo.runs.open(key, **terms)
    with run.step("work") as step:
        step.put("a", b"1")
    run.put("staged", b"never committed")
    return run


def later(repo, length=DEAD):
    return repo.stores.clock.now() + length


def hidden(repo):
    return [record.name for record in repo.branches(hidden=True) if record.hidden]


def test_a_dead_attempt_is_parked_and_the_next_one_resumes(repo):
    run = ready(repo)
    main = repo.commit("main")
    planned = repo.runs.reap(now=later(repo))
    assert repo.runs.get(KEY).state is RunState.OPEN, "a dry run does nothing"
    done = repo.runs.reap(now=later(repo), dry_run=False)
    assert done == planned
    (reaped,) = done
    assert (reaped.key, reaped.branch) == (KEY, run.branch)
    assert (reaped.from_state, reaped.to_state) == (RunState.OPEN, RunState.PARKED)
    assert "lease ran out" in reaped.reason
    assert repo.runs.get(KEY).reason == reaped.reason
    assert repo.runs.reap(now=later(repo), dry_run=False) == []
    assert repo.commit("main") == main
    for work in (lambda: run.put("x", b"1"), lambda: run.step("x")):
        with pytest.raises(FencedError):
            work()
    for work in (run.renew, run.publish):
        with pytest.raises(FencedError, match=r"PARKED .*lease ran out.*: open a new attempt"):
            work()
    assert run.park().state is RunState.PARKED  # as its owner would do it
    assert run.close().state is RunState.PARKED
    again = repo.runs.open(KEY)
    assert again.record.resumed
    assert again.exists("a")
    assert not again.exists("staged")
    again.publish()
    assert repo.ref("main").exists("a")


@pytest.mark.parametrize("end", ["parked", "parked in a long lease", "to be dropped"])
def test_a_run_is_given_up_when_its_time_is_over(repo, end):
    if end == "to be dropped":
        ready(repo, on_failure="drop")
        time, said = LEASE * 4 / 3, "lease ran out"
    else:
        time, said = timedelta(days=3), "lunch"
        ready(repo, ttl=time, lease=timedelta(days=30) if "long" in end else LEASE).park(said)
    assert repo.runs.reap(now=later(repo, time - timedelta(seconds=1)), dry_run=False) == []
    (planned,) = repo.runs.reap(now=later(repo, time + timedelta(hours=1)))
    assert repo.runs.reap(now=later(repo, time + timedelta(hours=1)), dry_run=False) == [planned]
    assert (planned.to_state, said in planned.reason) == (RunState.REAPED, True)
    assert hidden(repo) == []
    assert repo.runs.get(KEY).state is RunState.REAPED


def test_clocks_that_are_minutes_apart_do_no_harm(repo):
    run = ready(repo)
    for ahead in (LEASE, LEASE * 4 / 3 - timedelta(seconds=1)):
        assert repo.runs.reap(now=later(repo, ahead), dry_run=False) == []
    run.put("b", b"1")  # its clock is behind the reaper's, and it is alive
    short = ready(repo, "short", lease=timedelta(seconds=9))
    until = short.record.lease_until
    assert repo.runs.reap(now=until + timedelta(seconds=2.9), dry_run=False) == []
    assert [
        one.key for one in repo.runs.reap(now=until + timedelta(seconds=3.1), dry_run=False)
    ] == ["short"]


def test_no_branch_but_that_of_the_run_is_touched(repo):
    run = ready(repo)
    run.step("left behind").put("x", b"1")
    mine = repo.create_branch("mine")
    mine.put("staged", b"1")
    repo.create_branch("hidden", hidden=True).put("staged", b"1")
    other = repo.runs.open("other", lease=timedelta(days=99))
    other.put("staged", b"1")
    for length in (DEAD, STALE + DEAD):
        repo.runs.reap(now=later(repo, length), dry_run=False)
    assert repo.runs.get(KEY).state is RunState.REAPED
    names = {record.name for record in repo.branches(hidden=True)}
    assert names == {"main", "mine", "hidden", other.branch}
    assert all(repo.branch(name).exists("staged") for name in names if name != "main")


def test_what_a_publisher_left_that_died_at_its_end_is_removed():
    seen = 0
    for world in published_by_the_dead():
        repo = world.repo(scripted=False)
        if not hidden(repo):
            continue
        seen += 1
        (branch,) = hidden(repo)
        assert repo.runs.reap() == []  # a process may work until its lease ends
        planned = repo.runs.reap(everything=True)
        assert [one.branch for one in planned] == [branch]
        assert repo.runs.reap(now=later(repo)) == planned
        assert repo.runs.reap(now=later(repo), dry_run=False) == planned
        assert hidden(repo) == []
        lost = repo.stores.refs.branches.get(repo.runs.open("other").branch)
        repo.runs.abandon("other")
        repo.stores.refs.branches.create(replace(lost, moves=()))  # its maker died afterwards
        assert repo.runs.reap(now=later(repo, STALE), dry_run=False) == []
        (reaped,) = repo.runs.reap(everything=True, dry_run=False)
        assert reaped.branch == lost.name
        assert repo.runs.reap(everything=True) == []
    assert seen


def test_an_appointment_outlives_an_opener_as_slow_as_a_lease():
    world = ScriptedWorld()
    repo = world.repo(scripted=False)
    clock, kv, partition = repo.stores.clock, repo.stores.kv, f"runs:{repo.stores.uid}"
    slow = world.repo()

    def meanwhile(_):
        clock.sleep(2)
        repo.runs.reap(dry_run=False)

    for number in count(1):
        world.script.arm(number, meanwhile)
        with suppress(FencedError):  # reaped as soon as it exists
            slow.runs.open(f"run {number}", lease=timedelta(seconds=1))
        struck = world.script.disarm()
        due = b"".join(key for key, _ in kv.scan(partition, b"due/"))
        assert all(record.branch.encode() in due for record in repo.runs.list() if record.live)
        if not struck:
            assert number > 5
            return


def published_by_the_dead():
    for number in count(1):
        world = ScriptedWorld()
        run = world.repo(scripted=False).runs.open(KEY)
        run.put("a", b"1")
        run.commit("a")
        attached = world.repo().runs.attach(run.handle)
        world.script.arm(number, dies)
        with suppress(ProcessDied):
            attached.publish()
        if not world.script.disarm():
            return
        if run.state is RunState.PUBLISHED:
            yield world


def test_opening_a_run_reaps_a_few_due_ones(repo):
    for number in range(12):
        ready(repo, f"dead {number:02}")
    repo.stores.clock.sleep(DEAD.total_seconds())
    assert [len(repo.runs.reap(limit=limit)) for limit in (2, 0, 99)] == [2, 0, 12]
    parked = []
    for key in ("one", "two"):
        repo.runs.open(key)
        states = [one.state for one in repo.runs.list() if one.key.startswith("dead")]
        parked.append(states.count(RunState.PARKED))
    assert parked == [8, 12]
    repo.stores.clock.sleep(STALE.total_seconds())
    for number in range(3):
        repo.runs.open(f"more {number}")
    assert not [one for one in repo.runs.list() if one.key.startswith("dead") and one.live]


def test_the_due_index_does_not_grow_with_runs_that_are_over(repo):
    alive = repo.runs.open("alive")
    repo.stores.clock.sleep(400)
    alive.put("a", b"1")  # renews the lease, and moves the appointment
    assert len(due(repo)) == 1
    alive.abandon()
    for number in range(5):
        with repo.run(f"done {number}") as run:
            repo.stores.clock.sleep(400)
            run.put(f"done/{number}", b"1")
        repo.runs.open(f"given up {number}").abandon()
        ready(repo, f"parked {number}").park()
        repo.runs.open(f"parked {number}").publish()
    repo.stores.clock.sleep(DEAD.total_seconds())
    for number in range(3):
        repo.runs.open(f"more {number}")
    assert len(due(repo)) <= 3 + 8


def test_opening_reads_the_records_of_due_live_runs_alone(repo, monkeypatch):
    with repo.run("done") as run:
        run.put("a", b"1")
    ready(repo, "alive")
    records = repo.runs._records
    asked: list[str] = []
    find = records.find_branch

    def finds(name):
        asked.append(name)
        return find(name)

    monkeypatch.setattr(records, "find_branch", finds)
    monkeypatch.setattr(records, "each", lambda: pytest.fail("all records were read"))
    repo.runs.open("other")
    assert asked == []
    repo.stores.clock.sleep(DEAD.total_seconds())
    repo.runs.open("yet another")
    assert {name.rsplit("-", 1)[0] for name in asked} == {"run-alive", "run-other"}


def due(repo):
    return [
        key
        for key, _ in repo.stores.kv.scan(f"runs:{repo.stores.uid}", b"due/")
        if key.startswith(b"due/")
    ]


def test_runs_that_cannot_be_reaped_block_no_others(repo, caplog):
    kv, uid = repo.stores.kv, repo.stores.uid
    for number in range(12):
        broken = ready(repo, f"broken {number:02}")
        kv.set(f"runs:{uid}", b"run/" + broken.branch.encode(), b"rubbish")
    lost = ready(repo, "lost")
    kv.set(f"refs:{uid}", b"branch/" + lost.branch.encode(), b"rubbish")
    last = ready(repo, "the last one")
    repo.stores.clock.sleep(DEAD.total_seconds())
    opened = []
    for key in ("one", "two"):
        opened.append(repo.runs.open(key).state)
        opened.append(last.state)
    assert opened == ["OPEN", "OPEN", "OPEN", "PARKED"]
    assert "overdue" in caplog.text
    another = ready(repo, "another")
    with pytest.raises(CorruptionError):
        repo.runs.reap(now=later(repo), dry_run=False)
    assert another.state is RunState.PARKED


def test_a_silent_owner_goes_on_unless_another_came_first(repo):
    def owned(owner):
        return repo.runs.open_or_attach(KEY, owner=owner)

    with owned("first").step("one") as step:
        step.put("a", b"1")
    for attempt in (2, 3, 4):
        repo.stores.clock.sleep(DEAD.total_seconds())
        assert len(repo.runs.reap(dry_run=False)) == 1
        for _ in range(2):
            again = owned("first")
            assert again.exists("a")
            assert again.attempt == attempt
    owned("first").park("its orchestrator run failed")
    with pytest.raises(FencedError):
        owned("first")
    repo.stores.clock.sleep(DEAD.total_seconds())
    assert owned("second").exists("a")
    repo.stores.clock.sleep(DEAD.total_seconds())
    repo.runs.reap(dry_run=False)
    for _ in range(2):
        with pytest.raises(FencedError):
            owned("first")
    assert owned("second").publish().commit == repo.commit("main")
    assert repo.runs.get(KEY).owners == ("first",)


@pytest.mark.parametrize("first", ["reap", "open"])
def test_a_parked_run_is_reaped_or_resumed_whole(first):
    def prepare(repo):
        ready(repo).park()

    def check(world, *outcomes):
        for outcome in outcomes:
            assert not isinstance(outcome, GravelerError), outcome
        (opened,) = [outcome for outcome in outcomes if not isinstance(outcome, list)]
        assert opened.record.fence == opened.handle.fence
        assert opened.exists("a") == opened.record.resumed
        opened.put("b", b"1")
        opened.commit("b")
        opened.publish()

    def reap(repo):
        end = now + timedelta(days=14, minutes=5)
        return repo.runs.reap(now=end, dry_run=False)

    def reopen(repo):
        repo.stores.clock.sleep(timedelta(days=14).total_seconds())
        return repo.runs.open(KEY, ttl=timedelta(days=30), lease=timedelta(days=30))

    now = ScriptedWorld().repo().stores.clock.now()
    pair = (reap, reopen) if first == "reap" else (reopen, reap)
    interleave(prepare, *pair, check, least=4)


def test_a_heartbeat_at_every_point_of_a_reaping_is_respected():
    """The lease is renewed and the attempt continues, or the renewal is refused."""

    runs: list[Run] = []

    def prepare(repo):
        runs.append(ready(repo))

    def check(world, reaped, renewed):
        repo = world.repo(scripted=False)
        record = repo.runs.get(KEY)
        assert not isinstance(reaped, GravelerError), reaped
        if isinstance(renewed, FencedError):
            assert record.state is RunState.PARKED
        else:
            assert not isinstance(renewed, GravelerError), renewed
            assert record.state is RunState.OPEN
            assert reaped == []
            runs[-1].commit("staged")
            runs[-1].publish()

    def reap(repo):
        return repo.runs.reap(now=runs[-1].record.lease_until + timedelta(minutes=6), dry_run=False)

    def renew(repo):
        repo.stores.clock.sleep(700)
        return repo.runs.attach(runs[-1].handle).renew()

    interleave(prepare, reap, renew, check, least=4)
