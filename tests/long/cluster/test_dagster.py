"""Dagster assets as jobs on the cluster, in steps of a run."""

import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

import graveler
from dagster_graveler import GravelerResource, build_publish_asset
from dagster_graveler.resource import forget_runs
from graveler import spark as gs
from graveler.config import program_environment
from graveler.frames.spark.java import find_java
from graveler.lake.shared import close_lakes
from tests.harness.servers.spark import ROOT, connect_server, write_settings

JOB = Path(__file__).with_name("job.py")
SUBMIT = Path(sys.executable).with_name("spark-submit")


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return write_settings(
        tmp_path_factory.mktemp("settings") / "spark.conf", **{"spark.cores.max": "1"}
    )


@pytest.fixture
def repo(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        repo = lake.create_repository("flights")
        repo.protection.add("main")
        yield repo
    forget_runs()
    close_lakes()


@pytest.fixture
def materialize(repo, tmp_path):
    """Materialize an asset that runs a command in its step, and publish."""

    def run(command):
        @dg.asset(retry_policy=dg.RetryPolicy(max_retries=1))
        def table(context: dg.AssetExecutionContext, graveler: GravelerResource) -> None:
            with graveler.step(context) as step:
                words, variables = command(step)
                given = {
                    "PYTHONPATH": f"{ROOT}:{ROOT / 'integrations'}",
                    "JAVA_HOME": str(find_java()),
                    "PYSPARK_PYTHON": sys.executable,
                    **variables,
                }
                subprocess.run(
                    [*map(str, words), JOB, "table", tmp_path],
                    env=program_environment(given),
                    check=True,
                )

        resource = GravelerResource(lake=str(tmp_path / "lake"), repository="flights")
        with dg.DagsterInstance.ephemeral() as instance:
            return dg.materialize(
                [table, build_publish_asset("publish", [table])],
                instance=instance,
                resources={"graveler": resource},
                raise_on_error=False,
            )

    return run


@pytest.fixture
def submit(cluster, settings):
    """Return the command of a job that gets its step from settings of spark-submit."""

    def command(step):
        handed = gs.submit_settings(step.environment())
        conf = [f"--conf={name}={value}" for name, value in handed.items()]
        return [SUBMIT, "--master", cluster.url, "--properties-file", settings, *conf], {}

    return command


def rows(repo):
    return sum(int(entry.metadata["graveler.rows"]) for entry in repo.ref("main").entries("table/"))


def test_a_retry_replaces_what_a_killed_driver_wrote(materialize, submit, repo, tmp_path):
    before = repo.commit("main")
    (tmp_path / "table dies").touch()
    assert materialize(submit).success
    assert not (tmp_path / "table dies").exists()
    assert repo.commit("main").parents[0] == before.id  # main moved once
    assert rows(repo) == 1_000


def test_a_job_that_fails_never_touches_main(materialize, submit, repo, tmp_path):
    before = repo.commit("main")
    (tmp_path / "table fails").touch()
    assert not materialize(submit).success
    assert repo.commit("main") == before
    (record,) = repo.runs.list()
    assert list(repo.ref(record.branch).entries()) == []


def test_a_job_is_a_client_of_spark_connect(cluster, settings, materialize, repo):
    with connect_server(cluster, settings) as url:

        def command(step):
            return [sys.executable], {**step.environment(), "SPARK_REMOTE": url}

        assert materialize(command).success
    assert rows(repo) == 1_000
