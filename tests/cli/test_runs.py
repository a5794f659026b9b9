"""``run park``, ``reap`` and ``rollback``, and ``why``."""

from datetime import timedelta

import pytest

from graveler.errors import GateFailedError
from graveler.runs.provenance import Origin


@pytest.fixture
def dead(history):
    """A run whose orchestrator is dead."""
    run = history.runs.open("hour 07", lease=timedelta(microseconds=1))
    run.put("output/07:00/a", b"1")
    run.commit("a")
    return history


@pytest.fixture
def published(history):
    """A run with every field filled, and a run that has read the output of the first."""
    origin = Origin("airflow", job="hourly", run_id="r1", url="https://airflow/r1")

    def complete(candidate):
        return None

    with history.run("hour 05", gates=[complete], metadata=origin.metadata()) as run:
        with run.step("ingest", try_number=2) as step:
            step.get("readme.txt")
            step.put("output/05:00/a", b"1")
    with history.run("report") as run:
        run.get("output/05:00/a")
        run.put("report", b"1")
    return history


def test_a_run_is_set_aside_and_listed_as_live(cli, history):
    history.runs.open("hour 06")
    with history.run("done") as run:
        run.put("x", b"1")
    assert [line["key"] for line in cli("run", "list", "--live", "--json").lines] == ["hour 06"]
    said = cli("run", "park", "hour 06", "--reason", "lunch", "--json").json
    assert (said["state"], said["reason"], said["on_failure"]) == ("PARKED", "lunch", "park")
    assert said["expires"] > said["updated"]
    assert "is PARKED" in cli("run", "park", "hour 06").out
    assert "until" in cli("run", "show", "hour 06").out


def test_reaping_says_what_it_would_do_until_it_is_told_to(cli, dead):
    said = cli("run", "reap").out
    assert "OPEN       -> PARKED      hour 07: attempt 1 gave no sign of life" in said
    assert "dry run" in said
    (planned,) = cli("run", "reap", "--json").lines
    assert (planned["key"], planned["to_state"], planned["dry_run"]) == ("hour 07", "PARKED", True)
    assert dead.runs.get("hour 07").state == "OPEN"
    assert cli("run", "reap", "--yes", "--limit", "0", "--json").lines == []
    (done,) = cli("run", "reap", "--no-dry-run", "--json").lines
    assert done == planned | {"dry_run": False}
    assert dead.runs.get("hour 07").state == "PARKED"
    assert cli("run", "reap", "--yes").out == ""


def test_a_run_is_rolled_back_and_its_readers_are_named(cli, published):
    said = cli("run", "rollback", "hour 05", "--dry-run")
    assert "has read what it wrote: report (PUBLISHED)" in said.out
    assert published.runs.get("hour 05").state == "PUBLISHED"
    said = cli(
        "run", "rollback", "hour 05", "-m", "wrong rows", "--meta", "ticket=7", "--json"
    ).json
    assert said["readers"] == ["report"]
    assert said["run"]["state"] == "ROLLED_BACK"
    assert said["commit"]["message"] == "wrong rows"
    assert said["commit"]["metadata"]["ticket"] == "7"
    assert not published.ref("main").exists("output/05:00/a")
    again = cli("run", "rollback", said["publish"]["commit"][:12])
    assert f"was rolled back before, by commit {said['commit']['id']}" in again.out
    assert said["commit"]["id"] in cli("run", "show", "hour 05").out
    assert cli("run", "list", "--state", "rolled_back", "--json").json["key"] == "hour 05"


def test_a_rollback_that_conflicts_says_with_what(cli, published):
    with published.run("fix") as run:
        run.put("output/05:00/a", b"2")
    said = cli("run", "rollback", "hour 05")
    assert said.code == 3
    assert "'output/05:00/a' by run 'fix'" in said.err


def test_why_names_commit_run_step_gates_and_inputs(cli, published):
    out = cli("why", "output/05:00/a").out
    for line in (
        "path       main:output/05:00/a",
        "run        hour 05, attempt 1 (now PUBLISHED)",
        "step       ingest, try 2",
        "orchestrator  airflow",
        "airflow.dag_id  hourly",
        "url        https://airflow/r1",
        "gate       complete: passed",
        ":readme.txt",
    ):
        assert line in out
    why = cli("why", "output/05:00/a", "--json").json
    assert (why["key"], why["step"], why["try"], why["gates"]) == (
        "hour 05",
        "ingest",
        2,
        ["complete"],
    )
    assert why["commit"]["id"] == published.runs.get("hour 05").commit
    assert why["run"]["state"] == "PUBLISHED"
    assert why["origin"]["job"] == "hourly"
    assert [read["prefix"] for read in why["inputs"]] == ["readme.txt"]


