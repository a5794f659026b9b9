"""Who may do what, on every request of Keep: the status of each."""

import json
from http.client import HTTPConnection

import pytest

from graveler.keep.locators import EMPTY, Locator
from graveler.keep.signatures import Signer
from graveler.server.keep.service import KeepServer
from graveler.server.keep.surface import Keep
from graveler.testing import World

FOO = Locator.of(b"foo")
POLICIES = {
    "reader": ["allow keep:read on *"],
    "writer": ["allow keep:write on *"],
    "manager": ["allow keep:manage on *"],
    "denied": ["allow keep:read,keep:write,keep:manage on *", "deny keep:read,keep:manage on *"],
    "files": ["allow read,write,admin on *"],
}
WHO = ["stranger", "wrong", "expired", "server", "none", *POLICIES, "admin", "scoped", "privileged"]
"""The identities. `server` has the token of a lake without users, `scoped` a token of the admin that may only
keep:read, and `privileged` the token of the data manager and the servers."""

REQUESTS = """
request                   with    str wro exp ser non rea wri man den fil adm sco pri
GET     /OWN              -       401 401 401 401 403 200 403 403 403 403 200 200 200
GET     //OWN             -       401 401 401 401 403 200 403 403 403 403 200 200 200
GET     /OWN              range   401 401 401 401 403 206 403 403 403 403 206 206 206
GET     /OWN?checksum=true -      401 401 401 401 403 200 403 403 403 403 200 200 200
GET     /NONE             -       401 401 401 401 403 403 403 403 403 403 403 403 200
GET     /OTHERS           -       401 401 401 401 403 403 403 403 403 403 403 403 200
GET     /OTHERS           range   401 401 401 401 403 403 403 403 403 403 403 403 206
GET     /FORGED           -       401 401 401 401 403 403 403 403 403 403 403 403 200
GET     /OLD              -       401 401 401 401 403 401 403 403 403 403 401 401 200
GET     /ABSENT           -       401 401 401 401 403 404 403 403 403 403 404 404 404
GET     /EMPTY            -       401 401 401 401 403 200 403 403 403 403 200 200 200
GET     /HASH             -       401 401 401 401 403 403 403 403 403 403 403 403 405
HEAD    /OWN              -       401 401 401 401 403 200 403 403 403 403 200 200 200
HEAD    /OWN?checksum=true -      401 401 401 401 403 200 403 403 403 403 200 200 200
HEAD    /NONE             -       401 401 401 401 403 403 403 403 403 403 403 403 200
HEAD    /OTHERS           -       401 401 401 401 403 403 403 403 403 403 403 403 200
HEAD    /OLD              -       401 401 401 401 403 401 403 403 403 403 401 401 200
HEAD    /ABSENT           -       401 401 401 401 403 404 403 403 403 403 404 404 404
PUT     /HASH             foo     401 401 401 401 403 403 200 403 200 403 200 403 200
PUT     /NONE             foo     401 401 401 401 403 403 200 403 200 403 200 403 200
PUT     /HASH             bar     401 401 401 401 403 403 400 403 400 403 400 403 400
POST    /have             look    401 401 401 401 403 403 200 403 200 403 200 403 200
POST    /have             touch   401 401 401 401 403 403 200 403 200 403 200 403 200
DELETE  /HASH             -       401 401 401 401 403 403 403 422 403 403 422 403 422
DELETE  /OWN              -       401 401 401 401 403 403 403 422 403 403 422 403 422
TOUCH   /HASH             -       401 401 401 401 403 403 403 200 403 403 200 403 200
POST    /touch/HASH       -       401 401 401 401 403 403 403 200 403 403 200 403 200
PUT     /untrash/HASH     -       401 401 401 401 403 403 403 200 403 403 200 403 200
GET     /index            -       401 401 401 401 403 403 403 200 403 403 200 403 200
GET     /index/acb        -       401 401 401 401 403 403 403 200 403 403 200 403 200
GET     /index?prefix=acb -       401 401 401 401 403 403 403 200 403 403 200 403 200
GET     /mounts           -       401 401 401 401 403 403 403 200 403 403 200 403 200
GET     /mounts/UUID/blocks -     401 401 401 401 403 403 403 200 403 403 200 403 200
GET     /mounts/UUID/blocks/acb - 401 401 401 401 403 403 403 200 403 403 200 403 200
GET     /mounts/UUID/blocks?prefix=acb - 401 401 401 401 403 403 403 200 403 403 200 403 200
GET     /state.json       -       401 401 401 401 403 403 403 200 403 403 200 403 200
GET     /status.json      -       401 401 401 401 403 403 403 200 403 403 200 403 200
GET     /metrics          -       401 401 401 401 403 403 403 200 403 403 200 403 200
PUT     /pull             list    401 401 401 401 403 403 403 200 403 403 200 403 200
PUT     /pull             foo     401 401 401 401 403 403 403 400 403 403 400 403 400
PUT     /trash            list    401 401 401 401 403 403 403 200 403 403 200 403 200
PUT     /trash            foo     401 401 401 401 403 403 403 400 403 403 400 403 400
GET     /_health/ping     -       200 200 200 200 200 200 200 200 200 200 200 200 200
OPTIONS /HASH             -       200 200 200 200 200 200 200 200 200 200 200 200 200
GET     /nothing          -       401 401 401 401 403 403 403 400 403 403 400 403 400
POST    /token            -       401 401 401 401 403 403 403 400 403 403 400 403 400
"""
ROWS = [line.split() for line in REQUESTS.splitlines()[2:]]
BODIES = {
    "-": None,
    "range": None,
    "foo": b"foo",
    "bar": b"bar",
    "list": b"[]",
    "look": json.dumps({"blocks": [FOO.digest]}),
    "touch": json.dumps({"blocks": [FOO.digest], "touch": True}),
}


