# mypy: ignore-errors
"""The operators on branches, commits and files: a second try does nothing twice."""

from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowSkipException

import graveler_airflow as ga
from graveler.errors import InvalidInputError, ObjectNotFoundError
from graveler_airflow.dag.handles import pack
from tests.real.airflow.played import context, final, tries

COMMITTING = {"branch": "main", "message": "more"}


def once(operator):
    """Execute a task twice; return its one result."""
    (result,) = {*tries(operator)}
    return result


def execute(operator):
    return operator.execute(context(operator.task_id))


@pytest.fixture
def main(repo):
    return repo.branch("main")


@pytest.fixture
def dev(repo, request):
    """A branch with a staged file."""
    branch = repo.create_branch(request.node.name[5:].replace("_", "-"))
    branch.put(f"{branch.name}/b", b"2")
    return branch


def paths(view, prefix=""):
    return [entry.path for entry in view.entries(prefix)]


def test_a_branch_is_made_once_and_another_task_finds_it(repo):
    made = {"branch": "new"}
    assert once(ga.GravelerCreateBranchOperator(task_id="create", **made)) == "new"
    repo.branch("new").put("new", b"1")
    repo.branch("new").commit("new")
    with final("^already-exists: branch 'new'.*exist_ok=True"):
        execute(ga.GravelerCreateBranchOperator(task_id="c", **made))
    assert execute(ga.GravelerCreateBranchOperator(task_id="c", exist_ok=True, **made)) == "new"


def test_a_commit_is_made_once_and_names_its_task(dev):
    commit = ga.GravelerCommitOperator(
        task_id="commit", branch=dev.name, message="more", metadata={"source": "bts"}
    )
    made = once(commit)
    assert made == dev.head.id
    assert dict(dev.head.metadata) == {
        "orchestrator": "airflow",
        "airflow.dag_id": "d",
        "airflow.run_id": "r1",
        "airflow.task_id": "commit",
        "airflow.try": "1",
        "hour": "2013-01-01T05:00Z",
        "source": "bts",
        "url": "https://airflow.example/log/commit",
    }
    key = SimpleNamespace(dag_id="d", run_id="r1")
    of_commit, changes, run = (
        link.get_link(commit, ti_key=key).removeprefix("https://airflow.example/graveler/")
        for link in commit.operator_extra_links
    )
    assert of_commit == f"commit?conn=graveler_default&repo=flights&ref={made}"
    assert changes.startswith("diff?conn=graveler_default&repo=flights&left=")
    assert changes.endswith(f"&right={made}")
    assert run == "runs?dag_id=d&run_id=r1"


def test_with_nothing_staged_the_task_fails_skips_or_commits(repo):
    def commit(**more):
        return execute(ga.GravelerCommitOperator(task_id="other", **COMMITTING, **more))

    with final("^no-changes"):
        commit()
    with pytest.raises(AirflowSkipException):
        commit(on_empty="skip")
    assert commit(on_empty="commit") == repo.commit("main").id


def test_a_merge_is_made_once_and_names_its_task(dev, main):
    dev.commit("b")
    merge = ga.GravelerMergeOperator(task_id="merge", source=dev.name, metadata={"why": "done"})
    assert once(merge) == main.head.id
    assert (main.head.metadata["why"], main.head.metadata["airflow.task_id"]) == ("done", "merge")


def test_a_tag_is_made_once_and_never_moved(repo, main):
    tag = ga.GravelerTagOperator(task_id="tag", tag="v1")
    assert once(tag) == repo.tags.list()["v1"]
    main.put("after the tag", b"1")
    main.commit("after the tag")
    with final("^already-exists: tag 'v1'"):
        execute(tag)


def test_a_revert_is_made_once(main):
    main.put("reverted", b"1")
    wrong = main.commit("wrong").id
    assert once(ga.GravelerRevertOperator(task_id="revert", commit=wrong)) == main.head.id
    assert not main.exists("reverted")
    with final("^no-changes"):
        execute(ga.GravelerRevertOperator(task_id="again", commit=wrong))


@pytest.fixture
def landing(repo, tmp_path):
    repo.links.allow(str(tmp_path))
    (tmp_path / "05").mkdir()
    for name in ("x.csv", "y.csv", "y.txt"):
        (tmp_path / "05" / name).write_text(name)
    return tmp_path


def linking(landing, *, at="", task_id="link", **given):
    return ga.GravelerLinkOperator(task_id=task_id, source=f"{landing}{at}", **given)


