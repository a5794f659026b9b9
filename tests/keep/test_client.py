"""The client of Keep: copies, classes, retries, fail-over, and what a reader may trust."""

import re
from contextlib import suppress
from itertools import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.errors import (
    BackendUnavailableError,
    CorruptionError,
    GravelerError,
    InvalidInputError,
    ObjectNotFoundError,
    PermissionDeniedError,
    StorageFullError,
)
from graveler.keep.client import KeepClient
from graveler.keep.locators import BLOCK_BYTES, EMPTY, Locator
from graveler.keep.placement import servers_for
from graveler.keep.signatures import Signer
from graveler.keep.transport import Server
from graveler.testing.clock import FakeClock, SequenceIds
from tests.keep.stub import DRIP, HANG_UP, LOST, OTHER, SHORT, WHOLE, WRONG, stub_servers

FOO = Locator.of(b"foo")
SOFT = (408, 409, 423, 429, 500, 502, 503, 504)
FINAL = (400, 401, 403, 404, 411, 413, 422, 499, 507)


def ordered(servers, locator=FOO):
    """The servers in the order of a block."""
    by_uuid = {each.server.uuid: each for each in servers}
    return [by_uuid[uuid] for uuid in servers_for(locator.digest, by_uuid)]


def counts(servers, locator=FOO):
    return [len(server.requests) for server in ordered(servers, locator)]


@pytest.mark.parametrize(
    ("wanted", "classes", "stored", "confirmed", "requests"),
    [
        (1, "foo", "1", "foo=1", 1),
        (1, "foo", "2", "foo=2", 1),
        (2, "foo", "2", "foo=2", 1),
        (2, "foo", "1", "foo=1", 2),
        (1, "foo bar", "1", "foo=1, bar=1", 1),
        (2, "foo bar", "1", "bar=1,foo=1", 2),
        (1, "foo", "1", None, 1),
        (2, "foo", "1", None, 2),
        (1, "foo", "1", "bar=1", "foo=0"),
        (2, "foo", "1", "foo=0", "foo=0"),
        (3, "foo", "1", "foo=1", 3),
        (4, "foo", "1", "foo=1", "3 of 4 copies are confirmed, foo=3"),
        (1, "", "1", "x=1", 1),
        (2, "", "1", None, 2),
        (3, "", "1", None, 3),
        (2, "", None, None, 2),
        (11, "", "1", None, "3 of 11"),
        (1, "", "0", None, "0 of 1"),
        (1, "", "many", None, "stored 'many' copies"),
    ],
)
def test_copies_and_classes(client_of, wanted, classes, stored, confirmed, requests):
    with stub_servers(3) as servers:
        for server in servers:
            server.replicas, server.classes = stored, confirmed
        client = client_of(servers)
        with suppress(BackendUnavailableError):
            client.put(b"foo", replicas=wanted)  # the client learns what a server stores
        for server in servers:
            server.requests.clear()
        if isinstance(requests, str):
            with pytest.raises(BackendUnavailableError, match=requests):
                client.put(b"foo", replicas=wanted, classes=classes.split())
            assert counts(servers) == [1, 1, 1]
        else:
            client.put(b"foo", replicas=wanted, classes=classes.split())
            assert counts(servers) == [1] * requests + [0] * (3 - requests)


def test_a_class_is_asked_until_each_server_with_it_confirmed(client_of, servers):
    first, second, third = ordered(servers)
    first.classes, second.classes, third.classes = "a=1", "a=0", "b=1"
    client = client_of(servers)
    client.put(b"foo", replicas=1, classes=("b", "a"))
    asked = [server.requests[0][2]["X-Keep-Storage-Classes"] for server in (first, second, third)]
    assert asked == ["a, b", "b", "b"]
    for server in servers:
        server.classes = None


def test_a_server_without_the_class_is_not_asked(servers):
    known = [
        Server(each.server.uuid, each.server.url, classes=frozenset({"fast" if at else "slow"}))
        for at, each in enumerate(ordered(servers))
    ]
    client = KeepClient(lambda: known, "token", clock=FakeClock(), ids=SequenceIds())
    client.put(b"foo", classes=["fast"])
    client.close()
    assert counts(servers) == [0, 1, 1]


