# mypy: ignore-errors
"""The operators of a run, called twice, called late, and called with stale handles."""

import dataclasses
import logging
from datetime import timedelta
from types import SimpleNamespace

import pytest
import structlog
from airflow.sdk import DAG, Asset, AssetAlias
from airflow.sdk.exceptions import AirflowSkipException
from structlog.testing import capture_logs

import graveler
from graveler.base.clock import SystemClock
from graveler.errors import BackendUnavailableError, ThrottledError
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
from graveler_airflow.failures import final_failures
from tests.real.airflow.played import context, final, tries


def states(**of_tasks):
    """Return the context of a task of a DAG run in which the tasks have these states."""
    return context(get_task_states=lambda **_: {"r1": of_tasks})


FAILED = states(a="failed", b="success")


@pytest.fixture
def opened(repo):
    """Return a function that opens a run with a step that writes a file."""

    def opened(key, **terms):
        run = repo.runs.open(key, **terms)
        with run.step("s") as step:
            step.put(f"files/{key}", b"x")
        return run

    return opened


def merging(handle, *gates, **terms):
    return GravelerPublishRunOperator(task_id="merge", run=pack(handle), gates=gates, **terms)


def merge(run, *gates):
    return merging(run.handle, *gates).execute(context("merge"))


def close(run, known=FAILED):
    return GravelerCloseRunOperator(task_id="close", run=pack(run.handle)).execute(known)


def judge(run, *gates):
    operator = GravelerGateOperator(task_id="gate", run=pack(run.handle), gates=gates)
    return operator.execute(context("gate"))


def test_a_merge_that_runs_again_answers_with_the_same_commit(repo, opened):
    run = opened("twice")
    assert merge(run) == merge(run) == repo.commit("main").id


class Events(dict):
    """The events of the outlets of a task."""

    def __missing__(self, asset):
        self[asset] = SimpleNamespace(extra=None, added=[])
        self[asset].add = lambda about, extra: self[asset].added.append([about.uri, extra])
        return self[asset]


def events_of(run):
    """Merge a run; return the event, whether the task links to a commit, and what an alias got."""
    outlets = [Asset("main", "grav://flights/main"), AssetAlias("any")]
    task, known = merging(run.handle, outlets=outlets), Events()
    task.execute({**context("merge"), "outlet_events": known})
    plain, alias = (known[outlet] for outlet in outlets)
    ((uri, extra),) = alias.added
    assert uri in ("grav://flights/main", "grav://graveler_default@flights/main")
    assert extra == plain.extra
    return extra, any(vars(task).get("graveler_addresses", ()))


def test_the_events_of_a_publish_name_its_own_commit_or_none(repo, opened):
    extra, linked = events_of(opened("event"))
    assert (extra["commit"], extra["changed"], linked) == (repo.commit("main").id, True, True)
    nothing, linked = events_of(repo.runs.open("nothing"))
    assert nothing["changed"] is linked is False
    assert not {"commit", "previous"} & nothing.keys()
    again = opened("event")  # the run has written equal files once more
    for _ in range(2):
        extra, _ = events_of(again)
        assert (extra["changed"], extra["commit"]) == (False, repo.commit("main").id)


def test_a_refusal_of_a_gate_is_final_and_its_reason_is_kept(opened):
    run = opened("refused")
    with final("<lambda>: no"):
        merge(run, lambda candidate: "no")
    with final("it is PARKED on branch run-refused-.*<lambda>: no"):
        close(run)


def test_a_stale_handle_publishes_nothing_and_is_not_retried(repo, opened):
    stale = opened("again")
    repo.runs.open("again")
    with final("^fenced"):
        merge(stale)
    assert (close(stale), repo.runs.get("again").attempt) == ("OPEN", 2)


def test_closing_is_idempotent_and_names_the_failed_tasks(repo, opened):
    run = opened("failed")
    for _ in range(2):
        with final("^run 'failed' is not published: it is PARKED on branch run-failed-") as failed:
            close(run)
        for part in (
            "(Airflow run r1: a failed): main did not move, main has nothing of it;",
            "clear the failed tasks with 'only failed' off",
            "`graveler run show failed`",
        ):
            assert part in str(failed.value)
    assert repo.runs.get("failed").reason == "Airflow run r1: a failed"


