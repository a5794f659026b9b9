"""Invalid arguments are refused when definitions are loaded, not in the first run."""

from datetime import timedelta

import dagster as dg
import pytest

import dagster_graveler as integration
from graveler import checks

hours = dg.HourlyPartitionsDefinition("2013-01-01-00:00")
RESOURCE = {"lake": "lake", "repository": "flights"}


@dg.asset(partitions_def=hours)
def flights() -> bytes:
    return b""


def resource(**given):
    return integration.GravelerResource(**{**RESOURCE, **given})


def manager(**given):
    return integration.GravelerIOManager(graveler=resource(), **given)


def define(assets=(flights,), graveler=None, **given):
    return integration.graveler_definitions(assets, graveler or resource(), **given)


def commit_sensor(**given):
    return integration.build_commit_sensor("commits", **given)


def branch_sensor(pull_requests=list, **given):
    return integration.build_branch_sensor(pull_requests, **given)


def freshness(assets=("flights",), within=timedelta(hours=1), **given):
    return integration.build_freshness_checks(assets, within=within, prefix="flights/", **given)


JOB = dg.define_asset_job("job", selection=[flights])
WRONG = [
    (resource, {"lake": ""}, "lake=''"),
    (resource, {"repository": "W W"}, "'W W'"),
    (resource, {"into": "../x<script>"}, "'../x<script>'"),
    (resource, {"lease_minutes": 5}, "lease_minutes"),
    (resource, {"on_failure": "explode"}, "on_failure='explode': give one of park, drop"),
    (resource, {"ttl_days": -1}, "ttl_days"),
    (resource, {"commit_url": "https://x"}, "{commit}"),
    (resource, {"commit_url": "javascript:{commit}"}, "begins with http"),
    (resource, {"ui": "javascript:alert(1)"}, "ui='javascript:alert(1)'"),
    (resource, {"lake": "postgresql://db/lake"}, "has no storage"),
    (resource, {"user": "ann"}, "user belong to a lake that is the URI"),
    (integration.GravelerS3, {"bucket": "b"}, "bucket"),
    (manager, {"mode": "merge"}, "mode='merge': give one of append, overwrite, error"),
    (manager, {"load_as": "dask"}, "load_as='dask'"),
    (manager, {"layout": "{asset}/{hour}"}, "use {asset} and {partition}"),
    (manager, {"layout": "{asset:.3}/{partition}"}, "changes keys"),
    (manager, {"layout": "../{asset}"}, "'../asset"),
    (manager, {"prefix": "/out/"}, "'/out/"),
    (manager, {"prefix": "out"}, "give 'out/'"),
    (manager, {"options": {}, "formats": "csv"}, "formats"),
    (define, {"assets": "flights"}, "assets='flights'"),
    (define, {"graveler": "lake"}, "a GravelerResource"),
    (define, {"io_manager": "io"}, "an IO manager"),
    (define, {"name": ""}, "name=''"),
    (define, {"gates": "no_empty"}, "no gate"),
    (commit_sensor, {}, "neither a job"),
    (commit_sensor, {"job": "job"}, "job='job'"),
    (commit_sensor, {"job": JOB, "limit": 0}, "limit=0"),
    (commit_sensor, {"job": JOB, "ref": 5}, "ref=5"),
    (branch_sensor, {"pull_requests": [1]}, "pull_requests=[1]"),
    (branch_sensor, {"pattern": "pr/{n}"}, "'pr/1'"),
    (branch_sensor, {"pattern": "run-{n}"}, "belong to the branches of runs"),
    (branch_sensor, {"pattern": "{n}-{n}"}, "write {n} once"),
    (branch_sensor, {"pattern": "m{n}"}, "fits 'main'"),
    (branch_sensor, {"pattern": "pr"}, "write {n}"),
    (branch_sensor, {"keep": timedelta(days=-1)}, "keep="),
    (freshness, {"assets": "flights"}, "assets='flights'"),
    (freshness, {"within": 3600}, "within=3600"),
    (freshness, {"within": timedelta()}, "above 0"),
    (freshness, {"assets": []}, "at least one asset"),
    (integration.build_source_asset, {"key": "raw", "prefix": 5}, "prefix=5"),
    (integration.build_ingest_asset, {"on_refusal": "drop"}, "one of hold, quarantine"),
    (
        integration.build_ingest_asset,
        {"partitions_def": dg.StaticPartitionsDefinition(["a"])},
        "partitions of time",
    ),
    (integration.build_publish_asset, {"name": "p", "deps": []}, "no assets"),
    (
        integration.build_publish_asset,
        {"name": "p", "deps": ["flights"], "checks": [checks.row_count("flights/")]},
        "none of the gates",
    ),
    (integration.build_publish_asset, {"name": "p", "deps": "flights"}, "deps='flights'"),
    (
        integration.build_publish_asset,
        {"name": "p", "deps": [flights], "strategy": "ours"},
        "strategy 'ours'",
    ),
    (integration.deployment_branch, {"production": ""}, "production=''"),
    (integration.graveler_gates, {"gates": [], "asset": "flights"}, "no gates"),
    (integration.build_lifecycle_sensors, {"assets": "flights"}, "assets='flights'"),
    (integration.build_maintenance_job, {"gc": "no"}, "gc='no'"),
]


@pytest.mark.parametrize(
    ("function", "given", "message"), WRONG, ids=lambda value: getattr(value, "__name__", None)
)
def test_a_foolish_argument_is_refused(function, given, message):
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 - the message is compared below
        function(**given)
    assert message in str(refusal.value)


def test_a_refusal_shows_no_secret():
    with pytest.raises(ValueError, match="'W W'") as refusal:
        integration.GravelerResource(password="s3cret", lake="lake", repository="W W")
    assert "s3cret" not in str(refusal.value)
    with pytest.raises(ValueError, match="bucket") as refusal:
        integration.GravelerS3.model_validate({"secret_key": "s3cret", "bucket": "b"})
    assert "s3cret" not in str(refusal.value)


def test_settings_from_the_environment_are_read_by_the_run():
    with_variables = resource(
        lake=dg.EnvVar("LAKE"), repository=dg.EnvVar("REPOSITORY"), into=dg.EnvVar("TARGET")
    )
    assert with_variables.repository == dg.EnvVar("REPOSITORY")
    define(graveler=with_variables, gates=[checks.row_count("flights/")])
