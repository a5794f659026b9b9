"""Parallel work in order: results, bounds, errors."""

from threading import Barrier, Event, Lock, current_thread

import pytest

from graveler.base.clock import SystemClock
from graveler.base.parallel import Bounds, in_order, thread_count
from graveler.errors import InvalidInputError

CLOCK = SystemClock()


def free(_):
    return 0


class Items:
    """Numbers, and a count of those that were taken."""

    def __init__(self, count):
        self.count = count
        self.taken = 0

    def __iter__(self):
        for number in range(self.count):
            self.taken += 1
            yield number


def test_results_come_in_the_order_of_the_items():
    def work(number):
        CLOCK.sleep(0.002 * (number % 3))
        return number

    assert list(in_order(work, range(50), Bounds(8, 100, free))) == list(range(50))


def test_threads_work_side_by_side():
    met = Barrier(4, timeout=10)
    assert len(list(in_order(lambda _: met.wait(), range(8), Bounds(4, 100, free)))) == 8


def test_one_thread_is_the_callers_own_and_takes_item_by_item():
    items = Items(3)
    results = in_order(lambda _: current_thread(), items, Bounds(1, 9, free))
    assert next(results) is current_thread()
    assert items.taken == 1


@pytest.mark.parametrize("keeps", [True, False])
def test_no_more_than_the_window_is_taken_ahead(keeps):
    items, seen = Items(100), []
    for result in in_order(lambda n: n, items, Bounds(4, 10, free, keeps=keeps)):
        seen.append(result)
        assert items.taken - len(seen) <= 10
    assert seen == [*range(100)]


def test_what_is_kept_counts_until_the_caller_has_it():
    bounds: Bounds[int] = Bounds(8, 100, cost=lambda _: 10, budget=30, keeps=True)
    items = Items(20)
    for number, result in enumerate(in_order(lambda n: n, items, bounds)):
        assert result == number
        assert items.taken - number <= 4  # three are kept, and one waits
    assert number == 19


def test_work_keeps_to_the_budget_and_a_large_item_goes_alone():
    lock, busy, most = Lock(), 0, 0

    def work(cost):
        nonlocal busy, most
        with lock:
            busy += cost
            most = max(most, busy)
        CLOCK.sleep(0.002)
        with lock:
            busy -= cost
        return cost

    items = [10, 10, 10, 500, 10, 20, 30] * 5
    bounds = Bounds(8, 100, cost=lambda cost: cost, budget=40)
    assert list(in_order(work, items, bounds)) == items
    assert most == 500


def test_a_slow_first_item_does_not_hold_back_the_others():
    others = Event()

    def work(number):
        if number:
            if number == 40:
                others.set()
            return number
        assert others.wait(10)
        return number

    assert list(in_order(work, range(60), Bounds(2, 100, cost=lambda _: 1, budget=8))) == [
        *range(60)
    ]


def test_an_error_of_the_work_comes_in_turn_and_ends_the_rest():
    begun = []

    def work(number):
        begun.append(number)
        if number == 5:
            raise ValueError(number)
        return number

    bounds = Bounds(2, 10, free)
    with pytest.raises(ValueError, match="5"):
        list(in_order(work, range(1000), bounds))
    assert len(begun) <= 16
    assert bounds.over.is_set()


@pytest.mark.parametrize("threads", [1, 4])
def test_an_error_of_the_items_comes_after_the_results_before_it(threads):
    def items():
        yield from range(5)
        raise KeyError("mine")

    seen: list[int] = []
    with pytest.raises(KeyError, match="mine"):
        seen.extend(in_order(lambda n: n, items(), Bounds(threads, 10, free)))
    assert seen == [0, 1, 2, 3, 4]


def test_a_reader_that_stops_ends_the_threads():
    items = Items(1000)
    results = in_order(lambda n: n, items, Bounds(2, 10, free))
    next(results)
    results.close()
    assert items.taken <= 11


@pytest.mark.parametrize("given", [0, 65, -1, "8", True, 1.5])
def test_a_number_of_threads_that_makes_no_sense_is_refused(given):
    with pytest.raises(InvalidInputError, match="threads="):
        thread_count(given, 4)


def test_a_local_disk_is_served_by_the_callers_own_thread():
    assert (thread_count(None, 0), thread_count(None, 4), thread_count(7, 0)) == (1, 32, 7)
