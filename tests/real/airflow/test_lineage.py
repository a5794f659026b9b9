# mypy: ignore-errors
"""OpenLineage: Airflow's own provider writes the events of a DAG run to a file."""

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import graveler
import graveler_airflow as ga
from graveler_airflow.lineage.naming import dataset_name, external, folder_of
from tests.real.airflow.home import AIRFLOW
from tests.real.airflow.played import AT, context

HOUR = "2013/01/01/05:00"


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


def reported(operator, names, tried=1):
    """Execute a task; return its result, and its inputs and outputs with named commits."""
    result = operator.execute(context(operator.task_id, tried, log_url=""))
    lineage = operator.get_openlineage_facets_on_complete(None)
    return result, [
        [
            f"{dataset.name} {names.setdefault(version.datasetVersion, len(names) + 1)}"
            for dataset in datasets
            for version in [dataset.facets["version"]]
        ]
        for datasets in (lineage.inputs, lineage.outputs)
    ]


def test_ingestion_and_undoing_name_their_commits(repo):
    names, told = {}, {}

    def report(name, operator, tried=1):
        result, told[name] = reported(operator, names, tried)
        return result

    main = repo.branch("main")
    main.put("a/x.csv", b"1")
    first = main.commit("first")
    dev = repo.create_branch("dev")
    dev.put("b/y.csv", b"2")
    commit = ga.GravelerCommitOperator(task_id="commit", branch="dev")
    report("commit", commit)
    report("commit again", commit, tried=2)
    merge = ga.GravelerMergeOperator(task_id="merge", source="dev")
    merge.execute(context("merge"))
    report("merge again", merge, tried=2)
    report("merge of another task", ga.GravelerMergeOperator(task_id="other", source="dev"))
    merged = main.head.id
    report("tag", ga.GravelerTagOperator(task_id="tag", tag="v1"))
    with repo.run("k") as run:
        run.put("c/z.csv", b"3")
    report("rollback", ga.GravelerRollbackOperator(task_id="rollback", run="k"))
    report("revert", ga.GravelerRevertOperator(task_id="revert", commit=merged))
    ingest = repo.create_branch("ingest")
    ingest.put("landing/2013/01/01/05:00/q.csv", b"7")
    report("tick", ga.GravelerIngestOperator(task_id="tick"))
    ingest.put("landing/2013/01/01/06:00/q.csv", b"8")
    never = graveler.gate("never")(lambda candidate: "no")
    aside = {"on_refusal": "quarantine", "gates": [never], "hour": "2013-01-01T06:00"}
    refused = ga.GravelerIngestOperator(task_id="later", **aside)
    (name,) = report("quarantined", refused)["quarantined"]
    report("release", ga.GravelerReleaseOperator(task_id="release", name=name))
    report("commits", ga.GravelerCommitSensor(task_id="c", repo="flights", since=first.id))
    hour = ga.GravelerIngestSensor(task_id="h", repo="flights", hour=AT.isoformat())
    report("hour", hour)
    assert told == {
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
    }


@pytest.mark.parametrize(("files", "rows"), [(32, 32), (33, None)])
def test_lineage_of_many_files_and_of_a_lake_that_is_away(connect, tmp_path, files, rows):
    connect("moved", host=str(tmp_path / "lake"))
    table = io.BytesIO()
    pq.write_table(pa.table({"delay": [3]}), table)
    with graveler.open(tmp_path / "lake", create=True) as lake:
        main = lake.create_repository("flights").branch("main")
        for number in range(files):
            main.put(f"many/{number}.parquet", table.getvalue())
        given = {"repo": "flights", "branch": "main", "graveler_conn_id": "moved"}
        commit = ga.GravelerCommitOperator(task_id="commit", **given)
        commit.execute(context("commit"))
        (output,) = commit.get_openlineage_facets_on_complete(None).outputs
    statistics = output.outputFacets["outputStatistics"]
    assert [field.name for field in output.facets["schema"].fields] == ["delay"]
    assert (statistics.rowCount, statistics.fileCount) == (rows, files)
    (tmp_path / "lake").rename(tmp_path / "gone")
    lineage = commit.get_openlineage_facets_on_complete(None)
    assert (lineage.outputs, len(lineage.run_facets["tags"].tags)) == ([], 3)


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
def hooked(own, connect):
    """A repository of the default connection with a file on main and two more branches."""
    made = own.create_repository("hooked")
    connect(host=own.location, extra={"repo": "hooked"})
    main = made.branch("main")
    main.put("a/x", b"a")
    main.commit("a")
    for name in ("dev", "ingest"):
        made.create_branch(name)
    return made


