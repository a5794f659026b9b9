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
    assert len(block) <= len(encode_block(content, 1))  # shared prefixes are left out


def test_other_versions_are_refused_by_number():
    for version in (0, 1, 7, 2**32 - 1):
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
