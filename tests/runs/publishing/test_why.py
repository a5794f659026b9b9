"""The origin of a path: commit, run, step, try, gates, inputs, and committer."""

import pytest

from graveler.errors import ObjectNotFoundError
from graveler.gates import gate
from graveler.runs.provenance import Origin
from graveler.runs.record import Input
from graveler.runs.state import RunState

KEY = "hourly 05"
AIRFLOW = Origin(
    "airflow",
    job="hourly",
    run_id="scheduled__1",
    partition="2013-01-01T05:00",
    code_version="abc123",
    url="https://airflow/run/1",
    hour="2013-01-01T05:00Z",
)


@gate
def complete(candidate):
    return None


def publish(repo, files, key=KEY, step="ingest", try_number=1):
    with repo.run(key, gates=[complete], metadata=AIRFLOW.metadata()) as run:
        with run.step(step, try_number=try_number) as work:
            work.get("settled")
            for path, text in files.items():
                work.put(path, text.encode())
        with run.step("other") as other:
            other.put("elsewhere", b"1")
    return repo.runs.get(key)


def test_it_names_commit_run_step_try_gates_inputs_and_origin(repo):
    base = repo.commit("main")
    record = publish(repo, {"out/a": "1"}, try_number=2)
    with repo.run("later") as run:
        run.put("b", b"1")
    why = repo.why("out/a")
    assert why.entry == repo.ref("main").stat("out/a")
    assert why.commit.id == record.commit
    assert why.made.metadata["graveler.step"] == "ingest"
    assert (why.key, why.attempt, why.step, why.try_number) == (KEY, 1, "ingest", 2)
    assert why.run == record
    assert why.gates == ("complete",)
    assert [(verdict.gate, verdict.passed) for verdict in why.verdicts] == [("complete", True)]
    assert why.inputs == (Input(base.id, "settled"),)
    assert why.origin == AIRFLOW
    assert repo.why("elsewhere").step == "other"
    assert repo.why("b").step == ""
    assert repo.why("b").key == "later"


def test_it_shows_the_publish_in_the_ref_not_the_last_one(repo):
    first = publish(repo, {"out/a": "1"})
    publish(repo, {"out/b": "1"})
    why = repo.why("out/a", "main~1")
    assert (why.commit.id, why.attempt, why.run.attempt) == (first.commit, 1, 2)
    assert [verdict.gate for verdict in why.verdicts] == ["complete"]
    assert (why.publish.commit, why.gates) == (first.commit, ("complete",))
    done = repo.runs.rollback(KEY)
    why = repo.why("out/b")
    assert (why.entry, why.commit, why.key) == (None, done.commit, "")
    run = repo.runs.open(KEY)
    with run.step("one") as step:
        step.put("out/b", b"1")
    why = repo.why("out/b", run.branch)
    assert (why.key, why.step, why.run.state) == (KEY, "one", RunState.OPEN)
    run.publish()
    assert repo.why("out/b").attempt == 3


def test_a_path_without_a_run_has_the_commit_that_changed_it(repo):
    why = repo.why("settled")
    assert (why.commit.message, why.run, why.key, why.origin) == ("base", None, "", None)
    with repo.run("cleaner") as run, run.step("sweep") as step:
        step.delete("settled")
    why = repo.why("settled")
    assert (why.entry, why.key, why.step) == (None, "cleaner", "sweep")
    repo.create_branch("dev").put("by hand", b"1")
    made = repo.branch("dev").commit("by hand")
    merged = repo.merge("dev", into="main").commit
    why = repo.why("by hand")
    assert (why.commit, why.made, why.run) == (merged, made, None)
    with pytest.raises(ObjectNotFoundError, match="never was"):
        repo.why("nowhere")


def test_every_commit_of_a_run_says_who_made_it(repo):
    run = repo.runs.open(KEY, metadata=AIRFLOW.metadata())
    with run.step("one", metadata={"airflow.task_id": "ingest", "code.version": "def"}) as step:
        step.put("a", b"1")
    attached = repo.runs.attach(run.handle)
    attached.put("b", b"1")
    direct = attached.commit("direct", metadata={"url": "elsewhere"})
    published = attached.publish().commit
    assert Origin.of(step.result.metadata) == Origin(
        "airflow",
        job="hourly",
        run_id="scheduled__1",
        partition="2013-01-01T05:00",
        step="ingest",
        code_version="def",
        url="https://airflow/run/1",
        hour="2013-01-01T05:00Z",
    )
    assert Origin.of({**direct.metadata, "url": AIRFLOW.url}) == AIRFLOW
    assert direct.metadata["url"] == "elsewhere"
    assert Origin.of(published.metadata) == AIRFLOW
    for commit in (step.result, direct, published):
        assert (commit.metadata["graveler.run"], commit.metadata["graveler.attempt"]) == (KEY, "1")


def test_an_origin_comes_back_from_its_pairs():
    dagster = Origin("dagster", job="hourly", run_id="1", partition="05", step="events")
    assert dagster.metadata() == {
        "orchestrator": "dagster",
        "dagster.job": "hourly",
        "dagster.run_id": "1",
        "dagster.partition": "05",
        "dagster.step": "events",
    }
    assert AIRFLOW.metadata()["airflow.dag_id"] == "hourly"
    assert AIRFLOW.metadata()["airflow.partition_key"] == "2013-01-01T05:00"
    for origin in (dagster, AIRFLOW, Origin("cron"), Origin("cron", job="x", step="y")):
        assert Origin.of({**origin.metadata(), "other": "pair"}) == origin
    assert Origin.of({"hour": "05"}) is None


def test_of_a_folder_the_last_change_below_it_is_named(repo):
    publish(repo, {"out/a": "1", "other/b": "1"})
    with repo.run("later") as run:
        run.put("other/c", b"1")
    for path in ("out", "out/"):
        why = repo.why(path)
        assert (why.path, why.is_folder, why.entry, why.key) == ("out/", True, None, KEY)
        assert why.step == "ingest"
    assert repo.why("other/").key == "later"
    assert not repo.why("other/c").is_folder
    with repo.run("cleaner") as run:
        run.delete("out/a")
    assert repo.why("out/").key == "cleaner"
    for path in ("ou", "out/a/", "nowhere/"):
        with pytest.raises(ObjectNotFoundError, match="never was"):
            repo.why(path)


def test_reverts_of_reverts_are_passed_over(repo):
    dev = repo.create_branch("dev", "main")
    brought = {}
    for text in (b"one", b"two"):
        dev.put("f", text)
        brought[text] = dev.commit(text.decode()).id
    for _ in range(3):
        repo.revert("dev", "dev")
    for ref in ("dev", "dev~1", "dev~2", "dev~3"):
        assert repo.why("f", ref).commit.id == brought[repo.ref(ref).get("f")]
