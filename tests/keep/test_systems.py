"""Systems of Keep: their servers, addresses, folders and certificates, and puts on several servers."""

import select
import shutil
import socket
import ssl
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPSConnection, RemoteDisconnected

import pytest

from graveler.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    StateError,
)
from graveler.keep.locators import Locator
from graveler.keep.placement import servers_for
from graveler.keep.volumes.folder import FolderVolume
from graveler.server.keep.service import KeepServer
from graveler.testing import World
from tests.harness.keep import TWINS
from tests.harness.keep_server import FOO, USER, Client


@pytest.mark.parametrize("at", range(3))
def test_a_collision_on_any_server_refuses_the_put(serve, lake, at):
    servers = [serve() for _ in range(3)]
    servers[at].put(TWINS[0])
    for each in servers:
        lake.keep.add_server("main", each.server.address)
    client = lake.keep.client("main")
    with pytest.raises(
        ConflictError, match=r"[0-2] of 3 copies.*collision.*is not stored"
    ) as raised:
        client.put(TWINS[1], replicas=3)
    client.close()
    held = [
        each
        for each in servers
        if each("GET", f"/{Locator.of(TWINS[1])}", token=each.manager)[1] == TWINS[1]
    ]
    assert servers[at] not in held
    for each in held:
        assert f"{each.server.address}: done" in str(raised.value)


def test_after_a_collision_no_other_server_is_asked(serve, lake):
    block = Locator.of(TWINS[1])
    servers = [serve() for _ in range(3)]
    by = {lake.keep.add_server("main", each.server.address).uuid: each for each in servers}
    first, *others = (by[uuid] for uuid in servers_for(block.digest, by))
    first.put(TWINS[0])
    client = lake.keep.client("main")
    with pytest.raises(ConflictError, match=r": 0 of 1 copies.*: 500 collision: .*"):
        client.put(TWINS[1], replicas=1)
    client.close()
    for each in others:
        assert each("HEAD", f"/{block}", token=each.manager)[0] == 404


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


def test_strangers_before_their_handshake_are_bounded(serve, certificate, monkeypatch):
    monkeypatch.setattr("graveler.server.connections._MOST_STRANGERS", 2)
    host, _, port = serve(tls=certificate).server.authority.partition(":")
    with ExitStack() as opened:
        strangers = [
            opened.enter_context(socket.create_connection((host, int(port)))) for _ in range(3)
        ]
        ended, _, _ = select.select(strangers, [], [], 5)
        assert [each.recv(1) for each in ended] == [b""]


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """The files of a certificate of localhost, signed by itself, and of its key."""
    from tests.harness.certificates import of_localhost

    return of_localhost(tmp_path_factory.mktemp("certificate"))


def test_a_folder_has_one_server(serve, lake, tmp_path):
    serve()
    with pytest.raises(StateError, match="another server has"):
        KeepServer(lake, "main", [tmp_path / "volume00"])


def test_a_folder_of_another_system_is_refused(serve, lake, tmp_path):
    serve().server.cut()
    lake.keep.create("second")
    with pytest.raises(StateError, match="a volume of the system 'main'"):
        KeepServer(lake, "second", [tmp_path / "volume00"])


def test_a_folder_of_another_lake_is_refused(serve, lake, tmp_path):
    client = serve()
    client.put(b"foo")
    client.server.cut()
    folder, known = tmp_path / "volume00", lake.keep.get("main").id
    with World().open() as other:
        made = other.keep.create("main").id
        with pytest.raises(
            StateError, match=rf"{known}.*'main' of this one is {made}.*--take-over"
        ):
            KeepServer(other, "main", [folder])
        KeepServer(lake, "main", [folder]).cut()
        server = KeepServer(other, "main", [folder], take_over=True)
        assert [line.split()[0] for line in server.store.index()] == [f"{FOO}+3"]
        server.cut()
    with pytest.raises(StateError, match=f"of the system {made} of another lake"):
        KeepServer(lake, "main", [folder])


def test_a_folder_without_a_system_is_claimed(lake, tmp_path):
    FolderVolume.create(tmp_path / "disk")
    KeepServer(lake, "main", [tmp_path / "disk"]).cut()
    assert FolderVolume(tmp_path / "disk").system == lake.keep.get("main").id


def test_a_disk_that_is_not_mounted_is_not_a_new_volume(serve, lake, tmp_path):
    serve().server.cut()
    (tmp_path / "volume00").rename(tmp_path / "elsewhere")
    for empty in (False, True):
        if empty:
            (tmp_path / "volume00").mkdir()
        with pytest.raises(StateError, match="is empty, and was volume"):
            KeepServer(lake, "main", [tmp_path / "volume00"])
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(StateError, match="is empty, and was volume"):
        KeepServer(lake, "main", [tmp_path / "link" / "volume00"])
    KeepServer(lake, "main", [tmp_path / "volume00"], new_disks=True).cut()


def test_a_disk_with_a_new_file_system_is_empty(lake, tmp_path):
    (tmp_path / "disk" / "lost+found").mkdir(parents=True)
    KeepServer(lake, "main", [tmp_path / "disk"]).cut()
    (tmp_path / "disk" / ".keep-volume").unlink()
    with pytest.raises(StateError, match="is empty, and was volume"):
        KeepServer(lake, "main", [tmp_path / "disk"])


@pytest.mark.parametrize("damage", [b"bar", b"fo", b""])
def test_a_scrub_mends_a_damaged_copy_from_another_server(serve, lake, tmp_path, damage):
    here, there = serve(scrub_bytes=0), serve()
    for client in (here, there):
        lake.keep.add_server("main", client.server.address)
        client.put(b"foo")
    (copy,) = (tmp_path / "volume00").glob(f"*/{FOO}")
    copy.write_bytes(damage)
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
    with pytest.raises(AlreadyExistsError, match=f"is server {uuid} already"):
        lake.keep.add_server("main", "http://b:1")
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
def test_a_lost_disk_is_named_with_the_way_out(serve, tmp_path, method, path):
    client = serve()
    shutil.rmtree(tmp_path / "volume00")
    status, answer = client(method, path, b"foo", token=client.manager)
    assert status == 503
    assert f"{tmp_path}/volume00 is no volume: mount its disk there" in answer.decode()
    assert "(--new-disk)" in answer.decode()
