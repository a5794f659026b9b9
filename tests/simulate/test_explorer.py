"""The explorer leaves out only equivalent schedules, and a violation can be repeated."""

import pytest

from tests.simulate.judging import judge
from tests.simulate.scenarios.catalogue import find, with_faults
from tests.simulate.scenarios.conditions import simulating
from tests.simulate.scenarios.scenario import Scenario
from tests.simulate.schedules.explore import explore
from tests.simulate.schedules.run import KINDS, schedule_of, schedule_text


@pytest.fixture(autouse=True)
def _simulated():
    with simulating():
        yield


def prepare(c):
    c.put("k", "old")


SMALL = [
    Scenario(
        "writes", {"one": lambda c: c.put("k", "a"), "two": lambda c: c.put("k", "b")}, prepare
    ),
    Scenario(
        "write-seal", {"one": lambda c: c.put("k", "a"), "two": lambda c: c.commit()}, prepare
    ),
    Scenario(
        "write-read", {"one": lambda c: c.put("k", "a"), "two": lambda c: c.read("k")}, prepare
    ),
    Scenario(
        "three",
        {
            "one": lambda c: c.put("k", "a"),
            "two": lambda c: c.read("k"),
            "three": lambda c: c.read("k"),
        },
        prepare,
    ),
    Scenario("write-reset", {"one": lambda c: c.delete("k"), "two": lambda c: c.reset()}, prepare),
]


def ends(scenario):
    """The final states of all schedules, from a plain enumeration."""
    found, count = set(), 0
    pending: list[list[int]] = [[]]
    while pending:
        trace = pending.pop()
        run = scenario.start()
        for choice in trace:
            run.take(choice)
        while choices := run.choices():
            taken = list(run.trace)
            pending += [[*taken, other] for other in choices[1:]]
            run.take(choices[0])
        found.add(run.state())
        count += 1
        run.end()
    return found, count


def explored_ends(scenario):
    found = set()

    def note(_, run):
        found.add(run.state())
        return ""

    outcome = explore(scenario, note)
    assert outcome.complete
    return found, outcome.schedules


@pytest.mark.parametrize("scenario", SMALL, ids=lambda scenario: scenario.name)
def test_what_is_left_out_makes_no_difference(scenario):
    every, count = ends(scenario)
    reduced, fewer = explored_ends(scenario)
    assert reduced == every
    assert fewer < count / 2


@pytest.mark.parametrize("scenario", SMALL[:3:2], ids=lambda scenario: scenario.name)
def test_nor_does_it_with_faults(scenario):
    faulty = with_faults(scenario)
    every, _ = ends(faulty)
    reduced, _ = explored_ends(faulty)
    assert reduced == every


def test_a_violation_comes_with_the_schedule_that_repeats_it():
    scenario = find("write-commit")

    def refuse(_, run):
        operations = run.world.history.operations
        writer = next(o for o in operations if o.process == "writer")
        return "overtaken" if writer.calls > 3 else ""

    found = explore(scenario, refuse)
    assert found.violation == "overtaken"
    run = scenario.start()
    for choice in schedule_of(found.schedule, scenario.names):
        run.take(choice)
    assert run.choices() == []
    assert refuse(scenario, run) == "overtaken"
    assert judge(scenario, run) == ""


def test_a_bound_is_told_from_completeness():
    assert not explore(find("write-commit"), judge, most=3).complete
    assert explore(find("write-commit"), judge).complete


def test_a_process_that_never_ends_is_no_progress():
    def program(c):
        for _ in range(100):
            c.read("k")

    found = explore(Scenario("endless", {"reader": program}, prepare), judge, deepest=50)
    assert "no progress" in found.violation


@pytest.mark.parametrize(
    "text", ["writer*2 committer!", "writer? writer~ writer- writer+ writer> late"]
)
def test_a_schedule_is_text_and_back(text):
    names = ["writer", "committer"]
    assert schedule_text(schedule_of(text, names), [*names, "late"]) == text


@pytest.mark.parametrize("text", ["unknown", "writer%", "writer*x"])
def test_a_step_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match="is no step"):
        schedule_of(text, ["writer"])


def taken(text, scenario):
    run = scenario.start()
    for choice in schedule_of(text, scenario.names):
        run.take(choice)
    return run, {o.process: o for o in run.world.history.operations}


def test_a_dead_process_does_nothing_more():
    run, operations = taken("writer*2 writer!", find("write-commit+1"))
    assert not operations["writer"].done
    assert [choice // KINDS for choice in run.choices()] == [1]


def test_a_lost_reply_means_written_and_a_lost_write_does_not():
    scenario = find("write-commit+1")
    made, _ = taken("committer*2 committer?", scenario)
    lost, _ = taken("committer*2 committer~", scenario)
    before, _ = taken("committer*2", scenario)
    key = "refs:" + "1".rjust(32, "0")
    record = b"branch/main"
    assert lost.world.shared.find(key, record) == before.world.shared.find(key, record)
    assert made.world.shared.find(key, record) != before.world.shared.find(key, record)


def test_a_write_that_is_late_is_made_when_it_arrives():
    scenario = find("write-commit+late")
    run, _ = taken("committer*2 committer>", scenario)
    key = "refs:" + "1".rjust(32, "0")
    before = run.world.shared.find(key, b"branch/main")
    arrived, _ = taken("committer*2 committer> late", scenario)
    assert arrived.world.shared.find(key, b"branch/main") != before


def test_operations_that_followed_each_other_are_known_to():
    _, operations = taken("writer*3 committer", find("write-commit"))
    assert operations["committer"].before & operations["writer"].bit
    _, operations = taken("writer*2 committer writer", find("write-commit"))
    assert not operations["committer"].before & operations["writer"].bit
