"""Many clients at the same time, and a gateway that stops."""

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from socketserver import TCPServer

import pytest

from graveler.server import Server
from graveler.server.connections import Connections
from tests.harness.webhdfs import WebHdfs

TOKEN = "grav-of-the-tests"


@pytest.fixture
def connect(client, dev):
    """Returns further clients of the gateway."""
    opened = []

    def another(root=client.root):
        opened.append(WebHdfs(f"webhdfs://{client.authority}/", client.token, root))
        return opened[-1]

    yield another
    for each in opened:
        each.close()


HALF = bytes(20_000_000)
"""More bytes than the system buffers before the gateway reads them."""


class Slow:
    """A body that pauses in its middle until the test continues it."""

    def __init__(self):
        self.begun = threading.Event()
        self.goes_on = threading.Event()

    def __iter__(self):
        yield HALF
        self.begun.set()
        assert self.goes_on.wait(120)
        yield b"end"


def at_once(count, call):
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(call, range(count)))


def test_of_two_creators_without_overwriting_one_wins(dev, connect):
    for round_ in range(2):
        meet = threading.Barrier(4)

        def create(number, path=f"/{round_}", meet=meet):
            meet.wait(120)
            body = (str(number).encode() for _ in range(1))
            return connect().create(path, body, overwrite="false").status

        assert sorted(at_once(4, create)) == [201, 403, 403, 403]
    assert len(list(dev.entries())) == 2


def test_a_file_is_not_there_before_its_last_byte(client, dev, connect):
    body, writer = Slow(), connect()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(writer.create, "/a", body)
        assert body.begun.wait(120)
        assert client.kind("/a") == ""
        assert list(dev.uncommitted()) == []
        client.mkdirs("/t")  # the upload does not hold the branch
        body.goes_on.set()
        assert done.result(120).status == 201
    assert dev.get("a") == HALF + b"end"


def test_a_folder_that_came_meanwhile_is_not_replaced(client, dev, connect):
    body, writer = Slow(), connect()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(writer.create, "/a", body)
        assert body.begun.wait(120)
        client.create("/a/b", b"x")
        body.goes_on.set()
        assert done.result(120).failure == (403, "FileAlreadyExistsException")
    assert [entry.path for entry in dev.entries()] == ["a/b"]


@pytest.mark.parametrize("path", ["/a", "/t/_temporary/0/a", "/t/_SUCCESS"])
def test_an_upload_does_not_land_on_a_later_branch(serve, repo, dev, path):
    client = serve(commit_on_success=True)
    body = Slow()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(client.create, path, body)
        assert body.begun.wait(120)
        repo.delete_branch("dev")
        later = repo.create_branch("dev")
        later.put("t/b", b"x")
        body.goes_on.set()
        got = done.result(120)
    assert got.failure == (404, "FileNotFoundException")
    assert "branch 'dev' was deleted and made again" in got.message
    assert [change.path for change in later.uncommitted()] == ["t/b"]


def test_a_gateway_without_descriptors_waits_for_one(client, connect, monkeypatch):
    """It called `accept` without a pause until another connection ended."""
    real = TCPServer.get_request
    waits: list[float] = []

    def accept(listener):
        if len(waits) < 4:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(listener)

    monkeypatch.setattr(Connections, "wait", lambda _, seconds: waits.append(seconds))
    monkeypatch.setattr(TCPServer, "get_request", accept)
    assert connect().kind("") == "DIRECTORY"
    assert waits == [0.01] * 4


def test_a_gateway_that_stops_lets_requests_end(lake, dev):
    gateway = Server(lake, token=TOKEN)
    idle, writer = (WebHdfs(gateway.address, TOKEN, "/flights/dev") for _ in range(2))
    assert idle.mkdirs("/t").status == 200
    body = Slow()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(writer.ask, "PUT", "/a", "CREATE", body)
        assert body.begun.wait(120)
        assert not gateway.close(seconds=0.1)
        with pytest.raises(OSError, match=r"refused|reset|closed"):
            WebHdfs(gateway.address, TOKEN).get("/", "LISTSTATUS")
        with pytest.raises(OSError, match=r"refused|reset|closed|pipe"):
            idle.kind("/t")
        body.goes_on.set()
        assert done.result(120).status == 201
    assert done.result().headers["Connection"] == "close"
    assert gateway.close(seconds=120)
    assert dev.get("a") == HALF + b"end"
    idle.close()
    writer.close()


def test_a_gateway_that_has_to_stop_cuts_requests_off(lake, dev):
    gateway = Server(lake, token=TOKEN)
    writer = WebHdfs(gateway.address, TOKEN, "/flights/dev")
    body = Slow()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(writer.ask, "PUT", "/a", "CREATE", body)
        assert body.begun.wait(120)
        assert not gateway.close(seconds=0.1)
        gateway.cut()
        assert gateway.close(seconds=120)
        body.goes_on.set()
        with pytest.raises(OSError, match=r"reset|closed|pipe"):
            done.result(120)
    writer.close()
    assert list(dev.entries()) == []


def test_an_idle_connection_makes_room(client, connect, monkeypatch):
    """As many idle connections as are allowed kept others out for two minutes."""
    monkeypatch.setattr("graveler.server.connections._MOST_CONNECTIONS", 2)
    first, second = client, connect()
    assert first.kind("") == second.kind("") == "DIRECTORY"
    served = False
    while not served:
        with suppress(OSError):  # neither of the two waits for a request yet
            served = connect().kind("") == "DIRECTORY"
    with pytest.raises(OSError, match=r"reset|closed"):
        while first.kind("") == second.kind("") == "DIRECTORY":
            threading.Event().wait(0.01)


def test_more_requests_than_allowed_connections_are_refused(client, connect, monkeypatch):
    monkeypatch.setattr("graveler.server.connections._MOST_CONNECTIONS", 1)
    body = Slow()
    with ThreadPoolExecutor(1) as pool:
        writer = connect()
        done = pool.submit(writer.create, "/a", body)
        assert body.begun.wait(120)
        with pytest.raises(OSError, match=r"reset|closed"):
            client.kind("")
        body.goes_on.set()
        assert done.result(120).status == 201
