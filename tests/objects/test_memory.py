import pickle

import pytest

from graveler.errors import InvalidInputError
from graveler.objects.memory import MemoryStore
from graveler.testing.clock import FakeClock
from tests.objects.suite import ObjectStoreSuite


class TestMemoryStore(ObjectStoreSuite):
    @pytest.fixture
    def store(self):
        return MemoryStore()

    def test_a_pickled_store_reaches_the_same_objects(self, store):
        with pytest.raises(InvalidInputError, match="in the memory of this process"):
            pickle.dumps(store)


def test_times_come_from_the_clock_given():
    store = MemoryStore(clock=FakeClock())
    assert store.put("a", b"").mtime.year == 2013