def test_a_run_opened_to_be_dropped_is_dropped_at_its_end(opened):
    run = opened("dropped", on_failure="drop")
    for _ in range(2):
        with final("clear the whole DAG run to do it again: nothing of it is kept$"):
            close(run)


def test_the_end_of_a_run_is_skipped_if_its_tasks_were(opened):
    said = r"\(Airflow run r1: a skipped, merge skipped\)"
    with pytest.raises(AirflowSkipException, match=said):
        close(opened("skipped"), states(a="skipped", merge="skipped", b="success"))


def test_a_handle_of_another_lake_or_repository_is_refused(own, repo, opened, tmp_path):
    opened("cut")
    with graveler.open(tmp_path / "other", create=True) as lake:
        foreign = lake.create_repository("flights").runs.open("cut").handle
    moved = dataclasses.replace(foreign, location=own.location)
    with final("^fenced"):
        merging(moved).execute(context())
    with final("^repository-not-found: no repository 'trains'"):
        merging(dataclasses.replace(moved, repository="trains")).execute(context())
    with final("graveler_run"):
        GravelerPublishRunOperator(task_id="m", run="x").execute(context())


def test_an_absent_lake_is_tried_again_and_none_is_made(tmp_path):
    folder, away = tmp_path / "lake", tmp_path / "away"
    with graveler.open(folder, create=True) as lake:
        task = merging(lake.create_repository("flights").runs.open("away").handle)
    folder.rename(away)
    folder.mkdir()
    with pytest.raises(BackendUnavailableError, match="is its volume mounted"):
        task.execute(context())
    assert list(folder.iterdir()) == []
    folder.rmdir()
    away.rename(folder)
    assert task.execute(context())


def test_a_busy_store_is_left_to_airflows_retries():
    with pytest.raises(ThrottledError), final_failures():
        raise ThrottledError("later")


@graveler.gate(version="1")
def fine(candidate):
    return candidate.exists("files/judged")


def test_a_gate_task_refuses_without_retry_or_moves_nothing(repo, opened):
    run = opened("judged")
    assert [verdict["passed"] for verdict in judge(run, fine)] == [True]
    with final("^gate-failed: run 'judged' would be refused: <lambda>"):
        judge(run, fine, lambda candidate: False)
    careful = graveler.gate("careful", severity="warn")(lambda candidate: "hm")
    assert judge(run, careful) == [{"gate": "careful", "passed": False, "reason": "hm"}]
    assert repo.runs.get("judged").state == "OPEN"
    assert not repo.ref("main").exists("files/judged")


def test_the_merge_reuses_the_verdicts_of_the_gate_task(repo, opened):
    run = opened("judged")
    judge(run, fine)
    merge(run, fine)
    assert list(repo.gates.judgement("main").reused) == ["fine"]


def test_a_run_is_rolled_back_once_beside_a_parked_attempt(repo, opened):
    merge(opened("rolled back"))
    repo.runs.open("rolled back").park("one task was cleared")

    def back(run):
        return GravelerRollbackOperator(task_id="back", repo="flights", run=run)

    first, second = tries(back("rolled back"))
    assert first == second == repo.commit("main").id
    assert not repo.ref("main").exists("files/rolled back")
    assert repo.commit("main").metadata["airflow.task_id"] == "back"
    with final("^run-not-found"):
        back("unknown").execute(context())


def test_a_silent_run_is_parked_and_its_tasks_are_fenced(repo, opened):
    reap = GravelerReapOperator(task_id="reap", repo="flights")
    opened("loud")
    assert reap.execute(context()) == []
    silent = opened("silent", lease=timedelta(milliseconds=1))
    (reaped,) = reap.execute(context())
    assert (reaped["key"], reaped["from"], reaped["to"]) == ("silent", "OPEN", "PARKED")
    with final("^fenced"):
        merge(silent)


def test_maintenance_packs_and_names_a_branch_that_fails(repo, monkeypatch):
    main = repo.branch("main")
    for names in ("abcdefgh", "z"):
        main.put_many((f"zz/{name}", b"1") for name in names)
        main.commit(names)
    repo.packing.set(after=1)
    terms = {"task_id": "maintain", "repo": "flights"}
    off = dict.fromkeys(("pack", "reap", "gc"), False)
    nothing = {"packed": {}, "reaped": [], "branches": {}, "marks": []}
    with monkeypatch.context() as patch:

        def fails(*_, **__):
            raise BackendUnavailableError("away")

        patch.setattr("graveler.lake.maintenance.pack", fails)
        with pytest.raises(BackendUnavailableError, match=r"^branch 'main': away"):
            GravelerMaintainOperator(**terms).execute(context())
    assert GravelerMaintainOperator(**terms, **off).execute(context()) == nothing
    assert repo.stats().badly_cut > 0
    done = GravelerMaintainOperator(**terms).execute(context())
    assert done == {**nothing, "packed": {"main": repo.commit("main").id}}


