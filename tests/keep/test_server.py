"""A server of Keep over real sockets: requests, statuses, rights, signatures, and the lists."""

import json
from datetime import timedelta
from http.client import HTTPConnection

import pytest

from graveler.keep.locators import BLOCK_BYTES, EMPTY, Locator
from graveler.keep.signatures import Signer
from tests.harness.keep_server import FOO, USER

OTHER = "grav-of-another-one"
BAR = "37b51d194a7513e45b56f6524f2d51f2"
ABSENT = "d" * 32


@pytest.fixture
def client(serve):
    return serve()


def signed(client, digest, token=USER, *, size=3, life=60, key=None):
    signer = client.lake.keep.get("main").signer
    signer = Signer(key, signer.ttl) if key else signer
    expiry = int(client.lake.keep.clock.now().timestamp()) + life
    return str(signer.sign(Locator(digest, size), token, expiry))


def test_a_block_comes_back(client):
    locator = client.put(b"foo")
    assert locator.startswith(f"{FOO}+3+A")
    assert client.headers["X-Keep-Replicas-Stored"] == "1"
    assert client.headers["X-Keep-Storage-Classes-Confirmed"] == "default=1"
    for path in (f"/{locator}", f"//{locator}", f"/{locator}?checksum=true"):
        assert client("GET", path) == (200, b"foo")
        assert client("HEAD", path) == (200, b"")
        assert client.headers["Content-Length"] == "3"


@pytest.mark.parametrize("content", [b"", b"x", bytes((1 << 20) + 1), bytes(BLOCK_BYTES)], ids=len)
@pytest.mark.parametrize("verifies", [True, False])
def test_blocks_of_all_sizes_come_back(serve, content, verifies):
    client = serve(verifies=verifies)
    assert client("GET", f"/{client.put(content)}") == (200, content)


@pytest.mark.parametrize(
    ("wanted", "status", "part", "stated"),
    [
        ("bytes=0-2", 206, b"012", "bytes 0-2/10"),
        ("bytes=7-", 206, b"789", "bytes 7-9/10"),
        ("bytes=8-99", 206, b"89", "bytes 8-9/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=-99", 206, b"0123456789", "bytes 0-9/10"),
        ("bytes=10-", 416, None, None),
        ("bytes=5-4", 416, None, None),
        ("bytes=-0", 416, None, None),
        ("bytes=-", 200, b"0123456789", None),
        ("lines=1-2", 200, b"0123456789", None),
        ("bytes=0-1,3-4", 200, b"0123456789", None),
    ],
)
@pytest.mark.parametrize("verifies", [True, False])
def test_a_range_is_a_part_of_a_block(serve, verifies, wanted, status, part, stated):
    client = serve(verifies=verifies)
    found, answer = client("GET", f"/{client.put(b'0123456789')}", Range=wanted)
    assert found == status
    assert part is None or answer == part
    assert client.headers["Content-Range"] == stated


def test_the_empty_block_is_always_there(client):
    assert client("GET", f"/{EMPTY}") == (200, b"")
    assert client.put(b"").startswith(str(EMPTY))


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        *(("GET", path, 400) for path in ("/", "/xyz", f"/{'a' * 32}bcdefg", "/untrash", "/trash")),
        *(
            ("GET", path, 400)
            for path in ("/mounts/blocks/123", "/pull", "/debug.json", "//mounts")
        ),
        *(("GET", path, 400) for path in ("//index", "/index/xyz", "/index/" + "a" * 33, "/touch")),
        ("PUT", f"//{FOO}", 400),
        *(("POST", path, 400) for path in ("/", f"/{FOO}", "/trash")),
        ("PROPFIND", "/", 501),
        ("MAKE-COFFEE", "/", 501),
        ("GET", f"/{FOO}", 405),
        ("GET", f"/{FOO}+3+", 400),
        ("GET", f"/mounts/zzzzz-nyw5e-{'0' * 15}/blocks", 404),
        ("GET", "/_health/ping", 200),
        ("OPTIONS", "/anything", 200),
        ("TOUCH", f"/{ABSENT}", 404),
        ("POST", f"/touch/{ABSENT}", 404),
        ("DELETE", f"/{ABSENT}", 404),
        ("PUT", f"/untrash/{ABSENT}", 404),
        ("GET", f"/{ABSENT}+3", 404),
        ("HEAD", f"/{ABSENT}", 404),
        ("HEAD", f"/{FOO}", 200),
        ("HEAD", f"/{FOO}+4", 404),
    ],
)
def test_a_manager_gets_this_status(client, method, path, status):
    client.put(b"foo")
    assert client(method, path, token=client.manager)[0] == status


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (f"/{FOO}", b"fox", 400),
        (f"/{FOO}", b"", 400),
        (f"/{FOO}+3", b"foo", 200),
        (f"/{FOO}", iter([bytes(BLOCK_BYTES), b"1"]), 413),
        (f"/{FOO}", iter([b"f", b"oo"]), 200),
    ],
    ids=["another", "none", "with its size", "too long", "in chunks"],
)
def test_a_body_must_be_the_block(client, path, body, status):
    assert client("PUT", path, body)[0] == status
    assert client("HEAD", f"/{FOO}", token=client.manager)[0] == (200 if status == 200 else 404)


