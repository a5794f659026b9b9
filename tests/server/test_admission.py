"""Which users a gateway admits."""

from urllib.parse import urlencode, urlsplit

import pytest

from graveler.errors import InvalidInputError
from graveler.server import Server, new_token, spark_settings
from tests.harness.webhdfs import WebHdfs

REFUSED = (401, "AccessControlException")


@pytest.fixture
def status(client, dev):
    """Asks for the status of a file with something other than the right token."""
    dev.put("a", b"x")

    def ask(headers=None, **query):
        client.token = query.pop("name", "")
        return client.send("GET", client.target("/a", "GETFILESTATUS", **query), headers=headers)

    return ask


def test_the_token_is_taken_from_three_places(status, client):
    token = client.token
    assert status(name=token).status == 200
    assert status(delegation=token).status == 200
    for scheme in ("Bearer", "bearer"):
        assert status({"Authorization": f"{scheme} {token}"}).status == 200
    assert status({"Authorization": f"Basic {token}"}).failure == REFUSED


@pytest.mark.parametrize("token", ["", "grav-of-the-test", "grav-of-the-tests2", "€"])
def test_any_other_token_is_refused(status, token):
    for got in (
        status(name=token),
        status(delegation=token),
        status({"Authorization": f"Bearer {token}".encode().decode("latin-1")}),
    ):
        assert got.failure == REFUSED
        assert got.reason == got.message  # Hadoop's client shows only this field
        assert "HADOOP_USER_NAME" in got.message


def test_a_secret_is_exchanged_for_a_token_that_holds(client, status):
    settings = spark_settings(f"webhdfs://{client.authority}/", client.token)
    name = "spark.hadoop.dfs.webhdfs.oauth2"
    where = urlsplit(settings[f"{name}.refresh.url"])
    assert where.netloc == client.authority
    form = urlencode({"client_id": "x", "client_secret": settings[f"{name}.credential"]})
    granted = client.send("POST", where.path, form).json
    assert (granted["token_type"], granted["expires_in"] > 0) == ("Bearer", True)
    assert status({"Authorization": f"Bearer {granted['access_token']}"}).status == 200


def test_the_settings_of_spark_follow_the_scheme():
    urls = [
        spark_settings(address, new_token())["spark.hadoop.dfs.webhdfs.oauth2.refresh.url"]
        for address in ("webhdfs://here:1/", "swebhdfs://lake.example.org/flights/main")
    ]
    assert urls == ["http://here:1/token", "https://lake.example.org/token"]


@pytest.mark.parametrize("form", [None, b"", b"client_secret=wrong", b"\xff" * 9000, b"a&b;c==%"])
def test_another_secret_is_exchanged_for_nothing(client, form):
    got = client.send("POST", "/token", form)
    assert (got.status, got.json["error"]) == (401, "invalid_client")
    assert got.json.keys() == {"error", "error_description"}


def test_without_a_token_nothing_is_learned(client):
    client.token = ""
    for method, path, op in (
        ("GET", "/none", "GETFILESTATUS"),
        ("PUT", "/a", "CREATE"),
        ("GET", "/../a", "NONSENSE"),
    ):
        assert client.ask(method, path, op).failure == REFUSED


def test_a_preflight_is_no_request(client):
    got = client.send("OPTIONS", client.target("/a", "CREATE"))
    assert got.status == 501
    assert "Access-Control-Allow-Origin" not in got.headers


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])  # noqa: S104
def test_other_machines_are_kept_out_by_a_token_alone(lake, host):
    with pytest.raises(InvalidInputError, match="give a token"):
        Server(lake, host=host)


def test_an_address_that_is_not_ours_is_refused(lake):
    with pytest.raises(InvalidInputError, match=r"cannot listen at 192\.0\.2\.1:0"):
        Server(lake, host="192.0.2.1", token=new_token())


@pytest.mark.parametrize("token", ["short", "1" * 20, "with a blank in it", "grav/of/the/tests"])
def test_a_token_that_no_client_can_send_is_refused(lake, token):
    with pytest.raises(InvalidInputError, match=f"a token of {len(token)} characters") as raised:
        Server(lake, token=token)
    assert token not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("lake", value) for value in (None, "lake")],
        *[("port", value) for value in ("80", -1, True)],
        *[("token", value) for value in (5, "a" * 20_000)],
        *[("host", value) for value in (None, 1)],
        *[(name, "no") for name in ("read_only", "commit_on_success")],
    ],
)
def test_arguments_of_the_wrong_kind_are_refused(lake, name, value):
    given = {"lake": lake, name: value}
    with pytest.raises(InvalidInputError, match=name):
        Server(given.pop("lake"), **given)


@pytest.mark.parametrize(
    ("address", "token"),
    [("http://here:1/", "a" * 16), ("webhdfs:/", "a" * 16), ("webhdfs://here:1/", "")],
)
def test_settings_of_spark_that_cannot_work_are_refused(address, token):
    with pytest.raises(InvalidInputError, match=r"address=|a token of 0 characters"):
        spark_settings(address, token)


def test_a_gateway_may_listen_at_an_address_of_six(lake, dev):
    with Server(lake, host="::1") as gateway:
        mine = WebHdfs(gateway.address, gateway.token, "/flights/dev")
        assert mine.create("/a", b"hello").status == 201
        mine.close()
    assert gateway.address.startswith("webhdfs://[::1]:")
    assert dev.get("a") == b"hello"
