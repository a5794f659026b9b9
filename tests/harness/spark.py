"""One local Spark, and a repository on disk for its tables."""

import pytest

import graveler
from graveler.spark import session


@pytest.fixture(scope="session")
def spark():
    """One local Spark for the whole process: a second one would cost seconds."""
    running = session(master="local[2]", config={"spark.sql.shuffle.partitions": "2"})
    yield running
    running.stop()


@pytest.fixture
def opened(tmp_path):
    """A lake; modules whose `lake` is the tables of a repository have it by this name only."""
    with graveler.open(tmp_path / "lake", create=True) as lake:
        yield lake


@pytest.fixture
def lake(opened):
    return opened


@pytest.fixture
def repo(opened):
    return opened.create_repository("tables")


@pytest.fixture
def branch(repo):
    return repo.create_branch("dev")
