"""Clients without the token, smuggled requests, and names outside ASCII."""

import socket
import threading

import pytest

from graveler.base.clock import SystemClock
from graveler.server import Server
from tests.server.conftest import TOKEN


@pytest.fixture
def connect(client, monkeypatch):
    """Opens connections to the gateway, which gives strangers little time and room."""
    monkeypatch.setattr("graveler.server.connection._ADMISSION_SECONDS", 0.3)
    monkeypatch.setattr("graveler.server.connection._PROGRESS_SECONDS", 0.3)
    host, _, port = client.authority.partition(":")
    opened = []

    def start(data=b""):
        connection = socket.create_connection((host, int(port)), timeout=120)
        opened.append(connection)
        connection.sendall(data)
        return connection

    yield start
    for connection in opened:
        connection.close()


def answer_of(connection):
    """Return all that the gateway sends until it ends the connection."""
    answer = b""
    try:
        while piece := connection.recv(1 << 16):
            answer += piece
    except ConnectionError:
        pass
    return answer


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"G",
        b"GET / HTTP/1.1\r\nHost: x\r\n",
        b"POST /token HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n",
        b"POST /token HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /token HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nclient_secret=",
    ],
)
def test_a_stranger_that_does_not_go_on_is_cut(connect, data):
    assert b" 200 " not in answer_of(connect(data))


def test_a_stranger_that_sends_one_byte_at_a_time_is_cut(connect, client, dev):
    dev.put("a", b"hello")
    for head in (
        b"GET / HTTP/1.1\r\nX: ",
        b"POST /token HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\n",
    ):
        connection = connect(head)
        connection.settimeout(0.02)
        sent = 0
        while sent < 4000:
            try:
                connection.sendall(b"a")
                sent += 1
                if not connection.recv(1000):
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        assert sent < 4000


def test_many_strangers_keep_no_one_out(connect, client, dev, monkeypatch):
    monkeypatch.setattr("graveler.server.connection._ADMISSION_SECONDS", 600)
    monkeypatch.setattr("graveler.server.connections._MOST_STRANGERS", 4)
    dev.put("a", b"hello")
    strangers = [
        connect(b"POST /token HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n") for _ in range(20)
    ]
    assert client.open("/a").body == b"hello"
    assert answer_of(strangers[0]) == b""


def test_strangers_do_not_keep_the_gateway_open(lake, dev, monkeypatch):
    monkeypatch.setattr("graveler.server.connection._ADMISSION_SECONDS", 600)
    gateway = Server(lake, token=TOKEN)
    host, _, port = gateway.address.removeprefix("webhdfs://").strip("/").partition(":")
    with socket.create_connection((host, int(port)), timeout=120) as connection:
        connection.sendall(b"POST /token HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
        with socket.create_connection((host, int(port)), timeout=120) as other:
            other.sendall(b"NONSENSE\r\n\r\n")
            assert other.recv(100)
        assert gateway.close(seconds=120)


def test_a_client_with_the_token_may_be_slow_but_not_stop(connect, client, dev):
    target = client.target("/b", "CREATE", data="true")
    head = f"PUT {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 40\r\n\r\n".encode()
    slow = connect(head)
    slow.settimeout(0.1)
    for _ in range(39):  # together longer than the pause that ends a connection
        slow.sendall(b"a")
        with pytest.raises(TimeoutError):
            slow.settimeout(0.02)
            slow.recv(1)
    slow.settimeout(120)
    slow.sendall(b"a")
    assert slow.recv(100).startswith(b"HTTP/1.1 201 ")
    stopped = connect(head.replace(b"/b?", b"/c?") + b"aa")
    assert answer_of(stopped) == b""
    assert [entry.path for entry in dev.entries()] == ["b"]


@pytest.mark.parametrize("part", ["data=true", "offset=1"])
def test_a_client_that_stops_reading_is_cut(connect, dev, part):
    dev.put("large", bytes(20_000_000))
    before = set(threading.enumerate())
    target = f"/webhdfs/v1/flights/dev/large?op=OPEN&user.name={TOKEN}&{part}"
    reader = connect(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert reader.recv(1) == b"H"
    for thread in set(threading.enumerate()) - before:
        while thread.ident is None:  # it is being started
            SystemClock().sleep(0.01)
        thread.join(120)
    assert len(answer_of(reader)) < 20_000_000


@pytest.mark.parametrize("name", ["straße", "stadt=Köln", "à", "日本", "\N{NEXT LINE}x"])
def test_a_request_line_may_have_utf8(connect, client, dev, name):
    dev.put(f"t/{name}/a", b"hello")
    query = f"user.name={TOKEN}&offset=0"
    get = f"GET /webhdfs/v1/flights/dev/t/{name}/a?op=OPEN&{query} HTTP/1.0\r\n\r\n"
    assert answer_of(connect(get.encode())).endswith(b"\r\n\r\nhello")
    put = (
        f"PUT /webhdfs/v1/flights/dev/new/{name}?op=CREATE&data=true&{query} HTTP/1.0\r\n"
        "Content-Length: 2\r\n\r\nhi"
    )
    assert b" 201 " in answer_of(connect(put.encode()))
    assert dev.get(f"new/{name}") == b"hi"


def test_a_redirect_of_a_name_outside_ascii_is_followed(client, dev):
    client.connection._http_vsn = 11
    target = f"/webhdfs/v1/flights/dev/straße?op=CREATE&user.name={TOKEN}"
    host, _, port = client.authority.partition(":")
    with socket.create_connection((host, int(port)), timeout=120) as connection:
        connection.sendall(f"PUT {target} HTTP/1.0\r\nHost: {client.authority}\r\n\r\n".encode())
        told = answer_of(connection).decode("ascii")
    place = next(line for line in told.splitlines() if line.startswith("Location: "))
    assert client.send("PUT", place.partition(client.authority)[2], b"hi").status == 201
    assert dev.get("straße") == b"hi"
