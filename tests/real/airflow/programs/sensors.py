"""Runs sensors on a real lake, and prints their results. It runs in a separate Airflow."""

import json
import sys
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow.sdk.exceptions import AirflowRescheduleException, AirflowSkipException, TaskDeferred
from airflow.sdk.execution_time.context import OutletEventAccessors

import graveler
from graveler.base.clock import SystemClock
from graveler.errors import InvalidInputError
from graveler.lake import Repository
from graveler_airflow import (
    GravelerCommitSensor,
    GravelerObjectSensor,
    GravelerPartitionsOperator,
    graveler_asset,
    graveler_partitions,
)

CLOCK = SystemClock()
CONN = {"graveler_conn_id": "watched"}


def outcome(act):
    try:
        return act()
    except Exception as error:
        return [type(error).__name__, str(error)]


def context(begun: datetime) -> Any:
    """Return the context of a task, in any process, for a DAG run that began at `begun`."""
    ti = SimpleNamespace(get_first_reschedule_date=lambda _: None)
    return {"ti": ti, "dag_run": SimpleNamespace(start_date=begun, run_after=begun)}


def commit(repository: Repository, path: str, **metadata: str) -> str:
    main = repository.branch("main")
    main.put(path, path.encode())
    return main.commit(f"adds {path}", metadata=metadata).id


def sensor(kind=GravelerCommitSensor, repo: str = "flights", **kwargs: Any):
    return kind(task_id="wait", repo=repo, **CONN, **kwargs)


def commits(flights: Repository):
    before = commit(flights, "before")
    begun = context(CLOCK.now())
    yield "nothing yet", sensor(deferrable=False).poke(begun).is_done
    made = [commit(flights, f"input/{n}", hour=f"2013-01-01T0{n}:00Z") for n in range(2)]
    yield "made", [before, *made]
    yield "range", sensor(deferrable=False).execute(begun)
    made += [commit(flights, "output/1")]
    yield "prefix", sensor(deferrable=False, prefix="output/").execute(begun)
    yield "since", sensor(deferrable=False, since=made[0]).execute(begun)
    yield "elsewhere", sensor(deferrable=False, prefix="no/").poke(begun).is_done
    yield "wrong", outcome(lambda: sensor(deferrable=False, since="unknown").execute(begun))
    yield "missing", sensor(repo="trains", deferrable=False).poke(begun).is_done


def turns(flights: Repository):
    """Each turn of a rescheduled sensor is a separate process. Here it is a separate object."""
    begun = context(CLOCK.now())

    def turn():
        return sensor(mode="reschedule", deferrable=False).execute(begun)

    try:
        turn()
    except AirflowRescheduleException:
        between = commit(flights, "between two turns")
        yield "turns", [between, turn()]


def watched_by_task():
    return sensor(deferrable=False).output


def deferrals(flights: Repository):
    begun = context(CLOCK.now())
    for name, kind, kwargs in (
        ("commits", GravelerCommitSensor, {"prefix": "deferred/"}),
        ("files", GravelerObjectSensor, {"prefix": "deferred/"}),
    ):
        waiting = sensor(kind, deferrable=True, poke_interval=7, timeout=70, **kwargs)
        try:
            waiting.execute(begun)
        except TaskDeferred as deferred:
            again = getattr(waiting, deferred.method_name)
            yield (
                f"deferred {name}",
                {
                    "trigger": deferred.trigger.serialize(),
                    "timeout": getattr(deferred.timeout, "seconds", None),
                    "returns": again(begun, {"to": "x"}),
                    "begun": begun["dag_run"].start_date.isoformat(),
                },
            )
    commit(flights, "deferred/1")
    starting: Any = {"deferrable": True, "start_from_trigger": True}
    yield "starting with a task", outcome(lambda: sensor(since=watched_by_task(), **starting))
    yield "starting", sensor(prefix="{{ ds }}/", **starting).start_trigger_args.trigger_kwargs
    yield "not starting", sensor(start_from_trigger=True, deferrable=False).start_from_trigger
    yield "not deferred", sensor(deferrable=True, prefix="deferred/").execute(begun)["to"]


