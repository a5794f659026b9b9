"""Shared reads: the answer is never older than the question, and an idle key is read at once."""

import os
import threading
from itertools import count

import pytest

from graveler.errors import BackendUnavailableError
from graveler.kv.record_store import SharedReads

PATIENCE = 30


class Gate:
    """A read that waits until the test continues it, and returns its own number."""

    def __init__(self):
        self.begun = threading.Semaphore(0)
        self.through = threading.Semaphore(0)
        self.looks = count(1)
        self.fails = {}

    def read(self, key):
        number = next(self.looks)
        self.begun.release()
        assert self.through.acquire(timeout=PATIENCE)
        if number in self.fails:
            raise self.fails[number]
        return key, number


class Asker(threading.Thread):
    """Asks for one key, and keeps the answer or the error."""

    def __init__(self, reads, key="main"):
        super().__init__(daemon=True)
        self.reads, self.key = reads, key
        self.answer = None
        self.start()

    def run(self):
        try:
            self.answer = self.reads.get(self.key)
        except BaseException as error:  # noqa: BLE001 - the test checks it
            self.answer = error

    def said(self):
        self.join(PATIENCE)
        assert not self.is_alive()
        return self.answer


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture
def reads(gate):
    reads = SharedReads(gate.read)
    yield reads
    assert reads._under_way == {}


def waiting(reads, key="main"):
    """Return whether another thread waits for the read after the current one."""
    look = reads._under_way.get(key)
    return look is not None and look.next is not None


def until(condition):
    for _ in range(PATIENCE * 1000):
        if condition():
            return
        threading.Event().wait(0.001)
    pytest.fail("it never came about")


def test_an_idle_read_is_made_at_once_by_who_asks():
    makers = []

    def read(key):
        makers.append(threading.get_ident())
        return key

    reads = SharedReads(read)
    assert [reads.get("main"), reads.get("main")] == ["main", "main"]
    assert makers == [threading.get_ident()] * 2
    assert reads._under_way == {}


def test_a_reader_during_a_read_shares_one_that_begins_after(gate, reads):
    first = Asker(reads)
    assert gate.begun.acquire(timeout=PATIENCE)
    others = [Asker(reads) for _ in range(5)]
    until(lambda: waiting(reads))
    threading.Event().wait(0.05)  # let all five join: a later one would need a third read
    gate.through.release()
    assert first.said() == ("main", 1)
    assert gate.begun.acquire(timeout=PATIENCE)
    gate.through.release()
    gate.through.release()  # for threads that joined too late
    answers = [other.said() for other in others]
    assert all(answer[1] >= 2 for answer in answers)
    assert len({answer[1] for answer in answers}) <= 2


def test_other_keys_do_not_wait(gate, reads):
    slow, other = Asker(reads, "main"), Asker(reads, "dev")
    for _ in range(2):  # both reads have begun
        assert gate.begun.acquire(timeout=PATIENCE)
    gate.through.release(2)
    assert {slow.said()[0], other.said()[0]} == {"main", "dev"}


@pytest.mark.parametrize("error", [BackendUnavailableError("no answer"), KeyboardInterrupt()])
def test_who_shares_a_read_shares_its_error_unless_interrupted(gate, reads, error):
    gate.fails[2] = error
    first = Asker(reads)
    assert gate.begun.acquire(timeout=PATIENCE)
    others = [Asker(reads)]
    until(lambda: waiting(reads))
    others += [Asker(reads) for _ in range(3)]
    threading.Event().wait(0.05)
    for _ in range(6):
        gate.through.release()
    assert first.said() == ("main", 1)
    answers = [other.said() for other in others]
    failed = [answer for answer in answers if isinstance(answer, BaseException)]
    assert len(failed) == 1 if isinstance(error, KeyboardInterrupt) else failed
    assert all(answer[1] > 2 for answer in answers if isinstance(answer, tuple))


def test_a_forked_child_does_not_wait_for_reads_of_its_parent(gate, reads):
    asker = Asker(reads)
    assert gate.begun.acquire(timeout=PATIENCE)
    child = os.fork()
    if child == 0:
        reads._read = lambda key: key
        os._exit(0 if reads.get("main") == "main" else 1)
    assert os.waitpid(child, 0)[1] == 0
    gate.through.release()
    assert asker.said() == ("main", 1)


def test_a_handler_above_an_interrupted_read_reads_for_itself():
    depth = []

    def read(key):
        depth.append(key)
        return above.get(key) if len(depth) == 1 else len(depth)

    above = SharedReads(read)
    assert above.get("main") == 2
    assert above._under_way == {}


def test_a_read_that_never_ends_holds_up_nobody_for_long(gate, reads):
    stuck = Asker(reads)
    assert gate.begun.acquire(timeout=PATIENCE)
    first, second = Asker(reads), Asker(reads)
    assert gate.begun.acquire(timeout=PATIENCE)  # it has waited long enough and reads alone
    for _ in range(3):
        gate.through.release()
    assert all(isinstance(asker.said(), tuple) for asker in (first, second, stuck))
