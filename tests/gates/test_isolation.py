"""A gate in a process of its own: the publisher continues in any case."""

import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import graveler
from graveler.errors import GateFailedError, InvalidInputError
from graveler.gates import Gate
from graveler.gates.isolation.pickling import path_of, pickled
from tests.gates import samples
from tests.harness.programs import start_program

# ruff: noqa: TID251 - real processes take real time


def alive(pid):
    """Return whether a process runs. A zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid):
    """Return whether a process ends within some seconds."""
    for _ in range(200):
        if not alive(pid):
            return True
        time.sleep(0.05)
    return False


def children():
    """Return the child processes that are not reaped."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # the process has ended
        if int(fields[1]) == os.getpid():
            found.add(int(stat.parent.name))
    return found


@pytest.fixture(params=["fresh", "forked"])
def gated(request):
    """Return a gate by name, for a fresh interpreter or, if it cannot be imported there, a fork."""

    def pick(name):
        gate = getattr(samples, name)
        if request.param == "fresh":
            return gate
        check = gate.check
        return replace(gate, check=lambda candidate: check(candidate))  # noqa: PLW0108 - one without a name

    return pick


def test_it_reads_the_candidate_and_reports(disk, gated, request):
    with disk.run("hour 05", gates=[gated("counts")]) as run:
        run.put("a/1", b"seven")
    (verdict,) = run.result.verdicts
    assert verdict.passed
    facts = dict(verdict.facts)
    assert facts.pop("pid") != os.getpid()
    assert facts == {
        "files": 2,
        "added": ["a/1"],
        "before": 1,
        "into": "main",
        "run": "hour 05",
        "text": "seven",
        "forked": request.node.callspec.params["gated"] == "forked",
    }
    assert verdict.seconds > 0
    assert verdict.at.startswith("20")
    assert verdict.commit == run.result.commit.id


def test_it_refuses_with_its_reason(disk, gated, refused):
    verdict = refused(disk, gated("says_no"))
    assert (verdict.reason, verdict.died) == ("1 is too few", False)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("loops", "longer than its timeout of 0.3 s"),
        ("sleeps", "longer than its timeout of 0.3 s"),
        ("kills_itself", "killed by SIGKILL"),
        ("crashes", "killed by SIGABRT"),
        ("leaves", "exit code 3 and without an answer"),
        ("exits", "SystemExit: enough"),
        ("leaks", "MemoryError"),
        ("closes_everything", "its process "),  # the first loss differs between runs
        ("dies_with_children", "killed by SIGKILL"),
        ("opens_the_lake", "ReadOnlyError: gate 'opens_the_lake' would write"),
    ],
)
def test_one_that_fails_has_refused_and_leaves_no_process(disk, gated, refused, name, reason):
    before = children()
    verdict = refused(disk, gated(name))
    assert reason in verdict.reason
    assert verdict.died
    assert children() <= before
    with disk.run("hour 05") as run:  # the next attempt succeeds
        run.put("a/1", b"1")
    assert disk.ref("main").get("a/1") == b"1"


