"""The contract of a key-value driver, as tests.

Derive from :class:`KVStoreSuite` in a test module and give it a fixture ``store``::

    class TestMyStore(KVStoreSuite):
        @pytest.fixture
        def store(self, tmp_path):
            with MyStore(tmp_path) as store:
                yield store

The store is empty at the start of each test. :class:`SuitePart` has the settings of a suite, such as
whether the store supports turns and how many keys its tests write.
"""

# Each test is named by the sentence it checks.

from collections.abc import Callable, Iterator

import pytest

from graveler.errors import StateError
from graveler.kv.store import KVStore
from tests.kv.suite.conditions import ConditionsPart
from tests.kv.suite.histories import compare_with_a_dict
from tests.kv.suite.scans import ScansPart
from tests.kv.suite.threads import ThreadsPart
from tests.kv.suite.tools import SuitePart, calls, fill
from tests.kv.suite.values import ValuesPart

__all__ = ["KVStoreSuite", "SuitePart"]


class KVStoreSuite(ValuesPart, ConditionsPart, ScansPart, ThreadsPart):
    """The port's promises, one test each."""

    @pytest.fixture
    def store(self) -> Iterator[KVStore]:
        """Yield an empty store; to be overridden."""
        raise NotImplementedError("give the suite a fixture named store")

    def test_a_closed_store_says_so(self, store: KVStore) -> None:
        with store as entered:
            assert entered is store
            store.set("p", b"k", b"v")
        store.close()  # leaving the block has closed it
        closed: list[Callable[[], object]] = [
            *calls(store, "p", b"k"),
            lambda: store.set_many("p", []),
            lambda: store.drop("p"),
            lambda: store.scan("p"),
            lambda: store.get_many([("p", b"k"), ("q", b"k")]),
            lambda: store.get_many([]),
            lambda: store.turn("main", 0).__enter__(),
        ]
        for call in closed:
            with pytest.raises(StateError, match="closed"):
                call()

    def test_a_scan_under_way_says_that_the_store_was_closed(self, store: KVStore) -> None:
        fill(store, "p", [b"%06d" % number for number in range(3000)])
        scan = store.scan("p")
        next(scan)
        store.close()
        with pytest.raises(StateError, match="closed"):
            list(scan)

    def test_it_behaves_like_a_sorted_dict(self, store: KVStore) -> None:
        compare_with_a_dict(store, self.steps)
