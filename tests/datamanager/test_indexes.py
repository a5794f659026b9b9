"""Indexes of volumes: what is read, and that any fault rejects the whole index."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.datamanager.indexes import keys, read_index
from graveler.errors import BackendUnavailableError, CorruptionError
from graveler.keep.locators import BLOCK_BYTES, EMPTY, Locator

FOO = "acbd18db4cc2f85cedef654fccc4a4d8+3"
BAR = "37b51d194a7513e45b56f6524f2d51f2+3"
TIME = 1_700_000_000_000_000_001


def read(text, prefix=""):
    return read_index([text.encode()], "S", "V", prefix)


def rows(index):
    return [(f"{high:016x}{low:016x}+{size}", mtime) for high, low, size, mtime in index.tolist()]


locators = st.builds(
    Locator,
    st.binary(min_size=16, max_size=16).map(bytes.hex),
    st.integers(0, BLOCK_BYTES),
)


@given(
    lines=st.lists(st.tuples(locators.map(str), st.integers(10**12, 2**62)), max_size=5),
    cuts=st.lists(st.integers(0, 300), max_size=6),
)
def test_an_index_is_read_however_it_is_cut(lines, cuts):
    text = "".join(f"{locator} {mtime}\n" for locator, mtime in lines).encode() + b"\n"
    ends = [0, *sorted(cuts), len(text)]
    pieces = [text[begin:end] for begin, end in pairwise(ends)]
    assert rows(read_index(pieces, "S", "V")) == lines
    assert [str(Locator.parse(locator)) for locator, _ in lines] == [
        f"{high:016x}{low:016x}+{size}"
        for high, low, size in keys(Locator.parse(locator) for locator, _ in lines).tolist()
    ]


def test_lines_beyond_one_chunk_are_counted():
    line = f"{FOO} {TIME}\n"
    count = 3 * (1 << 20) // len(line)
    pieces = [(line * 100).encode()] * (count // 100)
    assert len(read_index([*pieces, b"\n"], "S", "V")) == count // 100 * 100
    with pytest.raises(CorruptionError, match=f"line {count // 100 * 100 + 1}, .*: 'xyz'"):
        read_index([*pieces, b"xyz\n\n"], "S", "V")


def test_seconds_become_nanoseconds():
    assert rows(read(f"{FOO} 1700000000\n{BAR} {10**12}\n\n")) == [
        (FOO, 1_700_000_000 * 10**9),
        (BAR, 10**12),
    ]


def test_an_empty_volume_and_the_empty_block():
    assert rows(read("\n")) == []
    assert rows(read(f"{EMPTY} {TIME}\n\n")) == [(str(EMPTY), TIME)]


@pytest.mark.parametrize(
    "text", ["", f"{FOO} {TIME}\n", f"{FOO} {TIME}", f"{FOO} {TIME}\n{BAR[:20]}"]
)
def test_an_index_without_its_end_is_rejected(text):
    with pytest.raises(BackendUnavailableError, match="volume V of server S ends after line"):
        read(text)


GOOD = f"{FOO} {TIME}\n"


@pytest.mark.parametrize(
    ("text", "prefix", "line", "fault"),
    [
        (f"{GOOD}\n\n", "", 2, "blank, but not the end"),
        (f"{GOOD}\n{GOOD}", "", 2, "blank, but not the end"),
        (f"\n{GOOD}\n", "", 1, "blank, but not the end"),
        (f"{GOOD}{BAR} {TIME}\n\n", "a", 2, "of another prefix than 'a'"),
        (f"{GOOD}\n", "acbe", 1, "of another prefix than 'acbe'"),
        (f"{GOOD}\n", "f" * 32, 1, "of another prefix"),
        (f"{GOOD}{FOO}\n\n", "", 2, "not the line of a block"),
        (f"{FOO} {TIME} 1\n\n", "", 1, "not the line of a block"),
        (f"{FOO} -1\n\n", "", 1, "not the line of a block"),
        (f"{FOO} 9999999999999999999\n\n", "", 1, "not the line of a block"),
        (f"{FOO[:32]} {TIME}\n\n", "", 1, "not the line of a block"),
        (f"{FOO}+Ax@1 {TIME}\n\n", "", 1, "not the line of a block"),
        (f"{FOO.upper()} {TIME}\n\n", "", 1, "not the line of a block"),
        (f"{FOO} {TIME}\r\n\n", "", 1, "not the line of a block"),
        (f"{FOO}  {TIME}\n\n", "", 1, "not the line of a block"),
        (f" {FOO} {TIME}\n\n", "", 1, "not the line of a block"),
        ("\0\n\n", "", 1, "not the line of a block"),
    ],
)
def test_an_index_with_a_fault_is_rejected(text, prefix, line, fault):
    with pytest.raises(
        CorruptionError, match=f"volume V of server S .* line {line}, which is {fault}"
    ):
        read(text, prefix)


def test_text_after_the_mark_is_found_in_later_pieces():
    big = GOOD.encode() * 20_000
    for rest in (b"\n", GOOD.encode(), b"x"):
        with pytest.raises(CorruptionError, match="line 20002, which is after the blank line"):
            read_index([big + b"\n", rest], "S", "V")


def test_a_line_without_end_is_not_collected():
    def pieces():
        for _ in range(20):
            yield b"0" * (1 << 18)
        pytest.fail("the whole line was taken")

    with pytest.raises((CorruptionError, BackendUnavailableError)):
        read_index(pieces(), "S", "V")
