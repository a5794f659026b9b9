"""The pages in Airflow's web server: which users may see them, and what they show."""

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
    """Another home. Its users have roles, and its database has DAG runs without a DAG."""
    other = type(home)(tmp_path_factory.mktemp("pages"), home.port)
    names = (made.folder / "airflow.db" for made in (home, other))
    with closing(connect(next(names))) as migrated, closing(connect(next(names))) as copy:
        migrated.backup(copy)
    return other


@pytest.fixture(scope="module")
def answers(server):
    assignments = [f"{name}={value}" for name, value in SETTINGS.items()]
    program = ROOT / "tests/real/airflow/programs/plugin.py"
    output = server.run("/usr/bin/env", *assignments, sys.executable, program, server.lake)
    return json.loads(output.splitlines()[-1])


def text(answers, name):
    status, kind, body, _ = answers[name]
    assert (status, kind) == (200, "text/html")
    return body


def test_nothing_is_shown_without_a_token(answers):
    assert set(answers["no token"].values()) == {401}
    assert len(answers["no token"]) == len(answers["facts"]["routes"])


def test_no_route_bypasses_the_token(answers):
    assert answers["facts"]["routes"] == [
        "/",
        "/commit",
        "/commit.json",
        "/diff",
        "/diff.json",
        "/lakes.json",
        "/runs",
        "/runs.json",
    ]
    assert answers["schema"] == [404, 404, 404]


def test_a_user_without_the_dag_sees_no_run_of_it(answers):
    assert answers["stranger"] == {
        "": 200,
        "lakes.json": 200,
        **{f"{page}{end}": 403 for page in ("runs", "commit", "diff") for end in ("", ".json")},
    }
    output = json.loads(answers["stranger's index"][2])
    assert output["runs"] == []
    assert "no lake at" not in json.dumps(output["troubles"])  # nor the location of lakes


def test_a_browsers_cookie_is_a_token(answers):
    assert answers["cookie"] == 200


def test_a_published_run_shows_commit_gates_steps_and_changes(answers):
    page = text(answers, "good")
    assert 'class="state PUBLISHED"' in page
    assert answers["facts"]["commit"][:12] in page
    assert 'class="mark passed"' in page
    assert "ingest" in page
    assert "input/a" in page
    assert "1.5 kB" in page


def test_a_publish_that_changed_nothing_shows_no_commit(answers):
    page = text(answers, "idle")
    assert 'class="state PUBLISHED"' in page
    assert "<span>Files changed</span><b>\N{EN DASH}</b>" in page
    assert "<span>Published as</span><b>nothing changed</b>" in page
    assert "input/" not in page  # the changes of the publish before


def test_a_parked_run_shows_which_gate_refused_it_and_why(answers):
    page = text(answers, "bad")
    assert 'class="state PARKED"' in page
    assert "Nothing of it is in main." in page
    assert answers["facts"]["parked"] in page
    assert 'class="mark refused"' in page
    assert "3 rows twice" in page


def test_a_parked_run_shows_the_way_out(answers):
    page = text(answers, "bad")
    assert "clear the failed tasks with &#39;only failed&#39; off" in page
    assert "<code>graveler run abandon &#39;hourly bad&#39;</code>" in page


def test_the_index_shows_reasons_and_can_be_filtered(answers):
    assert "no &lt;b&gt;duplicates" in text(answers, "index")
    page = text(answers, "parked only")
    table = page.partition("<tbody>")[2]
    assert 'class="state PARKED"' in table
    assert 'class="state PUBLISHED"' not in table
    assert "state=PUBLISHED&amp;dag_id=hourly" in page  # the counts of the others are links
    assert "No such run" in text(answers, "of another repository")


def test_a_parked_attempt_does_not_hide_the_publish(answers):
    page = text(answers, "bad")
    section = page.partition("<h1>hourly bad later.weather</h1>")[2].partition("</section>")[0]
    assert "main has what attempt 1 published" in section
    assert "The state of the run is that of attempt 2." in section
    assert "Nothing of attempt 2 is in main." in section
    assert "Nothing of it is in main" not in section
    assert answers["facts"]["shown"][:12] in section
    assert "Published <small>by all attempts" in section
    assert answers["facts"]["shown"][:12] in text(answers, "index")


def test_data_and_reasons_are_text_and_never_markup(answers):
    for name in ("good", "bad", "commit", "index"):
        page = text(answers, name)
        assert NASTY not in page
        assert "no <b>duplicates" not in page
        assert 'href="javascript:' not in page
    assert "&lt;script&gt;alert(1)" in text(answers, "good")
    assert "no &lt;b&gt;duplicates" in text(answers, "bad")


