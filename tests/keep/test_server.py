"""A server of Keep over real sockets: requests, statuses, rights, signatures, and the lists."""

import json
import shutil
import ssl
from datetime import timedelta
from http.client import HTTPConnection, HTTPSConnection, RemoteDisconnected

import pytest

from graveler.errors import InvalidInputError, NotFoundError, StateError
from graveler.keep.locators import BLOCK_BYTES, EMPTY, Locator
from graveler.keep.signatures import Signer
from graveler.server.keep.service import KeepServer
from graveler.testing import World

USER = "grav-of-the-tests"
OTHER = "grav-of-another-one"
FOO = "acbd18db4cc2f85cedef654fccc4a4d8"
BAR = "37b51d194a7513e45b56f6524f2d51f2"
ABSENT = "d" * 32


@pytest.fixture
def world():
    return World()


@pytest.fixture
def lake(world):
    with world.open() as opened:
        opened.keep.create("main")
        yield opened


@pytest.fixture(autouse=True)
def _closed_soon(monkeypatch):
    monkeypatch.setattr("graveler.server.server._POLL_SECONDS", 0.01)


@pytest.fixture
def serve(lake, tmp_path):
    opened: list[KeepServer] = []

    def start(*, volumes=1, **options):
        folders = [tmp_path / f"volume{len(opened)}{at}" for at in range(volumes)]
        server = KeepServer(lake, "main", folders, token=USER, **options)
        opened.append(server)
        return Client(lake, server)

    yield start
    for server in opened:
        server.cut()


@pytest.fixture
def client(serve):
    return serve()


class Client:
    """Requests to a server, and what it answered."""

    def __init__(self, lake, server, system="main"):
        self.server = server
        self.lake = lake
        self.manager = lake.keep.get(system).token

    def __call__(self, method, path, body=None, *, token=USER, **headers):
        connection = HTTPConnection(self.server.authority)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        connection.request(method, path, body, {n.replace("_", "-"): v for n, v in headers.items()})
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        self.headers = response.headers
        return response.status, answer

    def put(self, content, **options):
        status, answer = self("PUT", f"/{Locator.of(content).digest}", content, **options)
        assert status == 200
        return answer.decode().strip()

    def json(self, path):
        status, answer = self("GET", path, token=self.manager)
        assert status == 200
        return json.loads(answer)

    def age(self, seconds):
        self.lake.keep.clock.advance(seconds=seconds)


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


def test_other_machines_are_served_with_a_certificate_only(lake, tmp_path):
    with pytest.raises(InvalidInputError, match="give a certificate"):
        KeepServer(lake, "main", [tmp_path / "v"], host="192.0.2.1")


def test_connections_are_encrypted_with_a_certificate(serve, certificate):
    client = serve(tls=certificate)
    assert client.server.address.startswith("https://")
    context = ssl.create_default_context(cafile=certificate[0])
    connection = HTTPSConnection(
        client.server.authority.replace("127.0.0.1", "localhost"), context=context
    )
    content = bytes(5 << 20)
    digest = Locator.of(content).digest
    headers = {"Authorization": f"Bearer {client.manager}"}
    connection.request("PUT", f"/{digest}", content, headers)
    assert connection.getresponse().read().decode().startswith(f"{digest}+{len(content)}+A")
    connection.request("GET", f"/{digest}+{len(content)}", headers=headers)
    assert connection.getresponse().read() == content
    connection.close()
    plain = HTTPConnection(client.server.authority, timeout=10)
    plain.request("GET", "/_health/ping")
    with pytest.raises((RemoteDisconnected, ConnectionResetError)):
        plain.getresponse()
    plain.close()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """The files of a certificate of localhost, signed by itself, and of its key."""
    from tests.harness.certificates import of_localhost

    return of_localhost(tmp_path_factory.mktemp("certificate"))


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


def test_a_folder_has_one_server(serve, lake, tmp_path):
    serve()
    with pytest.raises(StateError, match="another server has"):
        KeepServer(lake, "main", [tmp_path / "volume00"])


