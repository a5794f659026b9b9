"""The comparison of what an orchestrator shows with main finds each kind of difference."""

import dagster as dg
import pytest

import graveler
from tests.real.chaos.orchestrators import airflow_shown, dagster_shown

HOUR = "2013-01-01T01:00"
KEY = f"dagster hours_job {HOUR}"


@pytest.fixture
def repo(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        yield lake.create_repository("hours")


def publish(repo, key, text=b"1"):
    with repo.run(key, metadata={"hour": f"{HOUR}Z"}) as run:
        run.put(f"left/{key}", text)
    return repo.commit("main").id


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as made:
        yield made


ASSETS = ("ingest", "left", "right", "curate")


def materialized(instance, attempt, asset="left"):
    metadata = {"graveler/run": KEY, "graveler/attempt": attempt}
    instance.report_runless_asset_event(
        dg.AssetMaterialization(asset, partition=HOUR, metadata=metadata)
    )


def observed(instance, commit, assets=ASSETS):
    metadata = {"graveler/run": KEY, "graveler/attempt": 1, "graveler/published_as": commit}
    for asset in assets:
        instance.report_runless_asset_event(
            dg.AssetObservation(asset, partition=HOUR, metadata=metadata)
        )


def test_a_log_that_shows_what_main_has_is_right(repo, instance):
    assert dagster_shown.compare(instance, repo) == []
    commit = publish(repo, KEY)
    for asset in ASSETS:
        materialized(instance, 1, asset)
    observed(instance, commit)
    materialized(instance, 2)
    assert dagster_shown.compare(instance, repo) == []


def test_a_publish_that_dagster_does_not_show_is_seen(repo, instance):
    publish(repo, KEY)
    materialized(instance, 1)
    wrong = dagster_shown.compare(instance, repo)
    assert len(wrong) == len(ASSETS)
    assert any("shows attempt 1 as not published" in line for line in wrong)
    assert sum("Dagster shows nothing" in line for line in wrong) == 3


def test_another_commit_than_that_of_main_is_seen(repo, instance):
    observed(instance, publish(repo, KEY))
    publish(repo, KEY, b"2")
    wrong = dagster_shown.compare(instance, repo)
    assert ["of attempt 2" in line for line in wrong] == [True] * len(ASSETS)
    repo.branch("main").reset("main~2")
    assert all("main has nothing" in line for line in dagster_shown.compare(instance, repo))


def event(key, commit):
    return {"extra": {"run": key, "commit": commit, "changed": True}}


def test_events_and_merges_that_agree_with_main_are_right(repo):
    events = [event(key, publish(repo, key)) for key in ("hours a", "chained a", "chained b")]
    keys = [one["extra"]["run"] for one in events]
    assert airflow_shown.compare(repo, events, keys, ()) == []
    assert airflow_shown.compare(repo, events[1:], keys, ["hours a"]) == []


@pytest.mark.parametrize(
    ("events", "merged", "said"),
    [
        (["hours a"], [], "no merge of it was successful"),
        ([], ["hours a"], "no event names it"),
        (["hours b"], ["hours a"], "a commit of 'hours a'"),
    ],
)
def test_events_and_merges_that_differ_are_seen(repo, events, merged, said):
    commit = publish(repo, "hours a")
    wrong = airflow_shown.compare(repo, [event(key, commit) for key in events], merged, ())
    assert any(said in line for line in wrong)


def test_an_hour_that_did_not_wait_for_the_one_before_is_seen(repo):
    keys = ["chained b", "chained a"]
    events = [event(key, publish(repo, key)) for key in keys]
    (wrong,) = airflow_shown.compare(repo, events, keys, ())
    assert "before those that they depend on" in wrong
