"""One local Spark, and a repository on disk for its tables."""

import pytest

import graveler
from graveler.spark import session


@pytest.fixture(scope="session")
def spark_master(request, tmp_path_factory):
    """The master of `spark`; with ``--session=connect`` the address of a server of Spark Connect."""
    if request.config.getoption("--session") == "classic":
        yield "local[2]"
        return
    from tests.harness.servers.spark import local_connect_server  # it loads PySpark

    with local_connect_server(tmp_path_factory.mktemp("connect")) as address:
        yield address


@pytest.fixture(scope="session")
def spark(spark_master):
    """One local Spark for the whole process, because a second one would cost seconds."""
    running = session(master=spark_master, config={"spark.sql.shuffle.partitions": "2"})
    yield running
    running.stop()


def started(writer):
    """Start a streaming query; try again if its process did not start within the server's ten seconds."""
    from pyspark.errors import PySparkException

    for _ in range(9):
        try:
            return writer.start()
        except PySparkException as error:
            if "waiting for the Python worker to connect back" not in str(error):
                raise
    return writer.start()


@pytest.fixture
def opened(tmp_path):
    """A lake, under a second name for modules whose `lake` is the tables of a repository."""
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
