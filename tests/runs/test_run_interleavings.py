"""Operations on a run: another process acts between any two calls of the operation."""

from contextlib import suppress
from dataclasses import replace
from itertools import count

import pytest

from graveler.errors import (
    FencedError,
    GravelerError,
    NoChangesError,
    RunStateError,
    StateError,
)
from graveler.gates import gate
from graveler.refs.refs import Refs
from graveler.runs import publication
from graveler.runs.lifecycle import settle_publish
from graveler.runs.record import RunHandle
from graveler.runs.runs import Runs
from graveler.runs.state import RunState
from graveler.testing.faults import FaultyKVStore, ProcessDied, Script, dies
from tests.harness.worlds import ScriptedWorld, interleave, tree

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


def attached(operate):
    """Return a call of `operate` with the run of the attempt that `opened` began."""

    def do(repo):
        return operate(handle(repo))

    return do


def publish(repo):
    return handle(repo).publish([passes])


@gate
def passes(candidate):
    return candidate.exists("one")


def finished(repo):
    """Run a newer attempt from its opening to its end."""
    with repo.run(KEY) as run:
        step(run, "two")
    return run.result


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


def test_main_may_move_at_every_point_of_a_publish():
    def move(repo):
        main = repo.branch("main")
        main.put("other", b"1")
        return main.commit("other")

    def check(world, result, moved):
        repo = fresh(world)
        assert not result.already
        assert tree(repo.ref("main")) == {"settled": "0", "one": "one", "other": "1"}
        assert [commit.id for commit in published(repo)] == [result.commit.id]
        assert moved.id in {commit.id for commit in repo.log("main", first_parent=True)}
        assert repo.runs.get(KEY).commit == result.commit.id
        assert hidden(repo) == []

    interleave(opened, publish, move, check, least=10)


def test_two_publishers_of_one_attempt_publish_it_once():
    def check(world, mine, theirs):
        repo = fresh(world)
        (commit,) = published(repo)
        for result in (mine, theirs):
            assert isinstance(result, RunStateError | FencedError) or result.commit == commit
        assert not isinstance(theirs, GravelerError)
        assert tree(repo.ref("main")) == {"settled": "0", "one": "one"}
        assert repo.runs.get(KEY).state is RunState.PUBLISHED

    interleave(opened, publish, publish, check, least=10)


def test_a_newer_attempt_may_open_at_every_point_of_a_publish():
    def newer(repo):
        return repo.runs.open(KEY)

    def check(world, result, run):
        repo = fresh(world)
        landed = published(repo)
        if isinstance(result, GravelerError):
            assert isinstance(result, FencedError)
            assert landed == []
            assert tree(run) == {"settled": "0", "one": "one"}  # its work is carried over
        else:
            assert [commit.id for commit in landed] == [result.commit.id]
            assert run.attempt == 2
        assert run.state is RunState.OPEN
        step(run, "two")
        run.publish([passes])
        assert tree(repo.ref("main")) == {"settled": "0", "one": "one", "two": "two"}
        assert hidden(repo) == []

    interleave(opened, publish, newer, check, least=10)


def test_a_newer_attempt_may_be_done_at_every_point_of_a_publish():
    def check(world, result, theirs):
        repo = fresh(world)
        assert not isinstance(theirs, GravelerError)
        assert tree(repo.ref("main")) == {"settled": "0", "one": "one", "two": "two"}
        if isinstance(result, GravelerError):
            assert isinstance(result, FencedError)
            assert len(published(repo)) == 1
        else:  # it landed, or its successor had published its work
            assert len(published(repo)) == 2 or result.already
        assert repo.runs.get(KEY).state is RunState.PUBLISHED
        assert hidden(repo) == []

    interleave(opened, publish, finished, check, least=10)


@pytest.mark.parametrize("end", ["abandon", "park"])
def test_an_operator_may_end_a_run_at_every_point_of_a_publish(end):
    def stop(repo):
        return repo.runs.abandon(KEY) if end == "abandon" else handle(repo).park("stop")

    def check(world, result, record):
        repo = fresh(world)
        landed = published(repo)
        state = repo.runs.get(KEY).state
        if isinstance(result, GravelerError):
            assert isinstance(result, FencedError | RunStateError)
            assert state is (RunState.REAPED if end == "abandon" else RunState.PARKED)
        if landed:
            assert state is RunState.PUBLISHED
            assert tree(repo.ref("main")) == {"settled": "0", "one": "one"}
        else:
            assert tree(repo.ref("main")) == {"settled": "0"}
        assert len(landed) == (not isinstance(result, GravelerError))

    interleave(opened, publish, stop, check, least=10)


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


