"""Operations on a run: another process acts between any two calls of the operation."""

from contextlib import suppress
from dataclasses import replace
from itertools import count

import pytest

from graveler.errors import (
    FencedError,
    GravelerError,
    NoChangesError,
    StateError,
)
from graveler.gates import gate
from graveler.refs.refs import Refs
from graveler.runs.lifecycle import settle_publish
from graveler.runs.publication import PublishResult
from graveler.runs.record import LEASE, RunHandle
from graveler.runs.runs import Runs
from graveler.runs.state import RunState
from graveler.testing.faults import ProcessDied
from tests.harness.faults import FaultyKVStore, Script, dies
from tests.harness.worlds import Points, ScriptedWorld, interleave, tree

KEY = "hourly 05"


def base(repo):
    main = repo.branch("main")
    main.put("settled", b"0")
    main.commit("base")


HANDLES: list[RunHandle] = []


def opened(repo):
    """Open a run with one joined step, and keep its handle for the other processes."""
    base(repo)
    run = repo.runs.open(KEY)
    step(run, "one")
    HANDLES[:] = [run.handle]


def handle(repo):
    """Return the run of the attempt that `opened` began."""
    return repo.runs.attach(HANDLES[0])


def step(run, name, path=None):
    with run.step(name) as work:
        work.put(path or name, name.encode())
    return work.result


def publish(repo):
    return handle(repo).publish([passes])


@gate
def passes(candidate):
    return candidate.exists("one")


def published(repo):
    """Return the commits in main's first-parent history that published the run."""
    return [
        commit
        for commit in repo.log("main", first_parent=True)
        if commit.metadata.get("graveler.published") and commit.metadata["graveler.run"] == KEY
    ]


def fresh(world):
    return world.repo(scripted=False)


def hidden(repo):
    return [record.name for record in repo.branches(hidden=True) if record.hidden]


def open_and_step(repo):
    run = repo.runs.open(KEY)
    step(run, "two")
    return run


def whole(repo):
    """Run a newer attempt from its opening to its end."""
    with repo.run(KEY) as run:
        step(run, "two")
    return run.result


def commit(repo):
    handle(repo).put("direct", b"direct")
    return handle(repo).commit("direct")


def reap(repo):
    return repo.runs.reap(now=repo.stores.clock.now() + 2 * LEASE, dry_run=False)


ACTS = {
    "publish": publish,
    "open": lambda repo: repo.runs.open(KEY),
    "open and step": open_and_step,
    "whole": whole,
    "park": lambda repo: handle(repo).park("stop"),
    "abandon": lambda repo: repo.runs.abandon(KEY),
    "step": lambda repo: step(handle(repo), "three"),
    "other step": lambda repo: step(handle(repo), "four"),
    "commit": commit,
    "reap": reap,
}
WORK = {
    "open and step": "two",
    "whole": "two",
    "step": "three",
    "other step": "four",
    "commit": "direct",
}
"""The files of acts that work, and their texts."""
PAIRS = {
    "publish": ["open", "open and step", "whole", "park", "abandon", "step", "reap"],
    "open": ["open", "open and step", "whole", "publish", "step", "reap"],
    "park": ["open and step", "publish"],
    "abandon": ["open and step", "publish"],
    "step": ["other step", "open", "whole", "park", "reap"],
    "commit": ["open", "publish"],
    "reap": ["open", "reap", "publish"],
}


@pytest.mark.parametrize(
    ("act", "meanwhile"), [(act, other) for act, others in PAIRS.items() for other in others]
)
def test_what_is_acknowledged_is_published_once_by_the_next(act, meanwhile):
    def check(world, mine, theirs):
        repo = fresh(world)
        done = {}
        for name, outcome in ((act, mine), (meanwhile, theirs)):
            if isinstance(outcome, GravelerError):
                assert isinstance(outcome, FencedError | StateError), outcome
            else:
                done[name] = outcome
        landed = published(repo)
        for outcome in done.values():
            if isinstance(outcome, PublishResult):
                assert outcome.commit in landed
        if "publish" in done or "whole" in done:
            assert tree(repo.ref("main"))["one"] == "one"
        with repo.run(KEY) as run:
            step(run, "last")
        now = tree(repo.ref("main"))
        wanted = {"one", "last"} | {WORK[name] for name in done if name in WORK}
        if "abandon" in done:
            wanted = {"last"} | ({"one"} if landed else set())
        assert now.items() >= {path: path for path in wanted}.items()
        assert now.keys() <= {"settled", "one", "last", *WORK.values()}
        assert len(published(repo)) == len(landed) + 1
        attempts = [int(commit.metadata["graveler.attempt"]) for commit in published(repo)]
        assert attempts == sorted(attempts, reverse=True)
        assert hidden(repo) == []

    interleave(opened, ACTS[act], ACTS[meanwhile], check)


