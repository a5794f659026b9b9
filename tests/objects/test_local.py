import io
from datetime import timedelta

import pytest

from graveler.clock import FakeClock, SystemClock
from graveler.objects.local import LocalStore
from graveler.testing.objects_suite import ObjectStoreSuite


class TestLocalStore(ObjectStoreSuite):
    @pytest.fixture
    def store(self, tmp_path):
        return LocalStore(tmp_path / "new" / "objects")


class Slow(io.BytesIO):
    """A stream that lets something happen before its end."""

    def __init__(self, content, meanwhile):
        super().__init__(content)
        self._meanwhile = meanwhile

    def read(self, size=-1, /):
        piece = super().read(size)
        if not piece:
            self._meanwhile()
        return piece


@pytest.mark.parametrize("days", [2, -2])
def test_what_is_being_written_stays_for_a_process_whose_clock_has_jumped(tmp_path, days):
    clock = FakeClock(SystemClock().now() + timedelta(days=days))
    other = LocalStore(tmp_path, clock=clock)
    store = LocalStore(tmp_path)
    store.put("slow", Slow(b"content", lambda: other.put("other", b"1")))
    assert store.get("slow") == b"content"
    temporary = tmp_path / ".graveler-tmp"
    assert [path.name for path in temporary.iterdir() if path.name != "lock"] == []
