# mypy: ignore-errors
# Contexts and tasks replace Airflow's own types.
"""Ticks of an ingestion branch, and the sensor that waits for them; prints the outcomes."""

import asyncio
import json
import os
import tempfile
from contextlib import aclosing
from datetime import UTC, datetime
from types import SimpleNamespace

from airflow.sdk.exceptions import TaskDeferred

import graveler
import graveler_airflow as ga

folder = tempfile.mkdtemp()
os.environ["AIRFLOW__API__BASE_URL"] = "https://airflow.example/"
os.environ["AIRFLOW_CONN_GRAVELER_DEFAULT"] = json.dumps({"conn_type": "graveler", "host": folder})
results = {}


@graveler.gate
def no_bad_file(candidate):
    return not any(c.after and c.path.endswith(".bad") for c in candidate.changes())


def context(task_id, hour, tried=1):
    ti = SimpleNamespace(
        task_id=task_id,
        map_index=-1,
        try_number=tried,
        run_id="r1",
        log_url="https://airflow.example/log",
    )
    moment = datetime(2013, 1, 1, hour, tzinfo=UTC)
    run = SimpleNamespace(dag_id="d", run_id="r1", run_after=moment, start_date=moment)
    return {"ti": ti, "dag_run": run}


def outcome(operator, hour, tried=1):
    try:
        return operator.execute(context(operator.task_id, hour, tried))
    except TaskDeferred as deferred:
        return deferred
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def ticking(on_refusal):
    return ga.GravelerIngestOperator(
        task_id="tick", repo="flights", gates=[no_bad_file], on_refusal=on_refusal
    )


sensor = ga.GravelerIngestSensor(
    task_id="wait", repo="flights", deferrable=True, poke_interval=0.02, timeout=60
)


async def first(trigger):
    async with aclosing(trigger.run()) as events:
        async for event in events:
            return event.payload
    return None


with graveler.open(folder, create=True) as lake:
    repo = lake.create_repository("flights")
    results["nothing yet"] = repo.ingestion().hour("2013-01-01T05:00Z")
    deferred = outcome(sensor, 5)
    name, arguments = deferred.trigger.serialize()
    results["trigger"] = [name, arguments]
    again = type(deferred.trigger)(**arguments)
    branch = repo.ingestion().branch
    branch.put("input/2013/01/01/05:00/a", b"1")
    tick = ticking("hold")
    results["published"] = [outcome(tick, 5), outcome(tick, 5, 2)]
    results["head"] = repo.commit("main").id
    results["metadata"] = dict(repo.commit("main").metadata)
    results["link"] = tick.operator_extra_links[0].get_link(
        tick, ti_key=SimpleNamespace(dag_id="d", run_id="r1")
    )
    results["event"] = asyncio.run(first(again))
    results["waited"] = outcome(sensor, 5)

    branch.put("input/2013/01/01/06:00/x.bad", b"1")
    results["held"] = outcome(ticking("hold"), 6)
    results["held: not published"] = type(outcome(sensor, 6)).__name__
    results["behind it"] = [outcome(ticking("hold"), 10), type(outcome(sensor, 10)).__name__]
    branch.delete("input/2013/01/01/06:00/x.bad")
    results["mended"] = outcome(ticking("hold"), 6, 2)["state"]
    results["behind it, mended"] = [
        outcome(ticking("hold"), 10, 2)["state"],
        outcome(sensor, 10)["commit"],
    ]

    branch.put("input/2013/01/01/07:00/x.bad", b"1")
    results["quarantined"] = outcome(ticking("quarantine"), 7)
    release = ga.GravelerReleaseOperator(
        task_id="release",
        repo="flights",
        name=results["quarantined"]["quarantined"][0],
        gates=[no_bad_file],
    )
    results["refused"] = outcome(release, 8)
    release.gates = ()
    results["released"] = [outcome(release, 8), outcome(release, 8, 2)]
    results["released head"] = repo.commit("main").id
    results["empty"] = outcome(ticking("hold"), 9)
    results["waited for empty"] = outcome(sensor, 9)
print(json.dumps(results))
