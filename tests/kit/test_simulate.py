"""The kit accepts good pipelines, and reports wrong ones at the call where they go wrong."""

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Thread
from typing import Any

import pytest

from graveler.errors import InvalidInputError
from graveler.testing import SimulationError, simulate
from graveler.testing.faults import ProcessDied
from graveler.testing.pipeline import KINDS

HOUR = "input/2013/01/01/05:00"


def yesterday(repo):
    main = repo.branch("main")
    main.put("input/2012/12/31/23:00/part-0.csv", b"1,2\n")
    main.put("totals.csv", b"1\n")
    main.commit("yesterday")
    repo.protection.add("main")


def counted(candidate):
    return candidate.exists("totals.csv")


def steps(repo):
    with repo.run("hour 05", gates=[counted]) as run:
        with run.step("load") as load:
            load.put(f"{HOUR}/part-0.csv", b"3,4\n")
            load.put(f"{HOUR}/part-1.csv", b"5,6\n")
        with run.step("total") as total:
            rows = sum(total.get(entry.path).count(b"\n") for entry in total.list("input/"))
            total.put("totals.csv", b"%d\n" % rows)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_with_steps_and_a_gate_is_all_or_nothing(kind):
    done = simulate(steps, prepare=yesterday, kinds=[kind], most=6)
    assert done.points == 6 < done.of <= done.calls
    assert str(done).endswith(f"6 of {done.of} disturbances: main is all or nothing")


def test_every_point_of_a_small_run_is_tried():
    def load(run):
        run.put("a", b"one")

    done = simulate(load, run="hour 05", kinds=["dies-before", "lost-reply"])
    assert done.points == done.of > done.calls


def test_a_function_of_a_run_is_published_behind_its_gates():
    def load(run):
        run.put(f"{HOUR}/part-0.csv", b"3,4\n")
        run.delete("totals.csv")
        run.put("totals.csv", b"2\n")

    done = simulate(load, run="hour 05", gates=[counted], prepare=yesterday, most=12, seed=1)
    assert done.points == 12 < done.of


def test_steps_side_by_side_are_all_or_nothing():
    def pipeline(repo):
        with repo.run("hour 05") as run, ThreadPoolExecutor(2) as pool:

            def load(number):
                with run.step(f"load-{number}") as step:
                    step.put(f"{HOUR}/part-{number}.csv", b"1,2\n")

            list(pool.map(load, range(2)))

    done = simulate(pipeline, most=10)
    assert 0 < done.points <= 10 < done.of


def test_a_call_that_threads_do_not_come_to_again_is_not_counted():
    runs = count()

    def pipeline(repo):
        with repo.run("hour 05") as run, ThreadPoolExecutor(1) as pool:
            for number in range(3 if next(runs) == 0 else 1):
                pool.submit(run.put, "a", b"%d" % number).result()
            pool.submit(run.put, "a", b"one").result()

    done = simulate(pipeline, kinds=["dies-before"])
    assert 0 < done.points < done.of


def test_half_a_publish_by_threads_is_found():
    def pipeline(repo):
        run = repo.runs.open("hour 05")
        with ThreadPoolExecutor(1) as pool:
            try:
                pool.submit(run.put, "a", b"one").result()
                pool.submit(run.put, "b", b"two").result()
            finally:
                run.commit_staged()
                run.publish()

    with pytest.raises(SimulationError) as found:
        simulate(pipeline, kinds=["unavailable"])
    told = str(found.value)
    assert "main shows neither the old nor the new" in told
    assert "'b' is missing" in told
    assert "Repeat it several times, because the order of its threads varies" in told


def test_a_thread_that_dies_with_its_process_says_nothing():
    def pipeline(repo):
        with repo.run("hour 05") as run:
            thread = Thread(target=run.put, args=("a", b"one"))
            thread.start()
            thread.join()

    simulate(pipeline, kinds=["dies-before", "dies-after"], most=8)


def test_what_a_run_left_behind_has_no_effect_on_the_next():
    left: list[Any] = []

    def pipeline(repo):
        while left:
            with pytest.raises(ProcessDied):
                left.pop().put("a", b"stray")
        left.append(repo.branch("main"))

    simulate(pipeline, kinds=["unavailable"])


