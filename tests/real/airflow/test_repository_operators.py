"""The operators on branches, commits and files: each does it, and a second try does it once."""

import pytest


@pytest.fixture(scope="module")
def found(home):
    return home.ask("repository_operators")


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
