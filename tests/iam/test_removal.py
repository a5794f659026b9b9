"""How soon a removal takes effect, in other processes and in requests under way."""

import subprocess
import sys
from time import monotonic
from typing import Any

import pytest

import graveler
from graveler.errors import InvalidInputError
from graveler.server import Server
from graveler.testing import World
from tests.harness.programs import ROOT
from tests.harness.webhdfs import WebHdfs

MOST_SECONDS = 2.0


@pytest.fixture
def lake(tmp_path):
    with graveler.init(tmp_path / "lake") as lake:
        lake.create_repository("flights")
        yield lake


@pytest.fixture
def gateways(lake):
    """Starts gateways as processes of their own; returns what each one prints first."""
    started: list[Any] = []

    def start(number, lines=2):
        command = [sys.executable, "-m", "graveler", "gateway", "--port", "0", lake.location]
        for _ in range(number):
            pipe = subprocess.PIPE
            started.append(subprocess.Popen(command, cwd=ROOT, stdout=pipe, text=True))
        return [[each.stdout.readline().strip() for _ in range(lines)] for each in started]

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=120)


def seconds_until(status, clients):
    """Ask all clients until each was answered with this status; return how long it took."""
    began, left = monotonic(), list(clients)
    while left:
        assert monotonic() - began < 60
        left = [each for each in left if each.get("/main", "LISTSTATUS").status != status]
    return monotonic() - began


def test_a_removal_takes_effect_in_every_process(lake, gateways):
    iam = lake.iam
    for user in ("ann", "bob"):
        iam.create_user(user)
    iam.create_group("team")
    iam.put_policy("readers", ["allow read on flights"])
    iam.attach("readers", group="team")
    iam.add_member("team", "bob")
    (bobs, _), (anns, token) = iam.create_token("bob"), iam.create_token("ann")
    told = gateways(3)
    assert {line for _, line in told} == {
        "the lake has users: clients send a token of theirs (`graveler token create USER`)"
    }
    bob = [WebHdfs(address, bobs, "/flights") for address, _ in told]
    ann = [WebHdfs(address, anns, "/flights") for address, _ in told]
    assert seconds_until(200, bob + ann) < 60
    iam.remove_member("team", "bob")
    assert seconds_until(403, bob) < MOST_SECONDS
    iam.revoke_token(token.id)
    assert seconds_until(401, ann) < MOST_SECONDS
    for client in bob + ann:
        client.close()


def test_the_printed_token_ends_with_the_first_user(lake, gateways):
    told = gateways(2)
    clients = [
        WebHdfs(address, token.removeprefix("token: "), "/flights") for address, token in told
    ]
    assert seconds_until(200, clients) < 60
    lake.iam.create_user("ann")
    assert seconds_until(401, clients) < MOST_SECONDS
    for client in clients:
        client.close()


def test_an_upload_under_way_is_refused_when_its_right_has_gone():
    world = World()
    with world.open() as lake:
        dev = lake.create_repository("flights").create_branch("dev")
        iam = lake.iam
        for user in ("ann", "bob"):
            iam.create_user(user)
        iam.put_policy("writers", ["allow write on flights@dev"])
        iam.attach("writers", user="bob")

        def body():
            yield bytes(20_000_000)  # more than the network holds: the server is reading
            iam.detach("writers", user="bob")
            world.clock.advance(seconds=2)
            yield b"rest"

        with Server(lake) as server:
            client = WebHdfs(server.address, iam.create_token("bob")[0], "/flights/dev")
            assert client.create("/whole", b"x").status == 201
            reply = client.ask("PUT", "/half", "CREATE", body(), data="true")
            assert reply.failure == (403, "AccessControlException")
            assert "no policy allows it" in reply.message
            client.close()
        assert [entry.path for entry in dev.entries()] == ["whole"]


def test_a_lake_with_users_needs_no_token_of_the_server():
    world = World()
    with world.open() as lake:
        with pytest.raises(InvalidInputError, match="or make users"):
            Server(lake, host="")
        lake.iam.create_user("ann")
        world.clock.advance(seconds=1)
        Server(lake, host="").close()