def test_a_step_that_joins_beside_a_publish_is_in_or_refused():
    def check(world, result, joined):
        repo = fresh(world)
        assert not isinstance(result, GravelerError)
        refused = isinstance(joined, GravelerError)
        assert not refused or isinstance(joined, FencedError)
        assert ("two" in tree(repo.ref("main"))) == (not refused)
        assert hidden(repo) == []

    interleave(opened, publish, lambda repo: step(handle(repo), "two"), check, least=10)


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


def test_an_opener_beside_a_newer_finished_attempt_gets_nothing():
    def check(world, mine, theirs):
        repo = fresh(world)
        assert {"two"} <= set(tree(repo.ref("main")))
        if isinstance(mine, GravelerError):
            assert isinstance(mine, FencedError)
            assert hidden(repo) == []
        elif mine.attempt == repo.runs.get(KEY).attempt:
            assert tree(mine) == tree(repo.ref("main"))  # the other's publish
        else:
            with pytest.raises(FencedError):
                mine.put("zombie", b"1")

    interleave(base, lambda repo: repo.runs.open(KEY), finished, check)
    interleave(opened, lambda repo: repo.runs.open(KEY), finished, check)


def test_an_overtaken_parker_takes_nothing_from_the_new_attempt():
    def newer(repo):
        run = repo.runs.open(KEY)
        work = run.step("two")
        work.put("two", b"two")
        run.put("staged", b"1")
        return run, work

    def check(world, outcome, newcomer):
        run, work = newcomer
        assert isinstance(outcome, FencedError) or outcome.state is RunState.PARKED
        work.join()
        assert tree(run) == {"settled": "0", "one": "one", "two": "two", "staged": "1"}
        run.commit_staged()
        assert not run.publish().already

    for end in ("park", "abandon"):

        def stop(run, end=end):
            return getattr(run, end)("stop")

        interleave(opened, attached(stop), newer, check_of(end, check), least=3)


def check_of(end, check):
    def abandoned(world, outcome, newcomer):
        run, work = newcomer
        if isinstance(outcome, FencedError):
            return check(world, outcome, newcomer)
        assert outcome.state is RunState.REAPED
        work.join()  # opened after the run was abandoned, as a new round
        assert {"two", "staged"} <= set(tree(run))
        return None

    return check if end == "park" else abandoned


def test_a_new_round_may_begin_anywhere_after_a_publish_landed():
    def newer(repo):
        run = repo.runs.open(KEY)
        step(run, "two")
        return run

    def check(world, result, run):
        repo = fresh(world)
        assert "two" in tree(run)  # the commit is there, whatever the old publisher has dropped
        run.publish()
        assert tree(repo.ref("main")) == {"settled": "0", "one": "one", "two": "two"}
        assert hidden(repo) == []

    interleave(opened, publish, newer, check, least=10)


def test_a_newer_try_may_be_done_at_every_point_of_a_step():
    def slow(run):
        return step(run, "work", "slow")

    def check(world, mine, theirs):
        run = handle(fresh(world))
        if isinstance(mine, GravelerError):
            assert isinstance(mine, FencedError)
            assert tree(run) == {"settled": "0", "one": "one", "fast": "work"}
        else:  # this process was the newer one, or the other one replaced it
            assert set(tree(run)) - {"settled", "one"} in ({"slow"}, {"fast"})
        assert theirs is not None

    interleave(
        opened, attached(slow), lambda repo: step(handle(repo), "work", "fast"), check, least=10
    )


def test_another_step_may_join_at_every_point_of_a_step():
    def check(world, mine, theirs):
        run = handle(fresh(world))
        assert tree(run) == {"settled": "0", "one": "one", "a": "a", "b": "b"}
        ids = {commit.id for commit in fresh(world).log(run.branch, first_parent=True)}
        assert {mine.id, theirs.id} <= ids

    interleave(
        opened,
        attached(lambda run: step(run, "a")),
        lambda repo: step(handle(repo), "b"),
        check,
        least=10,
    )


