"""Who may read the pages, from where, and that nothing is changed by it."""

from contextlib import nullcontext
from socket import gethostname
from urllib.parse import urlencode

import pytest

from graveler.errors import InvalidInputError, ReadOnlyError
from graveler.pages import ROUTES
from graveler.server.messages import HttpError, Request
from graveler.server.pages import PageServer, WebPages
from tests.harness.pages import TOKEN

PAGES = ["/", "/-/style.css", *(f"/flights/{name}".rstrip("/") for name in ROUTES)]
METHODS = ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "MKCOL"]


def test_the_token_becomes_a_cookie_and_leaves_the_address(client_of, server, flights):
    path, query = "/flights/history", urlencode({"token": TOKEN, "at": "v1"})
    first = client_of().get(f"{path}?{query}")
    cookie, _, rest = first.headers["set-cookie"].partition(";")
    assert (first.status, first.headers["location"], rest) == (
        303,
        "/flights/history?at=v1",
        " Path=/; HttpOnly; SameSite=Strict",
    )
    assert client_of().get(first.headers["location"], Cookie=cookie).status == 200


@pytest.mark.parametrize("headers", [{}, {"Cookie": "graveler-1=x"}, {"Cookie": ";=;;x"}])
@pytest.mark.parametrize("path", PAGES)
def test_without_a_token_there_is_only_the_question_for_it(client_of, flights, path, headers):
    answer = client_of().get(path, **headers)
    assert (answer.status, "flights" in answer.text) == (401, False)


@pytest.mark.parametrize(
    ("token", "cookie", "status"),
    [("wrong-token-of-tests", "", 401), ("wrong-token-of-tests", TOKEN, 401), ("", TOKEN, 200)],
)
def test_the_token_of_the_address_counts_first(client_of, token, cookie, status):
    assert client_of(cookie).get(f"/?token={token}").status == status


@pytest.mark.parametrize("path", ["//evil.example", "/\\evil.example", "/%5Cevil.example", "///x"])
def test_the_clean_address_is_on_this_server(client_of, path):
    place = client_of().get(f"{path}/?token={TOKEN}").headers["location"]
    assert (place[0], place[1:2] in {"/", "\\"}) == ("/", False)


@pytest.mark.parametrize("method", METHODS)
def test_other_methods_are_refused(client, flights, method):
    for path in PAGES:
        answer = client.send(method, path, body=b"x=1")
        assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example:80"},
        {"Host": "10.0.0.1:80"},
    ],
)
def test_other_sites_are_refused(client, flights, headers):
    for path in PAGES:
        answer = client.get(path, **headers)
        assert (answer.status, "v1" in answer.text) == (403, False)


@pytest.mark.parametrize("host", ["127.0.0.1:99999", "[::::]:1", "[1.2.3.4]", "[1.2]:80", "a b"])
def test_a_host_that_is_none_is_refused(client, caplog, host):
    assert (client.get("/", Host=host).status, caplog.records) == (400, [])


@pytest.mark.parametrize(
    "headers",
    [{"Sec-Fetch-Site": "none"}, {"Sec-Fetch-Site": "same-origin"}, {"Host": "localhost:1"}],
)
def test_the_reader_is_not_refused(client_of, flights, headers):
    given = {"Authorization": f"Bearer {TOKEN}", **headers}
    assert client_of().get("/flights", **given).status == 200


@pytest.mark.parametrize("host", ["localhost:65535", "localhost", "[::1]:7", "[::1]", "LOCALHOST"])
def test_the_cookie_has_the_port_of_the_address(client_of, host):
    port = host.rpartition(":")[2].strip("]")
    port = port if "]:" in host or host[-5:].isdecimal() else "80"
    shown = client_of().get(f"/?token={TOKEN}", Host=host).headers["set-cookie"].partition(";")[0]
    assert shown == f"graveler-{port}={TOKEN}"
    assert client_of().get("/", Host=host, Cookie=shown).status == 200


def test_a_page_of_this_server_may_ask(client, flights):
    origin = {"Origin": f"http://{client.authority}"}
    assert client.get("/flights", **origin).status == 200


@pytest.mark.parametrize("path", [*PAGES, "/none", "/flights/none"])
def test_every_answer_has_the_policy(client, flights, path):
    headers = client.get(path).headers
    assert headers["content-security-policy"].startswith("default-src 'none'; style-src 'self';")
    assert (headers["cache-control"], headers["referrer-policy"]) == ("no-store", "no-referrer")
    assert headers["x-content-type-options"] == "nosniff"


def test_head_is_get_without_the_content(client, flights):
    for path in PAGES:
        got, head = client.get(path), client.send("HEAD", path)
        assert (head.status, head.text) == (got.status, "")
        assert head.headers["content-length"] == got.headers["content-length"]


@pytest.mark.parametrize(
    ("name", "own"),
    [(gethostname(), True), ("192.0.2.7", True), ("localhost", True), ("evil.example", False)],
)
def test_a_server_for_other_machines_has_their_names(lake, name, own):
    pages = WebPages(lake, "192.0.2.1")
    request = Request("GET", "/flights", {"host": f"{name}:9871"}, None)
    with nullcontext() if own else pytest.raises(HttpError, match="is not this server"):
        pages.accept(request)


def test_an_open_host_needs_a_token(lake):
    with pytest.raises(InvalidInputError, match="reached by other machines"):
        PageServer(lake, host="192.0.2.1")


def test_rights(lake, flights, client_of):
    lake.create_repository("trains")
    lake.iam.create_user("ada")
    admin = lake.iam.create_token("ada")[0]
    lake.iam.create_user("bob")
    lake.iam.put_policy("trains", ["allow read on trains"])
    lake.iam.attach("trains", user="bob")
    bob = lake.iam.create_token("bob")[0]
    assert client_of(TOKEN).get("/").status == 401
    assert client_of(admin).get("/flights").status == 200
    reader = client_of(bob)
    listed = reader.get("/").text
    assert ("trains" in listed, "flights" in listed) == (True, False)
    for name in ROUTES:
        refused = reader.get(f"/flights/{name}")
        assert (refused.status, "v1" in refused.text) == (403, False)
        assert reader.get(f"/hidden/{name}").status == 403
        assert reader.get(f"/trains/{name}").status in {200, 404}


def test_no_request_changes_the_lake(client, world, flights):
    before = world.snapshot()[:2]
    given = {name for route in ROUTES.values() for name in route.parameters}
    for path in PAGES:
        for value in ("main", "dev", "v1", "main~1", "hour 1", "out/", "2026-01-01", "5"):
            query = urlencode(dict.fromkeys(given, value))
            for method in ("GET", "HEAD", "POST", "DELETE"):
                client.send(method, f"{path}?{query}", body=b"")
                client.send(method, path, body=b"")
    assert world.snapshot()[:2] == before


def test_a_page_that_would_write_is_refused(lake, flights, client, monkeypatch):
    def writing(repository, query):
        with pytest.raises(ReadOnlyError, match="pages only show"):
            repository.branch("dev").put("x", b"x")
        repository.tags.create("v2", "main")

    monkeypatch.setattr("graveler.pages.history.history", writing)
    assert client.get("/flights/history").status == 403
    assert "v2" not in flights.tags.list()
