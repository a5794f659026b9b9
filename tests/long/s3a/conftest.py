"""A lake on the S3 server, and Spark sessions with Hadoop's filesystem for S3.

Each module runs in a separate process, because a JVM keeps the settings of its first session.
"""

import json
from pathlib import Path

import pytest

import graveler
from graveler import spark as gs
from tests.harness.servers.moto import moto_s3


@pytest.fixture(scope="session")
def jars():
    """The folder that `make test-s3a` fills."""
    return Path(__file__).parents[3] / "build/jars/s3a"


@pytest.fixture(scope="module")
def bucket(request):
    """A bucket for all tests of a module, because the session's settings have its keys."""
    name = request.module.__name__.rpartition(".")[2].replace("_", "-")
    moto_s3().create_bucket(name, "us-east-1")
    return name


@pytest.fixture(scope="module")
def repo(bucket, s3_options, tmp_path_factory):
    settings = "".join(f'{name} = "{value}"\n' for name, value in s3_options.items())
    file = tmp_path_factory.mktemp("lake") / "graveler.toml"
    file.write_text(f'format = 1\n[storage]\nuri = "s3://{bucket}/lake"\n[s3]\n{settings}')
    with graveler.open(file) as lake:
        yield lake.create_repository("tables")


@pytest.fixture(scope="module")
def session(repo):
    """Start a session with the jars of a folder."""

    def start(jars):
        return gs.session(master="local[2]", repo=repo, jars=jars)

    return start


@pytest.fixture(scope="module")
def committer(bucket):
    """Write to a folder of the bucket, and return the committer that `_SUCCESS` names."""

    def committer_of(spark):
        spark.range(10).write.parquet(f"s3a://{bucket}/probe")
        success = moto_s3().get_object(bucket, "probe/_SUCCESS")
        assert success is not None
        return json.loads(success.value)["committer"] if success.size else None

    return committer_of


@pytest.fixture(scope="module")
def append_twice(repo):
    """Append to a partitioned table in two commits, and compare both versions."""

    def rows(frame):
        return sorted(tuple(row) for row in frame.collect())

    def append(spark):
        tables = gs.Tables(repo, spark)
        frames = [spark.range(n, n + 5).selectExpr("id", "id % 2 as k") for n in (0, 5)]
        for frame in frames:
            with tables.transaction("main", message="orders") as tx:
                tx.write(frame, "orders/", partition_by=["k"])
        assert rows(tables.read("main~1", "orders/")) == rows(frames[0])
        assert rows(tables.read("main", "orders/")) == rows(frames[0].union(frames[1]))

    return append
