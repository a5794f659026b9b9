"""The guide names all operators, its DAGs run, and the reference matches the code."""

import ast
import json
import re
import runpy
import shutil

import pytest

import graveler
import graveler_airflow
from tests.docs.pages import ROOT, parse
from tests.real.airflow.home import PROGRAMS

REFERENCE = ROOT / "docs/reference/airflow.md"
GUIDE = "docs/guides/airflow-operators.md"
TEXT = (ROOT / GUIDE).read_text("utf-8")
FILES = {block.file: block.text for block in parse(GUIDE, TEXT).blocks if block.file}
OPERATORS = sorted(
    name
    for name in graveler_airflow.__all__
    if name.endswith(("Operator", "Sensor")) and name.startswith("Graveler")
)


def _no_empty_file(candidate):
    return all(entry.size for entry in candidate.added("landed/"))


@pytest.fixture(scope="module")
def repo(home):
    with graveler.open(home.lake) as lake:
        repo = lake.create_repository("events")
        repo.links.allow(str(home.landing))
        repo.create_branch("ingest")
        yield repo


@pytest.fixture(scope="module")
def repairs(repo):
    """The params of DAGs that repair something: a run, a quarantined hour, and a commit."""
    with repo.run("by hand") as run:
        run.put("by-hand.csv", b"?")
    repo.branch("ingest").put("landed/b.csv", b"")
    ingestion = repo.ingestion("ingest", gates=[_no_empty_file], on_refusal="quarantine")
    (name,) = ingestion.tick("2013-01-01T03:00Z").quarantined
    repo.branch(name).put("landed/b.csv", b"UA,2\n")
    repo.branch("main").put("wrong.csv", b"?")
    wrong = repo.branch("main").commit("a mistake").id
    return {"roll_back": {"run": "by hand"}, "release": {"name": name}, "revert": {"commit": wrong}}


@pytest.fixture(scope="module")
def states(home, repo, repairs):
    """The states of tasks by DAG."""
    landing, folder = home.landing / "2013-01-01", home.folder / "examples"
    for made in (landing, folder):
        made.mkdir(parents=True)
    (landing / "a.csv").write_text("UA,1\n")
    repo.branch("ingest").put("landed/a.csv", b"UA,1\n")
    for file, text in FILES.items():
        (folder / file.rpartition("/")[2]).write_text(text)
    for example in (ROOT / "tests/system/graveler").glob("example_*.py"):
        shutil.copy(example, folder)
    dags = ("branches", "files", "runs", "ticks", "after_the_tick", "hours_of_commits")
    params = {"waiting": {"since": repo.ref("main").commit_id}, **repairs}
    return home.ask(
        *("examples", *dags, "reap", "maintain", "example_run"),
        *(f"{dag}={json.dumps(conf)}" for dag, conf in params.items()),
        AIRFLOW__CORE__DAGS_FOLDER=str(folder),
        AIRFLOW_VAR_LANDING=str(home.landing),
    )


def test_the_reference_is_made_of_the_docstrings(capsys):
    runpy.run_path(str(PROGRAMS / "reference.py"))
    assert capsys.readouterr().out == REFERENCE.read_text("utf-8"), (
        f"make reference writes {REFERENCE}"
    )


@pytest.mark.parametrize(
    "file", sorted([*(ROOT / "dags").glob("*.py"), *(ROOT / "docs/examples").rglob("*.py")])
)
def test_an_example_with_hours_of_the_past_has_an_end(file):
    calls = [
        node for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.Call)
    ]
    for call in calls:
        name = ast.unparse(call.func).rpartition(".")[2]
        given = {argument.arg for argument in call.keywords}
        if name.endswith("PartitionsDefinition") or given >= {"schedule", "start_date"}:
            assert given & {"end_date", "end"}, ast.unparse(call)


def test_the_guide_makes_the_repositories_that_its_pages_use():
    guide = (ROOT / "docs/guides/airflow.md").read_text("utf-8")
    made = set(re.findall(r"^airflow graveler create (\w+)", guide, re.MULTILINE))
    pages = [*(ROOT / "docs/guides").glob("airflow*.md"), *(ROOT / "dags").glob("*_airflow.py")]
    text = "\n".join(page.read_text("utf-8") for page in pages)
    used = set(re.findall(r'(?:graveler_run\(|repo=|graveler_asset\()"(\w+)"', text))
    assert used
    assert used <= made


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_has_a_section_and_a_dag(name):
    assert f"### {name}\n" in TEXT
    assert any(f"{name}(" in text for text in FILES.values())
    assert f"``{GUIDE}#{name.lower()}``" in getattr(graveler_airflow, name).__doc__


def test_every_section_is_of_an_operator():
    assert sorted(re.findall(r"^### (\w+)$", TEXT, re.MULTILINE)) == OPERATORS


def test_the_dags_of_the_guide_succeed(states):
    wrong = {dag: tasks for dag, tasks in states.items() if {*tasks.values()} != {"success"}}
    assert wrong == {"hours_of_commits": {"hours": "skipped"}}  # no event started this DAG


def test_the_work_and_the_repairs_of_the_guide_are_on_main(states, repo):
    assert [entry.path for entry in repo.ref("main").list()] == [
        "hourly/rows.csv",
        "input/2013/01/01/05:00/a.csv",
        "landed/a.csv",
        "landed/b.csv",
    ]