def test_writes_beside_a_publish_are_published_refused_or_staged():
    def write(repo):
        return handle(repo).put("late", b"1")

    def check(world, result, entry):
        repo = fresh(world)
        if isinstance(entry, GravelerError):
            assert isinstance(entry, FencedError)
            assert not isinstance(result, GravelerError)
        else:  # acknowledged, so publish says that it is not committed
            assert type(result) is StateError
            run = handle(repo)
            assert run.get("late") == b"1"
            run.commit_staged()
            run.publish()
            assert tree(repo.ref("main"))["late"] == "1"

    interleave(opened, publish, write, check, least=10)


def test_of_two_that_open_at_once_the_newer_has_the_run():
    def check(world, mine, theirs):
        repo = fresh(world)
        winner, loser = (theirs, mine)
        if not isinstance(mine, GravelerError) and mine.attempt > theirs.attempt:
            winner, loser = mine, theirs
        assert {winner.attempt} == {repo.runs.get(KEY).attempt}
        if isinstance(loser, GravelerError):
            assert isinstance(loser, FencedError)
        else:
            with pytest.raises(FencedError):
                loser.put("zombie", b"1")
        step(winner, "two")
        winner.publish()
        assert {"two"} <= set(tree(repo.ref("main")))
        assert hidden(repo) == []

    def open_run(repo):
        return repo.runs.open(KEY)

    interleave(base, open_run, open_run, check)
    interleave(opened, open_run, open_run, check)


@pytest.mark.parametrize("end", ["park", "abandon"])
def test_an_overtaken_parker_takes_nothing_from_the_new_attempt(end):
    def newer(repo):
        run = repo.runs.open(KEY)
        work = run.step("two")
        work.put("two", b"two")
        run.put("staged", b"1")
        return run, work

    def check(world, outcome, newcomer):
        run, work = newcomer
        work.join()
        work = {"two": "two", "staged": "1"}
        if isinstance(outcome, FencedError) or end == "park":
            assert tree(run) == {"settled": "0", "one": "one", **work}
        else:  # opened after the run was abandoned, as a new round
            assert tree(run).items() >= work.items()
        run.commit_staged()
        assert not run.publish().already

    interleave(opened, lambda repo: getattr(handle(repo), end)("stop"), newer, check)


def test_a_newer_try_may_be_done_at_every_point_of_a_step():
    def check(world, mine, theirs):
        now = set(tree(handle(fresh(world)))) - {"settled", "one"}
        if isinstance(mine, GravelerError):
            assert isinstance(mine, FencedError)
            assert now == {"fast"}
        else:  # this process was the newer one, or the other one replaced it
            assert now in ({"slow"}, {"fast"})
        assert theirs is not None

    slow, fast = (
        lambda repo, path=path: step(handle(repo), "work", path) for path in ("slow", "fast")
    )
    interleave(opened, slow, fast, check, least=10)


def test_an_older_try_does_not_join_above_others():
    """Another step joins, so that the older try looks again, and finds that a newer one began."""

    def meanwhile(repo):
        newer = handle(repo).step("work")
        return newer, step(handle(repo), "other")

    def check(world, mine, theirs):
        newer, other = theirs
        try:
            newer.join()
        except FencedError:
            return  # it began first
        before = fresh(world).ref(other.id).exists("slow")
        assert before if not isinstance(mine, GravelerError) else isinstance(mine, FencedError)

    points = min(Points.step, 3)  # one call of a join decides
    interleave(
        opened, lambda repo: step(handle(repo), "work", "slow"), meanwhile, check, step=points
    )


def test_a_stale_attempt_joins_nothing_and_disturbs_no_step():
    def newer(repo):
        run = repo.runs.open(KEY)
        work = run.step("work")
        work.put("new", b"1")
        return run, run.head, work

    def check(world, mine, newcomer):
        run, head, work = newcomer
        assert run.head == head
        assert isinstance(mine, FencedError) or tree(run)["stale"] == "work"
        work.join()
        assert tree(run) == {"settled": "0", "one": "one", "new": "1"}

    interleave(opened, lambda repo: step(handle(repo), "work", "stale"), newer, check, least=10)


