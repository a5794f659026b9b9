"""What Airflow sees before a task runs: the provider, the DAG file, and the shape of a run."""

import json
import re
from dataclasses import fields
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest

import graveler
from graveler.config import LakeConfig
from graveler_airflow.get_provider_info import get_provider_info
from tests.real.airflow.conftest import REPOSITORIES
from tests.real.airflow.home import PROGRAMS, ROOT


@pytest.fixture(scope="module")
def shapes(home):
    return home.ask("shapes")


@pytest.mark.parametrize("schema", ["provider.yaml", "provider_info"])
def test_the_provider_is_described_by_the_schemas_of_airflow(schema):
    airflow = find_spec("airflow")
    assert airflow is not None
    assert airflow.origin is not None
    fields = json.loads(Path(airflow.origin).with_name(f"{schema}.schema.json").read_text())
    jsonschema.validate(get_provider_info(), fields)


def test_form_and_guide_say_the_default_size_of_the_cache():
    defaults = {field.name: field.default for field in fields(LakeConfig)}
    size = "8 GiB"
    assert defaults["cache_max_bytes"] == 8 * 2**30
    (kind,) = get_provider_info()["connection-types"]
    assert kind["conn-fields"]["cache_max_bytes"]["description"] == f"{size}, if empty"
    guide = (ROOT / "docs/guides/airflow.md").read_text("utf-8")
    assert f"`~/.cache/graveler/ranges` and {size} |" in guide


def test_the_description_names_this_version_and_pages_that_exist():
    info = get_provider_info()
    assert info["versions"][0] == graveler.__version__
    (integration,) = info["integrations"]
    pages = [integration["external-doc-url"], *integration["how-to-guide"]]
    assert [page for page in pages if not (ROOT / page.lstrip("/")).is_file()] == []
    (plugin,) = info["plugins"]
    (entry,) = distribution("graveler").entry_points.select(group="airflow.plugins")
    assert plugin == {"name": entry.name, "plugin-class": entry.value.replace(":", ".")}


def test_every_module_of_operators_is_described():
    (operators,) = get_provider_info()["operators"]
    folder = ROOT / "integrations/graveler_airflow/operators"
    modules = {f"graveler_airflow.operators.{path.stem}" for path in folder.glob("[!_]*.py")}
    assert modules - {"graveler_airflow.operators.base"} == {*operators["python-modules"]}


def test_the_provider_has_the_distributions_name():
    assert get_provider_info()["package-name"] == distribution("graveler").metadata["Name"]


def test_airflow_finds_the_provider_and_all_it_names(home):
    shown = home.ask("provider")
    assert shown == {
        "loaded": [  # the description loads neither Airflow nor the engine
            "graveler",
            "graveler.base",
            "graveler.base.exports",
            "graveler_airflow",
            "graveler_airflow.get_provider_info",
            "graveler_common",
        ],
        "paths": True,
        "known as": distribution("graveler").version,
        "hook": "Graveler",
        "same": ["graveler", "Graveler"],
        "gate": True,
        "exports": [],
        "config": ["1440", "14"],
        "links": [
            "graveler_airflow.links.GravelerCommitLink",
            "graveler_airflow.links.GravelerDiffLink",
            "graveler_airflow.links.GravelerRunLink",
        ],
    }


def test_the_form_of_the_connection_has_our_fields(home):
    assert home.ask("connection_form") == {
        "fields": {
            "storage": ["string", "null"],
            "aws_conn_id": ["string", "null"],
            "endpoint_url": ["string", "null"],
            "region": ["string", "null"],
            "access_key": ["string", "null"],
            "secret_key": ["string", "null"],
            "session_token": ["string", "null"],
            "role_arn": ["string", "null"],
            "external_id": ["string", "null"],
            "path_style": ["boolean", "null"],
            "cache": ["string", "null"],
            "cache_max_bytes": ["integer", "null"],
            "no_progress_seconds": ["number", "null"],
            "repo": ["string", "null"],
            "lease_minutes": ["number", "null"],
            "ttl_days": ["number", "null"],
        },
        "hides": ["secret_key", "session_token"],
        "host": "Lake",
        "hidden": True,
    }


def test_the_dag_file_imports_quickly_and_loads_nothing_heavy(home):
    shown = home.ask("dag_file", ROOT / "dags/flights_airflow.py")
    assert shown["errors"] == []
    assert shown["heavy"] == []
    assert shown["seconds"] < 1
    assert shown["setups"] == ["flights.open_run"]
    assert shown["teardowns"] == ["flights.close_run"]
    assert ["flights.transform", "flights.merge"] in shown["edges"]
    assert ["flights.merge", "flights.close_run"] in shown["edges"]


@pytest.mark.parametrize("name", ["flights_airflow.py", "weather_airflow.py"])
def test_the_examples_are_short(name):
    assert len((ROOT / "dags" / name).read_text("utf-8").splitlines()) <= 27


