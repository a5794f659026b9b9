import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.sstable.block import bounds, encode_block, entries
from graveler.sstable.format import (
    CHECKSUMS,
    XXH3,
    DamageError,
    Footer,
    Handle,
    decode_footer,
    encode_footer,
    read_varint,
    varints,
)

pairs = st.dictionaries(
    st.text("ab", max_size=12).map(str.encode), st.binary(max_size=200), min_size=1
).map(lambda content: sorted(content.items()))


@given(content=pairs, interval=st.sampled_from([1, 2, 16, 1 << 31]))
def test_a_block_gives_back_its_pairs(content, interval):
    block = encode_block(content, interval)
    assert list(entries(block)) == content
    assert len(bounds(block)) - 1 == -(-len(content) // interval)


def test_shared_prefixes_are_left_out():
    content = [(b"input/2013/%02d" % i, b"") for i in range(16)]
    assert len(encode_block(content, 16)) < len(encode_block(content, 1)) / 2


@given(st.integers(0, 2**64 - 1))
def test_a_number_comes_back_with_the_position_behind_it(value):
    raw = varints(value)
    assert read_varint(b"x" + raw + b"y", 1) == (value, 1 + len(raw))


@pytest.mark.parametrize(
    ("value", "raw"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**32 - 1, "ffffffff0f")],
)
def test_numbers_are_written_low_bits_first(value, raw):
    assert varints(value).hex() == raw


@pytest.mark.parametrize("raw", [b"", b"\x80", b"\xff" * 9, b"\xff" * 11])
def test_a_number_without_an_end_is_damage(raw):
    with pytest.raises(DamageError, match="no number"):
        read_varint(raw, 0)


@given(st.lists(st.integers(0, 2**60), min_size=4, max_size=4))
def test_a_footer_comes_back(numbers):
    one, two, three, four = numbers
    footer = Footer(XXH3, 5, Handle(one, two), Handle(three, four), 0, 77)
    raw = encode_footer(footer)
    assert len(raw) == 53
    assert decode_footer(raw, 77) == footer


@pytest.mark.parametrize("version", [0, 1, 7, 2**32 - 1])
def test_other_versions_are_refused_by_number(version):
    footer = Footer(XXH3, version, Handle(0, 0), Handle(0, 0), 0, 0)
    with pytest.raises(DamageError, match=f"version {version} "):
        decode_footer(encode_footer(footer), 0)


def test_crc32c_is_the_one_of_its_published_example():
    # e3069283 is the checksum of "123456789"; stored checksums are rotated by 15 and offset
    plain = 0xE3069283
    masked = ((plain >> 15 | plain << 17) + 0xA282EAD8) & 0xFFFFFFFF
    assert CHECKSUMS[1](b"12345678", ord("9")) == masked


def test_a_footer_of_version_6_needs_its_own_mark():
    def footer(mark: bytes) -> bytes:
        raw = b"\x04" + mark + bytes(4 + 4) + varints(99).ljust(4 + 24, b"\0")
        raw += (6).to_bytes(4, "little") + bytes.fromhex("f7cff485b741e288")
        checksum = CHECKSUMS[XXH3](raw[:-1], raw[-1])
        return raw[:5] + checksum.to_bytes(4, "little") + raw[9:]

    assert decode_footer(footer(b"\x3e\0\x7a\0"), 500).metaindex == Handle(500 - 5 - 99, 99)
    with pytest.raises(DamageError, match="3e007a00"):
        decode_footer(footer(b"\x3e\0\x7b\0"), 500)


@pytest.mark.parametrize(
    "block",
    [
        b"\0\x01\x05av" + bytes(4) + b"\x01\0\0\0",
        b"\0\x05\0a" + bytes(4) + b"\x01\0\0\0",
        b"\0\x01\x03av" + b"\0\x01\0b" + bytes(4) + b"\x05\0\0\0" + b"\x02\0\0\0",
    ],
)
def test_an_entry_that_runs_past_its_run_is_damage(block):
    with pytest.raises(DamageError, match="past its restart"):
        list(entries(block))
