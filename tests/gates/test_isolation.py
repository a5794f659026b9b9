"""A gate in a process of its own: the publisher continues in any case."""

import os
import signal
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from graveler.errors import GateFailedError
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


def forked(gate):
    """Return the gate with a check that has no name, so that its process is a fork."""
    check = gate.check
    return replace(gate, check=lambda candidate: check(candidate))  # noqa: PLW0108 - one without a name


@pytest.mark.parametrize("fork", [False, True])
def test_it_reads_the_candidate_and_reports(disk, fork):
    gate = forked(samples.counts) if fork else samples.counts
    with disk.run("hour 05", gates=[gate]) as run:
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
        "forked": fork,
    }
    assert verdict.seconds > 0
    assert verdict.at.startswith("20")
    assert verdict.commit == run.result.commit.id


@pytest.mark.parametrize(
    ("gate", "reason"),
    [
        (samples.loops, "longer than its timeout of 0.3 s"),
        (forked(samples.loops), "longer than its timeout of 0.3 s"),
        (samples.kills_itself, "killed by SIGKILL"),
        (forked(samples.kills_itself), "killed by SIGKILL"),
        (samples.leaves, "exit code 3 and without an answer"),
        (samples.exits, "SystemExit: enough"),
        (samples.leaks, "MemoryError"),
        (forked(samples.leaks), "MemoryError"),
        (samples.closes_everything, "its process "),  # the first loss differs between runs
        (samples.dies_with_children, "killed by SIGKILL"),
        (samples.opens_the_lake, "ReadOnlyError: gate 'opens_the_lake' would write"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_one_that_fails_has_refused_and_leaves_no_process(disk, refused, gate, reason):
    before = children()
    verdict = refused(disk, gate)
    assert reason in verdict.reason
    assert verdict.died
    assert children() <= before
    with disk.run("hour 05") as run:  # the next attempt succeeds
        run.put("a/1", b"1")
    assert disk.ref("main").get("a/1") == b"1"


def test_it_refuses_with_its_reason(disk, refused):
    verdict = refused(disk, samples.says_no)
    assert (verdict.reason, verdict.died) == ("1 is too few", False)


def test_modules_of_the_working_folder_do_not_disturb_it(disk, monkeypatch, tmp_path):
    (tmp_path / "json.py").write_text("raise SystemExit('not the one of Python')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, tmp_path])
    with disk.run("hour 05", gates=[samples.counts]) as run:
        run.put("a/1", b"1")


def test_what_it_started_ends_with_it(disk):
    with disk.run("hour 05", gates=[samples.leaves_children]) as run:
        run.put("a/1", b"1")
    started = run.result.verdicts[0].facts["children"]
    assert len(started) == 2
    assert all(gone(pid) for pid in started)


def test_no_thread_of_it_can_write(disk, refused):
    assert "ReadOnlyError" in refused(disk, samples.writes_from_a_thread).reason
    assert not disk.branch("main").exists("b")


def test_it_ends_when_its_publisher_is_killed(tmp_path):
    publisher = start_program("gates.programs.waiting_gate", tmp_path / "lake")
    with publisher:
        assert publisher.stdout
        pid = int(publisher.stdout.readline())
        assert alive(pid)
        publisher.kill()
    assert gone(pid)


def test_what_can_be_imported_travels_by_name():
    assert path_of(samples.counts.check) == "tests.gates.samples:counts"
    assert path_of(lambda _: None) is None
    for check in (samples.counts.check, samples.AtLeast(2), partial(samples.loops.check)):
        assert pickled(check) is not None
    for check in (lambda _: None, partial(lambda _: None)):
        assert pickled(check) is None


def test_a_publisher_that_is_interrupted_takes_the_process_along(disk):
    seen = []

    def note(number, frame):
        seen.append(children() - before)
        raise KeyboardInterrupt

    def soon(candidate):
        signal.setitimer(signal.ITIMER_REAL, 0.5)

    before = children()
    loops = samples.loops.check
    old = signal.signal(signal.SIGALRM, note)
    try:
        with pytest.raises(KeyboardInterrupt):
            with disk.run("hour 05", gates=[soon, Gate("s", loops, isolated=True)]) as run:
                run.put("a/1", b"1")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert seen[0]
    assert not children() - before
    with pytest.raises(GateFailedError):
        with disk.run("hour 05", gates=[samples.says_no]):
            pass


@pytest.mark.parametrize("fork", [False, True])
def test_gates_of_their_own_processes_run_side_by_side(disk, tmp_path, fork):
    pairs = [("one", "two"), ("two", "one")]
    gates = [
        Gate(own, samples.Meets(str(tmp_path), own, partner), isolated=True)
        for own, partner in pairs
    ]
    gates = [forked(gate) for gate in gates] if fork else gates
    with disk.run("hour", gates=gates) as run:
        run.put("a/1", b"1")
    assert [verdict.passed for verdict in run.result.verdicts] == [True, True]


def test_an_error_beside_gates_in_processes_ends_them(disk):
    def interrupted(candidate):
        raise KeyboardInterrupt

    before = children()
    apart = [Gate(name, samples.loops.check, isolated=True) for name in ("one", "two")]
    with (
        pytest.raises(KeyboardInterrupt),
        disk.run("hour", gates=[*apart, Gate("i", interrupted)]) as run,
    ):
        run.put("a/1", b"1")
    assert children() <= before
