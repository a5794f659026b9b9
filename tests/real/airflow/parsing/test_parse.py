"""What Airflow sees before a task runs: the provider, the plugin, and the DAG files."""

import json
import re
from dataclasses import fields
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService
from airflow.sdk import task
from airflow.sdk.configuration import conf

import graveler
from graveler.config import LakeConfig
from graveler.gates import Gate
from graveler_airflow import GravelerHook
from graveler_airflow.get_provider_info import get_provider_info
from tests.real.airflow.home import ROOT

EXAMPLES = {name: ROOT / f"dags/{name}_airflow.py" for name in ("flights", "iceberg", "weather")}


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


def test_the_description_names_this_version_and_what_exists():
    info = get_provider_info()
    assert info["versions"][0] == graveler.__version__
    assert info["package-name"] == distribution("graveler").metadata["Name"]
    (integration,) = info["integrations"]
    pages = [integration["external-doc-url"], *integration["how-to-guide"]]
    assert [page for page in pages if not (ROOT / page.lstrip("/")).is_file()] == []
    (plugin,) = info["plugins"]
    (entry,) = distribution("graveler").entry_points.select(group="airflow.plugins")
    assert plugin == {"name": entry.name, "plugin-class": entry.value.replace(":", ".")}
    (operators,) = info["operators"]
    folder = ROOT / "integrations/graveler_airflow/operators"
    modules = {f"graveler_airflow.operators.{path.stem}" for path in folder.glob("[!_]*.py")}
    assert modules - {"graveler_airflow.operators.base"} == {*operators["python-modules"]}


@pytest.fixture(scope="module")
def guide(home):
    """The DAG of the guide, in a file."""
    text = (ROOT / "docs/guides/airflow.md").read_text("utf-8")
    file = home.folder / "guide.py"
    file.write_text(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0], "utf-8")
    return file


@pytest.fixture(scope="module")
def loaded(home, guide):
    return home.ask("loading", *EXAMPLES.values(), guide)


def test_airflow_finds_the_provider_and_all_it_names(loaded):
    assert loaded["described"] == [  # the description loads neither Airflow nor the engine
        "graveler",
        "graveler.base",
        "graveler.base.exports",
        "graveler_airflow",
        "graveler_airflow.get_provider_info",
        "graveler_common",
    ]
    assert loaded["provider"] == {
        "paths": True,
        "known as": distribution("graveler").version,
        "hook": "Graveler",
        "links": [
            f"graveler_airflow.links.Graveler{name}Link" for name in ("Commit", "Diff", "Run")
        ],
    }
    assert (GravelerHook.conn_type, GravelerHook.hook_name) == ("graveler", "Graveler")
    assert isinstance(task.graveler_gate(lambda candidate: True), Gate)
    assert conf.get("graveler", "lease_minutes") == "1440"
    assert conf.get("graveler", "ttl_days") == "14"


def test_a_task_does_not_import_the_pages(loaded):
    assert loaded["plugin"] == ["graveler_airflow.plugin"]


def test_the_form_of_the_connection_has_our_fields():
    (meta,) = [
        kind for kind in HookMetaService.hook_meta_data() if kind.connection_type == "graveler"
    ]
    shown = meta.extra_fields or {}
    texts = (
        *("storage", "aws_conn_id", "endpoint_url", "region", "access_key", "secret_key"),
        *("session_token", "role_arn", "external_id", "cache", "repo"),
    )
    kinds = dict.fromkeys(texts, "string") | {
        "path_style": "boolean",
        "cache_max_bytes": "integer",
        **dict.fromkeys(("no_progress_seconds", "lease_minutes", "ttl_days"), "number"),
    }
    assert {name: field["schema"]["type"] for name, field in shown.items()} == {
        name: [kind, "null"] for name, kind in kinds.items()
    }
    hidden = [name for name, field in shown.items() if field["schema"].get("format") == "password"]
    assert hidden == ["secret_key", "session_token"]
    standard = meta.standard_fields
    assert standard is not None
    assert standard.host is not None
    assert standard.host.title == "Lake"
    for field in (standard.url_schema, standard.port):
        assert field is not None
        assert field.hidden


@pytest.mark.parametrize(
    ("dag", "edges"),
    [
        ("flights", ["flights.transform flights.merge", "flights.merge flights.close_run"]),
        ("iceberg", ["flights.load flights.merge", "flights.merge flights.close_run"]),
        ("weather", ["weather.airport weather.airports", "weather.airports weather.merge"]),
        ("guide", ["events.curate events.no_empty_hours", "events.no_empty_hours events.merge"]),
    ],
)
def test_a_dag_file_loads_nothing_heavy_and_has_a_run(loaded, guide, dag, edges):
    shown = loaded["dags"][str((EXAMPLES | {"guide": guide})[dag])]
    assert shown["errors"] == loaded["heavy"] == []
    assert {" ".join(edge) for edge in shown["edges"]} >= {*edges}
    (group,) = {edge.partition(".")[0] for edge in edges}
    assert (shown["setups"], shown["teardowns"]) == (
        [f"{group}.open_run"],
        [f"{group}.close_run"],
    )


@pytest.mark.parametrize("file", EXAMPLES.values(), ids=EXAMPLES)
def test_the_examples_are_short(file):
    assert len(file.read_text("utf-8").splitlines()) <= 27
