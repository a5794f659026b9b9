"""Setup of all tests: the number of hypothesis examples, servers, and modules of gates."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from graveler.config import environment
from tests.harness.servers.dynamodb import dynamodb_uri  # noqa: F401 - fixture
from tests.harness.servers.mysql import mysql_socket, mysql_url  # noqa: F401 - fixtures
from tests.harness.servers.postgres import postgres_socket, postgres_url  # noqa: F401 - fixtures
from tests.harness.servers.s3 import (  # noqa: F401 - fixtures
    s3_bucket,
    s3_client,
    s3_endpoint,
    s3_options,
    s3_server,
    s3_settings,
)
from tests.harness.worlds import Points

pytest.register_assert_rewrite("tests.kv.suite", "tests.objects.suite")

FIRST = (
    "docs/test_pages.py",
    "simulate/test_scenarios.py",
    "simulation/test_replay.py",
    "limits/test_silent_servers.py",
    "objects/test_s3.py",
    "kit/test_simulate.py",
    "limits/test_limits.py",
    "gc/collection/test_beside_writers.py",
    "gc/test_borrowers.py",
    "engine/test_statements.py",
    "cli/test_programs.py",
    "house/test_docs.py",
    "real/airflow/test_run_for_real.py",
    "real/test_docs.py",
    "real/airflow/ingestion/test_events_for_real.py",
    "real/torture/test_kills.py",
    "real/servers/test_metamorphic.py",
    "real/servers/test_drivers.py",
)
"""The slowest test files, which run first.

A process takes a whole file. A slow file at the end leaves the other processes idle.
"""


def pytest_addoption(parser):
    parser.addoption(
        "--every-point",
        action="store_true",
        help="only tests that strike an operation at its calls, and at each of them",
    )
    parser.addoption(
        "--session",
        choices=("classic", "connect"),
        default="classic",
        help="the kind of Spark session; connect: only tests that have one, on a server of their own",
    )


def pytest_configure(config):
    if config.getoption("--every-point"):
        Points.step = 1


def pytest_collection_modifyitems(config, items):
    here = Path(__file__).parent
    ranks = {here / name: rank for rank, name in enumerate(FIRST)}
    items.sort(key=lambda item: ranks.get(item.path, len(FIRST)))  # the sort is stable
    if config.getoption("--every-point"):
        _select(config, items, _strikes)
    if config.getoption("--session") == "connect":
        _select(config, items, lambda item: "spark" in item.fixturenames)
        for item in items:
            for mark in item.iter_markers("classic"):
                item.add_marker(pytest.mark.skip(reason=f"not on Spark Connect: {mark.args[0]}"))


def _select(config, items, chosen):
    config.hook.pytest_deselected(items=[item for item in items if not chosen(item)])
    items[:] = [item for item in items if chosen(item)]


def _strikes(item):
    return hasattr(item.module, "struck_worlds") or hasattr(item.module, "interleave")


settings.register_profile("dev", max_examples=50, deadline=None)
# the same examples in every run, so that a red CI run is about the change
settings.register_profile(
    "ci",
    max_examples=50,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci" if environment("CI") else "dev")


@pytest.fixture(scope="session", autouse=True)
def gate_modules():
    """Allow branches of tests to require gates that tests define."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAVELER_GATE_MODULES", "tests")
        yield
