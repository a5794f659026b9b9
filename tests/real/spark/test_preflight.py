"""A task that checks a worker."""

import platform
import sys
from importlib import import_module

import pytest

import graveler
import graveler.spark as gs
from graveler.committed.splitting import Splitting
from graveler.config import load_config
from graveler.errors import InvalidInputError, MissingDependencyError
from graveler.objects.registry import open_store


def test_a_worker_of_this_python_lacks_nothing(spark):
    found = gs.preflight(spark)
    assert found["python"] == platform.python_version()
    assert found["executable"] == sys.executable
    assert {"graveler", "pyarrow", "rocksdict"} <= found.keys()


def test_a_package_that_a_worker_lacks_is_named(spark):
    with pytest.raises(
        MissingDependencyError, match=r"\(.*python.*\) lacks no-such-package: install"
    ):
        gs.preflight(spark, packages=["no-such-package", "pyarrow"])


@pytest.mark.classic("the Python of the workers is a setting of the server")
def test_a_worker_that_does_not_run_is_told_as_that(spark, monkeypatch):
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "no-such-python")
    with pytest.raises(MissingDependencyError, match=r"no-such-python.*set PYSPARK_PYTHON"):
        gs.preflight(spark)


@pytest.mark.classic("settings of file systems are the server's")
def test_a_session_takes_the_settings_of_a_repository(repo, spark, monkeypatch):
    seen = []

    def settings(storage, options, *, jars):
        seen.append((storage, options, jars))
        return {"graveler.test": "of the store"}

    module = import_module("graveler.frames.spark.session")
    monkeypatch.setattr(module, "s3a_settings", settings)
    try:
        assert gs.session(repo=repo) is spark
        assert spark.conf.get("graveler.test") == "of the store"
    finally:
        spark.conf.unset("graveler.test")
    assert seen == [(repo.storage, load_config(repo.stores.location).storage_options, None)]


JOBS = {
    "commit": lambda tables: gs.commit(
        tables.repository.branch("main"), "words", method="spark", spark=tables.spark
    ),
    "import": lambda tables: gs.import_(
        tables.repository.create_branch("new"),
        "mem://other/files/",
        message="words",
        method="spark",
    ),
    "import of a frame": lambda tables: gs.import_frame(
        tables.repository.branch("main"),
        tables.spark.range(1).selectExpr(
            "'k' as path", "'a' as address", "id as size", "'e' as etag"
        ),
        message="words",
    ),
    "export": lambda tables: gs.export(tables.repository, "main", "out", spark=tables.spark),
    "collection": lambda tables: gs.collector(tables.repository, tables.spark, method="spark").mark(
        dry_run=True
    ),
    "fsck": lambda tables: gs.fsck(tables.repository, tables.spark),
    "entries": lambda tables: tables.entries("main"),
    "ranges": lambda tables: tables.ranges("main"),
    "diff": lambda tables: tables.diff("main", "dev", method="spark"),
    "changes": lambda tables: tables.changes("main"),
}


@pytest.fixture(scope="module")
def in_memory(spark, tmp_path_factory):
    """Tables of a repository in memory, with two branches that differ in every path."""
    folder = tmp_path_factory.mktemp("lake") / "lake"
    with graveler.init(folder, storage_uri="mem://preflight") as lake:
        repo = lake.create_repository("tables", splitting=Splitting(raggedness=8))
        main, dev = repo.branch("main"), repo.create_branch("dev")
        open_store("mem://other").put("files/a", b"1")
        repo.links.allow("mem://other/files")
        for part, branch in enumerate((main, dev)):
            for number in range(part, 40, 2):
                branch.put(f"k{number:02}", b"1")
            branch.commit("words")
        main.put("staged", b"1")
        yield gs.Tables(repo, spark)


@pytest.mark.parametrize("job", JOBS)
def test_a_storage_in_memory_is_refused_by_its_name(in_memory, job):
    with pytest.raises(
        InvalidInputError, match=r"mem://\w+/tables is in the memory of this process.* on S3$"
    ):
        JOBS[job](in_memory)


def test_a_key_value_store_in_memory_is_no_place_for_frames(spark, tmp_path):
    with graveler.init(tmp_path / "lake", kv_uri="mem://") as lake:
        tables = gs.Tables(lake.create_repository("tables"), spark)
        for call in (
            lambda: tables.commits("main"),
            lambda: tables.changes("main"),
        ):
            with pytest.raises(InvalidInputError, match="keep it in a database"):
                call()
