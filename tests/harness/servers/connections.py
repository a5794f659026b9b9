"""The contract of a server's driver when replies are lost and connections end, as tests.

A module that derives from a suite has the fixtures `wire` and `wired`, a store that uses the wire.
"""

from collections.abc import Callable
from threading import Barrier, Thread
from typing import Any, ClassVar

import pytest

from graveler.errors import (
    BackendUnavailableError,
    InvalidInputError,
    OutcomeUnknownError,
    PreconditionFailedError,
)
from graveler.kv.store import ABSENT, PRESENT, KVStore
from graveler.kv.turns import PARTITION
from graveler.testing.clock import FakeClock
from tests.harness.wires import Wire


class ConditionalSuite:
    """Tests for any server."""

    def test_a_lost_reply_to_a_conditional_write_is_told(self, wired: KVStore, wire: Wire) -> None:
        wire.replies_to_lose = 1
        with pytest.raises(OutcomeUnknownError, match="read back"):
            wired.set_if("p", b"k", b"v", ABSENT)
        # The write had landed: a caller that repeats it loses against its own write.
        stored = wired.get("p", b"k")
        assert stored is not None
        assert stored.value == b"v"
        wire.replies_to_lose = 1
        with pytest.raises(OutcomeUnknownError, match="read back"):
            wired.delete_if("p", b"k", stored.predicate)
        assert wired.get("p", b"k") is None


class ConnectionsSuite(ConditionalSuite):
    """Tests for a database: `store` bypasses the wire, and `end_connections` ends its connections."""

    scheme: ClassVar[str]
    opens: ClassVar[Any]
    """The class of the store."""

    def test_a_turn_whose_reply_is_lost_is_held_and_freed(self, wired: KVStore, wire: Wire) -> None:
        for lost in (True, False):
            wire.replies_to_lose = int(lost)
            with wired.turn("main", 60) as had:
                assert had
            assert wire.replies_to_lose == 0
            assert list(wired.scan(PARTITION)) == []

    def test_a_server_never_there_is_unavailable(self, wire: Wire) -> None:
        wire.cut()
        with pytest.raises(BackendUnavailableError, match="refused"):
            self.opens(f"{self.scheme}://root@127.0.0.1:{wire.port}/db", clock=FakeClock())

    def test_an_unreadable_url_is_told_without_its_secrets(self) -> None:
        for url in ("//u:secret@host:port/db", "secret"):
            with pytest.raises(InvalidInputError, match="cannot read") as caught:
                self.opens(f"{self.scheme}:{url}")
            assert "secret" not in str(caught.value)

    def test_a_lost_reply_to_anything_else_is_asked_for_again(
        self, wired: KVStore, wire: Wire
    ) -> None:
        wire.replies_to_lose = 1
        wired.set("p", b"a", b"1")
        wire.replies_to_lose = 1
        wired.set_many("p", [(b"b", b"2"), (b"c", b"3")])
        wire.replies_to_lose = 1
        wired.delete("p", b"c")
        wire.replies_to_lose = 1
        assert list(wired.scan("p")) == [(b"a", b"1"), (b"b", b"2")]
        wire.replies_to_lose = 1
        assert wired.get("p", b"c") is None
        wire.replies_to_lose = 1
        assert wired.get_many([("p", b"c"), ("p", b"d")]) == [None, None]
        wire.replies_to_lose = 1
        wired.drop("p")
        assert wire.replies_to_lose == 0
        assert list(wired.scan("p")) == []

    def test_a_reply_that_comes_twice_answers_nothing_else(
        self, wired: KVStore, wire: Wire
    ) -> None:
        keys = [b"%02d" % number for number in range(20)]
        wired.set_many("p", [(key, key) for key in keys])
        found = []
        for key in keys:
            wire.replies_to_double = 1
            found.append(wired.get("p", key))
        assert wire.replies_to_double == 0
        assert [stored and stored.value for stored in found] == keys
        wire.replies_to_double = 1
        wired.set_if("p", b"k", b"1", ABSENT)
        with pytest.raises(PreconditionFailedError):
            wired.set_if("p", b"k", b"2", ABSENT)

    def test_a_server_that_is_gone_is_unavailable(self, wired: KVStore, wire: Wire) -> None:
        wired.set("p", b"k", b"v")
        wire.cut()
        for call in [
            lambda: wired.get("p", b"k"),
            lambda: wired.set("p", b"k", b"v"),
            # Nothing was sent, so nothing is unknown.
            lambda: wired.set_if("p", b"k", b"v", PRESENT),
            lambda: list(wired.scan("p")),
        ]:
            with pytest.raises(BackendUnavailableError, match=self.scheme) as caught:
                call()
            assert f"{self.scheme}://127.0.0.1" in str(caught.value)
            assert "secret" not in str(caught.value)
        with wired.turn("main", 0.1) as had:
            assert not had

    def test_a_connection_ended_while_idle_is_not_used(
        self, store: KVStore, end_connections: Callable[[], None]
    ) -> None:
        store.set("p", b"k", b"v")
        end_connections()
        store.set_if("p", b"k", b"w", b"v")
        end_connections()
        assert list(store.scan("p")) == [(b"k", b"w")]

    def test_a_scan_outlives_its_connection(
        self, store: KVStore, end_connections: Callable[[], None]
    ) -> None:
        items = [(b"%06d" % number, b"v") for number in range(1000)]
        store.set_many("p", items)
        scan = store.scan("p")
        first = next(scan)
        end_connections()
        assert [first, *scan] == items

    def test_batches_in_opposite_order_do_not_block_each_other(self, store: KVStore) -> None:
        items = [(b"%04d" % number, b"v") for number in range(2000)]
        together = Barrier(2)

        def write(batch: list[tuple[bytes, bytes]]) -> None:
            for _ in range(5):
                together.wait(timeout=60)
                store.set_many("p", batch)

        threads = [Thread(target=write, args=(batch,)) for batch in (items, items[::-1])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert list(store.scan("p")) == items