def test_a_newer_attempt_may_be_opened_at_every_point_of_a_step():
    def newer(repo):
        run = repo.runs.open(KEY)
        return run, run.head

    def check(world, mine, newcomer):
        run, head = newcomer
        assert run.head == head  # the stale attempt can join nothing any more
        here = tree(run)
        if isinstance(mine, FencedError):
            assert "two" not in here
        else:  # it joined before
            assert here["two"] == "two"
        assert here["one"] == "one"
        step(run, "two")
        assert tree(run) == {"settled": "0", "one": "one", "two": "two"}

    interleave(
        opened,
        attached(lambda run: step(run, "two")),
        newer,
        check,
        least=10,
    )


def test_a_stale_attempts_step_does_not_disturb_its_successor():
    def newer(repo):
        run = repo.runs.open(KEY)
        work = run.step("work")
        work.put("new", b"1")
        return run, work

    def check(world, mine, newcomer):
        run, work = newcomer
        assert isinstance(mine, FencedError)
        work.join()
        assert tree(run) == {"settled": "0", "one": "one", "new": "1"}

    def start(run):
        run.step("work")
        raise FencedError("started before the newer attempt came")

    interleave(opened, attached(start), newer, check)


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

    interleave(
        prepare,
        attached(lambda run: run.commit("direct", paths=paths)),
        lambda repo: repo.runs.open(KEY),
        check,
        step=1,
    )


def test_a_writer_of_an_attempt_that_is_over_gets_no_success():
    def check(world, entry, run):
        if isinstance(entry, GravelerError):
            assert isinstance(entry, FencedError)
        # acknowledged before the newer attempt, but only staged; staged entries are dropped
        assert "w" not in tree(run)
        with pytest.raises(NoChangesError):
            run.commit("nothing")

    interleave(
        opened,
        attached(lambda run: run.put("w", b"1")),
        lambda repo: repo.runs.open(KEY),
        check,
        least=4,
    )


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


def test_a_loser_with_one_candidate_leaves_that_of_another():
    world = ScriptedWorld()
    repo = world.repo(scripted=False)
    opened(repo)
    record = dies_while_publishing(repo, landed=False)
    other = repo.commit("main")
    assert other.id != record.candidate
    head = repo.commit(record.head)
    terms = publication.PublishTerms()
    candidacy = publication.RunCandidacy(repo.runs._records, record, head, (), terms)
    candidacy.lost(other)
    assert repo.runs.get(KEY) == record
    candidacy.lost(repo.commit(record.candidate))
    assert repo.runs.get(KEY).state is RunState.OPEN


def test_a_second_publisher_of_an_attempt_gets_the_landed_commit():
    def start(repo):
        run = repo.runs.open("h", into="main")
        run.put("x", b"1")
        run.commit("x")
        other = repo.create_branch("o")
        other.put("y", b"2")
        other.commit("o")

    def publish(repo):
        return repo.runs._run(repo.runs.get("h")).publish()

    def publish_and_merge(repo):
        landed = publish(repo)
        repo.merge("o", into="main")
        return landed

    def check(world, mine, theirs):
        repo = world.repo(scripted=False)
        record = repo.runs.get("h")
        assert record.state is RunState.PUBLISHED
        assert repo.commit(record.commit).message == "run h"
        assert mine.commit.id == theirs.commit.id == record.commit

    interleave(start, publish, publish_and_merge, check)


def test_a_run_is_never_closed_with_the_commit_of_another():
    class DiesAfterLanding(FaultyKVStore):
        def set_if(self, partition, key, value, predicate):
            written = super().set_if(partition, key, value, predicate)
            if key == b"branch/main":
                raise ProcessDied(key)
            return written

    for number in count(1):
        world = ScriptedWorld()
        repo = world.repo(scripted=False)
        run = repo.runs.open("h", into="main")
        run.put("x", b"1")
        run.commit("x")
        other = repo.create_branch("o")
        other.put("y", b"2")
        other.commit("o")

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
        record = repo.runs.get("h")
        assert record.state is RunState.PUBLISHED
        assert repo.commit(record.commit).message == "run h"


def test_a_run_that_is_published_within_its_block_is_published():
    repo = ScriptedWorld().repo(scripted=False)
    with repo.run("h") as run:
        run.put("x", b"1")
        run.commit("x")
        run.publish()
    assert run.result is not None
    assert repo.runs.get("h").state is RunState.PUBLISHED
    assert repo.ref("main").exists("x")
