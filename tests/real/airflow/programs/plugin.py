"""Requests graveler's pages from Airflow's web application, and prints the answers."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree
from typing import Any
from uuid import uuid4

from airflow.api_fastapi.app import create_app, get_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.models.connection import Connection
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.plugins_manager import get_plugin_info
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from airflow.utils.types import DagRunType
from fastapi.testclient import TestClient
from sqlalchemy import insert

import graveler
from graveler.errors import GateFailedError
from graveler.gates import Candidate, gate
from graveler.lake import Repository

HOUR = datetime(2013, 1, 1, 5, tzinfo=UTC)
NASTY = "<script>alert(1)</script>"
LINK = "javascript:alert(1)"


@gate
def rows(candidate: Candidate) -> bool:
    return any(candidate.changes())


@gate("no <b>duplicates</b>")
def no_duplicates(candidate: Candidate) -> str:
    return f"3 rows twice {NASTY}"


def run(repository: Repository, key: str, run_id: str, *gates, path: str = "input/a") -> str:
    run = repository.runs.open(
        key,
        metadata={"airflow.dag_id": "hourly", "airflow.run_id": run_id, "note": NASTY, "url": LINK},
    )
    with run.step("ingest") as step:
        step.put(path, b"x" * 1500)
        step.put(f"{path} {NASTY}", b"y")
    try:
        return run.publish(gates).commit.id
    except GateFailedError:
        run.close("gates refused")
        return ""


def dag_runs(lake: Path) -> None:
    """Add DAG runs to Airflow's database, as the scheduler does."""
    with create_session() as session:
        session.merge(DagBundleModel(name="testing"))
        session.flush()
        for dag_id in ("hourly", "plain"):
            session.merge(DagModel(dag_id=dag_id, bundle_name="testing", is_stale=False))
        session.flush()
        for dag_id, run_id, partition in (
            ("hourly", "good", "2013-01-01T05:00"),
            ("hourly", "bad", None),
            ("hourly", "earlier", "2013-01-01T05:00"),
            ("hourly", "idle", None),
            ("plain", "good", None),
        ):
            made = DagRun(
                dag_id=dag_id,
                run_id=run_id,
                run_type=DagRunType.MANUAL,
                state=DagRunState.SUCCESS,
                run_after=HOUR,
                start_date=HOUR,
                partition_key=partition,
            )
            session.add(made)
        session.flush()
        for task_id, map_index in (("later.weather.open_run", -1), ("each.flights.open_run", 1)):
            session.execute(
                insert(TaskInstance).values(
                    id=uuid4(),
                    task_id=task_id,
                    dag_id="hourly",
                    run_id="bad",
                    map_index=map_index,
                    operator="GravelerOpenRunOperator",
                    pool="default_pool",
                    pool_slots=1,
                    queue="default",
                    executor_config={},
                )
            )
        session.merge(Connection(conn_id="second", conn_type="graveler", host=str(lake)))
        session.merge(Connection(conn_id="gone", conn_type="graveler", host=str(lake / "not")))


def tokens() -> dict[str, str]:
    manager = get_auth_manager()
    users = {
        role: SimpleAuthManagerUser(username=role, role=role if role != "stranger" else None)
        for role in ("admin", "viewer", "stranger")
    }
    return {role: manager.generate_jwt(user) for role, user in users.items()}


def spoil(folder: Path, commit: str) -> str:
    """Remove the tree of a commit from the storage and the cache; return its location."""
    with graveler.open(folder) as lake:
        stores = lake.repository("flights").stores
        key = stores.ranges.key(bytes.fromhex(stores.refs.commits.get(commit).metarange))
        stores.objects.delete(key)
    rmtree(folder / "cache")
    return stores.objects.root