def test_a_block_is_put_with_what_servers_need(client, servers):
    locator = client.put(memoryview(b"foo"))
    assert str(locator) == f"{FOO}+A{'a' * 40}@7fffffff"
    method, path, headers = ordered(servers)[0].requests[0]
    assert (method, path) == ("PUT", f"/{FOO.digest}")
    assert headers["Authorization"] == "Bearer token"
    assert headers["Content-Length"] == "3"
    assert headers["X-Keep-Desired-Replicas"] == "2"
    assert [server.blocks for server in ordered(servers)] == [{FOO.digest: b"foo"}] * 2 + [{}]


@pytest.mark.parametrize("status", SOFT)
def test_soft_errors_are_repeated(client, servers, status):
    for server in servers:
        server.faults.append(status)
    client.put(b"foo", replicas=3)
    assert counts(servers) == [2, 2, 2]
    for server in servers:
        server.faults.append(status)
    assert client.get(FOO) == b"foo"
    assert counts(servers) == [4, 3, 3]
    first, again = (headers["X-Request-Id"] for _, _, headers in servers[0].requests[:2])
    assert first == again
    assert re.fullmatch(r"req-[a-z0-9]{20}", first)


@pytest.mark.parametrize("status", FINAL)
def test_final_errors_are_not_repeated(client, servers, status):
    for server in servers:
        server.faults.append(status)
    with pytest.raises(GravelerError, match=f"{status} refused"):
        client.put(b"foo")
    for server in servers:
        server.faults.append(status)
    with pytest.raises(GravelerError, match=f"{status} refused"):
        client.get(FOO)
    assert counts(servers) == [2, 2, 2]


@pytest.mark.parametrize(
    ("reads", "said", "error"),
    [
        (True, (404, 404, 410), ObjectNotFoundError),
        (True, (404, 500, 404), BackendUnavailableError),
        (True, (404, 400, 404), BackendUnavailableError),
        (True, (404, 401, 404), PermissionDeniedError),
        (True, (403, 403, 403), PermissionDeniedError),
        (True, (400, 400, 400), InvalidInputError),
        (True, (404, WRONG, 404), CorruptionError),
        (True, (404, HANG_UP, 404), BackendUnavailableError),
        (False, (200, 400, 400), BackendUnavailableError),
        (False, (400, 413, 400), InvalidInputError),
        (False, (200, 507, 400), StorageFullError),
        (False, (507, 507, 503), BackendUnavailableError),
        (False, (401, 403, 400), PermissionDeniedError),
        (False, (404, 404, 404), BackendUnavailableError),
        (False, (200, OTHER, OTHER), BackendUnavailableError),
    ],
)
def test_the_error_says_what_all_servers_said(client, servers, reads, said, error):
    for server, each in zip(servers, said, strict=True):
        server.blocks[FOO.digest] = b"foo"
        server.faults.extend(repeat(None if each == 200 else each, 200))
    with pytest.raises(error) as raised:
        client.get(FOO) if reads else client.put(b"foo")
    assert type(raised.value) is error
    assert all(server.server.url in str(raised.value) for server in servers)


def test_a_refusal_ends_the_put_with_too_few_copies(client, servers):
    ordered(servers)[1].faults.append(400)
    ordered(servers)[2].faults.append(400)
    with pytest.raises(BackendUnavailableError, match="1 of 2 copies are confirmed"):
        client.put(b"foo")
    assert counts(servers) == [1, 1, 1]


@pytest.mark.parametrize("faults", [[WRONG], [SHORT], [HANG_UP, HANG_UP], [500], [404], [403]])
def test_another_server_has_the_block(client, servers, faults):
    client.put(b"foo", replicas=3)
    ordered(servers)[0].faults.extend(faults)
    assert client.get(FOO) == b"foo"
    assert counts(servers) == [1 + len(faults), 2, 1]
    assert client.damaged == faults.count(WRONG)


def test_a_damaged_copy_is_asked_for_twice(client, servers):
    servers[0].blocks[FOO.digest] = b"bar"
    with pytest.raises(CorruptionError):
        client.get(FOO)
    assert client.damaged == len(servers[0].requests) == 2


