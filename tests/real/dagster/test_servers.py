"""A resource that holds a whole lake: PostgreSQL and S3, with secrets from the environment."""

import sys

import dagster as dg
import pytest

import graveler
from dagster_graveler import (
    GravelerIOManager,
    GravelerResource,
    GravelerS3,
    build_publish_asset,
)
from dagster_graveler.resource import forget_runs
from graveler.errors import PermissionDeniedError
from graveler.lake.shared import close_lakes
from tests.harness.servers.postgres import guarded_server
from tests.real.dagster.programs.flights import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore:AssetExecutionContext.run_id is deprecated:DeprecationWarning"
    ),
    pytest.mark.filterwarnings("ignore:Function `PipesMessageReader.expected_writer_count`"),
]
PASSWORD = "pass/word@1"
SECRETS = (PASSWORD, "pass%2Fword%401", "secret-of-s3")


@pytest.fixture(scope="module")
def socket():
    """The folder of the socket of a server that requires the password of the role `lake`."""
    with guarded_server("lake", PASSWORD) as folder:
        yield folder


@pytest.fixture
def settings(socket, s3_bucket, s3_endpoint, monkeypatch, tmp_path):
    monkeypatch.setenv("TEST_PASSWORD", PASSWORD)
    monkeypatch.setenv("TEST_KEY", "secret-of-s3")
    yield {
        "lake": f"postgresql:///postgres?host={socket}",
        "user": "lake",
        "password": dg.EnvVar("TEST_PASSWORD"),
        "storage": f"s3://{s3_bucket}/lake",
        "s3": GravelerS3(
            endpoint_url=s3_endpoint,
            region="us-east-1",
            access_key="key",
            secret_key=dg.EnvVar("TEST_KEY"),
        ),
        "cache": str(tmp_path / "cache"),
        "repository": "flights",
    }
    forget_runs()
    close_lakes()


def in_asset(resource, body, instance=None):
    """Run a function of the resource in an asset, with the resource's variables resolved."""

    @dg.asset
    def asked(graveler: GravelerResource) -> None:
        body(graveler)

    return dg.materialize([asked], resources={"graveler": resource}, instance=instance)


def create(resource):
    with graveler.open(resource.location) as lake:
        lake.create_repository(resource.repository)


def test_assets_and_programs_publish_into_a_lake_of_servers(settings, instance, capfd):
    resource = GravelerResource(**settings)
    in_asset(resource, create)
    parts = dg.StaticPartitionsDefinition(["x"])

    @dg.asset(partitions_def=parts)
    def near() -> bytes:
        return b"1"

    @dg.asset(partitions_def=parts, code_version="9")
    def made(
        context: dg.AssetExecutionContext,
        graveler: GravelerResource,
        pipes: dg.PipesSubprocessClient,
    ):
        return pipes.run(
            context=context,
            command=[sys.executable, "-m", "tests.real.dagster.programs.outside"],
            cwd=str(ROOT),
            env={"PYTHONPATH": f"{ROOT}:{ROOT / 'integrations'}", "TEST_NAME": "works"},
            extras=graveler.extras(context),
        ).get_materialize_result()

    publish = build_publish_asset("publish", [near, made], partitions_def=parts)
    done = dg.materialize(
        [near, made, publish],
        instance=instance,
        partition_key="x",
        resources={
            "graveler": resource,
            "pipes": dg.PipesSubprocessClient(),
            "io_manager": GravelerIOManager(graveler=resource),
        },
    )
    assert done.success
    found: list[str] = []
    in_asset(resource, lambda it: found.extend(e.path for e in it.at().list()), instance)
    assert {path.partition("/")[0] for path in found} == {"near", "made"}
    logged = "".join(capfd.readouterr())
    stored = str(done.all_events)
    for secret in SECRETS:
        assert secret not in logged
        assert secret not in stored
        assert secret not in repr(resource)


def test_a_wrong_password_is_an_error_that_does_not_show_it(settings, monkeypatch):
    monkeypatch.setenv("TEST_PASSWORD", "other/word")
    with pytest.raises(PermissionDeniedError, match="password authentication") as error:
        in_asset(GravelerResource(**settings), lambda it: it.repo())
    assert "other/word" not in str(error.value)


def test_settings_that_contradict_each_other_are_refused(settings):
    change = {"lake": "postgresql://ann:s3cret@db/lake"}
    with pytest.raises(ValueError, match="holds a password") as error:
        in_asset(GravelerResource(**{**settings, **change}), lambda it: it.repo())
    assert "s3cret" not in str(error.value)


def test_a_variable_that_is_not_set_fails_before_the_run(settings, monkeypatch):
    monkeypatch.delenv("TEST_PASSWORD")
    with pytest.raises(Exception, match="TEST_PASSWORD"):
        in_asset(GravelerResource(**settings), lambda it: it.repo())