def main(folder: Path) -> dict[str, Any]:
    with graveler.open(folder, create=True) as lake:
        flights = lake.create_repository("flights")
        commit = run(flights, "hourly 2013-01-01T05:00", "good", rows)
        run(flights, "hourly bad", "bad", rows, no_duplicates, path="input/b")
        run(flights, "hourly bad later.weather", "bad", path="input/c")
        flights.runs.open(
            "hourly bad later.weather",
            metadata={"airflow.dag_id": "hourly", "airflow.run_id": "bad"},
        ).park("one task was cleared")
        shown = flights.runs.get("hourly bad later.weather").commit
        run(flights, "hourly bad each.flights[1]", "bad", path="input/d")
        idle = {"airflow.dag_id": "hourly", "airflow.run_id": "idle"}
        flights.runs.open("hourly idle", metadata=idle).publish()
        parked = flights.runs.get("hourly bad")
        by_hand = flights.create_branch("dev").commit("by hand", allow_empty=True).id
        parent = flights.commit(commit).parents[0]
    dag_runs(folder)
    app = create_app(apps="core")
    client = TestClient(app, base_url="http://testserver", follow_redirects=False)
    bearer = {role: {"Authorization": f"Bearer {token}"} for role, token in tokens().items()}

    def ask(path: str, role: str | None = None, **query: str):
        answer = client.get(f"/graveler/{path}", params=query, headers=bearer[role] if role else {})
        kind = answer.headers["content-type"].split(";")[0]
        return [answer.status_code, kind, answer.text, dict(answer.headers)]

    good = {"dag_id": "hourly", "run_id": "good"}
    of_commit = {"conn": "second", "repo": "flights", "ref": commit}
    answers: dict[str, Any] = {
        name: ask(path, role, **query)
        for name, path, role, query in (
            ("index", "", "viewer", {}),
            ("parked only", "", "viewer", {"state": "PARKED", "dag_id": "hourly"}),
            ("of another repository", "", "viewer", {"repo": "weather"}),
            ("good", "runs", "viewer", good),
            ("good data", "runs.json", "viewer", good),
            ("bad", "runs", "viewer", {**good, "run_id": "bad"}),
            ("idle", "runs", "viewer", {**good, "run_id": "idle"}),
            ("earlier", "runs", "viewer", {**good, "run_id": "earlier"}),
            ("plain", "runs", "viewer", {"dag_id": "plain", "run_id": "good"}),
            ("unknown", "runs", "viewer", {**good, "run_id": "never"}),
            ("unnamed", "runs", "viewer", {}),
            ("seen by admin", "runs", "admin", good),
            ("commit", "commit", "viewer", of_commit),
            ("own diff", "diff", "viewer", {**of_commit, "left": parent, "right": commit}),
            ("other diff", "diff", "viewer", {**of_commit, "left": by_hand, "right": commit}),
            ("admin's diff", "diff", "admin", {**of_commit, "left": by_hand, "right": commit}),
            ("by hand", "commit", "viewer", {**of_commit, "ref": by_hand}),
            ("admin's by hand", "commit", "admin", {**of_commit, "ref": by_hand}),
            ("no commit", "commit", "admin", {**of_commit, "ref": "never"}),
            ("no commit for viewer", "commit", "viewer", {**of_commit, "ref": "never"}),
            ("no connection", "commit", "admin", {**of_commit, "conn": "never"}),
            ("away", "commit", "admin", {**of_commit, "conn": "gone"}),
        )
    }
    pages = ["", "runs", "commit", "diff", "lakes.json", "runs.json", "commit.json", "diff.json"]
    everything = {**good, **of_commit, "left": parent, "right": commit}
    answers["no token"] = {page: ask(page, None, **everything)[0] for page in pages}
    answers["stranger's index"] = ask("lakes.json", "stranger")
    answers["stranger"] = {page: ask(page, "stranger", **everything)[0] for page in pages}
    client.cookies.set("_token", bearer["viewer"]["Authorization"].split()[1])
    answers["cookie"] = ask("runs", None, **good)[0]
    (plugin,) = [info for info in get_plugin_info() if info["name"] == "graveler"]
    answers["views"] = plugin["external_views"]
    answers["schema"] = [ask(path, "admin")[0] for path in ("docs", "openapi.json", "redoc")]
    damaged = spoil(folder, commit)
    for role in ("viewer", "admin"):
        for page in ("runs", "runs.json"):
            answers[f"damaged {page} seen by {role}"] = ask(page, role, **good)
    answers["facts"] = {
        "damaged": damaged,
        "commit": commit,
        "shown": shown,
        "parked": parked.branch,
        "routes": sorted(
            route.path
            for mounted in app.routes
            if getattr(mounted, "path", "") == "/graveler"
            for route in vars(mounted)["app"].routes
        ),
    }
    return answers


sys.stdout.write("\n" + json.dumps(main(Path(sys.argv[1]))) + "\n")