def test_a_silent_server_is_tried_last(client_of, servers):
    client = client_of(servers, limit_s=1)
    client.put(b"foo", replicas=3)
    first, second, _ = ordered(servers)
    first.faults.append(DRIP)
    assert client.get(FOO) == b"foo"
    assert client._fetched(FOO) == b"foo"
    assert (len(first.requests), len(second.requests)) == (2, 3)
    client._clock.advance(seconds=20)
    assert client._fetched(FOO) == b"foo"
    assert len(first.requests) == 3
    first.going_on.set()


def test_servers_are_added_and_replaced_while_a_client_lives(client_of, all_servers, servers):
    shown = servers[:1]
    client = client_of(shown)
    with pytest.raises(BackendUnavailableError, match="1 of 2"):
        client.put(b"foo")
    shown.append(servers[1])
    client.put(b"foo")
    shown[:] = all_servers[3:]
    with pytest.raises(ObjectNotFoundError):
        client.get(FOO)
    shown.clear()
    with pytest.raises(BackendUnavailableError, match="no server"):
        client.get(FOO)


def test_a_read_only_server_stores_nothing(servers):
    known = [Server(s.server.uuid, s.server.url, read_only=s is servers[0]) for s in servers]
    client = KeepClient(lambda: known, "token", clock=FakeClock(), ids=SequenceIds())
    client.put(b"foo")
    assert [len(server.blocks) for server in servers] == [0, 1, 1]
    servers[0].blocks, servers[1].blocks, servers[2].blocks = servers[1].blocks, {}, {}
    assert client.get(FOO) == b"foo"
    client.close()


def test_one_address_is_one_copy(servers):
    url = servers[0].server.url
    twice = [Server(uuid, url) for uuid in ("zzzzz-bi6l4-a", "zzzzz-bi6l4-b")]
    client = KeepClient(lambda: twice, "token", clock=FakeClock(), ids=SequenceIds())
    with pytest.raises(BackendUnavailableError, match="1 of 2"):
        client.put(b"foo")
    client.close()


def test_the_empty_block_needs_no_server(client_of):
    client = client_of([])
    assert client.put(b"") == EMPTY
    assert client.get(EMPTY) == b""
    assert client.have([EMPTY]) == {EMPTY.digest: 2}


@pytest.mark.parametrize("size", [1, (1 << 20) + 1, BLOCK_BYTES])
def test_blocks_of_all_sizes_go_there_and_back(client, size):
    content = bytes(range(256)) * (size // 256) + bytes(size % 256)
    assert client.get(client.put(content)) == content


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.put(bytes(BLOCK_BYTES + 1)),
        lambda client: client.put(b"foo", replicas=0),
        lambda client: client.get(Locator(FOO.digest, None)),
        lambda client: client.read(FOO, 1, 3),
        lambda client: client.read(FOO, -1, 2),
        lambda client: client.read(FOO, 2, -1),
        lambda client: Server("a", "ftp://host"),
        lambda client: Server("a", "http://user:secret@host"),
        lambda client: Server("a", "http://host:port"),
        lambda client: Server("a", "http://host/path"),
    ],
)
def test_wrong_arguments_are_refused(client, servers, call):
    with pytest.raises(InvalidInputError):
        call(client)
    assert counts(servers) == [0, 0, 0]


@pytest.mark.parametrize("token", ["a b", "a\nb", "ü"])
def test_a_token_is_one_word(token):
    with pytest.raises(InvalidInputError, match="a token has"):
        KeepClient(list, token, clock=FakeClock(), ids=SequenceIds())


def test_the_hint_names_the_first_server(client, servers):
    client.put(b"foo", replicas=3)
    last = ordered(servers)[-1]
    hinted = Locator(FOO.digest, 3, (f"K@{last.server.uuid}",))
    assert client.get(hinted) == b"foo"
    assert last.requests[-1][1] == f"/{hinted}"


def test_a_client_with_the_key_signs_what_it_reads(client_of, servers):
    signer = Signer(b"key", 60)
    client = client_of(servers, signer=signer)
    client.put(b"foo", replicas=3)
    client.get(FOO)
    asked = Locator.parse(ordered(servers)[0].requests[-1][1][1:])
    assert signer.fault(asked, "token", client._clock.now().timestamp()) is None