def test_a_body_that_is_too_long_is_refused_before_it_is_sent(client):
    connection = HTTPConnection(client.server.authority)
    connection.putrequest("PUT", f"/{FOO}")
    connection.putheader("Authorization", f"Bearer {USER}")
    connection.putheader("Content-Length", str(BLOCK_BYTES + 1))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_the_body_must_be_as_long_as_the_path_says(client):
    assert client("PUT", f"/{FOO}+4", b"foo")[0] == 400


@pytest.mark.parametrize(
    ("compat", "statuses"), [(False, (403, 403, 403, 401)), (True, (400, 400, 400, 401))]
)
def test_a_reader_needs_a_signature_of_its_own(serve, compat, statuses):
    client = serve(compat=compat)
    client.put(b"foo")
    none, others, forged, expired = statuses
    assert client("GET", f"/{FOO}+3")[0] == none
    assert client("GET", f"/{signed(client, FOO, OTHER)}")[0] == others
    assert client("GET", f"/{signed(client, FOO, key=b'another')}")[0] == forged
    assert client("GET", f"/{signed(client, FOO, life=-1)}")[0] == expired
    assert client("GET", f"/{signed(client, FOO)}") == (200, b"foo")
    assert client("GET", f"/{FOO}+3", token=client.manager) == (200, b"foo")


def test_a_signature_lives_as_long_as_a_block(client):
    locator = client.put(b"foo")
    client.age(timedelta(days=14).total_seconds() - 60)
    assert client("GET", f"/{locator}")[0] == 200
    client.age(120)
    assert client("GET", f"/{locator}")[0] == 401


_MANAGED = [
    ("GET", "/index"),
    ("GET", "/mounts"),
    ("GET", "/state.json"),
    ("GET", "/metrics"),
    ("PUT", "/pull"),
    ("PUT", "/trash"),
    ("DELETE", f"/{FOO}"),
    ("TOUCH", f"/{FOO}"),
    ("PUT", f"/untrash/{FOO}"),
]


@pytest.mark.parametrize(("method", "path"), [*_MANAGED, ("PUT", f"/{FOO}"), ("POST", "/have")])
@pytest.mark.parametrize("token", ["", "grav-of-an-unknown", "é"])
def test_a_request_without_a_known_token_is_refused(client, method, path, token):
    assert client(method, path, b"foo", token=token)[0] == 401


def test_today_s_keepstore_takes_a_block_without_a_token(serve):
    client = serve(compat=True)
    assert client("PUT", f"/{FOO}", b"foo", token="") == (200, f"{FOO}+3\n".encode())
    assert client("GET", f"/{FOO}+3", token="")[0] == 401


@pytest.mark.parametrize(("method", "path"), _MANAGED)
def test_only_a_manager_manages(client, lake, method, path):
    lake.iam.create_user("ann")  # the first user is an admin
    lake.iam.create_user("bob")
    lake.iam.put_policy("blocks", ["allow keep:read,keep:write on *"])
    lake.iam.attach("blocks", user="bob")
    bob, _ = lake.iam.create_token("bob")
    client.age(2)
    assert client("PUT", f"/{FOO}", b"foo", token=bob)[0] == 200
    assert client(method, path, token=bob)[0] == 403
    assert client("GET", "/index", token=client.manager)[0] == 200