@pytest.fixture(scope="module")
def world():
    return World()


@pytest.fixture(scope="module")
def lake(world):
    with world.open() as lake:
        lake.keep.create("main")
        yield lake


@pytest.fixture(scope="module")
def server(lake, tmp_path_factory):
    with KeepServer(lake, "main", [tmp_path_factory.mktemp("disk") / "v"]) as server:
        server.store.write(FOO, b"foo")
        yield server


@pytest.fixture(scope="module")
def tokens(world, lake, server):
    """The token of each identity."""
    iam = lake.iam
    iam.create_user("admin")
    for name in (*POLICIES, "none"):
        iam.create_user(name)
    for name, statements in POLICIES.items():
        iam.put_policy(name, statements)
        iam.attach(name, user=name)
    tokens = {name: iam.create_token(name)[0] for name in (*POLICIES, "none", "admin")}
    tokens |= {"stranger": "", "wrong": f"grav{0:040}", "server": server.token}
    tokens["expired"], _ = iam.create_token("admin", life="1s")
    tokens["scoped"], _ = iam.create_token("admin", scopes=["keep:read on *"])
    tokens["privileged"] = lake.keep.get("main").token
    world.clock.advance(seconds=2)
    return tokens


@pytest.fixture(scope="module")
def status(lake, server, tokens, world):
    """A function that sends a request of the table as an identity, and returns the status."""
    signer = lake.keep.get("main").signer
    connection = HTTPConnection(server.authority)

    def send(method, path, body, who):
        now, token = int(world.clock.now().timestamp()), tokens[who]
        others = tokens["reader" if who != "reader" else "admin"]
        names = {
            "OWN": signer.sign(FOO, token, now + 60),
            "OTHERS": signer.sign(FOO, others, now + 60),
            "FORGED": Signer(b"another key", signer.ttl).sign(FOO, token, now + 60),
            "OLD": signer.sign(FOO, token, now - 1),
            "ABSENT": signer.sign(Locator.of(b"absent"), token, now + 60),
            "NONE": FOO,
            "EMPTY": EMPTY,
            "HASH": FOO.digest,
            "UUID": next(iter(server.store.volumes)),
        }
        for name, value in names.items():
            path = path.replace(name, str(value))
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= {"Range": "bytes=0-1"} if body == "range" else {}
        connection.request(method, path, BODIES[body], headers)
        response = connection.getresponse()
        response.read()
        return str(response.status)

    yield send
    connection.close()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row[:3]))
def test_who_may_do_what_on_keep(status, row):
    method, path, body, *expected = row
    found = [status(method, path, body, who) for who in WHO]
    assert dict(zip(WHO, found, strict=True)) == dict(zip(WHO, expected, strict=True))


def test_the_table_has_every_request_of_keep(server):
    assert {row[0] for row in ROWS} == Keep.methods
    assert {row[1] for row in ROWS} >= set(server.surface._documents)
