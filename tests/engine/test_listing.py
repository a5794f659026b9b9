"""A listing of a branch shows one commit and the writes staged on it."""

import tracemalloc
from dataclasses import replace
from hashlib import sha256

import pytest

from graveler.reads.listing import Spool

FILES = 40


def fill(branch, generation, number=FILES):
    """Give every file of a table the bytes of a generation."""
    stored = branch.store("table", str(generation).encode())
    branch.link_many(replace(stored, path=f"table/{at:05}") for at in range(number))


def of(number):
    return f"sha256:{sha256(str(number).encode()).hexdigest()}"


@pytest.mark.parametrize("in_memory", [100, 10_000_000])
def test_a_spool_gives_its_rows_from_any_start(in_memory):
    """Rows that do not fit in memory are in a file."""
    rows = [(b"%06d" % number, b"v" * (number % 700)) for number in range(0, 5_000, 2)]
    with Spool(in_memory_bytes=in_memory) as spool:
        for _ in range(2):  # the second fill replaces the first
            spool.fill([(b"x", b"1")])
            spool.fill(rows)
        assert list(spool.rows()) == rows
        for start in (b"", b"000000", b"000001", b"002500", b"004997", b"004998", b"004999", b"z"):
            assert list(spool.rows(start)) == [row for row in rows if row[0] >= start]
        halves = spool.rows(), spool.rows(b"002500")
        mixed = [(next(halves[0]), next(halves[1])) for _ in range(1_000)]
        assert [low for low, _ in mixed] == rows[:1_000]
        spool.fill([])
        assert list(spool.rows()) == []


def test_the_memory_of_a_listing_does_not_grow_with_staged_rows():
    tracemalloc.start()
    with Spool(in_memory_bytes=100_000) as spool:
        spool.fill((b"%08d" % number, b"v" * 200) for number in range(30_000))
        assert sum(1 for _ in spool.rows()) == 30_000
        peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_500_000
