# mypy: ignore-errors
# Contexts and tasks replace Airflow's own types.
"""The operators of a run, with right and wrong use; prints the outcomes."""

import dataclasses
import json
import logging
import os
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import structlog
from airflow.sdk import DAG, Asset, AssetAlias
from structlog.testing import capture_logs

import graveler
from graveler.errors import BackendUnavailableError, ThrottledError
from graveler.refs.mover import remove
from graveler_airflow import (
    GravelerCloseRunOperator,
    GravelerGateOperator,
    GravelerMaintainOperator,
    GravelerPublishRunOperator,
    GravelerReapOperator,
    GravelerRollbackOperator,
    graveler_run,
    graveler_task,
)
from graveler_airflow.dag.handles import pack
from graveler_airflow.hook import final_failures

states = {"r1": {"a": "failed", "b": "success"}}
ti = SimpleNamespace(
    task_id="work",
    map_index=-1,
    try_number=1,
    run_id="r1",
    run_after=datetime(2013, 1, 1, tzinfo=UTC),
    xcom_push=lambda key, value: None,
    log_url="",
    get_task_states=lambda dag_id, run_ids, task_ids=None: states,
)
context = {
    "ti": ti,
    "dag": DAG("d"),
    "dag_run": SimpleNamespace(dag_id="d", run_id="r1", run_after=ti.run_after),
    "outlet_events": {},
}
results = {}


def outcome(act):
    try:
        result = act()
        return [type(result).__name__, result if isinstance(result, str) else ""]
    except Exception as error:
        return [type(error).__name__, str(error)]


def len_of(step):
    return len(list(step.entries()))


def merge(run, *gates):
    return GravelerPublishRunOperator(task_id="merge", run=pack(run.handle), gates=gates)


def close(run):
    return GravelerCloseRunOperator(task_id="close", run=pack(run.handle))


class Lines(logging.Handler):
    """The messages of the tasks' logs."""

    def __init__(self):
        super().__init__(logging.INFO)
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


logs = Lines()
logging.getLogger().addHandler(logs)
logging.getLogger().setLevel(logging.INFO)
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))

