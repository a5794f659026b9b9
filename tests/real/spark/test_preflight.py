"""One task that looks at a worker."""

import platform
import sys
from importlib import import_module

import pytest

import graveler.spark as gs
from graveler.config import load_config
from graveler.errors import MissingDependencyError


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

    module = import_module("graveler.spark.session")
    monkeypatch.setattr(module, "s3a_settings", settings)
    try:
        assert gs.session(repo=repo) is spark
        assert spark.conf.get("graveler.test") == "of the store"
    finally:
        spark.conf.unset("graveler.test")
    assert seen == [(repo.storage, load_config(repo.stores.location).storage_options, None)]