def test_why_takes_a_ref_beside_a_path_that_may_have_colons(cli, published):
    for asked, ref in (
        ("readme.txt", "main"),
        ("readme.txt:v1", "v1"),
        ("main~1:readme.txt", "main~1"),
        ("output/05:00/a:main", "main"),
        ("main:output/05:00/a", "main"),
        ("output/05:00/a", "main"),
    ):
        assert cli("why", asked, "--json").json["ref"] == ref


def test_why_of_what_never_was_says_so(cli, published):
    said = cli("why", "nowhere/05:00/x", "--json")
    assert (said.code, said.error["code"]) == (1, "object-not-found")
    published.branch("main").delete("readme.txt")
    published.branch("main").commit("gone")
    assert "main:readme.txt  (deleted)" in cli("why", "readme.txt").out


@pytest.fixture
def cleared(published):
    """A published run. One of its tasks is cleared and fails: the second attempt is parked."""
    published.runs.open("hour 05").park("one task was cleared")
    return published


def test_a_parked_attempt_does_not_hide_the_publish(cli, cleared):
    commit = cleared.runs.get("hour 05").commit
    (line,) = [line for line in cli("run", "list").out.splitlines() if "hour 05" in line]
    assert line.startswith("PARKED       attempt 2")
    assert f"main has {commit[:12]} of attempt 1" in line
    shown = cli("run", "show", "hour 05").out
    assert "state      PARKED, attempt 2" in shown
    assert "published  attempt 1 into main, " in shown
    assert f" UTC, commit {commit}; gates: complete passed\n" in shown
    (fact,) = cli("run", "show", "hour 05", "--json").json["publishes"]
    assert (fact["commit"], fact["attempt"], fact["rollback"]) == (commit, 1, "")
    assert [verdict["gate"] for verdict in fact["verdicts"]] == ["complete"]
    assert "hour 05, attempt 1 (PUBLISHED; attempt 2 is PARKED now)" in (
        cli("why", "output/05:00/a").out
    )
    assert "complete: passed" in cli("gates", "show", "hour 05").out


def test_a_list_shows_what_the_targets_have_now(cli, published):
    def line():
        (line,) = [line for line in cli("run", "list").out.splitlines() if "hour 05" in line]
        return line

    def why():
        return cli("why", "output/05:00/a:before").out

    commit = published.runs.get("hour 05").commit
    published.tags.create("before", commit)
    assert line().endswith(f"  hour 05  main has {commit[:12]} of attempt 1")
    assert "attempt 1 (now PUBLISHED)\n" in why()
    revert = published.revert(commit, parent=1).id
    assert line().endswith("  hour 05  main has nothing of it")
    assert f"attempt 1 (now PUBLISHED, rolled back by {revert[:12]})\n" in why()
    (shape,) = [shape for shape in cli("run", "list", "--json").lines if shape["key"] == "hour 05"]
    assert shape["publishes"][0]["rollback"] == revert
    published.revert(revert)
    assert line().endswith(f"  hour 05  main has {commit[:12]} of attempt 1")
    published.branch("main").reset(f"{commit}~1")
    assert line().endswith("  hour 05  main has nothing of it")
    assert "attempt 1 (now PUBLISHED, main has lost it)\n" in why()


def test_a_rollback_first_says_what_it_rolls_back(cli, cleared):
    commit = cleared.runs.get("hour 05").commit
    planned = cli("run", "rollback", "hour 05", "--dry-run").out
    assert "run hour 05: attempt 2 is PARKED" in planned
    assert "rolls back attempt 1 into main, " in planned
    assert f" UTC, commit {commit}\n" in planned
    assert "  removes output/05:00/a" in planned
    assert "attempt 2 was forked from it and cannot be published" in planned
    done = cli("run", "rollback", "hour 05").out
    assert done.startswith(planned.removesuffix("dry run: nothing was changed\n"))
    assert "run hour 05 is rolled back, by commit" in done
    assert "rolled back by commit" in cli("run", "show", "hour 05").out
    assert "main has" not in next(
        line for line in cli("run", "list").out.splitlines() if "hour 05" in line
    )


def test_a_run_shows_the_rows_that_a_gate_reports(cli, history):
    def tested(candidate):
        candidate.report(tests=2, results={"unique_id": "pass", "not_null_id": "fail: Got 1"})
        return "not_null_id: fail: Got 1"

    with pytest.raises(GateFailedError), history.run("hour 06", gates=tested) as run:
        run.put("a", b"1")
    for shown in (cli("run", "show", "hour 06").out, cli("gates", "show", "hour 06").out):
        rows = [line.strip() for line in shown.splitlines()]
        first = rows.index("results:") + 1
        assert rows[first : first + 2] == ["not_null_id: fail: Got 1", "unique_id: pass"]
