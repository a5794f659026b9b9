"""A fork waits for calls that it must not interrupt, and for no other calls."""

import fcntl
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread

import pytest

import graveler
from graveler.base import forks
from graveler.base.background import OneThread
from graveler.base.forks import held_off
from graveler.base.local_files import exclusive
from graveler.runs.attempt import Reads
from tests.harness.programs import FORKS, output_of

pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)


def call() -> None:
    with held_off:
        pass


def status_of_child(work: Callable[[], None] = call) -> int:
    """Fork, do `work` in the child, and return its exit status: 0 is success, 14 is a hang."""
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1]


@pytest.fixture
def caller() -> Iterator[tuple[Thread, Event]]:
    """A thread within a call, and the event that ends the call."""
    within, end = Event(), Event()

    def stay() -> None:
        with held_off:
            within.set()
            assert end.wait(30)

    thread = Thread(target=stay)
    thread.start()
    assert within.wait(10)
    yield thread, end
    end.set()
    thread.join()


@contextmanager
def held(lock: Lock) -> Iterator[None]:
    """Hold a lock in another thread."""
    holding, end = Event(), Event()

    def hold() -> None:
        with lock:
            holding.set()
            assert end.wait(30)

    thread = Thread(target=hold)
    thread.start()
    assert holding.wait(10)
    yield
    end.set()
    thread.join()


LOCKS = {
    "tables": lambda stores: stores.ranges.cache,
    "ranges": lambda stores: stores.ranges,
    "metaranges": lambda stores: stores.ranges.cache.metaranges,
    "commits": lambda stores: stores.refs.commits,
}


@pytest.mark.parametrize("name", LOCKS)
def test_a_child_does_not_wait_for_a_reader_of_its_parent(tmp_path, name):
    with graveler.init(tmp_path / "lake") as lake:
        main = lake.create_repository("flights").branch("main")
        main.put("a", b"1")
        main.commit("first")

        def work() -> None:
            assert main.get("a") == b"1"
            main.put("a", b"2")
            main.commit("second")

        with held(LOCKS[name](main.repository)._lock):
            assert status_of_child(work) == 0


@pytest.mark.parametrize(
    ("kind", "use"),
    [(Reads, lambda reads: reads.note("c", "a/")), (OneThread, lambda tasks: tasks.close())],
)
def test_a_child_does_not_wait_for_a_lock_of_its_parent(kind, use):
    shared = kind()
    with held(shared._lock):
        assert status_of_child(lambda: use(shared)) == 0


def forks_wait() -> bool:
    return bool(held_off._forking)


def until(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        Event().wait(0.01)
    raise AssertionError("it never came to that")


def test_a_fork_waits_for_calls_of_threads_and_holds_new_ones(caller):
    thread, end = caller
    statuses: list[int] = []
    forker = Thread(target=lambda: statuses.append(status_of_child()))
    forker.start()
    until(forks_wait)
    late = Thread(target=call)
    late.start()
    late.join(0.1)
    assert late.is_alive()
    assert forker.is_alive()
    assert statuses == []
    end.set()
    for each in (thread, forker, late):
        each.join(10)
    assert statuses == [0]
    assert not forks_wait()


def test_a_call_that_hangs_is_waited_for_once(caller, monkeypatch):
    monkeypatch.setattr(forks, "_PATIENCE_S", 0.05)
    assert status_of_child() == 0
    monkeypatch.setattr(forks, "_PATIENCE_S", 60.0)
    again = Thread(target=status_of_child)
    again.start()
    again.join(20)
    assert not again.is_alive()
    thread, end = caller
    end.set()
    thread.join(10)
    assert not held_off._hung


def test_a_fork_does_not_wait_for_itself(caller):
    called: list[bool] = []

    def handle(*_: object) -> None:
        call()  # runs in the main thread, which waits to fork
        called.append(forks_wait())
        caller[1].set()

    def wake() -> None:
        until(forks_wait)
        os.kill(os.getpid(), signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, handle)
    try:
        waker = Thread(target=wake)
        waker.start()
        assert status_of_child() == 0
        waker.join(10)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert called == [True]


def test_a_child_does_not_wait_for_a_write_of_its_parent(tmp_path):
    def lock_it() -> None:
        with exclusive(tmp_path / "lock"):
            pass

    within = Event()

    def write() -> None:
        with exclusive(tmp_path / "lock"):
            within.set()
            until(forks_wait)

    writer = Thread(target=write)
    writer.start()
    assert within.wait(10)
    assert status_of_child(lock_it) == 0
    writer.join()


def test_a_child_keeps_no_lock_of_its_parent(tmp_path):
    """A fork within the call of its own thread does not wait for the call."""
    goes_on, go_on = os.pipe()
    with exclusive(tmp_path / "lock"):
        child = os.fork()
        if child == 0:
            os.read(goes_on, 1)
            os._exit(0)
    try:
        with (tmp_path / "lock").open() as again:
            fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.write(go_on, b"x")
        assert os.waitpid(child, 0)[1] == 0
        os.close(goes_on)
        os.close(go_on)


@pytest.mark.parametrize("module", ["numpy", "pyarrow"])
def test_a_child_does_not_wait_for_an_import_of_its_parent(tmp_path, module):
    folder = tmp_path / "lake"
    output = output_of("foundations.programs.forked_import", folder, module, warnings=FORKS)
    assert output.split() == ["0"]


def test_a_fork_within_a_call_of_its_thread_works_on_both_sides() -> None:
    def fork_again() -> None:
        call()
        assert status_of_child() == 0

    with held_off:
        assert status_of_child(fork_again) == 0
        call()
    assert not held_off._calls
