"""The process of a gate cannot harm its publisher: its wrong messages are refused in time."""

import json
import random
from pathlib import Path

import pytest

from graveler.errors import GateFailedError
from graveler.gates.isolation.pickling import pickled
from tests.gates import samples
from tests.harness.hostile import (
    ANSWER,
    STATISTICS,
    candidate_of,
    converse,
    framed,
    fuzz_channel,
    said,
)

DEEP = 5_000


@pytest.fixture
def candidate(repo):
    return candidate_of(repo)


def answered(**fields):
    return said({"begun": True}) + said({"answer": {**ANSWER, **fields}})


def test_an_answer_is_taken(candidate):
    assert converse(candidate, answered()).passed
    refusal = converse(candidate, answered(passed=False, reason="too few"))
    assert (refusal.reason, refusal.died) == ("too few", False)


@pytest.mark.parametrize(
    "sent",
    [
        framed(b"[" * DEEP + b"]" * DEEP),
        framed(b'{"a":' * DEEP + b"1" + b"}" * DEEP),
        framed(b"no json"),
        framed(b"\xff\xfe"),
        framed(b"[]"),
        framed(b'{"answer": NaN}'),
        framed(b'{"answer": ' + b"9" * 5_000 + b"}"),
        b"\xff" * 4,
        said({}),
        said({"ask": ["now"]}),
        said({"begun": True}) * 2,
        answered(facts=[1]),
        answered(facts="x"),
        answered(seen={"k": 1}),
        answered(seen=[1]),
        answered(seen=[["t/", {}]]),
        answered(seen=[["t/", {**STATISTICS, "files": "1"}]]),
        answered(seen=[["t/", STATISTICS]] * 100),
        answered(seen=[["t/", {**STATISTICS, "columns": {"x" * 300_000: {}}}]]),
        answered(passed=1),
        answered(reason=None),
        said({"answer": {"passed": True}}),
        said({"answer": None}),
        b"",
    ],
)
def test_what_is_no_answer_is_a_refusal(candidate, sent):
    answer = converse(candidate, sent)
    assert answer.died
    assert not answer.passed
    assert answer.reason


def nested(depth):
    return {"a": nested(depth - 1)} if depth else {}


def test_facts_of_whatever_size_and_depth_are_kept_small(candidate):
    answer = converse(
        candidate,
        answered(
            facts={"deep": nested(200), "wide": {str(n): list(range(64)) for n in range(64)}},
            reason="\ud800" + "x" * 9_000,
        ),
    )
    assert answer.passed
    assert len(json.dumps(answer.facts)) < 30_000
    assert len(answer.reason.encode()) < 5_000


def test_statistics_are_of_the_candidate_whatever_is_said(candidate):
    answer = converse(candidate, answered(seen=[["\ud800", STATISTICS]]))
    assert [commit for commit, _ in answer.seen] == [""]


@pytest.mark.parametrize("seed", range(4))
def test_no_altered_message_raises_in_the_publisher(seed):
    passed = fuzz_channel(seed, 250)
    assert 0 < passed < 250


@pytest.mark.parametrize(
    "gate",
    [
        samples.asks_and_reads_no_answer,
        samples.says_a_byte_at_a_time,
        samples.begins_again_and_again,
        samples.asks_all_the_time,
    ],
    ids=lambda gate: gate.name,
)
def test_its_time_bounds_whatever_it_does(disk, gate):
    run = disk.runs.open("hour")
    run.put("large", bytes(8 << 20))
    run.commit_staged()
    (verdict,) = run.judge([gate])
    assert verdict.died
    assert "timeout of 0.4 s" in verdict.reason or "unexpected message" in verdict.reason


def test_it_has_no_credentials_and_reads_the_candidate_alone(disk, monkeypatch):
    for name in ("AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "GRAVELER_LAKE", "MY_TOKEN"):
        monkeypatch.setenv(name, "secret")
    with (
        pytest.raises(GateFailedError) as caught,
        disk.run("hour", gates=[samples.looks_around]) as run,
    ):
        run.put("a/1", b"1")
    (verdict,) = caught.value.verdicts
    refused, names = verdict.facts["reasons"], verdict.facts["environment"]
    assert len(refused) == 7
    assert refused[2].startswith("not a question: ['get', 'refs'")
    assert not {"AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "GRAVELER_LAKE", "MY_TOKEN"} & set(names)
    assert "PATH" in names


def test_no_setting_of_the_lake_travels(disk, monkeypatch):
    sent = []

    def keeps(task):
        sent.append(pickled(task))
        return sent[-1]

    monkeypatch.setattr("graveler.gates.isolation.process.pickled", keeps)
    with disk.run("hour", gates=[samples.counts]) as run:
        run.put("a/1", b"1")
    (raw,) = sent
    assert raw is not None
    assert b"sqlite" not in raw
    assert disk.stores.uid.encode() not in raw
    assert disk.stores.location.encode() not in raw


def test_a_gate_that_declares_anything_reads_all_but_the_repo(disk):
    run = disk.runs.open("hour")
    run.put("large", random.Random(0).randbytes(9 << 20))
    run.commit_staged()
    (verdict,) = run.judge([samples.reads_anything])
    assert verdict.reason.startswith("InvalidInputError: a gate in a process of its own has no")


def test_what_its_process_reads_is_verified(disk):
    run = disk.runs.open("hour")
    run.put("a/1", b"seven")
    run.commit_staged()
    address = next(run.entries("a/1")).address
    Path(disk.stores.uri(address).removeprefix("file://")).write_bytes(b"sEven")
    (verdict,) = run.judge([samples.counts])
    assert verdict.died
    assert verdict.reason.startswith("CorruptionError: 'a/1'")


def test_listings_that_a_gate_leaves_give_way_to_later_ones(disk):
    run = disk.runs.open("hour")
    for number in range(600):
        run.put(f"{number:03}", b"1")
    run.commit_staged()
    (verdict,) = run.judge([samples.leaves_listings])
    assert verdict.passed, verdict.reason


def test_a_file_elsewhere_is_read_through_the_publisher(repo, tmp_path):
    """The file is in a store in memory, which other processes do not have."""
    repo.stores.open_store("mem://elsewhere").put("x", b"seven")
    repo.links.allow("mem://elsewhere")
    with repo.run("hour", gates=[samples.counts]) as run:
        run.link("a/1", address="mem://elsewhere/x", size=5)
    assert run.result.verdicts[0].facts["text"] == "seven"
