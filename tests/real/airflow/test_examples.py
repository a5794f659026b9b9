"""The guide names all operators, its DAGs run, and the reference matches the code."""

import ast
import json
import re
import shutil
import sys

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


@pytest.fixture(scope="module")
def repo(home):
    with graveler.open(home.lake) as lake:
        repo = lake.create_repository("events")
        landing = home.landing / "2013-01-01"
        landing.mkdir(parents=True)
        (landing / "a.csv").write_text("UA,1\n")
        repo.links.allow(str(home.landing))
        repo.create_branch("ingest").put("landed/a.csv", b"UA,1\n")
        yield repo


@pytest.fixture(scope="module")
def run(home, repo):
    """Return a function that runs DAGs, by id or with values of their params."""
    folder = home.folder / "examples"
    folder.mkdir()
    for file, text in FILES.items():
        (folder / file.rpartition("/")[2]).write_text(text)
    for example in (ROOT / "tests/system/graveler").glob("example_*.py"):
        shutil.copy(example, folder)

    def run_dags(*dags, **params):
        return home.ask(
            *("examples", *dags, *(f"{dag}={json.dumps(conf)}" for dag, conf in params.items())),
            AIRFLOW__CORE__DAGS_FOLDER=str(folder),
            AIRFLOW_VAR_LANDING=str(home.landing),
        )

    return run_dags


@pytest.fixture(scope="module")
def states(run, repo):
    """The states of tasks by DAG."""
    since = repo.ref("main").commit_id
    dags = (
        "branches",
        "files",
        "runs",
        "ticks",
        "after_the_tick",
        "hours_of_commits",
        "reap",
        "maintain",
        "example_run",
    )
    states = run(*dags, waiting={"since": since})
    assert [entry.path for entry in repo.ref("main").list()] == [
        "hourly/rows.csv",
        "input/2013/01/01/05:00/a.csv",
        "landed/a.csv",
    ]
    published = next(record for record in repo.runs.list() if record.key.startswith("runs "))
    repo.branch("ingest").put("landed/b.csv", b"")
    ingestion = repo.ingestion("ingest", gates=[_no_empty_file], on_refusal="quarantine")
    (name,) = ingestion.tick("2013-01-01T07:00Z").quarantined
    repo.branch(name).put("landed/b.csv", b"UA,2\n")
    main = repo.branch("main")
    main.put("wrong.csv", b"?")
    wrong = main.commit("a mistake").id
    return states | run(
        roll_back={"run": published.key}, release={"name": name}, revert={"commit": wrong}
    )


def _no_empty_file(candidate):
    return all(entry.size for entry in candidate.added("landed/"))


def test_the_reference_is_made_of_the_docstrings(home):
    printed = home.run(sys.executable, "-P", PROGRAMS / "reference.py")
    assert printed == REFERENCE.read_text("utf-8"), f"make reference writes {REFERENCE}"


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


def test_the_repairs_of_the_guide_are_on_main(states, repo):
    assert [entry.path for entry in repo.ref("main").list()] == [
        "input/2013/01/01/05:00/a.csv",
        "landed/a.csv",
        "landed/b.csv",
    ]
