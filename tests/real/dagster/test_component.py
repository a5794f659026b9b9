"""The component, with the real ``dg`` and with Dagster's own test tools for components."""

import json
import subprocess
import sys
from dataclasses import fields
from inspect import signature
from pathlib import Path

import dagster as dg
import pytest
from dagster.components.testing import create_defs_folder_sandbox

from dagster_graveler import (
    GravelerComponent,
    GravelerIOManager,
    GravelerResource,
    graveler_definitions,
)
from graveler.config import environment
from graveler.gates import gate

pytestmark = [  # Dagster's own uses, and its preview features
    pytest.mark.filterwarnings("ignore::dagster_shared.utils.warnings.BetaWarning"),
    pytest.mark.filterwarnings("ignore:`parse_obj_as` is deprecated"),
]

ROOT = Path(__file__).resolve().parents[3]

PROJECT = """
[project]
name = "proj"
version = "0"

[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "proj"
"""
DEFINITIONS = """
from pathlib import Path

from dagster import definitions, load_from_defs_folder


@definitions
def defs():
    return load_from_defs_folder(path_within_project=Path(__file__).parent)
"""
ASSETS = """
import dagster as dg


@dg.asset(partitions_def=dg.HourlyPartitionsDefinition("2013-01-01-00:00"))
def raw() -> bytes:
    return b"raw"
"""
COMPONENT = """
type: dagster_graveler.GravelerComponent
requirements:
  env: [TEST_LAKE]
attributes:
  lake: "{{ env.TEST_LAKE }}"
  repository: flights
  name: flights
  assets: [raw]
  partitions: {type: hourly, start_date: "2013-01-01-00:00"}
  gates: ["graveler.demo:GATES"]
"""


@pytest.fixture
def project(tmp_path, lake):
    defs = tmp_path / "proj" / "src" / "proj" / "defs"
    (defs / "lake").mkdir(parents=True)
    (tmp_path / "proj" / "pyproject.toml").write_text(PROJECT)
    (defs.parent / "__init__.py").touch()
    (defs.parent / "definitions.py").write_text(DEFINITIONS)
    (defs / "__init__.py").touch()
    (defs / "assets.py").write_text(ASSETS)
    (defs / "lake" / "defs.yaml").write_text(COMPONENT)
    (tmp_path / "dg.toml").write_text("[cli.telemetry]\nenabled = false\n")
    return tmp_path / "proj"


@pytest.fixture
def run_dg(project, lake, tmp_path):
    def run(*args):
        path = [project / "src", ROOT, ROOT / "integrations"]
        return subprocess.run(
            [Path(sys.executable).with_name("dg"), *args],
            cwd=project,
            env={
                "PATH": environment("PATH"),
                "HOME": str(tmp_path),
                "DG_CLI_CONFIG": str(tmp_path / "dg.toml"),
                "PYTHONPATH": ":".join(map(str, path)),
                "TEST_LAKE": lake,
            },
            capture_output=True,
            text=True,
        )

    return run


def test_dg_lists_the_component_and_checks_a_project_of_it(run_dg, project):
    listed = run_dg("list", "components", "--json")
    assert listed.returncode == 0, listed.stderr[-2000:]
    items = {item["key"]: item["summary"] for item in json.loads(listed.stdout)["items"]}
    assert items["dagster_graveler.GravelerComponent"].startswith("A repository of a lake")

    checked = run_dg("check", "defs")
    assert checked.returncode == 0, checked.stdout[-2000:] + checked.stderr[-2000:]
    assert "All definitions loaded successfully" in checked.stdout + checked.stderr


def test_a_scaffolded_component_passes_the_check(run_dg, project):
    made = run_dg("scaffold", "defs", "dagster_graveler.GravelerComponent", "my_lake")
    assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-2000:]
    written = (project / "src/proj/defs/my_lake/defs.yaml").read_text()
    assert "repository: my-lake" in written
    # a code location has one resource `graveler`
    (project / "src/proj/defs/lake/defs.yaml").unlink()
    checked = run_dg("check", "defs")
    assert checked.returncode == 0, checked.stdout[-2000:] + checked.stderr[-2000:]


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
            tags={
                "dagster/asset_partition_range_start": "2013-01-01-05:00",
                "dagster/asset_partition_range_end": "2013-01-01-06:00",
            },
        ).success
    assert [entry.path for entry in repo.ref("main").entries()] == [
        "in/2013/01/01/05:00/raw/data",
        "in/2013/01/01/06:00/raw/data",
    ]
    assert repo.commit("main").metadata["graveler.gates"] == "a_gate"


def test_without_assets_there_are_the_resource_and_run_sensors(lake):
    defs = load({"lake": lake, "repository": "flights", "load_as": "pandas"})
    assert isinstance(defs.resources["io_manager"], GravelerIOManager)
    assert defs.resources["io_manager"].load_as == "pandas"
    assert defs.resources["graveler"].repo().name == "flights"
    assert sorted(sensor.name for sensor in defs.sensors) == [
        "graveler_park_canceled",
        "graveler_park_failed",
        "graveler_park_unpublished",
        "graveler_reaper",
    ]


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


def test_secrets_of_a_component_stay_in_the_environment(lake):
    defs = load(
        {
            "lake": "postgresql://host/lake",
            "repository": "flights",
            "user": "etl",
            "password": {"env": "TEST_PASSWORD"},
            "storage": "s3://bucket/lake",
            "s3": {"secret_key": {"env": "TEST_SECRET"}, "region": "eu-central-1"},
        }
    )
    resource = defs.resources["graveler"]
    assert isinstance(resource.password, dg.EnvVar)
    assert isinstance(resource.s3.secret_key, dg.EnvVar)
    assert resource.s3.region == "eu-central-1"
    with pytest.raises(Exception, match="Error while") as refused:
        load({"lake": lake, "repository": "flights", "password": {"file": "x"}})
    assert "{env: NAME}" in causes(refused.value)


def causes(error):
    """Return the causes behind Dagster's own error."""
    events = []
    while error is not None:
        events.append(str(error))
        error = error.__cause__ or error.__context__
    return "\n".join(events)


def test_an_unknown_setting_is_refused(lake):
    with pytest.raises(Exception, match="Error while") as refused:
        load({"lake": lake, "repository": "flights", "load_as": "tapes"})
    assert "tapes" in causes(refused.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [("a_gate", "package.module:NAME"), ("graveler.demo:UNKNOWN", "cannot be loaded")],
)
def test_a_missing_gate_is_named(lake, name, message):
    with pytest.raises(Exception, match="Error while") as refused:
        load({"lake": lake, "repository": "flights", "assets": ["raw"], "gates": [name]})
    assert message in causes(refused.value)
