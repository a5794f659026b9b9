import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def _in_bounded_time() -> Iterator[None]:
    """Ends a test that hangs. The call took milliseconds when the test was written."""

    def give_up(_number, _frame):
        raise TimeoutError("the reader still works on it after a minute")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