def test_a_copy_of_a_folder_is_refused(serve, lake, tmp_path):
    serve().server.cut()
    folders = [tmp_path / "volume00", tmp_path / "copy"]
    shutil.copytree(*folders)
    with pytest.raises(StateError, match=r"volume00 and .+/copy are both volume"):
        KeepServer(lake, "main", folders)
    KeepServer(lake, "main", folders[:1]).cut()  # it was not left locked


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", f"/{FOO}"), ("GET", f"/{FOO}+3"), ("GET", "/index")]
)
def test_a_lost_disk_is_named_with_the_way_out(client, tmp_path, method, path):
    shutil.rmtree(tmp_path / "volume00")
    status, answer = client(method, path, b"foo", token=client.manager)
    assert status == 503
    assert f"{tmp_path}/volume00 is no volume: mount its disk there" in answer.decode()
    assert "(--new-disk)" in answer.decode()


def test_a_folder_of_another_system_is_refused(serve, lake, tmp_path):
    serve().server.cut()
    lake.keep.create("second")
    with pytest.raises(StateError, match="a volume of the system 'main'"):
        KeepServer(lake, "second", [tmp_path / "volume00"])


def test_a_disk_that_is_not_mounted_is_not_a_new_volume(serve, lake, tmp_path):
    serve().server.cut()
    (tmp_path / "volume00").rename(tmp_path / "elsewhere")
    for empty in (False, True):
        if empty:
            (tmp_path / "volume00").mkdir()
        with pytest.raises(StateError, match="is empty, and was volume"):
            KeepServer(lake, "main", [tmp_path / "volume00"])
    KeepServer(lake, "main", [tmp_path / "volume00"], new_disks=True).cut()


def test_a_scrub_mends_a_damaged_copy_from_another_server(serve, lake, tmp_path):
    here, there = serve(scrub_bytes=0), serve()
    for client in (here, there):
        lake.keep.add_server("main", client.server.address)
        client.put(b"foo")
    (copy,) = (tmp_path / "volume00").glob(f"*/{FOO}")
    copy.write_bytes(b"bar")
    found = here.server._scrub.run()
    assert (found.damaged, found.healed, found.lost) == (1, 1, [])
    assert copy.read_bytes() == b"foo"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        *(
            (url, "give http://")
            for url in ("", "host", "ftp://h:1", "http://h:1/path", "http://[::1")
        ),
        *(
            (url, "give http://host:port")
            for url in ("http://h:x/", "http://h:99999", "http://u:p@h:1/")
        ),
    ],
)
def test_an_address_of_no_server_is_refused(lake, url, reason):
    with pytest.raises(InvalidInputError, match=reason):
        lake.keep.add_server("main", url)
    assert list(lake.keep.servers("main")) == []


def test_a_server_that_moves_stays_as_it_was(lake):
    uuid = lake.keep.add_server("main", "http://a:1/").uuid
    lake.keep.drain_server("main", uuid)
    assert lake.keep.add_server("main", "http://b:1/", uuid).state == "draining"
    with pytest.raises(NotFoundError, match="has no server 'other'"):
        lake.keep.remove_server("main", "other")
    lake.keep.remove_server("main", uuid)


@pytest.mark.parametrize(
    "settings", [{"replication": 1.5}, {"replication": True}, {"replication": 0}, {"ttl": 14}]
)
def test_a_system_has_settings_with_a_meaning(lake, settings):
    with pytest.raises(InvalidInputError):
        lake.keep.create("other", **settings)
    lake.keep.create("other")


def test_blocks_of_an_encrypted_system_are_encrypted_on_disk(lake, tmp_path):
    lake.keep.create("secret", encrypted=True)
    content = b"a secret " * 1000
    for number in range(2):
        server = KeepServer(lake, "secret", [tmp_path / "disk"], token=USER)
        client = Client(lake, server, "secret")
        if not number:
            client.put(content)
        locator = Locator.of(content)
        assert client("GET", f"/{locator}", token=client.manager) == (200, content)
        files = [file for file in (tmp_path / "disk").glob("???/*") if locator.digest in file.name]
        assert len(files) == 1
        assert b"a secret" not in files[0].read_bytes()
        before = files[0].read_bytes()
        if number:
            assert server._scrub.run().rewritten == 1  # with the newer key
            assert files[0].read_bytes() != before
            assert client("GET", f"/{locator}", token=client.manager) == (200, content)
        server.cut()
        lake.keep.rotate_key("secret")
    with pytest.raises(InvalidInputError, match="are not encrypted"):
        lake.keep.rotate_key("main")
