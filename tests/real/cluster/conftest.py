"""One cluster for all tests of the folder, and an application on it."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import graveler
from graveler.spark import session
from tests.harness.servers.spark import SETTINGS, spark_cluster


@pytest.fixture(scope="session")
def cluster():
    with spark_cluster() as running:
        yield running


@pytest.fixture(scope="module")
def spark(cluster):
    """An application, which ends with the module: its executors hold half of the cluster."""
    running = session(master=cluster.url, config=SETTINGS)
    yield running
    running.stop()


@pytest.fixture
def executors(cluster, spark):
    return cluster.both(spark.sparkContext.applicationId)


@pytest.fixture
def repo(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        yield lake.create_repository("tables")


@pytest.fixture
def meanwhile():
    """Start a function beside the test; the result is its future."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit
