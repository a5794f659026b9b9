"""OpenLineage: Airflow's own provider writes the events of a DAG run to a file."""

import json
from importlib import import_module
from pkgutil import iter_modules
from typing import Any
from urllib.parse import urlsplit

import attr
import jsonschema  # type: ignore[import-untyped]
import openlineage.client.generated as generated
import pytest
from openlineage.client.generated.base import BaseFacet

import graveler
from graveler_airflow.lineage.naming import dataset_name, external, folder_of
from tests.real.airflow.home import AIRFLOW

HOUR = "2013/01/01/05:00"
_FACETS = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "required": ["_producer", "_schemaURL"],
        "properties": {
            name: {"type": "string", "format": "uri"} for name in ("_producer", "_schemaURL")
        },
    },
}
_NAMED = {
    "type": "object",
    "required": ["namespace", "name"],
    "properties": {
        "namespace": {"type": "string", "minLength": 1},
        "name": {"type": "string", "minLength": 1},
        **dict.fromkeys(("facets", "inputFacets", "outputFacets"), _FACETS),
    },
    "additionalProperties": False,
}
RUN_EVENT = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["eventTime", "eventType", "producer", "schemaURL", "run", "job"],
    "properties": {
        "eventTime": {"type": "string", "format": "date-time"},
        "eventType": {"enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]},
        "producer": {"type": "string", "format": "uri"},
        "schemaURL": {"type": "string", "format": "uri"},
        "run": {
            "type": "object",
            "required": ["runId"],
            "properties": {"runId": {"type": "string", "format": "uuid"}, "facets": _FACETS},
        },
        "job": _NAMED,
        "inputs": {"type": "array", "items": _NAMED},
        "outputs": {"type": "array", "items": _NAMED},
    },
    "additionalProperties": False,
}
"""The schema of a run's event in version 2-0-2 of OpenLineage."""


@pytest.fixture(scope="module")
def first(home):
    """The commit of main before the DAG run."""
    (home.landing / "weather").mkdir(parents=True)
    (home.landing / "weather/rain.csv").write_text("3")
    with graveler.open(home.lake) as lake:
        repo = lake.create_repository("lineage")
        main = repo.branch("main")
        main.put("carriers.csv", b"AA")
        main.put("old/table.csv", b"1")
        commit = main.commit("first")
        repo.tags.create("v1")
        repo.create_branch("test")
        repo.create_branch("hooked")
        repo.create_branch("merged")
        repo.links.allow(str(home.landing))
    return commit.id


@pytest.fixture(scope="module")
def events(home, first):
    """The events of a DAG run, which fails because a gate refuses part of it."""
    file = home.folder / "events.json"
    transport = {"type": "file", "log_file_path": str(file), "append": True}
    with pytest.raises(AssertionError, match="DagRun failed"):
        home.run(
            *(AIRFLOW, "dags", "test", "lineage", "2013-01-01T05:00"),
            AIRFLOW__OPENLINEAGE__TRANSPORT=json.dumps(transport),
        )
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def ended(events):
    """The last event of each task, by its id."""
    return {event["job"]["name"].removeprefix("lineage."): event for event in events}


@pytest.fixture(scope="module")
def lineage(home, events):
    with graveler.open(home.lake) as lake:
        yield lake.repository("lineage")


def versions(datasets: list[Any]) -> dict[str, str]:
    """Return the commit of each dataset by its name."""
    return {dataset["name"]: dataset["facets"]["version"]["datasetVersion"] for dataset in datasets}


def facet_classes() -> dict[str, type]:
    """Return OpenLineage's classes of facets, by the addresses of their schemas."""
    modules = [
        import_module(f"{generated.__name__}.{info.name}")
        for info in iter_modules(generated.__path__)
    ]
    classes = [
        value for module in modules for value in vars(module).values() if isinstance(value, type)
    ]
    return {kind._get_schema(): kind for kind in classes if issubclass(kind, BaseFacet)}


def test_the_events_are_valid_by_the_schema_of_openlineage(events):
    checker = jsonschema.FormatChecker()
    checker.checks("uri")(lambda text: all(urlsplit(text)[:2]))
    validator = jsonschema.Draft202012Validator(RUN_EVENT, format_checker=checker)
    for event in events:
        validator.validate(event)


def test_every_facet_has_the_fields_of_its_schema(events):
    classes = facet_classes()
    facets = [event["run"]["facets"]["tags"] for event in events if "." in event["job"]["name"]]
    for event in events:
        for dataset in (*event["inputs"], *event["outputs"]):
            for kind in ("facets", "inputFacets", "outputFacets"):
                facets.extend(dataset.get(kind, {}).values())
    assert len(facets) > 30
    for facet in facets:
        fields = attr.fields_dict(classes[facet["_schemaURL"]])
        needed = {name for name, field in fields.items() if field.default is attr.NOTHING}
        assert needed <= facet.keys() <= fields.keys()


def test_a_step_names_what_it_read_and_wrote_with_commits(ended, lineage, first):
    event = ended["lineage.transform"]
    (run,) = [record for record in lineage.runs.list() if record.publishes]
    steps = {commit.metadata.get("graveler.step"): commit for commit in lineage.log(run.head)}
    made = steps["lineage.transform"]
    assert versions(event["outputs"]) == {"run:main/output": made.id}
    assert versions(event["inputs"]) == {
        "main/carriers.csv": first,
        "run:main/input": made.metadata["graveler.step_base"],
    }
    assert {dataset["namespace"] for dataset in event["inputs"]} == {"grav://lineage"}
    tags = {tag["key"]: tag["value"] for tag in event["run"]["facets"]["tags"]["tags"]}
    assert tags["graveler.run"] == run.key
    assert tags["graveler.commit"] == made.id


def test_parquet_has_a_schema_rows_and_the_folder_of_the_hour(ended):
    (output,) = ended["lineage.ingest"]["outputs"]
    fields = [(field["name"], field["type"]) for field in output["facets"]["schema"]["fields"]]
    assert fields == [("carrier", "string"), ("delay", "int64")]
    statistics = output["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["fileCount"]) == (2, 1)
    subset = output["outputFacets"]["subset"]["outputCondition"]
    (version,) = versions([output]).values()
    assert subset["locations"] == [f"grav://lineage/{version}/input/{HOUR}/"]


def test_linked_files_come_from_their_store(ended, home):
    event = ended["lineage.link"]
    (source,) = event["inputs"]
    assert (source["namespace"], source["name"]) == ("file", str(home.landing / "weather"))
    assert [dataset["name"] for dataset in event["outputs"]] == ["run:main/weather"]


def test_a_publish_brings_the_work_of_the_run_to_its_target(ended, lineage):
    event = ended["lineage.merge"]
    (run,) = [record for record in lineage.runs.list() if record.publishes]
    names = ["input", "output", "weather"]
    assert versions(event["inputs"]) == {f"run:main/{name}": run.head for name in names}
    published = run.publishes[-1].commit
    assert versions(event["outputs"]) == {f"main/{name}": published for name in names}
    judged = {
        dataset["name"]: dataset["inputFacets"].get("dataQualityAssertions", {}).get("assertions")
        for dataset in event["inputs"]
    }
    ((verdict,), unjudged) = judged["run:main/output"], judged["run:main/input"]
    assert (verdict["assertion"], verdict["success"], unjudged) == ("has_output", True, None)


def test_a_refused_publish_writes_nothing_and_says_why(ended):
    event = ended["refused.merge"]
    assert event["eventType"] == "FAIL"
    assert event["outputs"] == []
    (dataset,) = event["inputs"]
    (verdict,) = dataset["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert dataset["name"] == "run:main/refused"
    assert (verdict["success"], verdict["description"]) == (False, "it never passes")


def test_a_failed_step_names_what_it_had_read(ended, first):
    event = ended["broken.fails"]
    assert event["eventType"] == "FAIL"
    assert versions(event["inputs"]) == {"main/carriers.csv": first}
    assert event["outputs"] == []


def test_operators_on_branches_name_their_commits(ended, lineage, first):
    deleted = lineage.branch("dev").head.id
    assert versions(ended["delete"]["outputs"]) == {"dev/old": deleted}
    merged = lineage.branch("test").head.id
    assert versions(ended["merge_dev"]["inputs"]) == {"dev/old": deleted}
    assert versions(ended["merge_dev"]["outputs"]) == {"test/old": merged}
    assert versions(ended["wait"]["inputs"]) == {"test/carriers.csv": merged}


def test_ingestion_and_undoing_name_their_commits(home):
    reported = home.ask("lineage")
    assert reported == {
        "commit": [[], ["dev/b 1"]],
        "commit again": [[], ["dev/b 1"]],
        "merge again": [["dev/b 1"], ["main/b 2"]],
        "merge of another task": [[], []],
        "tag": [[], []],
        "rollback": [[], ["main/c 3"]],
        "revert": [[], ["main/b 4"]],
        "tick": [["ingest/landing 5"], ["main/landing 6"]],
        "release": [["ingest/landing 7"], ["main/landing 8"]],
        "commits": [["main/landing 8"], []],
        "hour": [["main/landing 6"], []],
        "quarantined": [[], []],
        "many files": [["delay"], None, 33],
        "without the lake": [[], 3],
    }


def test_reads_and_commits_by_hook_name_their_commits(ended, lineage):
    event = ended["by_hook"]
    read, made, merged = (lineage.branch(name).head.id for name in ("test", "hooked", "merged"))
    assert versions(event["inputs"]) == {"test/carriers.csv": read}
    assert versions(event["outputs"]) == {"hooked/tables": made, "merged/tables": merged}


def test_paths_name_the_commit_that_they_were_read_from(ended, lineage):
    event = ended["by_path"]  # `dags test` runs all tasks in one process with one collector
    assert versions(event["inputs"])["hooked/tables"] == lineage.branch("hooked").head.id
    (staged,) = (dataset for dataset in event["outputs"] if not dataset["facets"])
    assert (staged["namespace"], staged["name"]) == ("grav://lineage", "hooked/copies")


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("output/2013/01/01/05:00/", "main/output"),
        ("sales/dt=2013-01-01/carrier=AA/", "main/sales"),
        ("sales/2013-01-01/", "main/sales"),
        ("a/b/", "main/a/b"),
        ("v2/table/", "main/v2/table"),
        ("table.csv", "main/table.csv"),
        ("", "main"),
    ],
)
def test_a_dataset_has_no_partition_in_its_name(folder, name):
    assert dataset_name("main", folder) == name


def test_a_file_belongs_to_its_folder():
    assert [folder_of("a/b/c.csv"), folder_of("c.csv")] == ["a/b/", "c.csv"]


def test_other_stores_are_named_as_openlineage_names_them():
    assert external("s3://bucket/landing/05") == ("s3://bucket", "landing/05")
    assert external("file:///landing/05") == ("file", "/landing/05")
    assert external("s3://bucket/") == external("s3://bucket") == ("s3://bucket", "/")


@pytest.fixture(scope="module")
def observed(home):
    return home.ask("observed")


_READS = {
    *("View.get", "View.get_many", "View.stat_many", "View.has_below", "View.get of an entry"),
    *("Repository.view", "Branch.copy", "Branch.move", "Repository.run", "Run.publish"),
}
_COMMITS = {
    *("Branch.commit", "Branch.commit_changes", "Repository.cherry_pick", "Repository.revert"),
    *("Repository.merge", "Repository.run", "Run.publish", "Runs.rollback", "Ingestion.tick"),
    *("Ingestion.tick that is refused", "Ingestion.release"),
}
_NO_COMMITS = {
    "Repository": "branch branches check_kv commit create_branch delete_branch diff dump_refs "
    "expire_missing fsck gates gc ingestion links log maintain moves name pack packing preview_merge protection "
    "ref restore_refs runs splitting stats storage tags undo view why",
    "Branch": "copy delete delete_many download entries exists expression get get_many has_below "
    "head import_ link link_many list move name new_address open put put_many reset stat stat_many "
    "store table uncommitted upload uri uris",
    "Runs": "abandon attach get handle_of list needed_commits on_targets open open_or_attach "
    "open_step park plan_rollback publishes readers reap states working",
    "Run": "abandon attempt branch close commit_staged inputs into joined_steps judge key "
    "last_joins lost_steps on_target park read reads record renew renewing spark state step "
    "step_environment undo_step view write",
    "Ingestion": "branch hour pending quarantined status",
    "Tags": "create delete list moves undelete",
}
"""Calls that make no commit with changes on a branch that belongs to no run."""


def test_every_public_call_of_the_hook_is_known(observed):
    known = {f"{kind}.{name}" for kind, names in _NO_COMMITS.items() for name in names.split()}
    committing = {call.partition(" ")[0] for call in _COMMITS}
    assert set(observed["public"]) == known | committing
    assert not known & committing


def test_every_call_of_the_hook_notes_reads_and_commits(observed):
    for call, (reads, noted, landed) in observed["calls"].items():
        assert noted == landed, call
        assert bool(landed) == (call in _COMMITS), call
        assert set(reads) == ({"main/a"} if call in _READS else set()), call
    assert observed["calls"].keys() >= _READS | _COMMITS