def test_a_page_runs_its_own_script_and_only_airflow_frames_it(answers):
    body, headers = answers["good"][2:]
    policy = headers["content-security-policy"]
    (nonce,) = set(re.findall(r"'nonce-([^']+)'", policy))
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'self'" in policy
    tags = re.findall(r"<(?:script|style)[^>]*>", body)
    assert len(tags) == 2
    assert all(f'nonce="{nonce}"' in tag for tag in tags)
    assert not re.search(r"<[^>]*\s(?:style|on\w+)=", body)  # the policy would block them
    assert headers["cache-control"] == "no-store"
    assert nonce not in answers["bad"][3]["content-security-policy"]


def test_pages_exist_as_json_without_fences(answers):
    status, kind, body, _ = answers["good data"]
    assert (status, kind) == (200, "application/json")
    (run,) = json.loads(body)["runs"]
    assert run["record"]["state"] == "PUBLISHED"
    assert run["record"]["commit"] == answers["facts"]["commit"]
    assert run["changes"]["total"]["added"] == 2
    assert run["changes"]["total"]["gained"] == 1501
    assert [step["name"] for step in run["steps"]] == ["ingest"]
    assert not {"fence", "nonce", "owner", "owners"} & run["record"].keys()


def test_a_dag_run_with_several_runs_shows_them_all(answers):
    assert re.findall(r"<h1>(.*)</h1>", text(answers, "bad")) == [
        "hourly bad",
        "hourly bad each.flights[1]",
        "hourly bad later.weather",
    ]


def test_a_lake_of_two_connections_is_read_once(answers):
    assert text(answers, "good").count('class="run"') == 1


def test_an_absent_lake_is_reported_and_the_others_are_shown(answers):
    page = text(answers, "good")
    assert "connection <b>gone</b> cannot be read now" in page
    assert "see the log of the API server" in page
    assert "no lake at" in text(
        answers, "seen by admin"
    )  # with access to the connection, a user reads more
    assert answers["away"][0] == 503


def test_errors_of_a_run_are_shown_to_those_with_the_connection(answers):
    for page in ("runs", "runs.json"):
        status, _, text, _ = answers[f"damaged {page} seen by admin"]
        assert (status, answers["facts"]["damaged"] in text) == (200, True)
        status, _, text, _ = answers[f"damaged {page} seen by viewer"]
        assert (status, answers["facts"]["damaged"] in text) == (200, False)
        assert "see the log of the API server" in text


def test_a_run_resumed_by_another_dag_run_shows_it(answers):
    page = text(answers, "earlier")
    assert "The latest attempt belongs to another DAG run" in page
    assert "/dags/hourly/runs/good" in page


def test_a_dag_run_without_a_graveler_run_shows_none(answers):
    assert 'class="run"' not in text(answers, "plain")


def test_what_is_not_there_is_not_found(answers):
    assert answers["unknown"][0] == 404
    assert answers["unnamed"][0] == 422
    assert answers["no commit"][0] == 404
    assert answers["no connection"][0] == 404


def test_a_commit_of_a_run_needs_access_to_its_dag(answers):
    page = text(answers, "commit")
    assert "runs?dag_id=hourly&amp;run_id=good" in page
    assert "input/a" in text(answers, "own diff")


def test_other_commits_need_access_to_the_connection(answers):
    assert answers["by hand"][0] == 403
    assert answers["other diff"][0] == 403
    assert answers["no commit for viewer"][0] == 403  # no hint whether the commit exists
    assert "by hand" in text(answers, "admin's by hand")
    assert "input/c" in text(answers, "admin's diff")


def test_the_index_lists_the_latest_runs_first(answers):
    page = text(answers, "index")
    assert page.index("run_id=bad") < page.index("run_id=good")


def test_airflow_shows_the_pages_in_its_menu_and_at_a_dag_run(answers):
    views = {view["destination"]: view for view in answers["views"]}
    assert views["nav"]["href"] == "/graveler/"
    assert views["dag_run"]["href"] == "/graveler/runs?dag_id={DAG_ID}&run_id={RUN_ID}"


def test_a_task_does_not_import_the_pages(server):
    seconds, loaded = server.ask("plugin_load")
    assert loaded in (["graveler_airflow.plugin"], ["graveler_airflow", "graveler_airflow.plugin"])
    assert seconds < 0.1
