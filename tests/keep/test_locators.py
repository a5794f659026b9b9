"""Locators, signatures and placement: the texts and vectors of Arvados."""

import pytest

from graveler.errors import InvalidInputError
from graveler.keep.locators import EMPTY, Locator
from graveler.keep.placement import servers_for, volumes_for
from graveler.keep.signatures import Fault, Signer

HASH = "acbd18db4cc2f85cedef654fccc4a4d8"
KEY = (
    "13u9fkuccnboeewr0ne3mvapk28epf68a3bhj9q8sb4l6e4e5mkkp6nhj2mmpscgu1zze5h5enydxfe3j215024u16ij4hjaiqs5u4pzsl3n"
    "czmaoxncljkm4875xqn4xv058koz3vkptmzhyheiy6wzevzjmdvxhvcqsvr5abhl15c2d4o4jhl0s91lojy1mtrzqqvprqcverls0xvy9vai"
    "9t1l1lvvazpuadafm71jl4mrwq2ygokee3eamvjy8qq1fvy238838enjmy5wzy2md7yvsitp5vztft6j4q866efym7e6vu5wm9fpnwjyxfld"
    "w3vbo01mgjs75rgo7qioh8z8ij7jpyp8508okhgbbex3ceei786u5rw2a9gx743dj3fgq2irk"
)
TOKEN = "hocfupkn2pjhrpgp2vxv8rsku7tvtx49arbc9s4bvu7p7wxqvk"
TTL = 1_209_600
SIGNED = f"{HASH}+3+A89118b78732c33104a4d6231e8b5a5fa1e4301e3@7fffffff"
NOW = 1_700_000_000


@pytest.mark.parametrize(
    ("text", "size", "hints"),
    [
        (HASH, None, ()),
        (f"{HASH}+1234", 1234, ()),
        (f"{HASH}+1234+Abcdef@abcdef", 1234, ("Abcdef@abcdef",)),
        (f"{HASH}+1234+Rzzzzz-abcdef", 1234, ("Rzzzzz-abcdef",)),
        (f"{HASH}+12345+Zexample+Rzzzzz-x", 12345, ("Zexample", "Rzzzzz-x")),
        (f"{HASH}+1+Z", 1, ("Z",)),
        (f"{HASH}+Z", None, ("Z",)),
        (f"{HASH}+3+😀", 3, ("😀",)),
    ],
)
def test_reading_is_lenient(text, size, hints):
    assert Locator.parse(text) == Locator(HASH, size, hints)


@pytest.mark.parametrize(
    "text",
    [
        *("", f"z{HASH[1:]}", f"F{HASH[1:]}", HASH[1:], f"{HASH}aa", f"+{HASH}+1", f"{HASH}+1+"),
        *(f"{HASH}++1", f"{HASH}+1++Ax@y", f"{HASH}+Abcdef+1234", f"{HASH}+1+2", f"{HASH}+-1"[:33]),
        *(f" {HASH}", f"{HASH}\n", f"{HASH}+{'1' * 5000}"),
    ],
)
def test_a_text_that_names_no_block_is_refused(text):
    with pytest.raises(InvalidInputError, match="is not the locator of a block"):
        Locator.parse(text)


@pytest.mark.parametrize(
    "locator", [Locator(HASH, None), Locator(HASH, 1, ("😀",)), Locator(HASH, 1, ("",))]
)
def test_writing_is_strict(locator):
    with pytest.raises(InvalidInputError, match="is not the locator of a block"):
        str(locator)


def test_a_locator_names_its_content():
    assert Locator.of(b"foo") == Locator(HASH, 3)
    assert Locator.of(b"") == EMPTY
    assert Locator.parse(f"{SIGNED}+K@xyzzy").bare == f"{HASH}+3"


@pytest.mark.parametrize(
    ("key", "ttl", "locator", "token", "expiry", "digest"),
    [
        (KEY, TTL, f"{HASH}+3", TOKEN, 0x7FFFFFFF, "89118b78732c33104a4d6231e8b5a5fa1e4301e3"),
        (
            "k" * 50,
            TTL,
            str(EMPTY),
            "tok123",
            0x5835C8BC,
            "d1ae54cdb0e93627ee84b0c308bf31da636e78c6",
        ),
        (
            "k" * 50,
            3600,
            "37b51d194a7513e45b56f6524f2d51f2+3",
            "v2/zzzzz-gj3su-077z32aux8dg2s1/3kg6k6lzmp9kj5cpkcoxie963cmvjahbt2fod9zru30k1jqdmi",
            0x7FFFFFFF,
            "a9b906bc65bc58bdf8dde943c5fc1ec71145ff6a",
        ),
    ],
)
def test_signatures_are_those_of_arvados(key, ttl, locator, token, expiry, digest):
    signed = Signer(key.encode(), ttl).sign(Locator.parse(locator), token, expiry)
    assert str(signed) == f"{locator}+A{digest}@{expiry:08x}"