@pytest.mark.parametrize("right", ["read", "write", "manage"])
def test_a_client_needs_the_right_to_read_or_to_write(client, lake, right):
    lake.iam.create_user("ann")
    lake.iam.create_user("bob")
    lake.iam.put_policy("one", [f"allow keep:{right} on *"])
    lake.iam.attach("one", user="bob")
    bob, _ = lake.iam.create_token("bob")
    read = client("GET", f"/{signed(client, EMPTY.digest, bob, size=0)}", token=bob)[0]
    written = client("PUT", f"/{FOO}", b"foo", token=bob)[0]
    asked = client("POST", "/have", b'{"blocks": []}', token=bob)[0]
    assert (read == 200, written == 200, asked == 200) == (right == "read", *2 * [right == "write"])


def test_a_right_that_is_taken_away_meanwhile_refuses_a_put(client, lake, monkeypatch):
    for name in ("ann", "bob"):
        lake.iam.create_user(name)
    lake.iam.add_member("admins", "bob")
    token, _ = lake.iam.create_token("bob")
    put = client.server.store.put

    def slow(*words, **options):
        made = put(*words, **options)
        lake.iam.delete_user("bob")
        client.age(2)
        return made

    monkeypatch.setattr(client.server.store, "put", slow)
    status, answer = client("PUT", f"/{FOO}", b"foo", token=token)
    assert (status, b"the token was revoked" in answer) == (403, True)


def test_an_index_has_each_copy_and_ends_with_an_empty_line(client):
    client.put(b"foo")
    client.put(b"bar")
    volume = client.json("/mounts")[0]["uuid"]
    for path in ("/index", "/index/", f"/mounts/{volume}/blocks", f"/mounts/{volume}/blocks/"):
        status, text = client("GET", path, token=client.manager)
        *lines, last, end = text.decode().split("\n")
        assert (status, last, end) == (200, "", "")
        assert sorted(line.split()[0] for line in lines) == [f"{BAR}+3", f"{FOO}+3"]
    for path in ("/index/37b", "/index?prefix=37b", f"/mounts/{volume}/blocks/37b"):
        assert client("GET", path, token=client.manager)[1].startswith(f"{BAR}+3 ".encode())
    assert client("GET", "/index/000", token=client.manager) == (200, b"\n")


def test_an_old_block_can_be_deleted_and_brought_back(client):
    client.put(b"foo")
    assert client("DELETE", f"/{FOO}", token=client.manager)[0] == 422
    client.age(timedelta(days=14).total_seconds() + 1)
    status, answer = client("DELETE", f"/{FOO}", token=client.manager)
    assert (status, json.loads(answer)) == (200, {"copies_deleted": 1, "copies_not_deleted": 0})
    assert client("HEAD", f"/{FOO}", token=client.manager)[0] == 404
    assert client("PUT", f"/untrash/{FOO}", token=client.manager)[0] == 200
    assert client("HEAD", f"/{FOO}", token=client.manager)[0] == 200


def test_today_s_keepstore_leaves_a_young_block_in_silence(serve):
    client = serve(compat=True)
    client.put(b"foo")
    assert client("DELETE", f"/{FOO}", token=client.manager) == (200, b"")
    assert client("HEAD", f"/{FOO}", token=client.manager)[0] == 200


def test_what_a_client_has_is_told_and_kept(client):
    client.put(b"foo")
    client.age(timedelta(days=14).total_seconds() + 1)
    body = json.dumps({"blocks": [FOO, f"{BAR}+3"], "touch": True})
    status, answer = client("POST", "/have", body)
    assert (status, json.loads(answer)["missing"]) == (200, [BAR])
    assert client("DELETE", f"/{FOO}", token=client.manager)[0] == 422