def test_modules_of_the_working_folder_do_not_disturb_it(disk, monkeypatch, tmp_path):
    (tmp_path / "json.py").write_text("raise SystemExit('not the one of Python')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, tmp_path])
    with disk.run("hour 05", gates=[samples.counts]) as run:
        run.put("a/1", b"1")


def test_what_it_started_ends_with_it(disk, gated):
    with disk.run("hour 05", gates=[gated("leaves_children")]) as run:
        run.put("a/1", b"1")
    started = run.result.verdicts[0].facts["children"]
    assert len(started) == 2
    assert all(gone(pid) for pid in started)


def test_no_thread_of_it_can_write(disk, refused):
    assert "ReadOnlyError" in refused(disk, samples.writes_from_a_thread).reason
    assert not disk.branch("main").exists("b")


def test_a_reason_without_end_is_cut(disk, gated, refused):
    assert len(refused(disk, gated("floods")).reason) == 4000


def test_one_that_warns_does_not_refuse(disk):
    gate = Gate("dies", samples.kills_itself.check, severity="warn", isolated=True)
    with disk.run("hour 05", gates=[gate]) as run:
        run.put("a/1", b"1")
    (verdict,) = run.result.verdicts
    assert (verdict.passed, verdict.died, verdict.refuses) == (False, True, False)


def test_it_ends_when_its_publisher_is_killed(tmp_path):
    publisher = start_program("gates.programs.waiting_gate", tmp_path / "lake")
    with publisher:
        assert publisher.stdout
        pid = int(publisher.stdout.readline())
        assert alive(pid)
        publisher.kill()
    assert gone(pid)


def test_a_lake_in_memory_is_read_through_the_publisher(repo):
    with repo.run("hour 05", gates=[samples.counts]) as run:
        run.put("a/1", b"seven")
    facts = run.result.verdicts[0].facts
    assert (facts["text"], facts["forked"]) == ("seven", False)


def test_a_store_held_by_one_process_is_read_by_the_publisher(tmp_path):
    folder = tmp_path / "lake"
    folder.mkdir()
    (folder / "graveler.toml").write_text(
        'format = 1\n[kv]\nuri = "rocksdb://kv"\n[storage]\nuri = "file://objects"\n'
    )

    def first(candidate):
        past = [one.run for one in candidate.history("a/")]
        candidate.report(past=past, target=candidate.target.message)

    with graveler.open(folder, create=True) as lake:
        made = lake.create_repository("flights")
        reads = {"history", "target"}
        for gate in (samples.counts, graveler.gate(reads=reads, isolated=True)(first)):
            with made.run(gate.name, gates=[gate]) as run:
                run.put("a/1", b"seven")
                run.put(gate.name, b"1")
        facts = made.runs.get("first").verdicts[0].facts
        assert facts == {"past": ["counts"], "target": "run counts"}


def test_parallel_publishers_have_a_process_each(disk):
    def publish(hour):
        with disk.run(f"hour {hour}", gates=[samples.counts]) as run:
            run.put("a/1" if hour else "a/2", b"1")
            run.put("a/1", b"seven")
        return run.result.verdicts[0].facts["pid"]

    with ThreadPoolExecutor(2) as pool:
        assert len(set(pool.map(publish, range(2)))) == 2


def test_what_can_be_imported_travels_by_name():
    assert path_of(samples.counts.check) == "tests.gates.samples:counts"
    assert path_of(lambda _: None) is None
    for check in (samples.counts.check, samples.AtLeast(2), partial(samples.loops.check)):
        assert pickled(check) is not None
    for check in (lambda _: None, partial(lambda _: None)):
        assert pickled(check) is None


def test_a_check_that_is_an_object_travels_with_its_parameters(disk, refused):
    verdict = refused(disk, Gate("at least", samples.AtLeast(5), isolated=True))
    assert verdict.reason == "it returned False"
    with disk.run("hour 05", gates=[Gate("at least", samples.AtLeast(2), isolated=True)]):
        pass


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"timeout": 0}, "timeout 0"),
        ({"timeout": float("nan")}, "timeout nan"),
        ({"timeout": -1.0}, "timeout -1.0"),
        ({"memory": 10}, "memory 10"),
        ({"severity": "fatal"}, "severity='fatal'"),
        ({"reads": "minds"}, "reads 'minds'"),
    ],
)
def test_limits_that_are_none_are_refused(given, said):
    with pytest.raises(InvalidInputError, match=said):
        graveler.gate("odd", **given)(lambda _: None)


def test_a_publisher_that_is_interrupted_takes_the_process_along(disk):
    seen = []

    def note(number, frame):
        seen.append(children() - before)
        raise KeyboardInterrupt

    def soon(candidate):
        signal.setitimer(signal.ITIMER_REAL, 0.5)

    before = children()
    sleeps = samples.sleeps.check
    old = signal.signal(signal.SIGALRM, note)
    try:
        with pytest.raises(KeyboardInterrupt):
            with disk.run("hour 05", gates=[soon, Gate("s", sleeps, isolated=True)]) as run:
                run.put("a/1", b"1")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert seen[0]
    assert not children() - before
    with pytest.raises(GateFailedError):
        with disk.run("hour 05", gates=[samples.says_no]):
            pass
