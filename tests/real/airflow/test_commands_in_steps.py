"""Bash in steps of a run."""

import pytest


@pytest.fixture(scope="module")
def results(home):
    return home.ask("commands_in_steps")


def test_a_bash_operator_works_in_a_step(results):
    assert results["joined"][1] == ["a.csv"]
    assert results["metadata"] == ["joined", "joined"]


def test_a_bash_operator_that_fails_leaves_nothing(results):
    message, files = results["failed"]
    assert "non-zero exit code 3" in message
    assert files == ["a.csv"]


def test_a_retry_has_its_number_in_the_commit(results):
    assert (results["retried"][1], results["tries"]) == (["a.csv", "c.csv"], "2")


def test_a_command_outside_of_exec_is_refused(results):
    message, files = results["outside"]
    assert "non-zero exit code 2" in message
    assert files == ["a.csv", "c.csv"]


def test_a_decorated_command_works_in_its_step(results):
    url, files = results["decorated"]
    assert url.startswith("grav://flights/run-commands-r1-")
    assert files == ["a.csv", "c.csv", "d.csv"]


def test_a_decorated_command_that_fails_leaves_nothing(results):
    files = ["a.csv", "c.csv", "d.csv"]
    failure = "AirflowException: the command exited with 5: its work is dropped"
    assert results["decorated failed"] == [failure, files]
    assert results["decorated skipped"][0].startswith("AirflowSkipException")
    assert results["decorated skipped"][1] == files


@pytest.mark.parametrize(("kind", "name"), [("external", "g"), ("virtualenv", "v")])
def test_a_function_in_another_environment_works_in_a_step(results, kind, name):
    metadata, files = results[kind]
    assert metadata == name
    assert f"{name}.csv" in files


def test_the_task_that_opens_the_run_is_upstream(results):
    assert results["upstream"] == ["open_run"]


def test_a_stale_run_is_refused(results):
    assert "non-zero exit code 1" in results["stale"][0]
