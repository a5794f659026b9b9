"""A server in its own process under many strangers, slow and vanishing clients, and SIGTERM."""

import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack

import psutil
import pytest

import graveler
from graveler.lake.factory import init
from tests.harness.programs import ROOT
from tests.harness.webhdfs import WebHdfs

TOKEN = "grav-of-the-tests"
MIB = 1 << 20


@pytest.fixture
def folder(tmp_path):
    with init(tmp_path / "lake") as lake:
        dev = lake.create_repository("flights").create_branch("dev")
        dev.put("large", bytes(256 * MIB))
        dev.commit("a large file")
    return tmp_path / "lake"


@pytest.fixture
def server(folder):
    """The process of the command, and its address."""
    command = [sys.executable, "-m", "graveler", "gateway", folder, "--port", "0"]
    process = subprocess.Popen(
        [*map(str, command), "--token", TOKEN], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    yield process, process.stdout.readline().strip()
    process.kill()
    process.communicate(timeout=120)


class Clients(ExitStack):
    """Connections to a server; their receive buffers are small."""

    def __init__(self, address):
        super().__init__()
        host, _, port = address.removeprefix("webhdfs://").strip("/").partition(":")
        self.there = (host, int(port))

    def connect(self, data):
        connection = self.enter_context(socket.socket())
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        connection.settimeout(120)
        connection.connect(self.there)
        connection.sendall(data)
        return connection


def mebibytes(process):
    return psutil.Process(process.pid).memory_info().rss // MIB


def request(method, path, query, *lines):
    target = f"/webhdfs/v1/flights/dev/{path}?{query}&user.name={TOKEN}"
    return "\r\n".join([f"{method} {target} HTTP/1.1", "Host: x", *lines, "", ""]).encode()


def test_a_server_withstands_its_clients(server, folder):
    process, address = server
    friend = WebHdfs(address, TOKEN, "/flights/dev")
    assert friend.kind("/large") == "FILE"
    before = mebibytes(process)
    with Clients(address) as clients:
        # 1,000 clients without a token: heads without end, and bodies that never come
        head = b"GET / HTTP/1.1\r\nX: " + b"a" * 12_000
        form = b"POST /token HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\nclient_secret="
        for number in range(1_000):
            clients.connect(head if number % 2 else form)
        assert friend.kind("/large") == "FILE"
        other = WebHdfs(address, TOKEN, "/flights/dev")
        assert other.create("/small", b"hello").status == 201
        other.close()
        # readers that take a byte now and then, of a whole file and of a part
        readers = [
            clients.connect(request("GET", "large", f"op=OPEN&{part}"))
            for part in (*["data=true"] * 200, "offset=1")
        ]
        # an upload of 10 GB whose client vanishes
        lines = ("Content-Length: 10000000000", "Expect: 100-continue")
        upload = clients.connect(request("PUT", "half", "op=CREATE&data=true", *lines))
        assert upload.recv(100).startswith(b"HTTP/1.1 100 ")
        for _ in range(64):
            upload.sendall(bytes(MIB))
        assert [reader.recv(1) for reader in readers] == [b"H"] * 201
        upload.close()
        assert friend.kind("/small") == "FILE"
        assert mebibytes(process) - before < 64
        # another upload is active when the server is asked to end
        upload = clients.connect(request("PUT", "half", "op=CREATE&data=true", *lines))
        assert upload.recv(100).startswith(b"HTTP/1.1 100 ")
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == 0
        assert time.monotonic() - begun < 10
    friend.close()
    with graveler.open(folder) as lake:
        branch = lake.repository("flights").branch("dev")
        assert [change.path for change in branch.uncommitted()] == ["small"]
        stored = {info.key for info in lake.repository("flights").stores.objects.list("data/")}
        assert len(stored) == 2