def heads(repo):
    """Return the head of each branch that belongs to no run."""
    return {branch.name: branch.commit_id for branch in repo.branches(hidden=True)}


def since(repo, head, before):
    """Return the commits that a branch has got; none if it was made, or moved back."""
    line = list(repo.log(head, first_parent=True))
    ids = [commit.id for commit in line]
    return line[: ids.index(before)] if before in ids else []


class Collector:
    """Airflow's collector of hook lineage: what was read, and what was written by which commit."""

    def __init__(self):
        self.read, self.wrote = set(), set()

    def add_input_asset(self, context, *, scheme, asset_kwargs, asset_extra):
        self.read.add(f"{asset_kwargs['ref']}/{asset_kwargs['prefix']}")

    def add_output_asset(self, context, *, scheme, asset_kwargs, asset_extra):
        if asset_extra:
            place = f"{asset_kwargs['ref']}/{asset_kwargs['prefix']}"
            self.wrote.add((place, asset_extra["commit"]))


def commit_changes(repo):
    entry = repo.branch("dev").store("d/x", b"d")
    repo.branch("dev").commit_changes([entry], message="d")


def publish(repo):
    run = repo.runs.open("l")
    run.put("l/x", run.get("a/x"))
    run.commit("l")
    run.publish()


def block(repo):
    with repo.run("k") as run:
        run.put("k/x", run.get("a/x"))


def tick(repo):
    repo.branch("ingest").put("i/x", b"i")
    repo.ingestion("ingest").tick("2013-01-01T05:00")


def refused_tick(repo):
    repo.branch("ingest").put("j/x", b"j")
    ingestion = repo.ingestion("ingest", gates=[lambda _: "no"], on_refusal="quarantine")
    ingestion.tick("2013-01-01T06:00")


def release(repo):
    (aside,) = repo.ingestion("ingest").quarantined()
    repo.ingestion("ingest").release(aside.name, gates=[])


READS = {
    "View.get": lambda repo: repo.ref("main").get("a/x"),
    "View.get_many": lambda repo: list(repo.ref("main").get_many(["a/x"])),
    "View.stat_many": lambda repo: list(repo.ref("main").stat_many(["a/x"])),
    "View.has_below": lambda repo: repo.branch("main").has_below("a/"),
    "Repository.view": lambda repo: repo.view("main").exists("a/x"),
    "View.get of an entry": lambda repo: [
        repo.ref("main").get(change.after) for change in repo.diff("main~1", "main")
    ],
    "Branch.copy": lambda repo: repo.branch("dev").copy("main", "a/", "c/"),
}
COMMITS = {
    "Branch.commit": lambda repo: repo.branch("dev").commit("c"),
    "Branch.commit_changes": commit_changes,
    "Repository.cherry_pick": lambda repo: repo.cherry_pick("dev", "main"),
    "Repository.revert": lambda repo: repo.revert("main", "main"),
    "Repository.merge": lambda repo: repo.merge("dev", "main"),
    "Repository.run": block,
    "Run.publish": publish,
    "Runs.rollback": lambda repo: repo.runs.rollback("k"),
    "Ingestion.tick": tick,
    "Ingestion.tick that is refused": refused_tick,
    "Ingestion.release": release,
}
OTHERS = {
    "Branch.move": lambda repo: repo.branch("main").move("a/", "z/"),
    "Branch.reset": lambda repo: repo.branch("main").reset(),
    "Repository.undo": lambda repo: repo.undo("dev"),
    "Repository.pack": lambda repo: repo.pack(everything=True),
}
READING = {*READS, "Branch.move", "Repository.run", "Run.publish"}


def test_every_call_of_the_hook_notes_reads_and_commits(hooked, monkeypatch):
    for call, act in (READS | COMMITS | OTHERS).items():
        collector = Collector()
        getter = "graveler_airflow.lineage.hooks.get_hook_lineage_collector"
        monkeypatch.setattr(getter, lambda collector=collector: collector)
        with ga.GravelerHook().repository() as repo:
            before = heads(repo)
            act(repo)
            landed = {
                (f"{branch}/{change.path.rpartition('/')[0]}", commit.id)
                for branch, head in heads(repo).items()
                for commit in since(repo, head, before.get(branch))
                for change in repo.diff(commit.parents[0], commit)
            }
        assert collector.wrote == landed, call
        assert bool(landed) == (call in COMMITS), call
        assert collector.read == ({"main/a"} if call in READING else set()), call
