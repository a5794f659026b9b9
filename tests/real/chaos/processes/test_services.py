"""Services are restarted, except those that were killed on purpose."""

import sys

import pytest

from graveler.base.clock import SystemClock
from tests.real.chaos.processes.services import Services

LASTING = [sys.executable, "-c", "import time; time.sleep(600)"]
ENDING = [sys.executable, "-c", "print('no more')"]


@pytest.fixture
def services(tmp_path):
    made = Services(tmp_path, {}, {"lasting": LASTING, "ending": ENDING})
    made.start()
    yield made
    made.die()


def ended(services):
    for _ in range(600):
        if names := services.tend():
            return names
        SystemClock().sleep(0.05)
    raise AssertionError("nothing ended")


def test_what_ended_by_itself_is_started_again_and_named(services, tmp_path):
    assert ended(services) == ["ending"]
    assert ended(services) == ["ending"]
    assert (tmp_path / "ending.log").read_text().count("no more") >= 2
    assert "no more" in services.logs()


def test_what_was_killed_stays_away_until_it_is_started(services):
    services.kill("ending")
    services.kill("lasting")
    assert services.tend() == []
    services.start("ending")
    assert ended(services) == ["ending"]


def test_a_host_that_dies_leaves_nothing_to_tend(services):
    services.die()
    assert services.tend() == []
