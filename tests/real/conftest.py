"""One Spark for all tests that need a JVM."""

import pytest

from graveler.spark import session


@pytest.fixture(scope="session")
def spark():
    """One local Spark for the whole test run: a second one would cost seconds."""
    running = session(master="local[2]", config={"spark.sql.shuffle.partitions": "2"})
    yield running
    running.stop()
