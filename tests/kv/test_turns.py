import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Thread

import pytest

from graveler.base.clock import SystemClock
from graveler.kv.turns import FileTurns, Turns, _Queue


def _join(turns: Turns, name: str, work: Callable[[], object]) -> Thread:
    """Start a thread that waits for its turn at `name` and does `work`; return when it waits."""

    def wait() -> None:
        with turns.take(name, 60) as had:
            assert had
            work()

    standing = len(turns._lines.by_name.get(name, ()))
    thread = Thread(target=wait)
    thread.start()
    while len(turns._lines.by_name.get(name, ())) == standing:
        pass
    return thread


@contextmanager
def _ended(threads: list[Thread]) -> Iterator[None]:
    yield
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()


def test_threads_are_served_in_the_order_of_asking() -> None:
    turns = Turns()
    served: list[int] = []
    threads: list[Thread] = []
    with _ended(threads), turns.take("main", 0) as had:
        assert had
        for number in range(6):
            threads.append(_join(turns, "main", partial(served.append, number)))
            with turns.take("main", 0) as gave_up:  # and does not hold up those behind
                assert not gave_up
    assert served == list(range(6))
    assert turns._lines.by_name == {}


def test_different_names_do_not_wait_for_each_other() -> None:
    turns = Turns()
    with turns.take("a", 0) as first, turns.take("b", 0) as second:
        assert (first, second) == (True, True)


def test_stores_of_one_process_take_turns_by_the_file(tmp_path: Path) -> None:
    one, other = (FileTurns(tmp_path / "turns", SystemClock()) for _ in range(2))
    with one.take("main", 60) as had:
        assert had
        with other.take("main", 0.01) as second:
            assert not second
    with other.take("main", 60) as had:
        assert had


def test_processes_are_served_in_the_order_of_asking(tmp_path: Path) -> None:
    # Each process opens its own queue; several queues of one process behave alike.
    queues = [_Queue(tmp_path / "queue", 7) for _ in range(5)]
    tickets = [queue.draw() for queue in queues]
    assert tickets == list(range(5))
    for first, queue in enumerate(queues):
        assert queue.ahead(first) == 0
        ahead = [other.ahead(number) for number, other in enumerate(queues) if number > first]
        assert ahead == list(range(1, len(ahead) + 1))
        queue.close()


def test_a_number_given_up_is_not_waited_for(tmp_path: Path) -> None:
    first, second, third = (_Queue(tmp_path / "queue", 7) for _ in range(3))
    for queue in (first, second, third):
        queue.draw()
    second.close()
    assert third.ahead(2) == 2
    first.close()
    assert third.ahead(2) == 0
    third.close()


def test_numbers_are_drawn_one_at_a_time(tmp_path: Path) -> None:
    first, second = (_Queue(tmp_path / "queue", 7) for _ in range(2))
    first._set(fcntl.F_WRLCK, first._counter, 1)
    assert second.draw() is None
    first.close()
    assert second.draw() == 0
    second.close()


def test_one_file_is_enough_for_any_number_of_names(tmp_path: Path) -> None:
    turns = FileTurns(tmp_path / "turns", SystemClock())
    for number in range(300):
        with turns.take(f"branch {number}", 60) as had:
            assert had
    with ExitStack() as stack:
        for number in range(50):
            assert stack.enter_context(turns.take(f"branch {number}", 0))
        assert len(turns._queues) == 50
        # no program that is started within a turn inherits it
        assert not any(os.get_inheritable(queue._file) for queue in turns._queues)
    assert list(tmp_path.iterdir()) == [tmp_path / "turns"]
    assert (tmp_path / "turns").stat().st_size <= 2**16 * 8
    assert turns._queues == set()


@pytest.mark.parametrize("obstacle", ["no folder", "a folder in place of the file"])
def test_where_no_file_can_be_locked_a_turn_is_done_without(tmp_path: Path, obstacle: str) -> None:
    turns = FileTurns(
        tmp_path / "none" / "turns" if obstacle == "no folder" else tmp_path, SystemClock()
    )
    with ExitStack() as stack:
        assert [stack.enter_context(turns.take("main", 0)) for _ in range(2)] == [False, False]
    assert turns._queues == set()


def test_a_forked_child_keeps_no_turn_of_its_parent(tmp_path: Path) -> None:
    turns = FileTurns(tmp_path / "turns", SystemClock())
    with turns.take("main", 60):
        (queue,) = turns._queues
        child = os.fork()
        if child == 0:  # an open copy of the file would hold the lock after the parent's death
            os._exit(1 if turns._queues or Path(f"/proc/self/fd/{queue._file}").exists() else 0)
        assert os.waitpid(child, 0)[1] == 0
    assert turns._queues == set()
