"""``graveler gateway`` as a separate process."""

import json
import signal
import socket
import subprocess
import sys
from typing import Any

import pytest

import graveler
from graveler.lake.factory import init
from tests.harness.programs import ROOT
from tests.harness.webhdfs import WebHdfs

TOKEN = "grav-of-the-tests"


@pytest.fixture
def folder(tmp_path):
    with init(tmp_path / "lake") as lake:
        lake.create_repository("flights").create_branch("dev")
    return tmp_path / "lake"


@pytest.fixture
def start(folder, monkeypatch):
    """Starts the command, and returns it and the first lines that it prints."""
    started = []

    def run(*arguments, lines=1, **environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        command = [sys.executable, "-W", "error", "-m", "graveler", "gateway", "--port", "0"]
        process: Any = subprocess.Popen(
            [*command, *map(str, arguments or (folder,))],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process, [process.stdout.readline().strip() for _ in range(lines)]

    yield run
    for process in started:
        process.kill()
        process.communicate(timeout=120)


def client(address, token=TOKEN):
    return WebHdfs(address, token, "/flights/dev")


def ended(process):
    """Return the exit code and the last output."""
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_gateway_says_where_it_is_and_stops_when_asked(start, number):
    process, (address, told) = start(lines=2)
    assert address.startswith("webhdfs://127.0.0.1:")
    mine = client(address, told.removeprefix("token: "))
    assert mine.create("/a", b"hello").status == 201
    assert mine.open("/a").body == b"hello"
    process.send_signal(number)
    assert ended(process) == (0, "", "")
    mine.close()


@pytest.mark.parametrize("how", ["option", "environment", "file"])
def test_a_token_that_is_given_is_not_shown(start, folder, tmp_path, how):
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    if how == "environment":
        process, (address,) = start(GRAVELER_GATEWAY_TOKEN=TOKEN)
    elif how == "option":
        process, (address,) = start(folder, "--token", TOKEN)
    else:
        process, (address,) = start(folder, "--token-file", tmp_path / "token")
    mine = client(address)
    assert mine.names("") == []
    mine.close()
    process.terminate()
    assert ended(process) == (0, "", "")


def test_programs_read_the_address_as_json(start, folder):
    _, (line,) = start("--lake", folder, "--json", "--read-only")
    told = json.loads(line)
    mine = client(told["address"], told["token"])
    assert mine.mkdirs("/t").failure == (403, "AccessControlException")
    mine.close()


def test_success_is_committed_if_wanted(start, folder):
    _, (address,) = start(folder, "--commit-on-success", "--token", TOKEN)
    mine = client(address)
    mine.create("/t/a", b"x")
    mine.create("/t/_SUCCESS", b"")
    mine.close()
    with graveler.open(folder) as lake:
        assert lake.repository("flights").branch("dev").head.message == "write t"


def test_a_second_signal_cuts_requests_off(start):
    process, (address,) = start(lines=1, GRAVELER_GATEWAY_TOKEN=TOKEN)
    with uploading(address) as connection:
        process.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1)
        process.terminate()
        assert ended(process) == (0, "", "")
        assert connection.recv(1000) == b""


def uploading(address):
    """A connection on which half of a file is sent."""
    mine = client(address)
    host, _, port = mine.authority.partition(":")
    connection = socket.create_connection((host, int(port)), timeout=120)
    target = mine.target("/half", "CREATE", data="true")
    head = f"PUT {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 20000000\r\nExpect: 100-continue"
    connection.sendall(head.encode() + b"\r\n\r\n")
    assert connection.recv(100).startswith(b"HTTP/1.1 100 ")  # the gateway is reading the body
    connection.sendall(bytes(5_000_000))
    return connection