def task_of(act, handle, name="late"):
    with DAG("cleared"):
        return graveler_task(act, task_id=name)(handle).operator


def test_a_task_of_a_parked_attempt_names_what_to_clear(opened):
    run = opened("aside")
    with final("is not published"):
        close(run)
    handle = pack(run.handle, opened_by="flights.open_run")
    late = (
        task_of(lambda step: step.put("u", b"u"), handle),
        GravelerGateOperator(task_id="gate", run=handle, gates=[fine]),
        GravelerPublishRunOperator(task_id="merge", run=handle),
    )
    over = (
        r"^fenced: attempt 1 of run 'aside' is over, the run is PARKED \(Airflow run r1: a failed"
    )
    for task in late:
        with final(f"{over}.*clear 'flights.open_run' as well"):
            task.execute(context(task.task_id))


def test_a_task_renews_the_lease_while_it_works(repo, opened):
    run = opened("kept alive", lease=timedelta(seconds=1))

    def works(step):
        begun = repo.runs.get("kept alive").updated
        for _ in range(1000):
            SystemClock().sleep(0.05)
            if repo.runs.get("kept alive").updated > begun + timedelta(seconds=1.2):
                return "done"
        return "it was not renewed for longer than the lease"

    assert task_of(works, pack(run.handle)).execute(context("late")) == "done"
    merge(run)


@pytest.fixture
def informed():
    """Let tasks log their information, as workers do."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    yield
    structlog.configure(**before)


def test_a_line_of_the_log_names_each_step_and_each_publish(repo, caplog, informed):
    caplog.set_level(logging.INFO)
    run = repo.runs.open("logged")
    acts = {"puts": lambda step: step.put("v", b"v"), "reads": lambda step: len([*step.entries()])}
    for name, act in acts.items():
        task_of(act, pack(run.handle), name).execute(context(name))
    joined = repo.commit(run.branch).id
    with capture_logs() as rows:
        published = merge(run)
        merge(run)
    lines = [*caplog.messages, *(row["event"] for row in rows)]
    assert [line for line in lines if "run 'logged'" in line.lower()] == [
        f"Step 'puts' of run 'logged', attempt 1: joined {run.branch} by commit {joined}",
        "Step 'reads' of run 'logged', attempt 1: changed nothing: no commit",
        f"Run 'logged' is published: main is at commit {published}",
        f"Run 'logged' was published before: main is at commit {published}",
    ]


def test_a_task_without_a_run_is_refused():
    with final("^late was called without a run.*use `airflow dags test`$"):
        task_of(lambda step: None, "no run").execute(context("late"))


def openings(dag_id, *runs):
    """Return a function for each opening of a run in a DAG, which executes it."""
    with DAG(dag_id) as dag:
        for terms in runs:
            with graveler_run(**terms):
                pass
    known = context(dag_id=dag_id)
    opening = [task for task in dag.tasks if task.task_id.endswith("open_run")]
    return [lambda task=task: task.execute(known) for task in opening]


def test_two_tasks_of_a_dag_that_open_one_run_are_refused(own, repo, connect):
    connect("here", host=own.location, extra={"repo": "flights"})
    one, default = {"repo": "flights"}, {"graveler_conn_id": "here"}
    others = ("graveler.open_run", "flights.open_run")
    for opening, other in zip(openings("same", one, default), others, strict=True):
        said = f"^invalid-input: {other} opens run 'same r1' of repository.*group_id"
        with final(said):
            opening()
    for opening in openings("named", one, {**default, "group_id": "more"}):
        opening()


def test_runs_of_one_dag_in_two_lakes_are_opened(repo, connect, tmp_path):
    with graveler.open(tmp_path / "there", create=True) as lake:
        lake.create_repository("flights")
    connect("there", host=str(tmp_path / "there"), extra={"repo": "flights"})
    for opening in openings("apart", {"repo": "flights"}, {"graveler_conn_id": "there"}):
        opening()
