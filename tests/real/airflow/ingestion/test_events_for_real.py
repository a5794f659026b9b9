"""A real triggerer: which commits it reports, also after a restart, and which tasks it wakes."""

import pytest

import graveler

STARTING = ("commit", "file", "named")
"""The sensors of the DAG `starting`."""


@pytest.fixture(scope="module")
def reported(airflow, home, lake_of_the_module):
    """The events of commits that were made with a running triggerer and without one."""
    lake, made = lake_of_the_module, []

    def commit(path):
        main = lake.repository("watched").branch("main")
        main.put(path, path.encode())
        made.append(main.commit(path, metadata={"hour": "2013-01-01T05:00Z"}).id)

    def events():
        results = airflow.call("GET", "/api/v2/assets/events?limit=100")["asset_events"]
        in_order = sorted(results, key=lambda event: event["id"])
        payloads = [event["extra"].get("payload", {}) for event in in_order]
        return [each["commit"] for each in payloads if each.get("repository") == "watched"]

    def all_told():
        return {*made} <= {*events()}

    with home.service("triggerer"):
        run_id = airflow.trigger("waiting")

        def waits():
            return airflow.tasks("waiting", run_id)["wait"][0] == "deferred"

        airflow.wait(waits, "the sensor to defer")
        start_id = airflow.trigger("starting")

        def started():
            tasks = airflow.tasks("starting", start_id)
            return {tasks[name][0] for name in STARTING} == {"deferred"}

        airflow.wait(started, "the sensors to start in the triggerer")
        processes = airflow.processes("starting", start_id)
        in_workers = {name: processes[name] for name in STARTING}
        lake.create_repository("watched")
        for number in range(3):
            commit(f"input/{number}")
        commit("starting/1")
        airflow.wait(all_told, "four events")
        ended = airflow.finished("starting")
    for path in ("waited/1", "input/3"):
        commit(path)
    with home.service("triggerer"):
        airflow.wait(all_told, "six events")
        states = airflow.finished("waiting")
    return made, events(), states, (in_workers, ended)


@pytest.fixture(scope="module")
def lake_of_the_module(home):
    with graveler.open(home.lake) as lake:
        yield lake


def test_every_commit_is_an_asset_event_in_order_none_is_lost(reported):
    made, events, *_ = reported
    assert len(made) == 6
    assert list(dict.fromkeys(events)) == made  # a triggerer that dies may report a commit again


def test_a_deferred_task_resumes_for_a_commit_missed_meanwhile(reported, home):
    _, _, states, _ = reported
    assert list(states.values()) == ["success"]
    assert (home.marks / "waited for").read_text() == "waited/1"


def test_a_sensor_can_start_and_wait_without_a_worker(reported):
    *_, (in_workers, ended) = reported
    assert in_workers == dict.fromkeys(STARTING)
    assert list(ended.values()) == ["success"]


def test_what_a_sensor_waits_for_may_come_from_an_xcom(reported, home):
    assert (home.marks / "named").read_text() == "starting/1"
