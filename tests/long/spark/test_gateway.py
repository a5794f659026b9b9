"""Unmodified Spark on a branch of a lake, through a gateway in this process."""

import subprocess
import sys
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException

import graveler
from graveler.config import program_environment
from graveler.frames.spark.java import find_java
from graveler.server import Server, spark_settings

STATEMENTS = """
create table days (id int, day string) using parquet partitioned by (day) location 'DEV/days';
insert into days values (1, 'a'), (2, 'b');
insert overwrite days partition (day = 'b') values (3);
select id, day from days order by id;
select count(*) from parquet.`DEV~1/days`;
"""


@pytest.fixture
def gateway(branch, spark):
    """A gateway of the branch's lake, with its token in Spark's settings."""

    location = branch.repository.location
    with graveler.open(location) as lake, Server(lake, commit_on_success=True) as opened:
        for name, value in spark_settings(opened.address, opened.token).items():
            spark.conf.set(name.removeprefix("spark.hadoop."), value)
        yield opened


@pytest.fixture
def dev(gateway):
    """The address of the branch."""
    return f"{gateway.address}tables/dev"


def frame(spark, *values):
    return spark.createDataFrame(list(values), "id int, day string").coalesce(1)


def rows(frame):
    return sorted(tuple(row) for row in frame.select("id", "day").collect())


def folders(branch, prefix=""):
    return sorted({entry.path.rpartition("/")[0] for entry in branch.entries(prefix)})


def test_every_job_is_one_commit(spark, branch, gateway, dev):
    frame(spark, (1, "a"), (2, "b")).write.partitionBy("day").parquet(f"{dev}/t")
    assert folders(branch) == ["t/day=a", "t/day=b"]
    assert rows(spark.read.parquet(f"{dev}/t").where("day = 'b'")) == [(2, "b")]
    writer = frame(spark, (3, "b"), (4, "c")).write.partitionBy("day").mode("overwrite")
    writer.option("partitionOverwriteMode", "dynamic").parquet(f"{dev}/t")
    assert [branch.head.message, len(branch.head.parents)] == ["write t", 1]
    assert not list(branch.uncommitted())
    branch.repository.refs.tags.create("v1", branch.head.id)
    frame(spark, (5, "b")).write.mode("overwrite").csv(f"{dev}/t", header=True)
    found = spark.read.csv(f"{dev}/t", header=True, inferSchema=True)
    assert rows(found) == [(5, "b")]
    assert len(list(branch.entries())) == 1
    old = spark.read.parquet(f"{gateway.address}tables/v1/t")
    assert rows(old) == [(1, "a"), (3, "b"), (4, "c")]
    assert old.join(found, "day").count() == 1
    with pytest.raises(AnalysisException, match="PATH_ALREADY_EXISTS"):
        frame(spark, (3, "c")).write.parquet(f"{dev}/t")
    for hour in ("05:00", "06:00"):
        frame(spark, (1, hour)).write.parquet(f"{dev}/in/2013/01/01/{hour}")
    every = spark.read.option("recursiveFileLookup", "true").parquet(f"{dev}/in")
    assert rows(every) == [(1, "05:00"), (1, "06:00")]
    with pytest.raises(
        (Py4JJavaError, PySparkException), match="only branches can, as /repository/branch/path"
    ):
        frame(spark, (2, "b")).write.parquet(f"{gateway.address}tables/v1/u")


def test_the_program_spark_sql_works_on_a_branch(branch, gateway, dev, tmp_path):
    settings = {
        **spark_settings(gateway.address, gateway.token),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
    }
    options = [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
    done = subprocess.run(
        [Path(sys.executable).with_name("spark-sql"), "--master", "local[2]", *options],
        input=STATEMENTS.replace("DEV", dev),
        env=program_environment({"JAVA_HOME": str(find_java()), "PYSPARK_PYTHON": sys.executable}),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line[:1].isdigit()] == [
        "1\ta",
        "3\tb",
        "2",
    ]
    assert folders(branch) == ["days/day=a", "days/day=b"]
    assert branch.head.message == "write days"


def test_a_failed_job_leaves_nothing(spark, branch, dev):
    broken = spark.range(0, 100, numPartitions=4).selectExpr(
        "cast(id as int) id", "if(id < 99, 'a', raise_error('boom')) day"
    )
    with pytest.raises(PySparkException, match="boom"):
        broken.write.parquet(f"{dev}/t")
    assert not list(branch.uncommitted())
    frame(spark, (1, "a")).write.mode("overwrite").parquet(f"{dev}/t")
    assert rows(spark.read.parquet(f"{dev}/t")) == [(1, "a")]


def test_a_stream_is_written_and_goes_on(spark, branch, dev, tmp_path):
    source, there = f"{dev}/landing", f"{dev}/clicks"

    def drain():
        stream = spark.readStream.schema("id int, day string").parquet(source)
        query = (
            stream.writeStream.option("checkpointLocation", f"{dev}/checkpoint")
            .trigger(availableNow=True)
            .start(there, format="parquet")
        )
        assert query.awaitTermination(120)
        assert query.exception() is None

    frame(spark, (1, "a")).write.parquet(source)
    drain()
    frame(spark, (2, "b")).write.mode("append").parquet(source)
    drain()
    assert rows(spark.read.parquet(there)) == [(1, "a"), (2, "b")]
    branch.commit("two batches")