def test_files_of_a_store_are_linked_where_they_are(landing, main):
    link = linking(landing, branch="main", prefix="linked/", pattern="*.csv")
    assert once(link) == main.head.id
    for name in ("x.csv", "y.csv"):
        entry = main.stat(f"linked/05/{name}")
        assert main.get(entry.path).decode() == entry.address.rpartition("/")[2] == name
        assert entry.size == 5
    assert paths(main, "linked/") == ["linked/05/x.csv", "linked/05/y.csv"]
    execute(linking(landing, branch="main", prefix="", pattern="*.txt"))
    assert main.exists("05/y.txt")


def test_missing_files_are_retried(landing):
    missing = {"at": "/06", "branch": "main", "prefix": "input/06", "task_id": "none"}
    with pytest.raises(ObjectNotFoundError, match=r"^no file"):
        execute(linking(landing, **missing))
    assert execute(linking(landing, **missing, missing_ok=True)) is None


def test_files_are_deleted_by_prefix_or_path_in_one_commit(main):
    for name in ("x", "xy", "y", "z"):
        main.put(f"deleted/{name}", b"1")
    main.commit("names")

    def delete(**given):
        operator = ga.GravelerDeleteOperator(task_id="delete", branch="main", **given)
        assert once(operator) == main.head.id
        return paths(main, "deleted/")

    assert delete(paths="deleted/xy") == ["deleted/x", "deleted/y", "deleted/z"]
    main.put("deleted/xy", b"1")
    main.commit("again")
    later = ga.GravelerDeleteOperator(task_id="two", branch="main", prefix="deleted/x")
    assert once(later) == main.head.id
    several = [f"deleted/{name}" for name in "yz"]
    once(ga.GravelerDeleteOperator(task_id="named", branch="main", paths=several))
    assert paths(main, "deleted/") == []


def test_files_in_a_run_are_a_step_that_a_second_try_replaces(repo, landing):
    run = repo.runs.open("in a run")
    step = linking(landing, run=pack(run.handle), prefix="run/input/", pattern="*.csv")
    first, second = tries(step)
    assert first != second == repo.commit(run.branch).id
    assert repo.commit(run.branch).metadata["graveler.step"] == "link"
    assert paths(repo.ref(run.branch), "run/") == [f"run/input/05/{name}.csv" for name in "xy"]
    assert paths(repo.ref("main"), "run/") == []


def test_a_missing_branch_is_an_error_only_for_the_first_try(repo, dev):
    assert once(ga.GravelerDeleteBranchOperator(task_id="drop", branch=dev.name)) is None
    assert dev.name not in [branch.name for branch in repo.branches()]
    with final("^ref-not-found"):
        execute(ga.GravelerDeleteBranchOperator(task_id="none", branch=dev.name))
    missing = ga.GravelerDeleteBranchOperator(task_id="none", branch=dev.name, missing_ok=True)
    assert execute(missing) is None


@pytest.mark.parametrize(
    ("kind", "given", "says"),
    [
        (ga.GravelerLinkOperator, {"run": "r", "branch": "b", "source": "s"}, "one of run"),
        (ga.GravelerDeleteOperator, {"branch": "main"}, "one of paths and prefix"),
        (ga.GravelerCommitOperator, {"branch": "b", "on_empty": "pass"}, "'pass'"),
    ],
)
def test_contradicting_arguments_are_refused_at_parse(kind, given, says):
    with pytest.raises(InvalidInputError, match=says):
        kind(task_id="t", **given, **({"prefix": "p"} if "source" in given else {}))


CLASSES = [getattr(ga, name) for name in ga.__all__ if name.endswith(("Operator", "Sensor"))]


def test_what_names_something_is_templated():
    templated = {f"{kind.__name__} {field}" for kind in CLASSES for field in kind.template_fields}
    assert templated >= {
        "GravelerCommitOperator branch",
        "GravelerCreateBranchOperator source",
        "GravelerDeleteBranchOperator branch",
        "GravelerDeleteOperator prefix",
        "GravelerLinkOperator source",
        "GravelerMergeOperator into",
        "GravelerOpenRunOperator repo",
        "GravelerPublishRunOperator run",
        "GravelerRevertOperator branch",
        "GravelerIngestSensor into",
        "GravelerTagOperator tag",
    }
    of_a_run = {f"Graveler{act}Operator" for act in ("Gate", "PublishRun", "CloseRun")}
    names = {field.partition(" ")[0] for field in templated}
    assert {name for name in names if f"{name} graveler_conn_id" not in templated} == of_a_run


def test_mappings_are_rendered_as_json():
    as_text = {
        f"{kind.__name__} {field}"
        for kind in CLASSES
        for field in {"metadata", "paths", "run"} & {*kind.template_fields}
        if field not in kind.template_fields_renderers
    }
    assert as_text == {"GravelerRollbackOperator run"}  # a run's key
