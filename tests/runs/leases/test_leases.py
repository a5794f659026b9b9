"""Leases: work keeps an attempt alive, and silence ends it."""

import threading
from datetime import timedelta

import pytest

import graveler
from graveler.errors import InvalidInputError
from graveler.model import Entry
from graveler.runs.record import LEASE

KEY = "hourly 05"
THIRD = LEASE / 3 + timedelta(seconds=1)


@pytest.fixture
def clock(repo):
    repo.stores.objects.put("data/x", b"x")
    return repo.stores.clock


def wait(clock, length):
    clock.sleep(length.total_seconds())


WORK = {
    "put": lambda run: run.put("a", b"1"),
    "link": lambda run: run.link("a", address="data/x", size=1, checksum="xxh32:00000000"),
    "link_many": lambda run: run.link_many([Entry("a", "data/x", 1)]),
    "delete": lambda run: run.delete("settled"),
    "delete_many": lambda run: run.delete_many(["settled"]),
    "commit": lambda run: run.commit("nothing", allow_empty=True),
    "renew": lambda run: run.renew(),
    "step": lambda run: run.step("one").discard(),
    "put in a step": lambda run: run.step("one").put("a", b"1"),
    "judge": lambda run: run.judge([]),
}


@pytest.mark.parametrize("work", WORK)
def test_work_renews_a_lease_of_which_a_third_is_over(repo, clock, work):
    run = repo.runs.open(KEY)
    opened = run.record
    if work != "renew":
        wait(clock, LEASE / 4)
        WORK[work](run)
        assert run.record == opened
    for attempt in (run, repo.runs.attach(run.handle)):
        before = run.record.lease_until
        wait(clock, THIRD)
        WORK[work](attempt)
        assert run.record.lease_until > before, attempt
        assert run.record.lease_until - clock.now() <= LEASE
    assert run.record.lease_until > opened.lease_until + LEASE / 3 * 2


def test_joining_a_step_and_publishing_renew_too(repo, clock):
    run = repo.runs.open(KEY)
    step = run.step("one").__enter__()
    step.put("a", b"1")
    wait(clock, THIRD)
    before = run.record.lease_until
    step.join()
    assert run.record.lease_until > before
    wait(clock, THIRD)
    before = run.record.lease_until

    def slow(candidate):
        assert repo.runs.get(KEY).lease_until > before

    run.publish([slow])


def test_a_lease_is_as_long_as_the_opener_says(repo, clock):
    run = repo.runs.open(KEY, lease=timedelta(hours=9), ttl=timedelta(days=2))
    record = run.record
    assert record.lease_until - record.updated <= timedelta(hours=9)
    assert not record.expired(clock.now() + timedelta(hours=8, minutes=59))
    assert record.expired(clock.now() + timedelta(hours=9, seconds=1))
    for later in (False, True):
        wait(clock, timedelta(hours=2))
        run.put("a", b"1")
        assert (run.record.lease_until > record.lease_until + timedelta(hours=3)) == later
    again = repo.runs.open(KEY)
    assert (again.record.lease, again.record.ttl) == (LEASE, timedelta(days=14))


def test_clocks_that_are_apart_never_shorten_a_lease(repo, clock):
    run = repo.runs.open(KEY)
    ahead = run.record.lease_until
    clock.sleep(-600)  # the renewing host's clock is ten minutes behind
    run.renew()
    assert run.record.lease_until == ahead


def beat():
    """Return the thread that renews a lease."""
    (thread,) = [one for one in threading.enumerate() if one.name.startswith("lease of")]
    return thread


def test_a_thread_renews_the_lease_while_a_long_job_runs(tmp_path):
    with graveler.open(tmp_path, create=True) as lake:
        run = lake.create_repository("flights").runs.open(KEY, lease=timedelta(seconds=0.3))
        first = run.record.lease_until
        with run.renewing():
            thread = beat()
            assert thread.daemon
            while run.record.lease_until < first + timedelta(seconds=0.3):
                threading.Event().wait(0.02)
        assert not thread.is_alive()
        answers = iter([False, True])
        with run.renewing(until=lambda: next(answers)):
            beat().join()
        assert next(answers, None) is None
        with run.step("one") as step, step.renewing():
            step.put("a", b"1")
        run.park("enough")
        with run.renewing():
            beat().join()  # ends: a parked run has no lease to renew


@pytest.mark.parametrize(
    "terms",
    [
        {"lease": timedelta(0)},
        {"lease": 900},
        {"ttl": timedelta(days=-1)},
        {"ttl": timedelta.max},
        {"on_failure": "keep"},
        {"metadata": {"graveler.run": "x"}},
        {"metadata": {"n": 1}},
    ],
    ids=str,
)
def test_terms_that_make_no_sense_are_refused_and_open_nothing(repo, terms):
    with pytest.raises(InvalidInputError):
        repo.runs.open(KEY, **terms)
    assert list(repo.runs.list()) == []
