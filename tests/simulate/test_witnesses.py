"""The two behaviours that the protocol allows, replayed from their schedules."""

import pytest

from tests.simulate.judging import gather
from tests.simulate.scenarios.conditions import simulating
from tests.simulate.schedules.run import schedule_of
from tests.simulate.witnesses import WITNESSES, values


@pytest.fixture(autouse=True)
def _simulated():
    with simulating():
        yield


def replayed(name):
    witness = WITNESSES[name]
    run = witness.scenario.start()
    for choice in schedule_of(witness.recorded, witness.scenario.names):
        run.take(choice)
    assert run.choices() == []
    return witness.scenario, run


@pytest.mark.parametrize("name", WITNESSES)
def test_the_recorded_schedule_is_the_one_its_director_finds(name):
    witness = WITNESSES[name]
    run = witness.scenario.start()
    witness.make(run)
    assert run.choices() == []
    assert run.text() == witness.recorded


def history_of(name):
    """The values of the path that the line of commits went through."""
    scenario, run = replayed(name)
    evidence = gather(scenario, run)
    found = []
    identifier = evidence.heads["main"]
    while True:
        facts = evidence.commits[identifier]
        if facts.tree:
            found.append(facts.tree["k"])
        if not facts.parents:
            return found[::-1]
        identifier = facts.parents[0]


def test_a_counter_of_two_can_be_seen_to_go_one_three_two():
    _, run = replayed("1-3-2")
    assert values(run, "observer", "read") == ["1", "3", "2"]


def test_who_commits_each_number_makes_a_history_of_them():
    assert history_of("1-3-2") == ["1", "3", "2"]


def test_two_writes_can_take_turns_in_history_for_ever():
    assert history_of("b-a-n-a-n-a") == ["B", "A", "N", "A", "N", "A", "N"]
