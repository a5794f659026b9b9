"""The pages in Airflow's web server: who may see them, and what they say."""

import json
import re
import sys
from contextlib import closing
from sqlite3 import connect

import pytest

from tests.real.airflow.home import ROOT

NASTY = "<script>alert(1)</script>"
SETTINGS = {
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,viewer:viewer",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory, home):
    """Another home: its users have roles, and its database has DAG runs that no DAG made."""
    other = type(home)(tmp_path_factory.mktemp("pages"), home.port)
    names = (made.folder / "airflow.db" for made in (home, other))
    with closing(connect(next(names))) as migrated, closing(connect(next(names))) as copy:
        migrated.backup(copy)
    return other


@pytest.fixture(scope="module")
def asked(server):
    assignments = [f"{name}={value}" for name, value in SETTINGS.items()]
    program = ROOT / "tests/real/airflow/programs/plugin.py"
    said = server.run("/usr/bin/env", *assignments, sys.executable, program, server.lake)
    return json.loads(said.splitlines()[-1])


def text(asked, name):
    status, kind, body, _ = asked[name]
    assert (status, kind) == (200, "text/html")
    return body


def test_nothing_is_shown_without_a_token(asked):
    assert set(asked["no token"].values()) == {401}
    assert len(asked["no token"]) == len(asked["facts"]["routes"])


def test_no_route_goes_round_the_token(asked):
    assert asked["facts"]["routes"] == [
        "/",
        "/commit",
        "/commit.json",
        "/diff",
        "/diff.json",
        "/lakes.json",
        "/runs",
        "/runs.json",
    ]
    assert asked["schema"] == [404, 404, 404]


def test_who_may_not_see_the_dag_sees_no_run_of_it(asked):
    assert asked["stranger"] == {
        "": 200,
        "lakes.json": 200,
        **{f"{page}{end}": 403 for page in ("runs", "commit", "diff") for end in ("", ".json")},
    }
    said = json.loads(asked["stranger's index"][2])
    assert said["runs"] == []
    assert "no lake at" not in json.dumps(said["troubles"])  # nor where lakes are


def test_a_browsers_cookie_is_a_token(asked):
    assert asked["cookie"] == 200


def test_a_published_run_shows_commit_gates_steps_and_changes(asked):
    page = text(asked, "good")
    assert 'class="state PUBLISHED"' in page
    assert asked["facts"]["commit"][:12] in page
    assert 'class="mark passed"' in page
    assert "ingest" in page
    assert "input/a" in page
    assert "1.5 kB" in page


def test_a_parked_run_says_which_gate_refused_it_and_why(asked):
    page = text(asked, "bad")
    assert 'class="state PARKED"' in page
    assert "Nothing of it is in main." in page
    assert asked["facts"]["parked"] in page
    assert 'class="mark refused"' in page
    assert "3 rows twice" in page


def test_what_data_and_gates_say_is_text_and_never_markup(asked):
    for name in ("good", "bad", "commit", "index"):
        page = text(asked, name)
        assert NASTY not in page
        assert "no <b>duplicates" not in page
        assert 'href="javascript:' not in page
    assert "&lt;script&gt;alert(1)" in text(asked, "good")
    assert "no &lt;b&gt;duplicates" in text(asked, "bad")


def test_a_page_runs_its_own_script_and_only_airflow_frames_it(asked):
    body, headers = asked["good"][2:]
    policy = headers["content-security-policy"]
    (nonce,) = set(re.findall(r"'nonce-([^']+)'", policy))
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'self'" in policy
    tags = re.findall(r"<(?:script|style)[^>]*>", body)
    assert len(tags) == 2
    assert all(f'nonce="{nonce}"' in tag for tag in tags)
    assert not re.search(r"<[^>]*\s(?:style|on\w+)=", body)  # the policy would drop them
    assert headers["cache-control"] == "no-store"
    assert nonce not in asked["bad"][3]["content-security-policy"]


def test_the_same_is_there_as_json_without_what_fences_writers(asked):
    status, kind, body, _ = asked["good data"]
    assert (status, kind) == (200, "application/json")
    (run,) = json.loads(body)["runs"]
    assert run["record"]["state"] == "PUBLISHED"
    assert run["record"]["commit"] == asked["facts"]["commit"]
    assert run["changes"]["total"]["added"] == 2
    assert run["changes"]["total"]["gained"] == 1501
    assert [step["name"] for step in run["steps"]] == ["ingest"]
    assert not {"fence", "nonce", "owner", "owners"} & run["record"].keys()


def test_a_dag_run_with_several_runs_shows_them_all(asked):
    assert re.findall(r"<h1>(.*)</h1>", text(asked, "bad")) == [
        "hourly bad",
        "hourly bad each.flights[1]",
        "hourly bad later.weather",
    ]


def test_a_lake_that_two_connections_name_is_looked_into_once(asked):
    assert text(asked, "good").count('class="run"') == 1


def test_an_absent_lake_is_reported_and_the_others_are_shown(asked):
    page = text(asked, "good")
    assert "connection <b>gone</b> cannot be read now" in page
    assert "see the log of the API server" in page
    assert "no lake at" in text(
        asked, "seen by admin"
    )  # a user who may see the connection reads more
    assert asked["away"][0] == 503


def test_errors_of_a_run_are_shown_to_those_with_the_connection(asked):
    for page in ("runs", "runs.json"):
        status, _, text, _ = asked[f"damaged {page} seen by admin"]
        assert (status, asked["facts"]["damaged"] in text) == (200, True)
        status, _, text, _ = asked[f"damaged {page} seen by viewer"]
        assert (status, asked["facts"]["damaged"] in text) == (200, False)
        assert "see the log of the API server" in text


def test_a_run_that_another_dag_run_went_on_with_says_so(asked):
    page = text(asked, "earlier")
    assert "The latest attempt belongs to another DAG run" in page
    assert "/dags/hourly/runs/good" in page


def test_a_dag_run_without_a_graveler_run_is_said_to_have_none(asked):
    assert 'class="run"' not in text(asked, "plain")


def test_what_is_not_there_is_not_found(asked):
    assert asked["unknown"][0] == 404
    assert asked["unnamed"][0] == 422
    assert asked["no commit"][0] == 404
    assert asked["no connection"][0] == 404


def test_a_commit_of_a_run_is_for_those_who_may_see_its_dag(asked):
    page = text(asked, "commit")
    assert "runs?dag_id=hourly&amp;run_id=good" in page
    assert "input/a" in text(asked, "own diff")


def test_other_commits_are_for_those_who_may_see_the_connection(asked):
    assert asked["by hand"][0] == 403
    assert asked["other diff"][0] == 403
    assert asked["no commit for viewer"][0] == 403  # whether it is there is not told either
    assert "by hand" in text(asked, "admin's by hand")
    assert "input/c" in text(asked, "admin's diff")


def test_the_index_lists_the_latest_runs_first(asked):
    page = text(asked, "index")
    assert page.index("run_id=bad") < page.index("run_id=good")


def test_airflow_shows_the_pages_in_its_menu_and_at_a_dag_run(asked):
    views = {view["destination"]: view for view in asked["views"]}
    assert views["nav"]["href"] == "/graveler/"
    assert views["dag_run"]["href"] == "/graveler/runs?dag_id={DAG_ID}&run_id={RUN_ID}"


def test_a_task_does_not_pay_for_the_pages(server):
    seconds, loaded = server.ask("plugin_load")
    assert loaded in (["graveler_airflow.plugin"], ["graveler_airflow", "graveler_airflow.plugin"])
    assert seconds < 0.1
