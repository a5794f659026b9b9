"""The operators on branches, commits and files: each does it, and a second try does it once."""

import pytest

PROGRAM = """
import json, os, sys, tempfile
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
import graveler
import graveler_airflow as ga
from graveler_airflow.dag.handles import pack

os.environ["AIRFLOW__API__BASE_URL"] = "https://airflow.example/"
folder = tempfile.mkdtemp()
os.environ["AIRFLOW_CONN_GRAVELER_DEFAULT"] = json.dumps(
    {"conn_type": "graveler", "host": folder, "extra": {"repo": "flights"}}
)
found = {}

def context(task_id, tried=1, map_index=-1):
    ti = SimpleNamespace(task_id=task_id, map_index=map_index, try_number=tried, run_id="r1",
                         xcom_push=lambda key, value: None,
                         log_url=f"https://airflow.example/log/{task_id}")
    run = SimpleNamespace(dag_id="d", run_id="r1", run_after=datetime(2013, 1, 1, 5, tzinfo=UTC))
    return {"ti": ti, "dag_run": run}

def outcome(operator, tried=1):
    try:
        return operator.execute(context(operator.task_id, tried))
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def tries(operator, count=2):
    return [outcome(operator, number + 1) for number in range(count)]

with graveler.open(folder, create=True) as lake:
    repo = lake.create_repository("flights")
    main = repo.branch("main")
    main.put("a", b"1")
    first = main.commit("first")

    create = ga.GravelerCreateBranchOperator(task_id="create", branch="dev")
    found["create"] = tries(create)
    dev = repo.branch("dev")
    dev.put("b", b"2")

    commit = ga.GravelerCommitOperator(task_id="commit", branch="dev", message="more",
                                       metadata={"source": "bts"})
    found["commit"] = [*tries(commit), dev.head.id]
    found["metadata"] = dict(dev.head.metadata)
    found["links"] = [
        link.get_link(commit, ti_key=SimpleNamespace(dag_id="d", run_id="r1"))
        for link in commit.operator_extra_links
    ]
    other = lambda **more: ga.GravelerCommitOperator(task_id="other", branch="dev", message="x", **more)
    found["nothing to commit"] = outcome(other())
    found["nothing: skip"] = outcome(other(on_empty="skip"))
    found["nothing: commit"] = outcome(other(on_empty="commit")) == repo.branch("dev").head.id
    found["elsewhere"] = outcome(ga.GravelerCreateBranchOperator(task_id="c", branch="dev"))
    found["exist_ok"] = outcome(
        ga.GravelerCreateBranchOperator(task_id="c", branch="dev", exist_ok=True))

    merge = ga.GravelerMergeOperator(task_id="merge", source="dev", metadata={"why": "done"})
    found["merge"] = [*tries(merge), main.head.id]
    found["merge says"] = [main.head.metadata["why"], main.head.metadata["airflow.task_id"]]

    tag = ga.GravelerTagOperator(task_id="tag", tag="v1")
    found["tag"] = [*tries(tag), repo.tags.list()["v1"]]
    revert = ga.GravelerRevertOperator(task_id="revert", commit="v1", parent=1)
    found["revert"] = [*tries(revert), main.head.id, [entry.path for entry in main.entries()]]
    found["tag elsewhere"] = outcome(tag, 3)
    found["nothing to revert"] = outcome(
        ga.GravelerRevertOperator(task_id="again", commit="v1", parent=1))

    dev.put("a", b"3"); dev.commit("3"); main.put("a", b"4"); main.commit("4")
    found["conflict"] = outcome(ga.GravelerMergeOperator(task_id="clash", source="dev"))

    landing = Path(tempfile.mkdtemp())
    repo.links.allow(str(landing))
    (landing / "05").mkdir()
    for name in ("x.csv", "y.csv", "y.txt"):
        (landing / "05" / name).write_text(name)
    link = ga.GravelerLinkOperator(task_id="link", branch="main", source=str(landing),
                                   prefix="input/2013/01/01/", pattern="*.csv")
    found["link"] = [*tries(link), main.head.id]
    found["linked"] = {
        entry.path: [main.get(entry.path).decode(), entry.address.rpartition("/")[2], entry.size]
        for entry in main.entries("input/")
    }
    empty = lambda **more: ga.GravelerLinkOperator(
        task_id="none", branch="main", source=str(landing / "06"), prefix="input/06", **more)
    found["no files yet"] = outcome(empty())
    found["no files"] = outcome(empty(missing_ok=True))

    outcome(ga.GravelerLinkOperator(
        task_id="top", branch="main", source=str(landing), prefix="", pattern="*.txt"))
    found["at the top"] = [entry.path for entry in main.entries() if entry.path.endswith(".txt")]

    delete = ga.GravelerDeleteOperator(task_id="delete", branch="main", prefix="input/2013/01/01/05/x")
    found["delete"] = [*tries(delete), main.head.id, [e.path for e in main.entries("input/")]]

    for name in ("x", "y", "xy", "z"):
        main.put(name, b"1")
    main.commit("names")
    def without(paths):
        outcome(ga.GravelerDeleteOperator(task_id="named", branch="main", paths=paths))
        return [entry.path for entry in main.entries() if len(entry.path) < 3]
    found["delete named"] = [without("xy"), without(["y", "z"])]

    run = repo.runs.open("in a run")
    step = ga.GravelerLinkOperator(task_id="stepped", run=pack(run.handle), source=str(landing),
                                   prefix="run/input/", pattern="*.csv")
    found["step"] = [*tries(step), repo.commit(run.branch).id]
    found["step is"] = repo.commit(run.branch).metadata["graveler.step"]
    found["in the run"] = [e.path for e in repo.ref(run.branch).entries("run/")]
    found["main meanwhile"] = [e.path for e in repo.ref("main").entries("run/")]

    drop = ga.GravelerDeleteBranchOperator(task_id="drop", branch="dev")
    found["drop"] = tries(drop)
    found["drop none"] = outcome(ga.GravelerDeleteBranchOperator(task_id="none", branch="dev"))
    found["drop none ok"] = outcome(
        ga.GravelerDeleteBranchOperator(task_id="none", branch="dev", missing_ok=True))
    found["branches"] = [branch.name for branch in repo.branches()]
    found["gone"] = outcome(ga.GravelerCommitOperator(task_id="gone", branch="dev", message="x"))

    wrong = {}
    for name, make in {
        "both": lambda: ga.GravelerLinkOperator(
            task_id="t", run="r", branch="b", source="s", prefix="p"),
        "none": lambda: ga.GravelerDeleteOperator(task_id="t", branch="main"),
        "on_empty": lambda: ga.GravelerCommitOperator(task_id="t", branch="b", on_empty="pass"),
    }.items():
        try:
            make()
        except Exception as error:
            wrong[name] = str(error)
    found["wrong"] = wrong
    found["templated"] = sorted(
        f"{name} {field}" for name in ga.__all__ if name.endswith("Operator")
        for field in getattr(ga, name).template_fields
    )
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(home):
    return home.ask(PROGRAM)


def test_a_branch_is_made_once_however_often_the_task_is_tried(found):
    assert found["create"] == ["dev", "dev"]


def test_an_existing_branch_is_an_error_unless_exist_ok(found):
    assert found["elsewhere"].startswith("AirflowFailException: already-exists: branch 'dev'")
    assert "exist_ok=True" in found["elsewhere"]
    assert found["exist_ok"] == "dev"


def test_a_commit_is_made_once_and_says_which_task_made_it(found):
    first, second, head = found["commit"]
    assert first == second == head
    assert found["metadata"] == {
        "orchestrator": "airflow",
        "airflow.dag_id": "d",
        "airflow.run_id": "r1",
        "airflow.task_id": "commit",
        "airflow.try": "1",
        "hour": "2013-01-01T05:00Z",
        "source": "bts",
        "url": "https://airflow.example/log/commit",
    }


def test_a_task_links_to_its_commit_changes_and_run(found):
    commit, changes, run = found["links"]
    made = found["commit"][0]
    base = "https://airflow.example/graveler"
    assert commit == f"{base}/commit?conn=graveler_default&repo=flights&ref={made}"
    assert changes.startswith(f"{base}/diff?conn=graveler_default&repo=flights&left=")
    assert changes.endswith(f"&right={made}")
    assert run == f"{base}/runs?dag_id=d&run_id=r1"


def test_with_nothing_staged_the_task_fails_skips_or_commits(found):
    assert found["nothing to commit"].startswith("AirflowFailException: no-changes")
    assert found["nothing: skip"].startswith("AirflowSkipException")
    assert found["nothing: commit"] is True


def test_a_merge_is_made_once_and_says_which_task_made_it(found):
    first, second, head = found["merge"]
    assert first == second == head
    assert found["merge says"] == ["done", "merge"]


def test_a_merge_conflict_is_not_tried_again(found):
    assert found["conflict"].startswith("AirflowFailException: merge-conflict")


def test_a_tag_is_made_once_and_never_moved(found):
    first, second, named = found["tag"]
    assert first == second == named
    assert found["tag elsewhere"].startswith("AirflowFailException: already-exists: tag 'v1'")


def test_a_revert_is_made_once(found):
    first, second, head, paths = found["revert"]
    assert first == second == head
    assert paths == ["a"]
    assert found["nothing to revert"].startswith("AirflowFailException: no-changes")


def test_files_of_a_store_are_linked_where_they_are(found):
    first, second, head = found["link"]
    assert first == second == head
    assert found["linked"] == {
        "input/2013/01/01/05/x.csv": ["x.csv", "x.csv", 5],
        "input/2013/01/01/05/y.csv": ["y.csv", "y.csv", 5],
    }


def test_without_a_prefix_files_are_linked_by_their_own_names(found):
    assert found["at the top"] == ["05/y.txt"]


def test_files_that_are_not_there_yet_are_looked_for_again(found):
    assert found["no files yet"].startswith("ObjectNotFoundError: no file")
    assert found["no files"] is None


def test_files_are_deleted_below_a_prefix_in_one_commit(found):
    first, second, head, left = found["delete"]
    assert first == second == head
    assert left == ["input/2013/01/01/05/y.csv"]


def test_one_path_or_several_are_deleted_and_no_other(found):
    assert found["delete named"] == [["a", "x", "y", "z"], ["a", "x"]]


def test_files_in_a_run_are_a_step_that_a_second_try_replaces(found):
    first, second, head = found["step"]
    assert second == head
    assert first != second
    assert found["step is"] == "stepped"
    assert found["in the run"] == ["run/input/05/x.csv", "run/input/05/y.csv"]
    assert found["main meanwhile"] == []


def test_a_missing_branch_is_an_error_only_for_the_first_try(found):
    assert found["drop"] == [None, None]
    assert found["drop none"].startswith("AirflowFailException: ref-not-found")
    assert found["drop none ok"] is None
    assert found["branches"] == ["main"]


def test_a_task_on_a_deleted_branch_fails_without_a_retry(found):
    assert found["gone"].startswith("AirflowFailException: ref-not-found")
    assert "dev" in found["gone"]


def test_contradicting_arguments_are_refused_at_parse(found):
    assert "one of run" in found["wrong"]["both"]
    assert "one of paths and prefix" in found["wrong"]["none"]
    assert "'pass'" in found["wrong"]["on_empty"]


def test_what_names_something_is_templated(found):
    for field in (
        "GravelerCommitOperator branch",
        "GravelerCreateBranchOperator source",
        "GravelerDeleteBranchOperator branch",
        "GravelerDeleteOperator prefix",
        "GravelerLinkOperator source",
        "GravelerMergeOperator into",
        "GravelerOpenRunOperator repo",
        "GravelerPublishRunOperator run",
        "GravelerRevertOperator commit",
        "GravelerTagOperator tag",
    ):
        assert field in found["templated"]