def test_a_new_signature_replaces_the_old_one_behind_the_hints():
    signer = Signer(b"key", TTL)
    once = signer.sign(Locator.parse(f"{HASH}+3+Zfoo"), "token", NOW)
    again = signer.sign(Locator.parse(f"{once}+Kbar"), "token", NOW + 1)
    assert [hint[0] for hint in again.hints] == ["Z", "K", "A"]
    assert again.signature != once.signature


@pytest.mark.parametrize(("key", "token"), [(b"", "token"), (b"key", "")])
def test_without_a_key_or_a_token_nothing_is_signed(key, token):
    assert Signer(key, TTL).sign(Locator(HASH, 3), token, NOW) == Locator(HASH, 3)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (SIGNED, None),
        (SIGNED.replace("+A", "+K@xyzzy+A"), None),
        (f"{SIGNED}+Zfoo", None),
        (f"{SIGNED.replace('+A', '+K@xyzzy+A')}+Zfoo", None),
        (SIGNED.replace("+3", "+4"), None),
        (SIGNED.replace("+3", ""), None),
        (f"{HASH}+3", Fault.MISSING),
        (f"{HASH}+3+Aaaaaaaaaaaaaaaa@7fffffff", Fault.MISSING),
        (SIGNED.replace("@7fffffff", "@OOOOOOOl"), Fault.MISSING),
        (SIGNED.replace("@7fffffff", "@"), Fault.MISSING),
        (SIGNED.replace("@7fffffff", "@xyzzy"), Fault.MISSING),
        (f"{SIGNED}+A{'0' * 40}@7fffffff", Fault.MISSING),
        (SIGNED.replace("@7fffffff", "@00000001"), Fault.EXPIRED),
        (SIGNED.replace("@7fffffff", "@7ffffffe"), Fault.INVALID),
        (SIGNED.replace("acbd18db", "acbd18dc"), Fault.INVALID),
        (SIGNED.replace("+A8", "+A9"), Fault.INVALID),
    ],
)
def test_what_a_signature_is_worth(text, fault):
    assert Signer(KEY.encode(), TTL).fault(Locator.parse(text), TOKEN, NOW) is fault


@pytest.mark.parametrize(
    ("key", "ttl", "token"),
    [(KEY[1:], TTL, TOKEN), (KEY, TTL + 1, TOKEN), (KEY, TTL, f"{TOKEN}x"), (KEY, TTL, "")],
)
def test_a_signature_is_of_one_key_one_life_and_one_token(key, ttl, token):
    assert Signer(key.encode(), ttl).fault(Locator.parse(SIGNED), token, NOW) is Fault.INVALID


def test_a_signature_ends_with_its_second():
    signer = Signer(b"key", TTL)
    signed = signer.sign(Locator(HASH, 3), "token", NOW)
    assert signer.fault(signed, "token", NOW) is None
    assert signer.fault(signed, "token", NOW + 0.5) is Fault.EXPIRED


@pytest.mark.parametrize(
    ("digest", "order"),
    [
        ("10eab6008d5642cf42abd2aa41f847cb", "3eab2d5fc9681074"),
        ("9a25b027482b37e047104e2e532cabae", "097dba52e648f1c3"),
        ("ece15765f11abfb7d3c71995a3d63bfe", "c5b4e023f8a7d691"),
        ("0c1728e2354416472350c906ca8b5718", "9d81c02e76a3bf54"),
    ],
)
def test_servers_are_tried_in_the_order_of_arvados(digest, order):
    uuids = [f"zzzzz-bi6l4-{number:015x}" for number in range(16)]
    assert "".join(uuid[-1] for uuid in servers_for(digest, uuids)) == order


@pytest.mark.parametrize(
    ("content", "order"),
    [(b"foobar", ["111", "222"]), (b"qux", ["111", "121", "222"]), (b"bar", ["000", "111"])],
)
def test_volumes_are_tried_in_the_order_of_arvados(content, order):
    uuids = {f"zzzzz-nyw5e-{name * 5}": name for name in order}
    assert [
        uuids[uuid] for uuid in volumes_for(Locator.of(content).digest, reversed(list(uuids)))
    ] == order


def test_added_servers_cost_few_probes():
    digests = [Locator.of(b"%d" % number).digest for number in range(1000)]
    uuids = [f"zzzzz-bi6l4-{number:015x}" for number in range(16)]
    for added in (1, 2, 4):
        old, extra = uuids[:12], []
        for digest in digests:
            first = servers_for(digest, old)[0]
            extra.append(servers_for(digest, uuids[: 12 + added]).index(first))
        assert max(extra) <= added
        assert 0.8 * added / 12 < sum(extra) / len(extra) < 1.2 * added / 12
