# mypy: ignore-errors
"""The pages in Airflow's web server: which users may see them, and what they show."""

import json
import re
from shutil import rmtree
from types import SimpleNamespace
from uuid import uuid4

import pytest
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
from sqlalchemy import delete, insert

import graveler
from graveler.errors import GateFailedError
from tests.real.airflow.played import AT

NASTY = "<script>alert(1)</script>"
PAGES = ("runs", "commit", "diff")
GOOD = {"dag_id": "hourly", "run_id": "good"}


@graveler.gate
def rows(candidate):
    return any(candidate.changes())


@graveler.gate("no <b>duplicates</b>")
def no_duplicates(candidate):
    return f"3 rows twice {NASTY}"


def metadata(run_id):
    return {"airflow.dag_id": "hourly", "airflow.run_id": run_id}


def publish(repo, key, run_id, *gates, path="input/a"):
    shown = {**metadata(run_id), "note": NASTY, "url": "javascript:alert(1)"}
    run = repo.runs.open(key, metadata=shown)
    with run.step("ingest") as step:
        step.put(path, b"x" * 1500)
        step.put(f"{path} {NASTY}", b"y")
    try:
        return run.publish(gates).commit.id
    except GateFailedError:
        return run.close("gates refused").commit


@pytest.fixture(scope="module")
def made(repo):
    """What the pages show: the ids of commits by name."""
    commit = publish(repo, "hourly 2013-01-01T05:00", "good", rows)
    publish(repo, "hourly bad", "bad", rows, no_duplicates, path="input/b")
    later = "hourly bad later.weather"
    publish(repo, later, "bad", path="input/c")
    repo.runs.open(later, metadata=metadata("bad")).park("one task was cleared")
    publish(repo, "hourly bad each.flights[1]", "bad", path="input/d")
    repo.runs.open("hourly idle", metadata=metadata("idle")).publish()
    return SimpleNamespace(
        commit=commit,
        parent=repo.commit(commit).parents[0],
        shown=repo.runs.get(later).commit,
        parked=repo.runs.get("hourly bad").branch,
        by_hand=repo.create_branch("dev").commit("by hand", allow_empty=True).id,
    )


def dag_runs(session):
    """Add DAG runs to Airflow's database, as the scheduler does."""
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
        ended = {"run_type": DagRunType.MANUAL, "state": DagRunState.SUCCESS}
        times = {"run_after": AT, "start_date": AT}
        run = {"dag_id": dag_id, "run_id": run_id, "partition_key": partition}
        session.add(DagRun(**run, **ended, **times))
    session.flush()
    kind = {"operator": "GravelerOpenRunOperator", "pool": "default_pool", "pool_slots": 1}
    of_run = {"dag_id": "hourly", "run_id": "bad", "queue": "default", "executor_config": {}}
    for task_id, map_index in (("later.weather.open_run", -1), ("each.flights.open_run", 1)):
        task = {"id": uuid4(), "task_id": task_id, "map_index": map_index}
        session.execute(insert(TaskInstance).values(**task, **kind, **of_run))


@pytest.fixture(scope="module")
def app(home, own, made, variables):
    """Airflow's web application. Its users have roles."""
    variables.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "False")
    variables.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", "admin:admin,viewer:viewer")
    with create_session() as session:
        dag_runs(session)
        for name, host in (("second", own.location), ("gone", f"{own.location}/not")):
            session.merge(Connection(conn_id=name, conn_type="graveler", host=host))
    yield create_app(apps="core")
    with create_session() as session:
        for table in (TaskInstance, DagRun, DagModel, DagBundleModel, Connection):
            session.execute(delete(table))


@pytest.fixture(scope="module")
def tokens(app):
    manager = get_auth_manager()
    users = {
        role: SimpleAuthManagerUser(username=role, role=role if role != "stranger" else None)
        for role in ("admin", "viewer", "stranger")
    }
    return {role: manager.generate_jwt(user) for role, user in users.items()}


@pytest.fixture(scope="module")
def ask(app, tokens, made):
    """Return a function that requests a page as a user; by default it is that of a commit."""
    of_commit = {"conn": "second", "repo": "flights", "ref": made.commit}
    client = TestClient(app, base_url="http://testserver", follow_redirects=False)

    def ask(page, role="viewer", **query):
        headers = {"Authorization": f"Bearer {tokens[role]}"} if role else {}
        given = {**of_commit, **query} if page.startswith(("commit", "diff")) else query
        return client.get(f"/graveler/{page}", params=given, headers=headers)

    return ask


