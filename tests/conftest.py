"""What every test shares: how many examples hypothesis tries, servers, modules of gates."""

import pytest
from hypothesis import HealthCheck, settings

from graveler.config import environment
from tests.harness.servers.dynamodb import dynamodb_uri  # noqa: F401 - fixture
from tests.harness.servers.mysql import mysql_socket, mysql_url  # noqa: F401 - fixtures
from tests.harness.servers.postgres import postgres_socket, postgres_url  # noqa: F401 - fixtures
from tests.harness.servers.s3 import s3_bucket, s3_endpoint, s3_options, s3_server  # noqa: F401 - fixtures
from tests.harness.worlds import Points

_LONG = {"simulate", "spark"}


def pytest_addoption(parser):
    parser.addoption(
        "--every-point",
        action="store_true",
        help="only tests that strike an operation at its calls, and at each of them",
    )


def pytest_configure(config):
    if config.getoption("--every-point"):
        Points.step = 1


def pytest_collection_modifyitems(config, items):
    # a process takes a whole file: begun last, these would leave the other processes without work
    items.sort(key=lambda item: _LONG.isdisjoint(item.path.parts))
    if not config.getoption("--every-point"):
        return
    striking = [item for item in items if _strikes(item.module)]
    others = [item for item in items if not _strikes(item.module)]
    config.hook.pytest_deselected(items=others)
    items[:] = striking


def _strikes(module):
    return hasattr(module, "struck_worlds") or hasattr(module, "interleave")


settings.register_profile("dev", max_examples=50, deadline=None)
# the same examples on every run: a red CI is then about the change, not about the draw
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
    """Branches of tests may require gates that tests define."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAVELER_GATE_MODULES", "tests")
        yield
