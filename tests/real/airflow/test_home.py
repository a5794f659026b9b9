"""The waits of these tests."""

import pytest

from tests.real.airflow.home import Api, Home
from tests.real.chaos.processes.services import Services


def test_a_wait_ends_when_a_service_has_ended(tmp_path):
    home = Home(tmp_path, 9)
    home.running.append(Services(tmp_path, {}, {"scheduler": ["echo", "out of memory"]}))
    home.running[0].start()
    with pytest.raises(AssertionError, match=r"\['scheduler'\] ended [^/]*for rest\n.*\n.*memory"):
        Api(home).wait(lambda: False, "rest")
