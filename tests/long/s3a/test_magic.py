"""Spark on S3 with all jars: a committer without renames, and bulk imports."""

import pytest

from graveler import spark as gs
from tests.harness.servers.moto import Fault, moto_s3


@pytest.fixture(scope="module")
def spark(session, jars):
    with session(jars) as spark:
        yield spark


def test_spark_commits_without_renames(spark, repo, bucket, s3_server, append_twice, committer):
    with s3_server.failing(Fault.NOTHING) as seen:
        append_twice(spark)
    for entry in repo.branch("main").entries("orders/"):
        # the task uploads to the entry's address, without a rename or a copy
        key = f"/{bucket}/lake/tables/{entry.address}"
        assert f"POST {key}?uploads" in seen.requests
        assert entry.size == moto_s3().buckets[bucket].keys[key.split("/", 2)[2]].size
    assert committer(spark) == "magic"


def test_a_bulk_import_reads_its_rows_and_files_over_s3a(spark, repo, bucket):
    landing = f"s3://{bucket}/landing/"
    repo.links.allow(landing)
    spark.range(40).repartition(8).write.parquet(f"s3a://{bucket}/landing/t")
    dev = repo.create_branch("dev", "main")
    done = gs.import_(dev, landing, "in/", message="all", method="spark", spark=spark)
    assert done.files == 9  # including _SUCCESS
    assert gs.Tables(repo, spark).read("dev", "in/t/").count() == 40
    one = repo.create_branch("one", "main")
    one.import_(landing, "in/")
    assert one.commit("all").metarange == dev.head.metarange

    keys = [key for key in moto_s3().buckets[bucket].keys.values() if ".parquet" in key.name]
    rows = [
        (key.name.rpartition("/")[2], f"s3://{bucket}/{key.name}", key.size, key.etag.strip('"'))
        for key in keys
        if key.name.startswith("landing/")
    ]
    inventory = spark.createDataFrame(rows, ["path", "address", "size", "etag"])
    inventory.write.parquet(f"s3a://{bucket}/inventory")
    frame = spark.read.parquet(f"s3a://{bucket}/inventory")
    gs.import_frame(dev, frame, "again/", message="by an inventory")
    assert gs.Tables(repo, spark).read("dev", "again/").count() == 40
