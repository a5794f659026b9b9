"""The operators on branches, commits and files: a second try does nothing twice."""

import pytest


@pytest.fixture(scope="module")
def results(home):
    return home.ask("repository_operators")


def test_a_branch_is_made_once_however_often_the_task_is_tried(results):
    assert results["create"] == ["dev", "dev"]


def test_an_existing_branch_is_an_error_unless_exist_ok(results):
    assert results["elsewhere"].startswith("AirflowFailException: already-exists: branch 'dev'")
    assert "exist_ok=True" in results["elsewhere"]
    assert results["exist_ok"] == "dev"


def test_a_commit_is_made_once_and_names_its_task(results):
    first, second, head = results["commit"]
    assert first == second == head
    assert results["metadata"] == {
        "orchestrator": "airflow",
        "airflow.dag_id": "d",
        "airflow.run_id": "r1",
        "airflow.task_id": "commit",
        "airflow.try": "1",
        "hour": "2013-01-01T05:00Z",
        "source": "bts",
        "url": "https://airflow.example/log/commit",
    }


def test_a_task_links_to_its_commit_changes_and_run(results):
    commit, changes, run = results["links"]
    made = results["commit"][0]
    base = "https://airflow.example/graveler"
    assert commit == f"{base}/commit?conn=graveler_default&repo=flights&ref={made}"
    assert changes.startswith(f"{base}/diff?conn=graveler_default&repo=flights&left=")
    assert changes.endswith(f"&right={made}")
    assert run == f"{base}/runs?dag_id=d&run_id=r1"


def test_with_nothing_staged_the_task_fails_skips_or_commits(results):
    assert results["nothing to commit"].startswith("AirflowFailException: no-changes")
    assert results["nothing: skip"].startswith("AirflowSkipException")
    assert results["nothing: commit"] is True


def test_a_merge_is_made_once_and_names_its_task(results):
    first, second, head = results["merge"]
    assert first == second == head
    assert results["merge says"] == ["done", "merge"]


def test_a_merge_conflict_is_not_tried_again(results):
    assert results["conflict"].startswith("AirflowFailException: merge-conflict")


def test_a_tag_is_made_once_and_never_moved(results):
    first, second, named = results["tag"]
    assert first == second == named
    assert results["tag elsewhere"].startswith("AirflowFailException: already-exists: tag 'v1'")


def test_a_revert_is_made_once(results):
    first, second, head, paths = results["revert"]
    assert first == second == head
    assert paths == ["a"]
    assert results["nothing to revert"].startswith("AirflowFailException: no-changes")


def test_files_of_a_store_are_linked_where_they_are(results):
    first, second, head = results["link"]
    assert first == second == head
    assert results["linked"] == {
        "input/2013/01/01/05/x.csv": ["x.csv", "x.csv", 5],
        "input/2013/01/01/05/y.csv": ["y.csv", "y.csv", 5],
    }


def test_without_a_prefix_files_are_linked_by_their_own_names(results):
    assert results["at the top"] == ["05/y.txt"]


def test_missing_files_are_retried(results):
    assert results["no files yet"].startswith("ObjectNotFoundError: no file")
    assert results["no files"] is None


def test_files_are_deleted_below_a_prefix_in_one_commit(results):
    first, second, head, left = results["delete"]
    assert first == second == head
    assert left == ["input/2013/01/01/05/y.csv"]


def test_one_path_or_several_are_deleted_and_no_other(results):
    assert results["delete named"] == [["a", "x", "y", "z"], ["a", "x"]]


def test_files_in_a_run_are_a_step_that_a_second_try_replaces(results):
    first, second, head = results["step"]
    assert second == head
    assert first != second
    assert results["step is"] == "stepped"
    assert results["in the run"] == ["run/input/05/x.csv", "run/input/05/y.csv"]
    assert results["main meanwhile"] == []


def test_a_missing_branch_is_an_error_only_for_the_first_try(results):
    assert results["drop"] == [None, None]
    assert results["drop none"].startswith("AirflowFailException: ref-not-found")
    assert results["drop none ok"] is None
    assert results["branches"] == ["main"]


def test_a_task_on_a_deleted_branch_fails_without_a_retry(results):
    assert results["gone"].startswith("AirflowFailException: ref-not-found")
    assert "dev" in results["gone"]


def test_contradicting_arguments_are_refused_at_parse(results):
    assert "one of run" in results["wrong"]["both"]
    assert "one of paths and prefix" in results["wrong"]["none"]
    assert "'pass'" in results["wrong"]["on_empty"]


def test_what_names_something_is_templated(results):
    for field in (
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
    ):
        assert field in results["templated"]
    of_a_run = {f"Graveler{act}Operator" for act in ("Gate", "PublishRun", "CloseRun")}
    operators = {field.partition(" ")[0] for field in results["templated"]}
    assert {
        name for name in operators if f"{name} graveler_conn_id" not in results["templated"]
    } == of_a_run


def test_mappings_are_rendered_as_json(results):
    assert results["as text"] == ["GravelerRollbackOperator run"]  # a run's key