@pytest.mark.parametrize("paths", [None, ["direct"]])
def test_a_commit_beside_a_newer_attempt_is_kept_or_refused(paths):
    def prepare(repo):
        opened(repo)
        handle(repo).put("direct", b"1")

    def check(world, made, run):
        here = tree(run)
        if isinstance(made, GravelerError):
            assert isinstance(made, FencedError)
            assert "direct" not in here
        else:
            assert here["direct"] == "1"

    def operate(repo):
        return handle(repo).commit("direct", paths=paths)

    interleave(prepare, operate, lambda repo: repo.runs.open(KEY), check, step=1)


def test_a_writer_of_an_attempt_that_is_over_gets_no_success():
    def check(world, entry, run):
        if isinstance(entry, GravelerError):
            assert isinstance(entry, FencedError)
        # acknowledged before the newer attempt, but only staged; staged entries are dropped
        assert "w" not in tree(run)
        with pytest.raises(NoChangesError):
            run.commit("nothing")

    def write(repo):
        return handle(repo).put("w", b"1")

    interleave(opened, write, lambda repo: repo.runs.open(KEY), check)


def dies_while_publishing(repo, *, landed):
    """Publish in a process that dies just before or just after its compare-and-set of main."""
    before, record = repo.commit("main"), repo.runs.get(KEY)
    number = 0
    while record.state is not RunState.PUBLISHING or (repo.commit("main") != before) != landed:
        number += 1
        script = Script()
        stores = repo.stores
        kv = FaultyKVStore(stores.kv, script)
        refs = Refs(kv, stores.uid, clock=stores.clock, ids=stores.ids)
        dying = Runs(replace(stores, kv=kv, refs=refs)).attach(HANDLES[0])
        script.arm(number, dies)
        with suppress(ProcessDied):
            dying.publish()
        record = repo.runs.get(KEY)
        if landed and repo.commit("main") == before:
            # an unsettled publish would move the call at which the next process dies
            record = settle_publish(repo.runs._records, record)
    return record


def test_findings_of_one_candidate_are_not_used_for_the_next():
    """The first candidate did not land. While a newcomer detects that, a second candidate lands."""

    def prepare(repo):
        opened(repo)
        dies_while_publishing(repo, landed=False)

    def check(world, run, record):
        repo = fresh(world)
        assert not isinstance(run, GravelerError)
        if isinstance(record, GravelerError):  # the newcomer was first, and now owns the run
            assert isinstance(record, FencedError)
            assert run.record.resumed
            assert published(repo) == []
        else:
            assert not run.record.resumed  # it was published, so this is a new round
            assert run.record.heads == (record.head,)
            assert len(published(repo)) == 1

    def operate(repo):
        return repo.runs.open(KEY)

    interleave(prepare, operate, lambda repo: dies_while_publishing(repo, landed=True), check)


def run_and_branch(repo):
    """Begin a run, and a branch that is merged into its target."""
    run = repo.runs.open(KEY, into="main")
    run.put("x", b"1")
    run.commit("x")
    other = repo.create_branch("o")
    other.put("y", b"2")
    other.commit("o")
    return run


def closed_with_its_own(repo):
    record = repo.runs.get(KEY)
    assert record.state is RunState.PUBLISHED
    assert repo.commit(record.commit).message == f"run {KEY}"
    return record


def test_a_second_publisher_of_an_attempt_gets_the_landed_commit():
    def publish(repo):
        return repo.runs._run(repo.runs.get(KEY)).publish()

    def publish_and_merge(repo):
        landed = publish(repo)
        repo.merge("o", into="main")
        return landed

    def check(world, mine, theirs):
        record = closed_with_its_own(fresh(world))
        assert mine.commit.id == theirs.commit.id == record.commit

    interleave(run_and_branch, publish, publish_and_merge, check)


def test_a_run_is_never_closed_with_the_commit_of_another():
    class DiesAfterLanding(FaultyKVStore):
        def set_if(self, partition, key, value, predicate):
            written = super().set_if(partition, key, value, predicate)
            if key == b"branch/main":
                raise ProcessDied(key)
            return written

    for number in count(1):
        world = ScriptedWorld()
        repo = fresh(world)
        run = run_and_branch(repo)

        def die_and_merge(_, world=world, repo=repo, run=run):
            dying = world.repo(kv=DiesAfterLanding(world.kv, Script()))
            with suppress(ProcessDied):
                dying.runs.attach(run.handle).publish()
            repo.merge("o", into="main")

        mine = world.repo()
        world.script.arm(number, die_and_merge)
        mine.runs.attach(run.handle).publish()
        if not world.script.disarm():
            assert number > 10
            return
        closed_with_its_own(repo)
