"""Assets and their addresses, as Airflow normalises them when it parses DAG files."""

import json
import sys

import pytest

from tests.real.airflow.home import ROOT


@pytest.fixture(scope="module")
def results(home):
    program = ROOT / "tests/real/airflow/programs/assets.py"
    return json.loads(home.run(sys.executable, program).splitlines()[-1])


def test_an_asset_is_watched_by_a_trigger_of_its_own(results):
    uri, (path, kwargs) = results["asset"]
    assert uri == "grav://flights/dev/input"
    assert path == "graveler_airflow.triggers.GravelerCommitTrigger"
    assert (kwargs["repo"], kwargs["ref"], kwargs["prefix"]) == ("flights", "dev", "input/")
    assert kwargs["asset"] == "x"  # each asset of a branch has its own cursor
    assert "begun" not in kwargs  # with it each parse of the file would make a new trigger


def test_an_asset_with_events_of_tasks_is_not_watched(results):
    assert results["not watched"] == 0


def test_an_asset_of_partitions_is_another_one(results):
    assert results["by partition"] == "grav://flights/main/input?by=partition"


def test_the_lake_of_another_connection_is_another_asset(results):
    assert results["other lake"] == "grav://other@flights/main"


def test_addresses_of_one_thing_are_one(results):
    assert set(results["one form"]) == {"grav://flights/main/input/2013/01/01/05:00"}


def test_addresses_without_repository_and_branch_are_refused(results):
    assert [kind for kind, _ in results["wrong"]] == ["ValueError"] * 4
    assert "grav://repository/ref/prefix" in results["wrong"][0][1]
    assert "?by=partition" in results["wrong"][2][1]


def test_a_branch_name_that_cannot_be_is_refused(results):
    assert results["wrong branch"][0] == "InvalidInputError"


def test_what_a_hook_touched_is_an_asset_as_well(results):
    assert results["made"] == "grav://flights/main/a%20b"
