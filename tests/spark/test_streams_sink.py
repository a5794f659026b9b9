"""The sink of streaming queries without a JVM: the tests make the objects that Spark passes."""

import pickle
import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import graveler
from graveler import checks
from graveler.errors import (
    CheckpointError,
    GateFailedError,
    InvalidInputError,
    RefNotFoundError,
    ThrottledError,
)
from graveler.spark.streams.sink import query_id
from graveler.spark.tables import Tables
from graveler.spark.transactions import Transaction

SPARK: Any = SimpleNamespace()  # without one, `Tables` would start a JVM
DRIVER = """
import os, signal, sys
from pathlib import Path
from types import SimpleNamespace as Made
import graveler
from graveler.runs.publication import RunCandidacy
from graveler.runs.run import Run
from graveler.spark.tables import Tables

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def dying(owner, name, before):
    call = getattr(owner, name)
    setattr(owner, name, lambda *args, **named: (before or call(*args, **named), die()))

def drive(folder, point):
    match point:
        case "committed on its own branch": dying(Run, "commit", False)
        case "before the compare-and-set": dying(RunCandidacy, "announce", False)
        case "after the compare-and-set": dying(RunCandidacy, "end", True)
        case "before the checkpoint": dying(Run, "publish", False)

    def put(tx, frame):
        for table in ("clicks", "counts"):
            tx._run.put(f"{table}/{tx._run.key}.csv", b"1")
        if point == "files written and staged":
            die()

    checkpoint = Path(folder, "checkpoint")
    lake = Tables(graveler.open(folder).repository("tables"), Made())
    write = lake.batch_writer("main", put, txn_app="clicks")
    query = Made(sparkSession=Made(sparkContext=Made(getLocalProperty=lambda name: "q1")))
    for number in range(len(checkpoint.read_text()), 3):  # as Spark does: a batch, then its record
        write(query, number)
        checkpoint.write_text("x" * (number + 1))

for line in sys.stdin:  # a new process for each point, without a new interpreter
    if not (child := os.fork()):
        try:
            drive(sys.argv[1], line.strip())
            os._exit(0)
        finally:
            os._exit(1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture
def repo(tmp_path):
    with graveler.init(tmp_path) as lake:
        yield lake.create_repository("tables")


def batch(query):
    """Return a frame of a micro-batch, with the parts that the sink uses."""
    context = SimpleNamespace(getLocalProperty={"sql.streaming.queryId": query}.get)
    frame: Any = SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=context))
    return frame


def put(tx, _frame):
    """Write two tables."""
    for table in ("clicks", "counts"):
        tx._run.put(f"{table}/{tx._run.key}.csv", b"1\n")


def land(repo, number, query="q1", *, app="clicks", work=put):
    write = Tables(repo, SPARK).batch_writer("main", work, txn_app=app)
    write(batch(query), number)


def landed(repo):
    line = repo.log("main", first_parent=True)
    return [commit.message for commit in line if "txn.app" in commit.metadata][::-1]


def files(repo, table="clicks"):
    return len(list(repo.ref("main").entries(f"{table}/")))


def test_a_batch_lands_once_with_all_of_its_tables(repo):
    for number in (0, 1, 1, 2):
        land(repo, number)
    assert landed(repo) == ["clicks: batch 0", "clicks: batch 1", "clicks: batch 2"]
    assert files(repo) == files(repo, "counts") == 3
    found = repo.commit("main").metadata
    assert {name: found[name] for name in found if name.startswith("txn.")} == {
        "txn.app": "clicks",
        "txn.version": "2",
        "txn.query": "q1",
    }


@pytest.mark.parametrize("number", [0, 2])
def test_a_query_with_a_new_checkpoint_is_refused(repo, number):
    land(repo, 0)
    land(repo, 1)
    head = repo.commit("main")
    with pytest.raises(CheckpointError) as refused:
        land(repo, number, "q2")
    assert repo.commit("main") == head
    for part in ("batch 1", "query q1", f"batch {number} of query q2", "another txn_app"):
        assert part in str(refused.value)
    assert "A restart alone does not help" in refused.value.__notes__[0]
    land(repo, number, "q2", app="clicks-2")
    land(repo, 2)
    assert files(repo) == 4
    with pytest.raises(CheckpointError, match="older than the branch, or a second driver"):
        land(repo, 1)
    with Tables(repo, SPARK).transaction("main", message="by hand", txn=("hand", 4)) as tx:
        put(tx, None)
    with pytest.raises(CheckpointError, match="of no streaming query"):
        land(repo, 4, app="hand")
    land(repo, 5, app="hand")


def test_batches_are_told_by_their_query_beyond_a_merge(repo):
    dev = repo.create_branch("dev")
    for number in range(4):
        dev.put(f"other/{number}", b"1")
        dev.commit("other")
    write = Tables(repo, SPARK).batch_writer("dev", put, txn_app="clicks")
    for number in range(2):
        write(batch("q2"), number)
        land(repo, number)
    land(repo, 2)
    repo.merge("dev", into="main")
    land(repo, 2)
    assert files(repo) == 5
    land(repo, 3)
    assert files(repo) == 6
    with pytest.raises(CheckpointError, match="of streaming query q1"):
        land(repo, 0, "q3")


def test_of_two_queries_of_one_name_one_lands(repo):
    def race(tx, frame):
        land(repo, 0, "q2")
        put(tx, frame)

    with pytest.raises(CheckpointError, match="of streaming query q2"):
        land(repo, 0, "q1", work=race)
    assert files(repo) == 1
    assert [branch.name for branch in repo.branches(hidden=True)] == ["main"]


def test_a_gate_refuses_a_batch_until_the_cause_is_mended(repo):
    def unnamed(tx, _frame):
        tx._run.put("clicks/notes", b"1")

    repo.gates.require("main", checks.file_format("clicks/"))
    land(repo, 0)
    with pytest.raises(GateFailedError, match="'clicks/notes' is not named as") as refused:
        land(repo, 1, work=unnamed)
    assert "A restart alone does not help" in refused.value.__notes__[0]
    assert landed(repo) == ["clicks: batch 0"]
    land(repo, 1)
    assert files(repo) == 2

    def fail(_tx, _frame):
        raise ThrottledError("busy")

    with pytest.raises(ThrottledError) as failed:
        land(repo, 7, work=fail)
    (note,) = failed.value.__notes__
    assert note.startswith("Batch 7 of 'clicks' on 'main': A restart of the query helps")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, {}),
        ({"mode": "overwrite"}, {"partition_overwrite": "static"}),
        ({"mode": "overwrite", "partition_overwrite": "dynamic"}, {}),
    ],
)
def test_a_complete_result_replaces_the_whole_table(repo, monkeypatch, given, wanted):
    seen: list[Any] = []
    monkeypatch.setattr(Transaction, "write", lambda tx, df, path, **options: seen.append(options))
    write = Tables(repo, SPARK).batch_writer("main", "t/", txn_app="a", partition_by=["b"], **given)
    write(batch("q1"), 0)
    assert seen == [{"partition_by": ["b"]} | given | wanted]
    sent = pickle.dumps(write)
    assert b"sqlite" not in sent
    assert repo.stores.location.encode() in sent


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"into": put, "mode": "append"}, "mode: options are for a folder"),
        ({"mode": "ignore"}, "mode='ignore'.*append, overwrite"),
        ({"into": ""}, "into"),
        ({"into": "tables//clicks/"}, "a part of it is empty"),
        ({"txn_app": ""}, "txn_app"),
        ({"metadata": [("a", "b")]}, "metadata="),
        ({"metadata": {"graveler.x": "1"}}, r"'clicks': metadata 'graveler\.x'"),
        ({"metadata": {"txn.version": "1"}}, r"'txn\.version'.*begin with 'txn\.'"),
        ({"metadata": {"spark.compaction": "t/"}}, r"'clicks': metadata 'spark\.compaction'"),
        ({"message": "x" * 100_000}, "message="),
        ({"format": "delta"}, "Delta table"),
        ({"partition_by": "dt"}, "partition_by="),
        ({"partition_overwrite": "some"}, "partition_overwrite="),
        ({"options": ["header"]}, "options="),
        ({"schema": "strict"}, "schema="),
    ],
)
def test_what_fails_at_any_batch_is_refused_before(repo, given, message):
    terms: dict[str, Any] = {"into": "clicks/", "txn_app": "clicks"} | given
    with pytest.raises(InvalidInputError, match=message):
        Tables(repo, SPARK).batch_writer("main", **terms)


def test_other_refusals_of_a_writer_and_a_transaction(repo):
    lake: Any = Tables(repo, SPARK)
    with pytest.raises(RefNotFoundError, match="nowhere"):
        lake.batch_writer("nowhere", "clicks/", txn_app="clicks")
    with pytest.raises(TypeError, match="owner"):
        lake.batch_writer("main", "clicks/", txn_app="clicks", owner="me")
    for name, txn in (("graveler.run", None), ("txn.query", ("clicks", 1))):
        with pytest.raises(InvalidInputError, match=f"metadata '{name}'.*choose another"):
            lake.transaction("main", message="x", metadata={name: "x"}, txn=txn)
    assert query_id(batch("q1").sparkSession, "") == "q1"
    with pytest.raises(InvalidInputError, match=r"give the writer to writeStream\.foreachBatch"):
        land(repo, 0, None)


def test_a_driver_killed_at_any_point_lands_each_batch_once(repo, tmp_path):
    (tmp_path / "checkpoint").write_text("")
    points = (
        "files written and staged",
        "committed on its own branch",
        "before the compare-and-set",
        "after the compare-and-set",
        "before the checkpoint",
        "never",
    )
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    drivers: Any = subprocess.Popen([sys.executable, "-c", DRIVER, tmp_path], **pipes)
    seen = []
    with drivers:
        for point in points:
            print(point, file=drivers.stdin, flush=True)
            assert int(drivers.stdout.readline()) == (0 if point == "never" else -signal.SIGKILL)
            seen.append(len(landed(repo)))
            assert seen[-1] == files(repo) == files(repo, "counts")
        drivers.stdin.close()
    assert seen == [0, 0, 0, 1, 2, 3]
    assert landed(repo) == [f"clicks: batch {number}" for number in range(3)]