@pytest.fixture(scope="module")
def shown(ask):
    """Return a function that returns the text of a page."""

    def shown(page, role="viewer", **query):
        answer = ask(page, role, **query)
        kind = answer.headers["content-type"].split(";")[0]
        assert (answer.status_code, kind) == (200, "text/html"), answer.text
        return answer.text

    return shown


@pytest.fixture(scope="module")
def run(shown):
    """Return a function that returns the page of a DAG run."""
    return lambda run_id="good", dag_id="hourly": shown("runs", dag_id=dag_id, run_id=run_id)


def test_nothing_is_shown_without_a_token(app, ask, made):
    both = {"left": made.parent, "right": made.commit, **GOOD}
    pages = ["", *PAGES, "lakes.json", *(f"{page}.json" for page in PAGES)]
    assert {ask(page, None, **both).status_code for page in pages} == {401}
    (mounted,) = [route for route in app.routes if getattr(route, "path", "") == "/graveler"]
    routes = [route.path for route in vars(mounted)["app"].routes]
    assert sorted(routes) == sorted(f"/{page}" for page in pages)  # no route bypasses the token
    schema = ("docs", "openapi.json", "redoc")
    assert [ask(path, "admin").status_code for path in schema] == [404, 404, 404]


def test_a_user_without_the_dag_sees_no_run_of_it(ask, made):
    both = {"left": made.parent, "right": made.commit, **GOOD}
    for page in (*PAGES, *(f"{page}.json" for page in PAGES)):
        assert ask(page, "stranger", **both).status_code == 403
    assert ask("", "stranger").status_code == 200
    output = ask("lakes.json", "stranger").json()
    assert output["runs"] == []
    assert "no lake at" not in json.dumps(output["troubles"])  # nor the location of lakes


def test_a_browsers_cookie_is_a_token(app, tokens):
    cookies = {"_token": tokens["viewer"]}
    client = TestClient(app, base_url="http://testserver", cookies=cookies)
    assert client.get("/graveler/runs", params=GOOD).status_code == 200


def test_a_published_run_shows_commit_gates_steps_and_changes(run, made):
    page = run()
    for part in ('class="state PUBLISHED"', made.commit[:12], 'class="mark passed"', "ingest"):
        assert part in page
    assert "input/a" in page
    assert "1.5 KiB" in page
    assert page.count('class="run"') == 1  # also if two connections have the lake


def test_a_publish_that_changed_nothing_shows_no_commit(run):
    page = run("idle")
    assert 'class="state PUBLISHED"' in page
    assert "<span>Files changed</span><b>\N{EN DASH}</b>" in page
    assert "<span>Published as</span><b>nothing changed</b>" in page
    assert "input/" not in page  # the changes of the publish before


def test_a_parked_run_shows_its_gate_and_the_way_out(run, made):
    page = run("bad")
    for part in (
        'class="state PARKED"',
        "Nothing of it is in main.",
        made.parked,
        'class="mark refused"',
        "3 rows twice",
        "input/b",  # what it has changed
        "clear the failed tasks with &#39;only failed&#39; off",
        "<code>graveler run abandon &#39;hourly bad&#39;</code>",
    ):
        assert part in page


def test_the_index_shows_reasons_and_can_be_filtered(shown):
    index = shown("")
    assert "no &lt;b&gt;duplicates" in index
    assert index.index("run_id=bad") < index.index("run_id=good")  # the latest are first
    page = shown("", state="PARKED", dag_id="hourly")
    table = page.partition("<tbody>")[2]
    assert 'class="state PARKED"' in table
    assert 'class="state PUBLISHED"' not in table
    assert "state=PUBLISHED&amp;dag_id=hourly" in page  # the counts of the others are links
    assert "No such run" in shown("", repo="weather")


def test_a_parked_attempt_does_not_hide_the_publish(run, shown, made):
    page = run("bad")
    assert re.findall(r"<h1>(.*)</h1>", page) == [
        "hourly bad",
        "hourly bad each.flights[1]",
        "hourly bad later.weather",
    ]
    section = page.partition("<h1>hourly bad later.weather</h1>")[2].partition("</section>")[0]
    for part in (
        "main has what attempt 1 published",
        "The state of the run is that of attempt 2.",
        "Nothing of attempt 2 is in main.",
        "Published <small>by all attempts",
        made.shown[:12],
    ):
        assert part in section
    assert "Nothing of it is in main" not in section
    assert made.shown[:12] in shown("")


