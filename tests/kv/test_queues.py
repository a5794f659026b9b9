"""Turns by a queue in the store: what a turn costs, and what becomes of holders that vanish."""

from contextlib import ExitStack
from threading import Event, Thread
from typing import Any

import pytest

from graveler.base.clock import RandomIds, SystemClock
from graveler.errors import BackendUnavailableError
from graveler.kv import turns as queues
from graveler.kv.drivers.memory import MemoryKVStore
from graveler.kv.turns import PARTITION, QueueTurns


class _Time:
    """A clock whose pauses pass at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed = 0.0
        monkeypatch.setattr(queues, "monotonic", lambda: self.passed)

    def now(self) -> Any:
        return SystemClock().now()

    def sleep(self, seconds: float) -> None:
        self.passed += seconds


class _Counted(MemoryKVStore):
    """A store that counts its calls, or refuses them."""

    calls = 0
    refuses = False

    def _called(self) -> None:
        self.calls += 1
        if self.refuses:
            raise BackendUnavailableError("no answer")

    def _get(self, *given: Any) -> Any:
        self._called()
        return super()._get(*given)

    def _set_if(self, *given: Any) -> Any:
        self._called()
        return super()._set_if(*given)

    def _delete_if(self, *given: Any) -> Any:
        self._called()
        return super()._delete_if(*given)


@pytest.fixture
def store() -> _Counted:
    return _Counted()


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> _Time:
    return _Time(monkeypatch)


def turns_of(store: _Counted, clock: Any) -> QueueTurns:
    """Return the turns of another process."""
    return QueueTurns(store, clock, RandomIds(SystemClock()))


def test_a_turn_that_no_other_wants_costs_two_calls(store: _Counted, time: _Time) -> None:
    with turns_of(store, time).take("main", 10) as had:
        assert had
    assert store.calls == 2
    with ExitStack() as held:
        for name in ("one", "two", "a" * 3000):  # turns of several names are free
            assert held.enter_context(turns_of(store, time).take(name, 10))
    assert list(store.scan(PARTITION)) == []
    assert time.passed == 0


def test_processes_get_the_turn_in_order(store: _Counted) -> None:
    served: list[int] = []
    threads: list[Thread] = []

    def take(number: int) -> None:
        with turns_of(store, SystemClock()).take("main", 60) as had:
            assert had
            served.append(number)

    with turns_of(store, SystemClock()).take("main", 10):
        for number in range(5):
            threads.append(Thread(target=take, args=(number,)))
            threads[-1].start()
            while len(next(iter(store.scan(PARTITION)))[1].split()) < number + 2:
                Event().wait(0.001)
    for thread in threads:
        thread.join(60)
    assert served == [0, 1, 2, 3, 4]
    assert list(store.scan(PARTITION)) == []


def test_a_holder_that_vanished_costs_five_seconds(store: _Counted, time: _Time) -> None:
    with ExitStack() as vanished:
        vanished.enter_context(turns_of(store, time).take("main", 10))
        with turns_of(store, time).take("main", 10) as had:
            assert had
            assert 5 < time.passed < 5.1
    assert list(store.scan(PARTITION)) == []  # nor does the stopped holder leave anything


def test_after_a_wait_in_vain_none_is_taken_for_a_minute(store: _Counted, time: _Time) -> None:
    waiting = turns_of(store, time)
    with turns_of(store, time).take("main", 10):
        with waiting.take("main", 3) as had:
            assert not had
        assert 3 <= time.passed < 3.1
    calls = store.calls
    with waiting.take("main", 10) as had:
        assert not had
    assert store.calls == calls
    with waiting.take("dev", 10) as had:
        assert had
    time.sleep(61)
    with waiting.take("main", 10) as had:
        assert had


def test_one_wait_in_vain_removes_the_tickets_of_the_dead(store: _Counted, time: _Time) -> None:
    for _ in range(12):
        turns_of(store, time)._change("main", lambda queue: (*queue, f"dead{len(queue)}"))
    with turns_of(store, time).take("main", 10) as had:
        assert not had
    assert list(store.scan(PARTITION)) == []
    with turns_of(store, time).take("main", 10) as had:
        assert had


def test_a_short_wait_removes_no_ticket_of_another(store: _Counted, time: _Time) -> None:
    waiting = turns_of(store, time)
    with turns_of(store, time).take("main", 10):
        assert waiting._join("main", "late", time.passed + 0.1, 3) is None
        assert len(next(iter(store.scan(PARTITION)))[1].split()) == 1


def test_a_ticket_that_becomes_first_at_the_deadline_goes(
    store: _Counted, time: _Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stayed, and the next one waited five seconds for it."""
    other, waiting = ExitStack(), turns_of(store, time)
    other.enter_context(turns_of(store, time).take("main", 10))

    def at_the_deadline() -> float:
        if time.passed >= 3:
            other.close()
        return time.passed

    monkeypatch.setattr(queues, "monotonic", at_the_deadline)
    with waiting.take("main", 3) as had:
        assert not had
        assert list(store.scan(PARTITION)) == []


def test_the_block_runs_without_a_store_that_answers(store: _Counted, time: _Time) -> None:
    turns = turns_of(store, time)
    store.refuses = True
    with turns.take("main", 10) as had:
        assert not had
    store.refuses = False
    with turns.take("main", 10) as had:
        assert had
        store.refuses = True
    store.refuses = False
    assert len(list(store.scan(PARTITION))) == 1
    with turns_of(store, time).take("main", 10) as had:
        assert had