folder = tempfile.mkdtemp()
os.environ["AIRFLOW_CONN_GRAVELER_DEFAULT"] = json.dumps({"conn_type": "graveler", "host": folder})
with graveler.open(folder, create=True) as lake:
    repo = lake.create_repository("flights")

    def opened(key, path="f", body=b"x", **terms):
        run = repo.runs.open(key, **terms)
        with run.step("s") as step:
            step.put(path, body)
        return run

    twice = merge(opened("twice"))
    results["twice"] = [twice.execute(context), twice.execute(context), repo.commit("main").id]

    class Events(dict):
        """The events of the outlets of a task."""

        def __missing__(self, asset):
            self[asset] = SimpleNamespace(extra=None, added=[])
            self[asset].add = lambda about, extra: self[asset].added.append([about.uri, extra])
            return self[asset]

    def events_of(run):
        outlets = [Asset("main", "grav://flights/main"), AssetAlias("any")]
        task = GravelerPublishRunOperator(task_id="merge", run=pack(run.handle), outlets=outlets)
        known = Events()
        task.execute({**context, "outlet_events": known})
        plain, alias = (known[outlet] for outlet in outlets)
        return [plain.extra, alias.added, repo.commit("main").id, point_of(task)]

    def point_of(task):
        return [*vars(task).get("graveler_addresses", ())] != []

    results["events"] = [events_of(opened("event", "e")), events_of(repo.runs.open("nothing"))]
    again = opened("event", "e")
    results["events"] += [events_of(again), events_of(again)]

    refused = opened("refused", "g")
    results["gate"] = outcome(lambda: merge(refused, lambda candidate: "no").execute(context))
    results["after the gate"] = outcome(lambda: close(refused).execute(context))

    late = opened("clash", "h", b"1")
    merge(opened("other", "h", b"2")).execute(context)
    results["conflict"] = outcome(lambda: merge(late).execute(context))

    stale = opened("again", "i")
    repo.runs.open("again")
    results["stale merge"] = outcome(lambda: merge(stale).execute(context))
    results["stale close"] = [close(stale).execute(context), repo.runs.get("again").attempt]

    failed = opened("failed", "j")
    results["close"] = [outcome(lambda: close(failed).execute(context)) for _ in range(2)]
    results["reason"] = repo.runs.get("failed").reason
    dropped = opened("dropped", "k", on_failure="drop")
    results["drop"] = [outcome(lambda: close(dropped).execute(context)) for _ in range(2)]
    skipped = opened("skipped", "v")
    states["r1"] = {"a": "skipped", "merge": "skipped", "b": "success"}
    results["skip"] = outcome(lambda: close(skipped).execute(context))
    states["r1"] = {"a": "failed", "b": "success"}

    # bad input: handles without their run, branch, repository or lake
    gone = opened("gone", "l")
    repo.runs.abandon("gone")
    results["abandoned"] = [outcome(lambda: act(gone).execute(context)) for act in (merge, close)]  # noqa: B023
    cut = opened("cut", "m")
    handle = cut.handle
    remove(repo.stores.refs, handle.branch, lambda _: True)
    results["branch deleted"] = outcome(lambda: merge(cut).execute(context))
    again = opened("cut", "m")
    results["and the next attempt"] = merge(again).execute(context) == repo.commit("main").id
    elsewhere = tempfile.mkdtemp()
    with graveler.open(elsewhere, create=True) as other_lake:
        foreign = other_lake.create_repository("flights").runs.open("cut")
    other_lake = GravelerPublishRunOperator(task_id="m", run=pack(foreign.handle))
    moved = dataclasses.replace(foreign.handle, location=lake.location)
    results["foreign"] = outcome(
        lambda: GravelerPublishRunOperator(task_id="m", run=pack(moved)).execute(context)
    )
    unknown = dataclasses.replace(moved, repository="trains")
    results["no such repository"] = outcome(
        lambda: GravelerPublishRunOperator(task_id="m", run=pack(unknown)).execute(context)
    )
    away = Path(elsewhere).rename(elsewhere + ".away")
    Path(elsewhere).mkdir()
    results["away"] = outcome(lambda: other_lake.execute(context))
    results["nothing was made"] = list(Path(elsewhere).iterdir())
    Path(elsewhere).rmdir()
    away.rename(elsewhere)
    results["back"] = outcome(lambda: other_lake.execute(context))
    odd = "d \u2028 ../%2e/~^@{} \N{SNOWMAN}" + "x" * 500
    results["odd key"] = merge(opened(odd, "n")).execute(context) == repo.commit("main").id

    judged = opened("judged", "o")

    def gate(*gates):
        return outcome(
            lambda: GravelerGateOperator(
                task_id="gate", run=pack(judged.handle), gates=gates
            ).execute(context)
        )

    @graveler.gate(version="1")
    def fine(candidate):
        return candidate.exists("o")

    warned = graveler.gate("careful", severity="warn")(lambda candidate: "hm")
    results["gate task"] = [
        gate(fine)[0],
        gate(fine, lambda candidate: False),
        GravelerGateOperator(task_id="gate", run=pack(judged.handle), gates=[warned]).execute(
            context
        ),
        repo.runs.get("judged").state,
        repo.ref("main").exists("o"),
    ]
    merge(judged, fine).execute(context)
    results["reused"] = repo.gates.judgement("main").reused

    taken = opened("rolled back", "p")
    published = merge(taken).execute(context)
    repo.runs.open("rolled back").park("one task was cleared")

    def back(run):
        return GravelerRollbackOperator(task_id="back", repo="flights", run=run)

    results["rollback"] = [
        *(outcome(lambda: back("rolled back").execute(context)) for _ in range(2)),
        repo.commit("main").id,
        repo.ref("main").exists("p"),
        repo.commit("main").metadata["airflow.task_id"],
    ]
    results["rollback of nothing"] = outcome(lambda: back("unknown").execute(context))

    due = []

    def waits(step):
        repo.stores.clock.sleep(4.5)  # longer than the lease and the tolerated difference of clocks
        due.extend(reaped.key for reaped in repo.runs.reap())
        step.put("s", b"s")
        return "done"

    logged = repo.runs.open("logged")
    with DAG("logged"):
        tasks = [
            graveler_task(act, task_id=name)(pack(logged.handle)).operator
            for name, act in {"puts": lambda step: step.put("v", b"v"), "reads": len_of}.items()
        ]
    mark = len(logs.lines)
    for task in tasks:
        ti.task_id = task.task_id
        task.execute(context)
    joined = repo.commit(logged.branch).id
    with capture_logs() as rows:
        for _ in range(2):
            merge(logged).execute(context)
    ti.task_id = "work"
    lines = logs.lines[mark:] + [row["event"] for row in rows]
    results["logged"] = [lines, logged.branch, joined, repo.commit("main").id]

    kept = opened("kept alive", "r", lease=timedelta(seconds=3))
    with DAG("alive"):
        task = graveler_task(waits)(pack(kept.handle)).operator
    results["alive"] = [outcome(lambda: task.execute(context)), due]
    merge(kept).execute(context)
    with DAG("alone"):
        task = graveler_task(waits)("no run").operator
    results["without a run"] = outcome(lambda: task.execute(context))

    aside = opened("aside", "t")
    outcome(lambda: close(aside).execute(context))
    handle = pack(aside.handle, opened_by="flights.open_run")
    with DAG("cleared"):
        task = graveler_task(lambda step: step.put("u", b"u"), task_id="late")(handle).operator
    results["set aside"] = [
        outcome(lambda: act.execute(context))  # noqa: B023
        for act in (
            task,
            GravelerGateOperator(task_id="gate", run=handle, gates=[fine]),
            GravelerPublishRunOperator(task_id="merge", run=handle),
        )
    ]

    silent = opened("silent", "q", lease=timedelta(seconds=3))
    results["reap early"] = GravelerReapOperator(task_id="reap", repo="flights").execute(context)
    repo.stores.clock.sleep(4.2)
    (reaped,) = GravelerReapOperator(task_id="reap", repo="flights").execute(context)
    results["reap"] = [reaped["key"], reaped["from"], reaped["to"]]
    for names in ("abcdefgh", "z"):
        repo.branch("main").put_many((f"zz/{name}", b"1") for name in names)
        repo.branch("main").commit(names)
    repo.packing.set(after=1)
    maintain = GravelerMaintainOperator(task_id="maintain", repo="flights")
    with patch("graveler.lake.maintenance.pack", side_effect=BackendUnavailableError("away")):
        failed = outcome(lambda: maintain.execute(context))
    idle = GravelerMaintainOperator(
        task_id="idle", repo="flights", pack=False, reap=False, gc=False
    ).execute(context)
    badly_cut = repo.stats().badly_cut
    done = maintain.execute(context)
    results["maintain"] = [failed, idle, badly_cut, done, repo.commit("main").id]
    results["silent no more"] = outcome(lambda: merge(silent).execute(context))

    elsewhere = tempfile.mkdtemp()
    with graveler.open(elsewhere, create=True) as other_lake:
        other_lake.create_repository("flights")
    repo_of = {"conn_type": "graveler", "extra": {"repo": "flights"}}
    os.environ["AIRFLOW_CONN_HERE"] = json.dumps({**repo_of, "host": folder})
    os.environ["AIRFLOW_CONN_THERE"] = json.dumps({**repo_of, "host": elsewhere})

    def openings(dag_id, *runs):
        with DAG(dag_id) as dag:
            for terms in runs:
                with graveler_run(**terms):
                    pass
        mine = {
            "ti": ti,
            "dag_run": SimpleNamespace(**{**vars(context["dag_run"]), "dag_id": dag_id}),
        }
        return [
            outcome(lambda: task.execute(mine))  # noqa: B023
            for task in dag.tasks
            if task.task_id.endswith("open_run")
        ]

    one, default = {"repo": "flights"}, {"graveler_conn_id": "here"}
    results["the same run"] = openings("same", one, default)
    results["runs apart"] = [
        *openings("named", one, {**default, "group_id": "more"}),
        *openings("there", one, {**default, "graveler_conn_id": "there"}),
    ]

    def busy():
        with final_failures():
            raise ThrottledError("later")

    results["busy"] = outcome(busy)
    results["no run"] = outcome(
        lambda: GravelerPublishRunOperator(task_id="m", run="x").execute(context)
    )
print(json.dumps(results))
