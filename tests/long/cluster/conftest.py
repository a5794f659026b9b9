"""One cluster for all tests of the folder, and an application on it."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import graveler
from graveler.committed.metarange import read
from graveler.committed.splitting import Splitting
from graveler.spark import session
from tests.harness.servers.spark import SETTINGS, spark_cluster

ROWS = 5_000
SMALL = Splitting("hash", max_bytes=4_000, raggedness=4, hard=16)


@pytest.fixture(scope="session")
def cluster():
    with spark_cluster() as running:
        yield running


@pytest.fixture(scope="session")
def spark(cluster):
    """An application that uses two of eight cores until the last test ends."""
    running = session(master=cluster.url, config=SETTINGS)
    yield running
    running.stop()


@pytest.fixture
def executors(cluster, spark):
    return cluster.both(spark.sparkContext.applicationId)


@pytest.fixture(scope="session")
def inventory(tmp_path_factory):
    """An inventory of 5,000 files in s3://bucket."""
    file = tmp_path_factory.mktemp("source") / "inventory.csv"
    lines = [
        f"day={number % 30:02}/part-{number * 7919 % 100_003:06}.parquet,s3://bucket/{number},{number},e"
        for number in range(ROWS)
    ]
    file.write_text("\n".join(["path,address,size,etag", *lines]))
    return file


@pytest.fixture(scope="session")
def alone(inventory, tmp_path_factory):
    """The tree that one process imports from the inventory: its id, and its ranges."""
    with graveler.open(tmp_path_factory.mktemp("alone"), create=True) as lake:
        repo = bulk_repository(lake)
        branch = repo.branch("main")
        branch.import_(inventory, "in/")
        tree = branch.commit("alone").metarange
        return tree, list(read(repo.stores.ranges, tree))


def bulk_repository(lake):
    repo = lake.create_repository("bulk", splitting=SMALL)
    repo.links.allow("s3://bucket")
    return repo


@pytest.fixture
def bulk(tmp_path):
    """A repository with small ranges, so that an import has many of them."""
    with graveler.open(tmp_path / "lake", create=True) as lake:
        yield bulk_repository(lake)


@pytest.fixture
def repo(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        yield lake.create_repository("tables")


@pytest.fixture
def meanwhile():
    """Start a function in a thread beside the test; return its future."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit
