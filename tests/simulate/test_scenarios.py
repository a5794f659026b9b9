"""A first schedule of every small scenario; `make simulate` runs all of them."""

import pytest

from tests.simulate.judging import judge
from tests.simulate.scenarios.catalogue import SMALL, find
from tests.simulate.scenarios.conditions import simulating
from tests.simulate.scenarios.two_lakes import play
from tests.simulate.schedules.explore import explore
from tests.simulate.schedules.random_runs import check_seed


@pytest.fixture(autouse=True)
def _simulated():
    with simulating():
        yield


@pytest.mark.parametrize("name", [scenario.name for scenario in SMALL])
def test_a_schedule_keeps_every_promise(name):
    found = explore(find(name), judge, most=1)
    assert found.violation == "", f"python -m tests.simulate replay {name} '{found.schedule}'"
    assert found.schedules == 1


@pytest.mark.parametrize("seed", range(3))
def test_larger_worlds_keep_every_promise(seed):
    assert check_seed(seed).violation == "", f"python -m tests.simulate replay random {seed}"


def test_there_is_a_process_of_every_kind():
    assert len(SMALL) >= 12
    processes = {name for scenario in SMALL for name in scenario.names}
    assert processes >= {
        "writer",
        "committer",
        "reader",
        "lister",
        "merger",
        "deleter",
        "reset",
        "reverter",
        "collector",
    }


def test_a_scenario_that_is_none_is_refused():
    with pytest.raises(ValueError, match="no scenario 'nothing'"):
        find("nothing")


@pytest.mark.parametrize("seed", range(3))
def test_two_lakes_show_what_plain_dicts_show(seed):
    assert play(seed, 100) == ""
