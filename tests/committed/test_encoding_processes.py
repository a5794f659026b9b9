"""Other processes encode the ranges of a large write. Only the time differs."""

import gc
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from graveler.base.worker_pool import spare_cores
from graveler.committed import range_writer
from graveler.committed.range_writer import RangeWriter
from graveler.committed.splitting import Splitting
from graveler.errors import BackendUnavailableError, UnsortedKeysError
from tests.committed.encoders import LARGE, SMALL, new_store, records, stored
from tests.harness.programs import FORKS, output_of, start_program

DESCRIPTORS = Path("/proc/self/fd")


def children():
    return {
        int(path.name)
        for path in Path("/proc").iterdir()
        if path.name.isdecimal() and _parent(path) == os.getpid()
    }


def _parent(path):
    try:
        return int((path / "stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


@pytest.fixture(autouse=True)
def processes(monkeypatch) -> Iterator[None]:
    """Every write is a large one, and every process has a core. No process is left at the end."""
    for name, value in LARGE.items():
        monkeypatch.setattr(range_writer, name, value)
    before, files = children(), descriptors()
    yield
    assert children() == before
    assert descriptors() == files


def descriptors():
    """Return the number of open files, without unreferenced files of earlier tests."""
    gc.collect()
    return len(list(DESCRIPTORS.iterdir()))


@pytest.mark.parametrize("count", [1, 3])
def test_the_ranges_are_the_same_to_the_byte(count):
    trees, contents = [], []
    for processes in (0, count):
        store = new_store(processes)
        with RangeWriter(store, SMALL) as writer:
            writer.add_all(records(3_000))
            trees.append(list(writer.finish()))
        contents.append(stored(store))
        assert writer.written == len(trees[-1]) > 20
    assert trees[0] == trees[1]
    assert contents[0] == contents[1]


def test_ranges_that_exist_stand_between_those_of_processes():
    results = []
    for processes in (0, 2):
        store = new_store(processes)
        with RangeWriter(store, SMALL) as writer:
            writer.add_all(records(300, start=2_000))
            middle = writer.finish()
        with RangeWriter(store, SMALL) as writer:
            writer.add_all(records(1_000))
            writer.add_ranges(middle)
            writer.add_all(records(1_000, start=2_300))
            results.append(list(writer.finish()))
    assert results[0] == results[1]


def pids_of(writer):
    return [each.process.pid for each in writer._workers._workers]


def started(writer):
    """Write until a process has work. Return all process ids and the number of records."""
    number = 0
    while not (writer._workers and any(each.tasks for each in writer._workers._workers)):
        writer.add_all(records(50, start=number))
        number += 50
    return pids_of(writer), number


@pytest.mark.parametrize("moment", ["while it encodes", "before it gets a range"])
def test_a_killed_process_fails_the_write_with_a_way_out(moment):
    store = new_store(1)
    with (
        pytest.raises(BackendUnavailableError, match=r"signal 9.*encoding_processes = 0"),
        RangeWriter(store, SMALL) as writer,
    ):
        if moment == "while it encodes":
            (pid,), number = started(writer)
        else:
            writer.add_all(records(1))
            (pid,), number = pids_of(writer), 1
        os.kill(pid, signal.SIGKILL)
        writer.add_all(records(3_000, start=number))
        writer.finish()
    with RangeWriter(store, SMALL) as writer:
        writer.add_all(records(3_000))
        assert sum(info.count for info in writer.finish()) == 3_000


def test_a_key_that_does_not_ascend_is_refused_there_too():
    wrong = list(records(200))
    wrong[100], wrong[101] = wrong[101], wrong[100]
    with (
        pytest.raises(UnsortedKeysError, match="ascending"),
        RangeWriter(new_store(1), Splitting()) as writer,
    ):
        writer.add_all(wrong)
        writer.finish()


def test_leaving_a_writer_ends_its_processes():
    with pytest.raises(ValueError, match="enough"), RangeWriter(new_store(2), SMALL) as writer:
        pids, _ = started(writer)
        assert set(pids) <= children()
        raise ValueError("enough")


def test_where_no_process_can_be_started_the_writer_encodes(monkeypatch):
    def refuse(*_arguments, **_options):
        raise OSError("no more processes")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with RangeWriter(new_store(2), SMALL) as writer:
        writer.add_all(records(1_000))
        assert sum(info.count for info in writer.finish()) == 1_000


def test_ranges_that_are_held_are_encoded_here():
    with RangeWriter(new_store(2), SMALL, hold=True) as writer:
        writer.add_all(records(1_000))
        assert writer._workers is None
        writer.finish()


def test_the_caller_keeps_a_core(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0, 1, 2, 3})
    assert [spare_cores(most) for most in (0, 2, 3, 9)] == [0, 2, 3, 3]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {5})
    assert spare_cores(3) == 0


def test_modules_of_the_working_folder_are_not_imported(monkeypatch, tmp_path):
    (tmp_path / "json.py").write_text("raise SystemExit('not the one of Python')")
    monkeypatch.chdir(tmp_path)
    with RangeWriter(new_store(1), SMALL) as writer:
        started(writer)
        writer.finish()


def test_a_module_path_may_hold_what_is_no_text(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [*sys.path, tmp_path, b"lib"])  # not folders for Python
    with RangeWriter(new_store(1), SMALL) as writer:
        started(writer)
        writer.finish()


def test_a_script_without_a_guard_is_not_run_again(tmp_path):
    """A process that imports the caller's program would write again, and print again."""
    printed = output_of("committed.programs.large_commit", tmp_path)
    assert printed.split() == ["2000", "paths"]


def test_processes_end_with_a_caller_that_is_killed():
    caller = start_program("committed.programs.killed_writer")
    pids = [int(word) for word in caller.stdout.readline().split()]
    assert len(pids) == 2
    assert all(Path(f"/proc/{pid}").exists() for pid in pids)
    processes = [os.pidfd_open(pid) for pid in pids]
    caller.kill()
    caller.communicate()
    for process in processes:
        assert select.select([process], [], [], 60)[0], "it runs on"
        os.close(process)


@pytest.mark.parametrize("program", ["", "/srv/app/bin/server", "/srv/app/bin/copyjob"])
def test_a_program_that_is_no_interpreter_starts_none(program, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0, 1, 2, 3})
    monkeypatch.setattr(sys, "executable", program)
    assert spare_cores(3) == 0


def test_a_forked_child_leaves_the_processes_to_its_parent():
    output_of("committed.programs.fork_beside_encoders", warnings=FORKS)
