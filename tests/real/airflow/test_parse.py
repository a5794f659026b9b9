"""What Airflow sees before a task runs: the provider, the DAG file, the shape of a run."""

import json
import re
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest

from graveler_airflow.get_provider_info import get_provider_info
from tests.real.airflow.conftest import REPOSITORIES
from tests.real.airflow.home import ROOT

# what our own modules warn of is an error; Airflow's own warnings are Airflow's
OURS_ARE_ERRORS = """
import json, warnings
warnings.filterwarnings("error", module="graveler")
"""

DAG_FILE = (
    OURS_ARE_ERRORS
    + """
import sys
from time import process_time
import airflow.sdk
from airflow.dag_processing.dagbag import DagBag
HEAVY = {"boto3", "dagster", "pandas", "polars", "pyarrow", "pyspark", "rocksdict", "typer"}
HEAVY -= {*sys.modules}
begun = process_time()
import graveler_airflow.run, graveler.demo
seconds = process_time() - begun
bag = DagBag(sys.argv[1], collect_dags=False)
begun = process_time()
bag.process_file(bag.dag_folder)
seconds += process_time() - begun
(dag,) = bag.dags.values()
print(json.dumps({
    "errors": list(bag.import_errors.values()),
    "seconds": seconds,
    "edges": sorted([up, task.task_id] for task in dag.tasks for up in task.upstream_task_ids),
    "setups": [task.task_id for task in dag.tasks if task.is_setup],
    "teardowns": [task.task_id for task in dag.tasks if task.is_teardown],
    "heavy": sorted(HEAVY & {*sys.modules}),
}))
"""
)

SHAPES = (
    OURS_ARE_ERRORS
    + """
from datetime import timedelta
from airflow.sdk import DAG, task
from graveler_airflow import graveler_run

def said(act):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            act()
            refused = ""
        except Exception as error:
            refused = f"{type(error).__name__}: {error}"
    ours = [str(w.message) for w in warned if "dagrun_timeout" in str(w.message)]
    return {"refused": refused, "warned": ours, "files": [w.filename for w in warned]}

def with_timeout():
    with DAG("slow", dagrun_timeout=timedelta(hours=1)), graveler_run("flights"):
        pass

def deciding_teardown():
    with DAG("lying") as dag:
        with graveler_run("flights"):
            pass
        dag.get_task("flights.close_run").on_failure_fail_dagrun = True

def unknown_end():
    with DAG("odd"), graveler_run("flights", on_failure="keep"):
        pass

def no_dag():
    with graveler_run("flights"):
        pass

def two_runs():
    with DAG("two") as dag:
        with graveler_run("flights"):
            pass
        with graveler_run("weather"):
            pass
    tasks.extend(sorted(dag.task_dict))

def in_groups():
    with DAG("grouped") as dag, graveler_run("flights") as run:
        @task.graveler
        def one(step): pass
        @task
        def plain(): pass
        one(run)
        plain()
    upstream.extend(sorted(dag.get_task("flights.merge").upstream_task_ids))

tasks, upstream = [], []
shapes = (with_timeout, deciding_teardown, unknown_end, no_dag, two_runs, in_groups)
print(json.dumps({**{act.__name__: said(act) for act in shapes}, "tasks": tasks, "up": upstream}))
"""
)

