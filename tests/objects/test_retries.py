"""The waits between the tries of a call."""

import pytest

from graveler.base.retries import Retrier
from graveler.errors import BackendUnavailableError, ThrottledError
from graveler.testing.clock import FakeClock, SequenceIds


def test_waits_grow_are_spread_and_end():
    waits = []

    class Watched(FakeClock):
        def sleep(self, seconds):
            waits.append(seconds)

    def fail():
        raise ThrottledError("slow down")

    retrier = Retrier(Watched(), SequenceIds(seed=1), limit_s=300)
    with pytest.raises(ThrottledError):
        retrier.run("it", fail)
    longest = [min(5.0, 0.1 * 2**n) for n in range(len(waits))]
    assert all(0 <= wait <= most for wait, most in zip(waits, longest, strict=True))
    assert len(set(waits)) == len(waits)
    assert 200 < sum(waits) <= 300


@pytest.mark.parametrize(("took", "tried"), [(0.5, True), (9.5, False)])
def test_a_call_after_a_quick_failure_is_tried(monkeypatch, took, tried):
    clock = FakeClock()
    monkeypatch.setattr("graveler.base.retries.monotonic", lambda: clock.now().timestamp())
    made: list[None] = []

    def fail():
        made.append(None)
        clock.advance(seconds=took)
        raise BackendUnavailableError("no answer")

    for seed in range(20):
        retrier = Retrier(clock, SequenceIds(seed=seed), limit_s=30, whole=True)
        with pytest.raises(BackendUnavailableError):
            retrier.run("it", fail)
        made.clear()
        with pytest.raises(BackendUnavailableError):
            retrier.run("what it left", fail)
        assert bool(made) is tried, seed