def test_two_runs_are_two_publishes():
    def pipeline(repo):
        for hour in ("05", "06"):
            with repo.run(f"hour {hour}") as run:
                run.put(f"input/{hour}", b"")

    simulate(pipeline, publishes=2, most=6)
    with pytest.raises(SimulationError, match="changes main 2 times"):
        simulate(pipeline)


def direct(repo):
    main = repo.branch("main")
    main.put("a", b"one")
    main.put("b", b"two")
    main.commit("both")


def test_writing_to_main_is_found_at_once_and_by_its_line():
    with pytest.raises(SimulationError) as found:
        simulate(direct)
    told = str(found.value)
    assert "writes to main directly" in told
    assert 'in direct, `main.put("a", b"one")`' in told
    assert found.value.point == ""


def append(repo):
    """Appends to main's content, so a second attempt appends twice."""
    with repo.run("hour 05") as run:
        run.put("totals.csv", run.get("totals.csv") + b"2\n")


def test_an_attempt_that_adds_to_an_earlier_publish_is_found():
    with pytest.raises(SimulationError) as found:
        simulate(append, prepare=yesterday, kinds=["dies-before", "dies-after"])
    told = str(found.value)
    assert "in the end main is not as after an undisturbed run, since call" in told
    assert "'totals.csv' has another content" in told
    assert f"only={found.value.point!r}" in told
    with pytest.raises(SimulationError) as again:
        simulate(append, prepare=yesterday, only=found.value.point)
    assert str(again.value) in told


def swallowing(repo):
    """Continues after its death, as far as it can."""
    try:
        steps(repo)
    except BaseException:
        repo.branch("main").put("note", b"failed")
        raise


def test_what_runs_after_a_crash_has_no_effect():
    simulate(swallowing, prepare=lambda repo: None, kinds=["dies-before", "dies-after"], most=8)


def test_what_runs_after_an_error_has_one():
    def noting(repo):
        try:
            with repo.run("hour 05") as run:
                run.put("a", b"one")
        except Exception:
            main = repo.branch("main")
            main.put("note", b"failed")
            main.commit("failed")
            raise

    with pytest.raises(SimulationError, match="writes to main directly") as found:
        simulate(noting, kinds=["unavailable"])
    assert found.value.point.startswith("unavailable:")


def test_a_branch_that_is_left_over_is_reported():
    def with_a_new_name_each_time(repo):
        name = f"work-{sum(1 for _ in repo.branches())}"
        work = repo.create_branch(name)
        work.put("a", b"one")
        work.commit("work")
        repo.merge(name, into="main")
        repo.delete_branch(name)

    with pytest.raises(SimulationError, match="branch 'work-1' is left behind"):
        simulate(with_a_new_name_each_time, kinds=["dies-before"])


def test_time_and_chance_are_told_apart_from_crashes():
    numbers = count()

    def pipeline(repo):
        with repo.run("hour 05") as run:
            run.put("a", b"%d" % next(numbers))

    with pytest.raises(SimulationError, match="leaves something else each time"):
        simulate(pipeline)
    simulate(pipeline, same=lambda view: [entry.path for entry in view.entries()], most=4)


def test_a_pipeline_that_fails_by_itself_is_said_to():
    def broken(repo):
        raise KeyError("hour")

    with pytest.raises(
        SimulationError, match=r"undisturbed, the pipeline fails: KeyError\('hour'\)"
    ):
        simulate(broken)


def test_another_target_than_main():
    def pipeline(repo):
        with repo.run("hour 05", into="trunk") as run:
            run.put("a", b"one")

    simulate(pipeline, branch="trunk", most=4)


def test_points_and_kinds_that_are_none_are_refused():
    with pytest.raises(InvalidInputError, match="dies-after:57"):
        simulate(append, prepare=yesterday, only="dies-after:x")
    with pytest.raises(InvalidInputError, match="kinds"):
        simulate(append, prepare=yesterday, kinds=["burns"])  # type: ignore[list-item]


def test_files_by_their_addresses_are_simulated_too():
    from graveler.fs import GravelerFileSystem, storage_options, url

    def pipeline(repo):
        with repo.run("hour 05") as run:
            fs = GravelerFileSystem(**storage_options(run))
            with fs.transaction:
                fs.pipe({url(run, "a"): b"one", url(run, "b"): b"two"})

    simulate(pipeline, most=6)