@pytest.mark.parametrize("verify", [True, False])
def test_a_part_of_a_block(client, servers, verify):
    client.put(b"0123456789")
    locator = Locator.of(b"0123456789")
    assert client.read(locator, 3, 4, verify=verify) == b"3456"
    assert client.read(locator, 0, 0, verify=verify) == b""
    asked = ordered(servers, locator)[0].requests[1][2].get("Range")
    assert asked == (None if verify else "bytes=3-6")


@pytest.mark.parametrize("fault", [WHOLE, SHORT, OTHER, 500, HANG_UP, None])
def test_a_part_despite_faults(client, servers, fault):
    client.put(b"0123456789", replicas=3)
    locator = Locator.of(b"0123456789")
    ordered(servers, locator)[0].faults.append(fault)
    assert client.read(locator, 3, 4, verify=False) == b"3456"


def test_a_part_of_a_cached_block_needs_no_request(client, servers):
    client.get(client.put(b"foo"))
    before = counts(servers)
    assert client.read(FOO, 1, 2, verify=False) == b"oo"
    assert counts(servers) == before


def test_head_finds_the_size(client, servers):
    with pytest.raises(ObjectNotFoundError):
        client.head(FOO)
    client.put(b"foo")
    assert client.head(FOO) == client.head(Locator(FOO.digest, None)) == 3


def test_have_counts_servers_and_touches(client, servers):
    client.put(b"foo")
    bar = Locator.of(b"bar")
    assert client.have([FOO, bar, FOO], touch=False) == {FOO.digest: 2, bar.digest: 0}
    assert servers[0].touched == set()
    assert client.have([FOO]) == {FOO.digest: 2}
    assert servers[0].touched == {FOO.digest}
    assert client.have([]) == {}


@pytest.mark.parametrize(
    ("faults", "stored", "counted"),
    [
        (("", 500, ""), "11.", 2),
        ((400, "", ""), ".11", 2),
        ((400, "", ""), ".1.", 1),
        ((400, "", ""), "...", BackendUnavailableError),
        (("", WRONG, ""), "...", BackendUnavailableError),
        ((404, 404, 404), "...", BackendUnavailableError),
        ((403, 403, 403), "...", PermissionDeniedError),
        (("", HANG_UP, ""), "1.1", 2),
    ],
)
def test_have_with_faults(client, servers, faults, stored, counted):
    for server, fault, is_there in zip(servers, faults, stored, strict=True):
        server.faults.extend([fault] if fault else [])
        server.blocks.update({FOO.digest: b"foo"} if is_there == "1" else {})
    if isinstance(counted, int):
        assert client.have([FOO]) == {FOO.digest: counted}
    else:
        with pytest.raises(counted):
            client.have([FOO])


def test_have_asks_in_batches(client, servers):
    locators = [Locator.of(b"%d" % number) for number in range(12_000)]
    client.put(b"11999")
    counted = client.have(locators)
    assert (len(counted), sum(counted.values())) == (12_000, 2)
    assert len(servers[0].touched) == 12_000


FAULTS = st.sampled_from([None, None, 500, 503, 507, 404, WRONG, SHORT, HANG_UP, LOST, OTHER])


@given(
    faults=st.lists(st.lists(FAULTS, max_size=6), min_size=3, max_size=3),
    wanted=st.integers(1, 3),
)
def test_what_is_acknowledged_is_stored_and_read_right(all_servers, faults, wanted):
    for server, each in zip(all_servers, faults, strict=False):
        server.reset()
        server.faults.extend(each)
    servers = all_servers[:3]
    client = KeepClient(
        lambda: [each.server for each in servers], "token", clock=FakeClock(), ids=SequenceIds()
    )
    try:
        client.put(b"foo", replicas=wanted)
    except GravelerError:
        acknowledged = False
    else:
        acknowledged = True
        assert sum(server.blocks.get(FOO.digest) == b"foo" for server in servers) >= wanted
    with suppress(GravelerError):
        assert client.get(FOO) == b"foo"
    for server in servers:
        server.faults.clear()
    if acknowledged:
        assert client.get(FOO) == b"foo"
    client.close()
