"""The contract of the scans of a key-value store, as tests."""

# Each test is named by the sentence it checks.

import pytest

from graveler.kv.store import MAX_KEY_BYTES, KVStore
from tests.kv.suite.tools import EVERY_BYTE, SuitePart, fill, keys_of


class ScansPart(SuitePart):
    """Scans, and writes during a scan."""

    def test_an_unknown_partition_scans_empty(self, store: KVStore) -> None:
        assert list(store.scan("p")) == []

    def test_a_scan_ascends_bytewise(self, store: KVStore) -> None:
        keys = [*EVERY_BYTE, b"\x00\x00", b"\x00\xff", b"a\x00", b"aa", b"\xff\x00", b"\xff\xff"]
        fill(store, "p", keys[::-1])
        assert list(store.scan("p")) == [(key, b"=" + key) for key in sorted(keys)]

    @pytest.mark.parametrize(
        ("start", "expected"),
        [
            (b"", [b"b", b"d", b"f"]),
            (b"a", [b"b", b"d", b"f"]),
            (b"b", [b"b", b"d", b"f"]),
            (b"b\x00", [b"d", b"f"]),
            (b"c", [b"d", b"f"]),
            (b"f", [b"f"]),
            (b"f\x00", []),
            (b"\xff" * 2000, []),
        ],
    )
    def test_a_scan_starts_at_or_after_its_start(
        self, store: KVStore, start: bytes, expected: list[bytes]
    ) -> None:
        fill(store, "p", [b"b", b"d", b"f"])
        fill(store, "q", [b"a", b"z"])
        assert keys_of(store, "p", start) == expected

    @pytest.mark.parametrize("size", [63, 64, 65, 319, 320, 321, 5000])
    def test_a_scan_goes_on_over_its_pages(self, store: KVStore, size: int) -> None:
        keys = [b"%06d" % number for number in range(min(size, self.many))]
        fill(store, "p", keys)
        assert keys_of(store, "p") == keys
        half = len(keys) // 2
        assert keys_of(store, "p", keys[half]) == keys[half:]

    @pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1025])
    def test_all_of_a_partition_is_what_a_scan_yields(self, store: KVStore, size: int) -> None:
        fill(store, "p", [b"%06d" % number for number in range(min(size, self.many))])
        fill(store, "q", [b"a", b"z"])
        assert list(store.scan_all("p")) == list(store.scan("p"))

    def test_a_scan_starts_among_the_first_and_the_last_bytes(self, store: KVStore) -> None:
        keys = [b"\x00", b"\x00\x00", b"\x00\xff", b"\x7f", b"\xff", b"\xff\x00", b"\xff\xff"]
        fill(store, "p", keys)
        for start in [
            *keys,
            b"",
            b"\x00\x01",
            b"\x80",
            b"\xfe\xff",
            b"\xff\x00\x00",
            b"\xff\xff\x00",
        ]:
            assert keys_of(store, "p", start) == [key for key in keys if key >= start]

    def test_pages_may_end_at_the_longest_keys(self, store: KVStore) -> None:
        keys = [b"\xff" * (MAX_KEY_BYTES - 2) + b"%02d" % number for number in range(100)]
        fill(store, "p", keys)
        assert keys_of(store, "p") == keys
        assert keys_of(store, "p", keys[50] + b"\x00") == keys[51:]

    def test_large_values_are_scanned(self, store: KVStore) -> None:
        items = [(b"%02d" % number, b"%02d" % number * 50_000) for number in range(30)]
        store.set_many("p", items)
        assert list(store.scan("p")) == items

    def test_keys_may_be_deleted_behind_a_scan(self, store: KVStore) -> None:
        keys = [b"%06d" % number for number in range(500)]
        fill(store, "p", keys)
        seen = []
        for key, _ in store.scan("p"):
            seen.append(key)
            store.delete("p", key)
        assert seen == keys
        assert list(store.scan("p")) == []

    def test_keys_may_be_deleted_ahead_of_a_scan(self, store: KVStore) -> None:
        keys = [b"%06d" % number for number in range(500)]
        fill(store, "p", keys)
        scan = store.scan("p")
        seen = [next(scan)[0]]
        for key in keys[1::2]:
            store.delete("p", key)
        seen += [key for key, _ in scan]
        assert seen == sorted(set(seen))
        assert set(keys[::2]) <= set(seen) <= set(keys)

    def test_keys_may_be_added_while_a_scan_runs(self, store: KVStore) -> None:
        keys = [b"%06d" % number for number in range(0, 1000, 2)]
        fill(store, "p", keys)
        seen = []
        for number, (key, _) in enumerate(store.scan("p")):
            seen.append(key)
            if number < len(keys):
                store.set("p", b"%06d" % (int(key) + 1), b"new")
        assert seen == sorted(set(seen))
        assert set(keys) <= set(seen)

    def test_a_partition_may_be_dropped_while_a_scan_runs(self, store: KVStore) -> None:
        keys = [b"%06d" % number for number in range(500)]
        fill(store, "p", keys)
        scan = store.scan("p")
        assert next(scan)[0] == keys[0]
        store.drop("p")
        rest = [key for key, _ in scan]
        assert rest == keys[1 : len(rest) + 1]
        assert list(store.scan("p")) == []

    def test_a_scan_may_be_left_half_way(self, store: KVStore) -> None:
        fill(store, "p", [b"%06d" % number for number in range(500)])
        scan = store.scan("p")
        next(scan)
        store.set("p", b"later", b"v")
        store.drop("p")
        assert list(store.scan("p")) == []

    def test_scans_do_not_disturb_each_other(self, store: KVStore) -> None:
        keys = [b"%06d" % number for number in range(700)]
        fill(store, "p", keys)
        pairs = list(zip(store.scan("p"), store.scan("p", keys[100]), strict=False))
        assert [left for (left, _), _ in pairs] == keys[:600]
        assert [right for _, (right, _) in pairs] == keys[100:]
