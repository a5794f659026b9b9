"""Ids: a second computation from docs/formats/identity.md, and the fields that ids depend on."""

import sys
from datetime import UTC, datetime, timedelta, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from graveler.base.clock import unix_us
from graveler.model import Commit, Entry
from graveler.refs.commits import id_of
from graveler.values import encode_entry, entry_identity, record_id, total

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "identity.md"
CHECKSUM = "sha256:7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"
ENTRY = Entry(
    path="a/1.csv",
    address="data/x1/1.csv",
    size=3,
    checksum=CHECKSUM,
    content_type="text/csv",
    mtime=datetime(2013, 1, 1, 5, tzinfo=UTC),
    metadata={"k": "v"},
    computed=True,
)
COMMIT: dict[str, Any] = {
    "metarange": "0" * 64,
    "parents": ("1" * 64,),
    "message": "hour 05",
    "committer": "ada",
    "created": datetime(2013, 1, 1, 5, tzinfo=UTC),
    "metadata": {"source": "bts"},
}

texts = st.text(max_size=8)
pairs = st.dictionaries(texts, texts, max_size=3)
entries = st.builds(
    Entry,
    path=texts,
    address=texts,
    size=st.integers(0, 2**40),
    checksum=texts,
    content_type=texts,
    metadata=pairs,
    version=texts,
    computed=st.booleans(),
)


# By the page, independent of the code.


def text(value):
    raw = value.encode("utf-8", "surrogatepass")
    return b"t" + len(raw).to_bytes(8, "big") + raw


def mapping(value):
    framed = b"".join(text(name) + text(value[name]) for name in sorted(value))
    return b"p" + len(value).to_bytes(8, "big") + framed


def by_the_page(entry):
    if entry.computed and entry.checksum:
        content = text("checksum") + text(entry.checksum)
    else:
        content = text("address") + text(entry.address) + text(entry.version)
    return (
        b"entry:2"
        + b"n"
        + entry.size.to_bytes(8, "big")
        + content
        + text(entry.content_type)
        + mapping(entry.metadata)
    )


def example():
    """Return the bytes of the page's hex block."""
    block = PAGE.read_text().split("```hex\n")[1].split("```")[0]
    digits = [line[:57].split("  ")[0] for line in block.splitlines()]
    return bytes.fromhex(" ".join(digits))


def test_the_page_has_the_ids_that_the_code_computes():
    page = PAGE.read_text()
    framed = example()
    assert framed == by_the_page(ENTRY)
    assert len(framed) == 159
    identity = sha256(framed).digest()
    assert entry_identity(ENTRY) == identity
    assert f"`{identity.hex()}`" in page
    assert f"`{record_id(b'a/1.csv', encode_entry(ENTRY)[1]).hex()}`" in page
    linked = Entry("b/3.csv", "s3://bucket/3.csv", 0, version='etag:"1"')
    assert f"`{entry_identity(linked).hex()}`" in page
    assert f"\n{id_of(Commit(id='', generation=1, **COMMIT))}\n" in page


@given(entries)
def test_an_identity_is_the_hash_of_its_framed_fields(entry):
    assert entry_identity(entry) == sha256(by_the_page(entry)).digest()


@given(st.integers(-(10**15), 4 * 10**15))
def test_time_is_whole_microseconds_wherever_the_clock_stands(microseconds):
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    assert unix_us(moment) == microseconds
    assert unix_us(moment.astimezone(timezone(timedelta(hours=-7)))) == microseconds


@given(st.lists(st.one_of(st.binary(min_size=32, max_size=32), st.just(b"\xff" * 32))))
def test_a_total_is_the_same_with_and_without_numpy(ids):
    import numpy  # noqa: F401 - `total` uses numpy if it is loaded

    expected = (sum(map(int.from_bytes, ids)) % ((1 << 256) - 1)).to_bytes(32)
    assert total(b"".join(ids)) == expected
    with patch.dict(sys.modules):
        del sys.modules["numpy"]
        assert total(b"".join(ids)) == expected
