"""Workers that differ from each other."""

import sys

import pytest

from graveler import spark as gs
from graveler.errors import MissingDependencyError

PYTHON = """#!/bin/sh
case "$SPARK_LOCAL_IP" in 127.0.0.3) set -- -S "$@" ;; esac
exec {python} "$@"
"""


def test_one_worker_of_two_that_lacks_packages_is_named(
    spark, executors, repo, tmp_path, monkeypatch
):
    bare = tmp_path / "python"
    bare.write_text(PYTHON.format(python=sys.executable))
    bare.chmod(0o755)
    assert gs.preflight(spark)["graveler"]
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(bare))
    files = spark.createDataFrame(
        [("a", "s3://bucket/a", 1, "e")], "path string, address string, size long, etag string"
    )
    repo.links.allow("s3://bucket")
    before = repo.commit("main")
    with pytest.raises(MissingDependencyError, match=r"lacks .*pyarrow, rocksdict, xxhash"):
        gs.import_frame(repo.branch("main"), files, message="bulk")
    assert repo.commit("main") == before
