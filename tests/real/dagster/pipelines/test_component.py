"""The component, with Dagster's own test tools for components."""

from dataclasses import fields
from importlib.metadata import entry_points
from inspect import signature
from typing import Any

import dagster as dg
import pytest
from dagster.components.testing import create_defs_folder_sandbox

from dagster_graveler import (
    GravelerComponent,
    GravelerIOManager,
    GravelerResource,
    graveler_definitions,
)
from graveler.gates import gate
from tests.real.dagster.programs.looking import on_main, span

pytestmark = [  # Dagster's own uses, and its preview features
    pytest.mark.filterwarnings("ignore::dagster_shared.utils.warnings.BetaWarning"),
    pytest.mark.filterwarnings("ignore:`parse_obj_as` is deprecated"),
]


def load(attributes):
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(
            component_cls=GravelerComponent,
            defs_yaml_contents={
                "type": "dagster_graveler.GravelerComponent",
                "attributes": attributes,
            },
        )
        with sandbox.load_component_and_build_defs(defs_path=path) as (_, defs):
            return defs


def test_dg_knows_and_scaffolds_the_component():
    (named,) = entry_points(group="dagster_dg_cli.registry_modules", name="dagster_graveler")
    assert named.load().GravelerComponent is GravelerComponent
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(component_cls=GravelerComponent, defs_path="my_lake")
        with sandbox.load_component_and_build_defs(defs_path=path) as (_, defs):
            resources: Any = defs.resources
            assert resources["graveler"].repository == "my-lake"


@gate
def a_gate(candidate):
    assert list(candidate.changes("in/"))


def test_the_component_publishes_assets_defined_elsewhere(lake, repo):
    @dg.asset(
        partitions_def=dg.HourlyPartitionsDefinition("2013-01-01-00:00"),
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def raw(context: dg.AssetExecutionContext) -> dict[str, bytes]:
        return dict.fromkeys(context.partition_keys, b"raw")

    defs = load(
        {
            "lake": lake,
            "repository": "flights",
            "name": "flights",
            "prefix": "in/",
            "layout": "{partition}/{asset}",
            "assets": ["raw"],
            "partitions": {"type": "hourly", "start_date": "2013-01-01-00:00"},
            "single_run": True,
            "gates": [f"{__name__}:a_gate"],
        }
    )
    assert [schedule.name for schedule in defs.schedules] == ["flights_job_schedule"]
    job = dg.Definitions.merge(dg.Definitions([raw]), defs).resolve_job_def("flights_job")
    with dg.DagsterInstance.ephemeral() as instance:
        assert job.execute_in_process(
            instance=instance,
            tags=span("2013-01-01-05:00", "2013-01-01-06:00"),
        ).success
    assert on_main(repo) == [
        "in/2013/01/01/05:00/raw/data",
        "in/2013/01/01/06:00/raw/data",
    ]
    assert repo.commit("main").metadata["graveler.gates"] == "a_gate"


@dg.asset_check(asset="raw", blocking=True)
def is_there():
    return dg.AssetCheckResult(passed=True)


EXTRA = dg.ResourceDefinition.hardcoded_resource("extra")


def test_a_component_takes_every_option_of_the_definitions(lake):
    options = set(signature(graveler_definitions).parameters)
    renamed = {"graveler", "io_manager", "partitions_def"}  # they are split over several attributes
    attributes = {field.name for field in fields(GravelerComponent)}
    assert options - renamed <= attributes
    for settings in (GravelerResource, GravelerIOManager):
        assert set(settings.model_fields) - {"graveler"} <= attributes

    defs = load(
        {
            "lake": lake,
            "repository": "flights",
            "commit_url": "https://lake.example/{repository}/{commit}",
            "assets": ["raw"],
            "asset_checks": [f"{__name__}:is_there"],
            "resources": {"extra": f"{__name__}:EXTRA"},
            "pool": None,
            "automation_condition": "{{ dg.AutomationCondition.eager() }}",
            "mode": "append",
            "partition_by": ["carrier"],
        }
    )
    (publish,) = [asset for asset in defs.assets if asset.key.path[-1] == "graveler_publish"]
    assert publish.automation_conditions_by_key[publish.key] == dg.AutomationCondition.eager()
    assert publish.op.pool is None
    assert defs.resources["extra"] is EXTRA
    assert defs.resources["io_manager"].partition_by == ["carrier"]
    assert [check.check_key.name for check in defs.asset_checks] == ["is_there"]


def test_a_component_of_a_branch_deployment_has_its_branch(lake, monkeypatch):
    monkeypatch.setenv("DAGSTER_CLOUD_IS_BRANCH_DEPLOYMENT", "1")
    monkeypatch.setenv("DAGSTER_CLOUD_PULL_REQUEST_ID", "17")
    for into, branch in (("()", "pr-17"), ("('review-{n}')", "review-17")):
        defs = load(
            {"lake": lake, "repository": "flights", "into": f"{{{{ deployment_branch{into} }}}}"}
        )
        assert defs.resources["graveler"].into == branch


def test_without_assets_there_are_the_resource_and_run_sensors(lake):
    secret = {"env": "TEST_SECRET"}
    defs = load(
        {
            "lake": "postgresql://host/lake",
            "repository": "flights",
            "load_as": "pandas",
            "user": "etl",
            "password": secret,
            "storage": "s3://bucket/lake",
            "s3": {"secret_key": secret, "region": "eu-central-1"},
        }
    )
    assert defs.resources["io_manager"].load_as == "pandas"
    resource = defs.resources["graveler"]
    assert isinstance(resource.password, dg.EnvVar)
    assert isinstance(resource.s3.secret_key, dg.EnvVar)
    assert resource.s3.region == "eu-central-1"
    assert sorted(sensor.name for sensor in defs.sensors) == [
        "graveler_park_canceled",
        "graveler_park_failed",
        "graveler_park_unpublished",
        "graveler_reaper",
    ]


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"password": {"file": "x"}}, "{env: NAME}"),
        ({"load_as": "tapes"}, "tapes"),
        ({"assets": ["raw"], "gates": ["a_gate"]}, "package.module:NAME"),
        ({"assets": ["raw"], "gates": ["graveler.demo:UNKNOWN"]}, "cannot be loaded"),
    ],
)
def test_a_wrong_attribute_is_named(lake, attributes, message):
    with pytest.raises(Exception, match="Error while") as refused:
        load({"lake": lake, "repository": "flights", **attributes})
    causes: list[str] = []
    error: BaseException | None = refused.value
    while error is not None:
        causes.append(str(error))
        error = error.__cause__ or error.__context__
    assert message in "\n".join(causes)