def files(flights: Repository):
    begun = context(CLOCK.now())
    first = commit(flights, "landed/1")
    few = sensor(GravelerObjectSensor, prefix="landed/", at_least=2, deferrable=False)
    yield "too few", few.poke(begun).is_done
    second = commit(flights, "landed/2")
    results = few.execute(begun)
    commit(flights, "landed/3")
    pinned = [entry.path for entry in flights.ref(results["commit"]).entries("landed/")]
    yield "files", [second, results, pinned]
    one = sensor(GravelerObjectSensor, prefix="landed/1", deferrable=False)
    yield "one file", one.execute(begun)["paths"]
    new = sensor(GravelerObjectSensor, prefix="landed/", since=first, deferrable=False)
    yield "new files", new.execute(begun)["paths"]
    yield (
        "none",
        outcome(lambda: sensor(GravelerObjectSensor, prefix="landed/", at_least=0)),
    )


def partitions(flights: Repository):
    watched = graveler_asset("flights", "flights", graveler_conn_id="watched")
    hours = graveler_partitions("flights by hour", "flights", graveler_conn_id="watched")
    operator = GravelerPartitionsOperator(task_id="hours", outlets=[hours])
    reported = [
        {"commit": "a", "metadata": {"hour": "2013-01-01T05:00Z"}},
        {
            "commit": "b",
            "metadata": {"airflow.partition_key": "north", "hour": "2013-01-01T05:00Z"},
        },
        {"commit": "c", "metadata": {"hour": "2013-01-01T06:30+01:00"}},
        {
            "commit": "g",
            "metadata": {
                "graveler.ingest": "ingest",
                "airflow.partition_key": "2013-01-01T09:00:00",
                "hour": "2013-01-01T09:00Z",
                "hours": "3",
            },
            "hours": {
                "on-time": ["2013-01-01T09:00"],
                "late": ["2013-01-01T05:00", "2013-01-01T08:00"],
                "deleted": ["2013-01-01T01:00"],
            },
        },
        {"commit": "d", "metadata": {"hour": "soon"}},
        {"commit": "e", "metadata": {}},
    ]

    def run(payloads, *others):
        events = [SimpleNamespace(extra={"payload": each}) for each in payloads]
        events += [SimpleNamespace(extra=each) for each in others]
        reported = OutletEventAccessors()
        known: Any = {"triggering_asset_events": {watched: events}, "outlet_events": reported}
        return operator.execute(known), reported[hours]

    published = {"commit": "f", "hour": "2013-01-01T07:00Z"}  # the event of a run's own publish
    returned, accessor = run(reported, published, {"from": "another process"})
    yield "partitions", [returned, sorted(accessor.partition_keys), accessor.extra]
    kept, operator = (
        operator,
        GravelerPartitionsOperator(task_id="chosen", outlets=[hours], hours=["deleted"]),
    )
    yield "chosen hours", sorted(run(reported[3:4])[0])
    operator = GravelerPartitionsOperator(task_id="few", outlets=[hours], most=2)
    yield "too many", outcome(lambda: run(reported[3:4]))
    operator = kept
    gone = {**reported[3], "partitions": [], "expired": "its tree is gone"}
    yield "expired", outcome(lambda: run([gone]))
    try:
        run(reported[4:])
    except AirflowSkipException as skipped:
        yield "no partitions", str(skipped)
    try:
        GravelerPartitionsOperator(task_id="nowhere")
    except InvalidInputError as error:
        yield "no outlet", str(error)


def main(folder: Path) -> dict[str, Any]:
    results: dict[str, Any] = {}
    with graveler.open(folder, create=True) as lake:
        flights = lake.create_repository("flights")
        for part in (commits, turns, deferrals, files, partitions):
            results |= dict(part(flights))
    return results


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(main(Path(sys.argv[1]))) + "\n")