@pytest.mark.parametrize(
    ("path", "body"),
    [
        *((path, body) for path in ("/pull", "/trash", "/have") for body in ("", "{", "1", '"x"')),
        ("/pull", "{}"),
        ("/pull", '[{"locator": "x", "servers": []}]'),
        ("/pull", f'[{{"locator": "{FOO}", "servers": []}}]'),
        ("/pull", f'[{{"locator": "{FOO}+3"}}]'),
        ("/pull", f'[{{"locator": "{FOO}+3", "servers": ["no port"]}}]'),
        ("/trash", "{}"),
        ("/trash", f'[{{"locator": "{FOO}+3"}}]'),
        ("/trash", f'[{{"locator": "{FOO}+3", "block_mtime": "1"}}]'),
        ("/trash", f'{{"trash_blocks": ["{FOO}"]}}'),
        ("/trash", '{"trash_blocks": ["x"], "expiration_time": 1}'),
        ("/trash", f'{{"trash_blocks": ["{FOO}"], "expiration_time": 1.5}}'),
        ("/have", '{"blocks": [1]}'),
        ("/have", f'{{"blocks": {json.dumps([FOO] * 10_001)}}}'),
    ],
)
def test_a_malformed_list_is_refused(client, path, body):
    method = "POST" if path == "/have" else "PUT"
    assert client(method, path, body, token=client.manager)[0] == 400


@pytest.mark.parametrize("form", ["seed", "today"])
def test_a_trash_list_trashes_old_copies(client, form):
    client.put(b"foo")
    client.age(timedelta(days=14).total_seconds() + 1)
    client.put(b"bar")
    times = dict(
        line.split()
        for line in client("GET", "/index", token=client.manager)[1].decode().splitlines()[:2]
    )
    if form == "seed":
        now = client.lake.keep.clock.now().timestamp()
        items: object = {"expiration_time": int(now) + 60, "trash_blocks": [FOO, BAR]}
    else:
        items = [{"locator": name, "block_mtime": int(at)} for name, at in times.items()]
    assert client("PUT", "/trash", json.dumps(items), token=client.manager)[0] == 200
    client.server.trash.wait()
    assert client("GET", "/index", token=client.manager)[1].startswith(f"{BAR}+3 ".encode())
    trash = client.json("/state.json")["lists"]["trash"]
    assert (trash["items"], trash["left"], trash["done"]) == (2, 0, 1)


def test_a_trash_list_that_has_expired_does_nothing(client):
    client.put(b"foo")
    client.age(timedelta(days=14).total_seconds() + 1)
    items = {"expiration_time": 1, "trash_blocks": [FOO]}
    assert client("PUT", "/trash", json.dumps(items), token=client.manager)[0] == 200
    client.server.trash.wait()
    assert client("HEAD", f"/{FOO}", token=client.manager)[0] == 200


@pytest.mark.parametrize("form", ["seed", "today"])
def test_a_pull_list_fetches_blocks_from_siblings(serve, form):
    here, there = serve(), serve()
    there.put(b"foo")
    nowhere = "127.0.0.1:1"
    servers = [nowhere, there.server.authority]
    if form == "today":
        servers = [f"http://{server}/" for server in servers]
    items = [{"locator": f"{FOO}+3", "servers": servers}]
    assert here("PUT", "/pull", json.dumps(items), token=here.manager)[0] == 200
    here.server.pulls.wait()
    assert here("GET", f"/{FOO}+3", token=here.manager) == (200, b"foo")
    assert here.json("/state.json")["lists"]["pull"]["done"] == 1


def test_metrics_are_numbers_with_names(client):
    client.put(b"foo")
    status, text = client("GET", "/metrics", token=client.manager)
    assert status == 200
    values = dict(line.rsplit(" ", 1) for line in text.decode().splitlines())
    volume = client.json("/mounts")[0]["uuid"]
    assert values[f'graveler_keep_written{{volume="{volume}"}}'] == "1"
    for name in ("free_bytes", "total_bytes"):
        assert float(values[f'graveler_keep_{name}{{volume="{volume}"}}']) > 0
    assert values[f'graveler_keep_set_aside{{volume="{volume}"}}'] == "0"


def test_a_client_that_is_too_slow_holds_no_memory(serve, monkeypatch):
    monkeypatch.setattr("graveler.server.keep.blocks._PATIENCE_S", -1.0)
    client = serve(buffers=1)
    assert client("PUT", f"/{FOO}", b"foo")[0] == 408
    assert client.json("/state.json")["buffers"]["in_use"] == 0


def test_a_question_for_many_blocks_is_bounded(client):
    body = json.dumps({"blocks": [], "x": "x" * (1 << 20)})
    assert client("POST", "/have", body)[0] == 413


def test_a_volume_that_is_no_text_is_refused(client):
    body = json.dumps([{"locator": FOO, "block_mtime": 1, "mount_uuid": ["x"]}])
    assert client("PUT", "/trash", body, token=client.manager)[0] == 400