PROVIDER = (
    OURS_ARE_ERRORS
    + """
import sys
before = set(sys.modules)
from graveler_airflow.get_provider_info import get_provider_info
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
from importlib import import_module
from airflow.sdk import task
from airflow.sdk.configuration import conf
from airflow.providers_manager import ProvidersManager
from airflow._shared.module_loading import import_string
from graveler.gates import Gate
import graveler_airflow

def named(value):
    if isinstance(value, dict):
        for each in value.values():
            yield from named(each)
    elif isinstance(value, list):
        for each in value:
            yield from named(each)
    elif isinstance(value, str) and value.startswith("graveler_airflow."):
        yield value

def found(path):
    try:
        import_module(path)
    except ModuleNotFoundError:
        import_string(path)
    return path

info = get_provider_info()
paths = [found(path) for path in named(info)]
hook = import_string(info["connection-types"][0]["hook-class-name"])
manager = ProvidersManager()
fields = manager.provider_configs, manager.hooks
print(json.dumps({
    "loaded": sorted(loaded & {"airflow", "graveler", "graveler_airflow"}),
    "paths": len(paths) >= 15,
    "known as": manager.providers["graveler"].version,
    "hook": manager.hooks["graveler"].hook_name,
    "same": [hook.conn_type, hook.hook_name],
    "gate": isinstance(task.graveler_gate(lambda candidate: True), Gate),
    "exports": [name for name in graveler_airflow.__all__ if not hasattr(graveler_airflow, name)],
    "config": [conf.get("graveler", "lease_minutes"), conf.get("graveler", "ttl_days")],
    "links": sorted(link for link in manager.extra_links_class_names if "graveler" in link),
}))
"""
)

FORM = """
import json
from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService
(meta,) = [hook for hook in HookMetaService.hook_meta_data() if hook.connection_type == "graveler"]
print(json.dumps({
    "fields": {name: field["schema"]["type"] for name, field in meta.extra_fields.items()},
    "host": meta.standard_fields.host.title,
    "hidden": meta.standard_fields.url_schema.hidden and meta.standard_fields.password.hidden,
}))
"""

HOOK = (
    OURS_ARE_ERRORS
    + """
import asyncio, os, pathlib, tempfile
from datetime import timedelta
from graveler.config import write_default_config
from graveler.errors import GravelerError
from graveler_airflow import GravelerHook

def connect(name, **connection):
    os.environ[f"AIRFLOW_CONN_{name.upper()}"] = json.dumps({"conn_type": "graveler", **connection})
    return GravelerHook(name)

def refusal(act):
    try:
        act()
    except GravelerError as error:
        return f"{error.code}: {error}"

lake = str(GravelerHook().location)
empty = tempfile.mkdtemp()
nowhere = connect("nowhere")
uri = connect("uri", host="postgresql://ann:s3cret@db/lake")
missing = connect("missing", host=empty)
wrong = connect("wrong", host=lake, extra={"repo": "trains"})
broken = connect("broken", host="/dev/null")
odd = connect("odd", host=lake, extra={"repo": "flights", "lease_minutes": "soon"})
mine = connect("mine", host=lake, extra={"lease_minutes": 30, "ttl_days": "1.5"})

away = pathlib.Path(tempfile.mkdtemp())
write_default_config(away, kv_uri="postgresql://nobody@127.0.0.1:9/none", storage_uri="file://o")
unreachable = connect("unreachable", host=str(away))

async def aopen():
    lake = await GravelerHook().aget_conn()
    with lake:
        return lake.repositories()

with GravelerHook().repository() as repository:
    default = repository.name
print(json.dumps({
    "default": default,
    "async": asyncio.run(aopen()),
    "works": GravelerHook().test_connection(),
    "broken": broken.test_connection(),
    "missing": missing.test_connection(),
    "made": os.listdir(empty),
    "wrong": wrong.test_connection(),
    "unreachable": unreachable.test_connection(),
    "odd": odd.test_connection(),
    "terms": [str(GravelerHook().lease), str(GravelerHook().ttl), str(mine.lease), str(mine.ttl)],
    "nowhere": refusal(nowhere.get_conn),
    "uri": refusal(uri.get_conn),
    "unknown": refusal(lambda: GravelerHook().repository("trains").__enter__()),
    "no repository": refusal(lambda: mine.repository().__enter__()),
}))
"""
)


@pytest.fixture(scope="module")
def shapes(home):
    return home.ask(SHAPES)


