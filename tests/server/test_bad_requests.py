"""Wrong requests: each ends with or without an answer, and the next client is served."""

import errno
import os
import socket
import threading
from typing import Any, cast

import pytest

from graveler.base.clock import SystemClock
from graveler.server.connection import Connection


@pytest.fixture
def raw(client, dev):
    """Sends bytes to the gateway and returns its whole answer; `wait` keeps the connection open."""
    dev.put("a", b"hello")
    host, _, port = client.authority.partition(":")

    def send(data, *, wait=False):
        with socket.create_connection((host, int(port)), timeout=120) as connection:
            connection.sendall(data)
            if not wait:
                connection.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := connection.recv(1 << 16):
                answer += piece
            return answer

    yield send
    assert client.open("/a").body == b"hello"
    assert [entry.path for entry in dev.entries()] == ["a"]


def put(client, body, *headers):
    """Return the bytes of a CREATE with a body."""
    head = [f"PUT {client.target('/b', 'CREATE', data='true')} HTTP/1.1", "Host: x", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def test_the_operations_are_named(client):
    got = client.ask("GET", "/a", "NONSENSE")
    assert got.failure == (400, "IllegalArgumentException")
    assert "Invalid value for webhdfs parameter \"op\": 'NONSENSE'" in got.message


def test_slashes_too_many_are_ignored(client, dev):
    dev.put("t/a", b"x")
    query = f"op=OPEN&offset=0&user.name={client.token}"
    assert client.send("GET", f"/webhdfs/v1//flights/dev//t/a//?{query}").body == b"x"


@pytest.mark.parametrize(
    ("body", "header"),
    [
        (b"hell", "Content-Length: 5"),
        (b"5\r\nhello\r\n", "Transfer-Encoding: chunked"),
        (b"5\r\nhe", "Transfer-Encoding: chunked"),
        (b"5\r\nhello\r\n0\r\n", "Transfer-Encoding: chunked"),
        (b"5", "Transfer-Encoding: chunked"),
        (b"", "Transfer-Encoding: chunked"),
    ],
)
def test_a_client_that_goes_away_leaves_nothing(raw, client, dev, body, header):
    assert raw(put(client, body, header)) == b""
    assert len(list(dev.repository.objects.list("data/"))) == 1


def test_a_client_may_wait_for_the_word_to_send(client, dev):
    host, _, port = client.authority.partition(":")
    head = put(client, b"", "Content-Length: 5", "Expect: 100-continue")
    with socket.create_connection((host, int(port)), timeout=120) as connection:
        connection.sendall(head)
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"hello")
        assert connection.recv(1000).startswith(b"HTTP/1.1 201 ")
    assert dev.get("b") == b"hello"


def test_a_client_that_may_not_write_need_not_send(client, raw):
    client.token = "wrong"
    answer = raw(put(client, b"", "Content-Length: 5", "Expect: 100-continue"), wait=True)
    client.token = "grav-of-the-tests"
    assert answer.startswith(b"HTTP/1.1 401 ")


def test_a_long_body_that_is_refused_gets_its_answer(client, dev):
    dev.put("b", b"x")
    got = client.ask("PUT", "/b", "CREATE", bytes(600_000), overwrite="false")
    assert got.failure == (403, "FileAlreadyExistsException")
    assert got.headers["Connection"] == "close"
    assert client.mkdirs("/t").status == 200


def test_a_body_that_nobody_asked_for_is_no_request(client, dev):
    dev.put("a", b"x")
    got = client.ask("PUT", "/t", "MKDIRS", b"DELETE /webhdfs/v1/flights/dev/a HTTP/1.1\r\n\r\n")
    assert got.status == 200
    assert client.kind("/a") == "FILE"


def test_requests_may_follow_each_other_without_a_pause(raw, client):
    one = f"GET {client.target('/a', 'OPEN', offset=1)} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    assert raw(one * 3).count(b"ello") == 3


def test_an_old_client_gets_one_answer(raw, client):
    answer = raw(
        f"GET {client.target('/a', 'OPEN', offset=0)} HTTP/1.0\r\n\r\n".encode(), wait=True
    )
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"hello")


def test_a_reader_that_goes_away_is_no_error(client, dev, capfd):
    dev.put("large", bytes(20_000_000))
    host, _, port = client.authority.partition(":")
    before = set(threading.enumerate())
    for _ in range(3):
        with socket.create_connection((host, int(port)), timeout=120) as connection:
            target = client.target("/large", "OPEN", offset=0)
            connection.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert connection.recv(10)
    assert client.open("/large", offset=19_999_999).body == b"\0"
    client.close()
    for thread in set(threading.enumerate()) - before:  # those of the connections
        while thread.ident is None:  # it is being started
            SystemClock().sleep(0.01)
        thread.join(120)
        assert not thread.is_alive()
    assert capfd.readouterr().err == ""


class OutOfReach:
    """A socket whose network has no way to the other end after some calls."""

    def __init__(self, connection, calls, number):
        self._connection = connection
        self._left = dict(calls)
        self._number = number

    def __getattr__(self, name):
        left = self._left[name] = self._left.get(name, 100) - 1
        if left < 0:
            raise OSError(self._number, os.strerror(self._number))
        return getattr(self._connection, name)


@pytest.mark.parametrize("number", [errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EIO])
@pytest.mark.parametrize("calls", [{"recv": 0}, {"recv": 1}, {"send": 0}], ids=str)
def test_a_client_out_of_reach_is_no_defect(client, dev, monkeypatch, capfd, caplog, calls, number):
    host, _, port = client.authority.partition(":")
    before = set(threading.enumerate())
    with monkeypatch.context() as patch:
        patch.setattr(
            "graveler.server.server.Connection",
            lambda socket, *others: Connection(
                cast("Any", OutOfReach(socket, calls, number)), *others
            ),
        )
        with socket.create_connection((host, int(port)), timeout=120) as connection:
            connection.sendall(put(client, b"", "Content-Length: 5", "Expect: 100-continue"))
            begun = b"HTTP/1.1 100 Continue\r\n\r\n" if calls == {"recv": 1} else b""
            assert connection.recv(100) == begun
    for thread in set(threading.enumerate()) - before:
        thread.join(120)
    assert list(dev.entries()) == []
    assert caplog.messages == []
    told = number == errno.EIO and calls == {"recv": 0}
    assert capfd.readouterr().err == "graveler server: [Errno 5] Input/output error\n" * told
