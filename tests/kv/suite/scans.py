"""The contract of the scans of a key-value store, as tests."""

# Each test is named by the sentence it checks.

import pytest

from graveler.kv.store import MAX_KEY_BYTES, KVStore
from tests.kv.suite.tools import EVERY_BYTE, SuitePart, fill, keys_of

NUMBERED = [b"%06d" % number for number in range(0, 700, 2)]


class ScansPart(SuitePart):
    """Scans, and writes during a scan."""

    def test_a_scan_ascends_bytewise_from_its_start(self, store: KVStore) -> None:
        keys = [*EVERY_BYTE, b"\x00\x00", b"\x00\xff", b"a\x00", b"aa", b"\xff\x00", b"\xff\xff"]
        assert list(store.scan("p")) == []
        fill(store, "p", keys[::-1])
        fill(store, "q", [b"a", b"z"])
        assert list(store.scan("p")) == [(key, b"=" + key) for key in sorted(keys)]
        behind = [b"\x00\x01", b"a\x01", b"\xff\x00\x00", b"\xff\xff\x00", b"\xff" * 2000]
        for start in [b"", *keys[::25], *keys[-6:], *behind]:
            assert keys_of(store, "p", start) == sorted(key for key in keys if key >= start)

    @pytest.mark.parametrize("size", [0, 1, 64, 65, 320, 321, 1024, 1025, 5000])
    def test_a_scan_goes_on_over_its_pages(self, store: KVStore, size: int) -> None:
        keys = [b"%06d" % number for number in range(min(size, self.many))]
        fill(store, "p", keys)
        fill(store, "q", [b"a", b"z"])
        assert keys_of(store, "p") == keys
        assert list(store.scan_all("p")) == list(store.scan("p"))
        half = len(keys) // 2
        assert keys_of(store, "p", b"%06d" % half) == keys[half:]

    def test_pages_may_end_at_the_longest_keys(self, store: KVStore) -> None:
        keys = [b"\xff" * (MAX_KEY_BYTES - 2) + b"%02d" % number for number in range(100)]
        fill(store, "p", keys)
        assert keys_of(store, "p") == keys
        assert keys_of(store, "p", keys[50] + b"\x00") == keys[51:]

    def test_large_values_are_scanned(self, store: KVStore) -> None:
        items = [(b"%02d" % number, b"%02d" % number * 50_000) for number in range(30)]
        store.set_many("p", items)
        assert list(store.scan("p")) == items

    @pytest.mark.parametrize("change", ["deleted behind", "deleted ahead", "added"])
    def test_keys_may_change_while_a_scan_runs(self, store: KVStore, change: str) -> None:
        fill(store, "p", NUMBERED)
        seen = []
        for number, (key, _) in enumerate(store.scan("p")):
            seen.append(key)
            if change == "deleted behind":
                store.delete("p", key)
            elif change == "added" and number < len(NUMBERED):
                store.set("p", b"%06d" % (int(key) + 1), b"new")
            elif change == "deleted ahead" and number % 2 == 0:
                store.delete("p", NUMBERED[number + 1])
        assert seen == sorted(set(seen))
        assert set(seen) >= set(NUMBERED[::2] if change == "deleted ahead" else NUMBERED)
        assert change == "added" or set(seen) <= set(NUMBERED)
        if change == "deleted behind":
            assert list(store.scan("p")) == []

    def test_a_partition_may_be_dropped_while_a_scan_runs(self, store: KVStore) -> None:
        fill(store, "p", NUMBERED)
        left, scan = store.scan("p"), store.scan("p")
        assert next(left) == next(scan) == (NUMBERED[0], b"=" + NUMBERED[0])
        store.set("p", b"later", b"v")
        store.drop("p")
        rest = [key for key, _ in scan]
        assert rest == NUMBERED[1 : len(rest) + 1]
        assert list(store.scan("p")) == []

    def test_scans_do_not_disturb_each_other(self, store: KVStore) -> None:
        fill(store, "p", NUMBERED)
        pairs = list(zip(store.scan("p"), store.scan("p", NUMBERED[100]), strict=False))
        assert [left for (left, _), _ in pairs] == NUMBERED[:-100]
        assert [right for _, (right, _) in pairs] == NUMBERED[100:]