def test_the_provider_is_described_as_airflow_wants_it():
    airflow = find_spec("airflow")
    assert airflow is not None
    assert airflow.origin is not None
    schema = json.loads(Path(airflow.origin).with_name("provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


def test_the_provider_has_the_distributions_name():
    assert get_provider_info()["package-name"] == distribution("graveler").metadata["Name"]


def test_airflow_finds_the_provider_and_all_it_names(home):
    found = home.ask(PROVIDER)
    assert found == {
        "loaded": ["graveler_airflow"],  # describing itself loads neither Airflow nor the engine
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
    assert home.ask(FORM) == {
        "fields": {
            "repo": ["string", "null"],
            "lease_minutes": ["number", "null"],
            "ttl_days": ["number", "null"],
        },
        "host": "Lake",
        "hidden": True,
    }


def test_the_dag_file_imports_quickly_and_loads_nothing_heavy(home):
    found = home.ask(DAG_FILE, ROOT / "dags/flights_airflow.py")
    assert found["errors"] == []
    assert found["heavy"] == []
    assert found["seconds"] < 1
    assert found["setups"] == ["flights.open_run"]
    assert found["teardowns"] == ["flights.close_run"]
    assert ["flights.transform", "flights.merge"] in found["edges"]
    assert ["flights.merge", "flights.close_run"] in found["edges"]


@pytest.mark.parametrize("name", ["flights_airflow.py", "weather_airflow.py"])
def test_the_examples_are_short(name):
    assert len((ROOT / "dags" / name).read_text("utf-8").splitlines()) <= 25


def test_the_plain_python_dag_loads_no_more_than_the_spark_dag(home):
    found = home.ask(DAG_FILE, ROOT / "dags/weather_airflow.py")
    assert found["errors"] == []
    assert found["heavy"] == []
    assert ["weather.airport", "weather.airports"] in found["edges"]
    assert ["weather.airports", "weather.merge"] in found["edges"]


def test_the_dag_of_the_guide_is_one(home):
    guide = (ROOT / "docs/guides/airflow.md").read_text("utf-8")
    file = home.folder / "guide.py"
    file.write_text(re.findall(r"```python\n(.*?)```", guide, re.DOTALL)[0], "utf-8")
    found = home.ask(DAG_FILE, file)
    assert found["errors"] == []
    assert ["events.curate", "events.no_empty_hours"] in found["edges"]
    assert ["events.no_empty_hours", "events.merge"] in found["edges"]


def test_a_dagrun_timeout_is_warned_of_since_it_skips_teardowns(shapes):
    said = shapes["with_timeout"]
    assert said["refused"] == ""
    (warning,) = said["warned"]
    assert "execution_timeout" in warning
    assert said["files"] == ["<string>"]  # it points at the DAG, not at us


def test_a_teardown_that_decides_the_state_of_the_run_is_refused(shapes):
    assert shapes["deciding_teardown"]["refused"].startswith("InvalidInputError: flights.close_run")


def test_an_unknown_end_of_failed_runs_is_refused_at_parse_time(shapes):
    assert "'keep'" in shapes["unknown_end"]["refused"]


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
    return home.ask(HOOK)


def test_the_hook_opens_what_the_connection_names(home, hook):
    assert hook["default"] == "flights"
    assert set(hook["async"]) >= set(REPOSITORIES)  # other tests may have made theirs
    assert hook["works"] == [True, f"{home.lake}: {', '.join(hook['async'])}"]
    assert hook["nowhere"].startswith("invalid-input: connection 'nowhere' names no lake")
    assert hook["uri"].startswith(
        "invalid-input: connection 'uri': postgresql://***@db/lake is a URI"
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
def test_the_test_button_says_what_is_wrong(hook, connection, says):
    works, message = hook[connection]
    assert works is False
    assert says in message


def test_nothing_is_made_where_no_lake_is(hook):
    assert hook["made"] == []


def test_the_terms_of_runs_come_from_the_connection_or_settings(hook):
    assert hook["terms"] == ["1 day, 0:00:00", "14 days, 0:00:00", "0:30:00", "1 day, 12:00:00"]
