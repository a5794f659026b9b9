"""What the tests with real components share: one Spark, and the order of the files."""

from pathlib import Path

import pytest

from graveler.spark import session

FIRST = (
    "torture/test_kills.py",
    "test_docs.py",
    "servers/test_metamorphic.py",
    "servers/test_drivers.py",
    "spark/test_demo_command.py",
    "spark/test_connect.py",
)
"""Files of a minute or more that come late in the alphabet.

One worker runs a whole file. A long one at the end leaves the other workers idle.
"""


def pytest_collection_modifyitems(items):
    """Put the files of FIRST before the others; a sort keeps the order within a file."""
    here = Path(__file__).parent
    ranks = {here / name: rank for rank, name in enumerate(FIRST)}
    items.sort(key=lambda item: ranks.get(item.path, len(FIRST)))


@pytest.fixture(scope="session")
def spark():
    """One local Spark for the whole test run: a second one would cost seconds."""
    running = session(master="local[2]", config={"spark.sql.shuffle.partitions": "2"})
    yield running
    running.stop()
