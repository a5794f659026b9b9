"""``graveler ui`` as a separate process."""

import http.client
import json
import signal
import subprocess
import sys
from typing import Any
from urllib.parse import urlsplit

import pytest

import graveler
from graveler.lake.factory import init
from tests.harness.programs import ROOT


@pytest.fixture
def folder(tmp_path):
    with init(tmp_path / "lake") as lake:
        lake.create_repository("flights")
    return tmp_path / "lake"


@pytest.fixture
def start(folder):
    """Starts the command, and returns it and the first line that it prints."""
    started = []

    def run(*arguments):
        command = [sys.executable, "-W", "error", "-m", "graveler", "-C", str(folder), "ui"]
        process: Any = subprocess.Popen(
            [*command, *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process, process.stdout.readline().strip()

    yield run
    for process in started:
        process.kill()
        process.communicate(timeout=120)


def get(address, **headers):
    place = urlsplit(address)
    connection = http.client.HTTPConnection(place.netloc, timeout=60)
    connection.request("GET", f"{place.path}?{place.query}".rstrip("?"), headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, answer.headers, text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_printed_address_opens_the_lake(start, number):
    process, address = start("--port", "0")
    status, headers, _ = get(address)
    assert (status, headers["location"]) == (303, "/")
    cookie = headers["set-cookie"].partition(";")[0]
    status, _, text = get(address.partition("?")[0], Cookie=cookie)
    assert (status, "flights" in text) == (200, True)
    process.send_signal(number)
    assert (process.communicate(timeout=120), process.returncode) == (("", ""), 0)


def test_a_lake_with_users_has_no_token_of_its_own(start, folder):
    with graveler.open(folder) as lake:
        lake.iam.create_user("ada")
        token, _ = lake.iam.create_token("ada")
    _, printed = start("--port", "0", "--json")
    address = json.loads(printed)["address"]
    assert "token" not in address
    assert (get(address)[0], get(f"{address}?token={token}")[0]) == (401, 303)


def test_a_taken_port_is_said(start):
    _, address = start("--port", "0")
    second, _ = start("--port", str(urlsplit(address).port))
    assert "cannot listen at 127.0.0.1" in second.communicate(timeout=120)[1]
    assert second.returncode == 1