def test_the_plain_python_dag_loads_no_more_than_the_spark_dag(home):
    shown = home.ask("dag_file", ROOT / "dags/weather_airflow.py")
    assert shown["errors"] == []
    assert shown["heavy"] == []
    assert ["weather.airport", "weather.airports"] in shown["edges"]
    assert ["weather.airports", "weather.merge"] in shown["edges"]


def test_the_dag_of_the_guide_is_one(home):
    guide = (ROOT / "docs/guides/airflow.md").read_text("utf-8")
    file = home.folder / "guide.py"
    file.write_text(re.findall(r"```python\n(.*?)```", guide, re.DOTALL)[0], "utf-8")
    shown = home.ask("dag_file", file)
    assert shown["errors"] == []
    assert ["events.curate", "events.no_empty_hours"] in shown["edges"]
    assert ["events.no_empty_hours", "events.merge"] in shown["edges"]


def test_a_dagrun_timeout_is_warned_of_since_it_skips_teardowns(shapes):
    outcome = shapes["with_timeout"]
    assert outcome["refused"] == ""
    (warning,) = outcome["warned"]
    assert "execution_timeout" in warning
    assert outcome["files"] == [str(PROGRAMS / "shapes.py")]  # the warning names the DAG's file


def test_events_of_partitions_that_start_no_plain_dag_warn(shapes):
    outcome = shapes["partitioned"]
    assert outcome["refused"] == ""
    (warning,) = outcome["warned"]
    assert warning.startswith("DAG 'makes_plain' has partitions")
    assert "PartitionedAssetTimetable(assets=…)" in warning


def test_a_teardown_that_decides_the_state_of_the_run_is_refused(shapes):
    assert shapes["deciding_teardown"]["refused"].startswith("InvalidInputError: flights.close_run")


def test_an_unknown_end_of_failed_runs_is_refused_at_parse_time(shapes):
    assert "'keep'" in shapes["unknown_end"]["refused"]


def test_an_alias_and_a_set_of_assets_are_accepted(shapes):
    assert shapes["aliases"]["refused"] == ""
    assert shapes["aliases"]["warned"] == []


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("condition", "asset AssetAny("),
        ("ref", "asset AssetNameRef(name='two'): give an Asset or an AssetAlias"),
        ("text", "asset 'one': give an Asset"),
        ("strategy", "strategy 'mine': give source-wins"),
        ("lease", "lease=30: give a timedelta"),
        ("ttl", "ttl="),
    ],
)
def test_wrong_terms_of_a_run_are_refused_at_parse_time(shapes, name, says):
    assert shapes["refusals"][name].startswith(says)


def test_schedules_with_several_runs_in_an_hour_are_known(shapes):
    assert shapes["finer"]["refused"] == ""
    assert shapes["schedules"] == [True] * 6 + [False] * 4


def test_a_past_that_airflow_ignores_is_refused(shapes):
    refused = shapes["past_of_partitions"]["refused"]
    assert refused.startswith("InvalidInputError: DAG 'past' has partitions and depends_on_past")


def test_a_run_outside_a_dag_is_refused(shapes):
    assert shapes["no_dag"]["refused"]


def test_two_runs_in_one_dag_have_tasks_of_their_own(shapes):
    assert shapes["two_runs"]["refused"] == ""
    assert shapes["tasks"] == [
        "flights.close_run",
        "flights.merge",
        "flights.open_run",
        "weather.close_run",
        "weather.merge",
        "weather.open_run",
    ]


def test_the_merge_waits_for_every_task_of_the_block(shapes):
    assert shapes["in_groups"]["refused"] == ""
    assert shapes["up"] == ["flights.one", "flights.plain"]


@pytest.fixture(scope="module")
def hook(home):
    return home.ask("hook")


def test_the_hook_opens_what_the_connection_names(home, hook):
    assert hook["default"] == "flights"
    assert set(hook["async"]) >= set(REPOSITORIES)  # other tests may have made more
    assert hook["works"] == [True, f"{home.lake}: {', '.join(hook['async'])}"]
    assert hook["nowhere"].startswith("invalid-input: connection 'nowhere' names no lake")
    assert hook["uri"].startswith(
        "invalid-input: connection 'uri': the host postgresql://***@db/lake holds a password"
    )
    assert hook["unknown"].startswith("repository-not-found: no repository 'trains'")
    assert hook["no repository"].startswith("invalid-input: no repository: name one")


@pytest.mark.parametrize(
    ("connection", "says"),
    [
        ("broken", "no lake at /dev/null"),
        ("missing", "is its volume mounted"),
        ("wrong", "no repository 'trains'"),
        ("unreachable", "BackendUnavailableError"),
        ("odd", "lease_minutes 'soon' of connection 'odd'"),
    ],
)
def test_the_test_button_shows_what_is_wrong(hook, connection, says):
    works, message = hook[connection]
    assert works is False
    assert says in message


def test_nothing_is_made_where_no_lake_is(hook):
    assert hook["made"] == []


def test_the_terms_of_runs_come_from_the_connection_or_settings(hook):
    assert hook["terms"] == ["1 day, 0:00:00", "14 days, 0:00:00", "0:30:00", "1 day, 12:00:00"]