def test_data_and_reasons_are_text_and_never_markup(run, shown):
    good, bad = run(), run("bad")
    for page in (good, bad, shown("commit"), shown("")):
        assert NASTY not in page
        assert "no <b>duplicates" not in page
        assert 'href="javascript:' not in page
    assert "&lt;script&gt;alert(1)" in good
    assert "no &lt;b&gt;duplicates" in bad


def test_a_page_runs_its_own_script_and_only_airflow_frames_it(ask):
    answers = [ask("runs", **GOOD) for _ in range(2)]
    policy, again = (answer.headers["content-security-policy"] for answer in answers)
    (nonce,) = set(re.findall(r"'nonce-([^']+)'", policy))
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'self'" in policy
    tags = re.findall(r"<(?:script|style)[^>]*>", answers[0].text)
    assert len(tags) == 2
    assert all(f'nonce="{nonce}"' in tag for tag in tags)
    assert not re.search(r"<[^>]*\s(?:style|on\w+)=", answers[0].text)  # the policy blocks them
    assert answers[0].headers["cache-control"] == "no-store"
    assert nonce not in again


def test_pages_exist_as_json_without_fences(ask, made):
    (run,) = ask("runs.json", **GOOD).json()["runs"]
    assert (run["record"]["state"], run["record"]["commit"]) == ("PUBLISHED", made.commit)
    total = run["changes"]["total"]
    assert (total["added"], total["gained"]) == (2, 1501)
    assert [step["name"] for step in run["steps"]] == ["ingest"]
    assert not {"fence", "nonce", "owner", "owners"} & run["record"].keys()


def test_an_absent_lake_is_reported_and_the_others_are_shown(run, shown, ask):
    page = run()
    assert "connection <b>gone</b> cannot be read now" in page
    assert "see the log of the API server" in page
    assert "no lake at" not in page
    assert "no lake at" in shown("runs", "admin", **GOOD)  # with access to the connection
    assert ask("commit", "admin", conn="gone").status_code == 503


def test_runs_of_other_dag_runs_are_not_mixed_up(run):
    page = run("earlier")
    assert "The latest attempt belongs to another DAG run" in page
    assert "/dags/hourly/runs/good" in page
    assert 'class="run"' not in run(dag_id="plain")


def test_what_is_not_there_is_not_found(ask):
    assert ask("runs", **{**GOOD, "run_id": "never"}).status_code == 404
    assert ask("runs").status_code == 422
    for wrong in ({"ref": "never"}, {"conn": "never"}):
        assert ask("commit", "admin", **wrong).status_code == 404


def test_a_commit_of_a_run_needs_access_to_its_dag(shown, made):
    assert "runs?dag_id=hourly&amp;run_id=good" in shown("commit")
    assert "input/a" in shown("diff", left=made.parent, right=made.commit)


def test_other_commits_need_access_to_the_connection(ask, shown, made):
    other = {"left": made.by_hand, "right": made.commit}
    assert ask("commit", ref=made.by_hand).status_code == 403
    assert ask("diff", **other).status_code == 403
    assert ask("commit", ref="never").status_code == 403  # no hint whether the commit exists
    assert "by hand" in shown("commit", "admin", ref=made.by_hand)
    assert "input/c" in shown("diff", "admin", **other)


def test_airflow_shows_the_pages_in_its_menu_and_at_a_dag_run(app):
    (plugin,) = [info for info in get_plugin_info() if info["name"] == "graveler"]
    views = {view["destination"]: view for view in plugin["external_views"]}
    assert views["nav"]["href"] == "/graveler/"
    assert views["dag_run"]["href"] == "/graveler/runs?dag_id={DAG_ID}&run_id={RUN_ID}"


def test_errors_of_a_run_are_shown_to_those_with_the_connection(ask, repo, own, made):
    stores = repo.stores
    key = stores.ranges.key(bytes.fromhex(stores.refs.commits.get(made.commit).metarange))
    stores.objects.delete(key)
    rmtree(f"{own.location}/cache")
    for page in ("runs", "runs.json"):
        for role, sees in (("admin", True), ("viewer", False)):
            answer = ask(page, role, **GOOD)
            assert (answer.status_code, stores.objects.root in answer.text) == (200, sees)
        assert "see the log of the API server" in answer.text
