"""Iceberg's REST protocol: statuses and errors, who may do what, and what is not offered."""

import http.client
import json
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from pyiceberg.exceptions import ForbiddenError, OAuthError, UnauthorizedError

from graveler.gates import checks
from graveler.server import Server
from tests.harness.iceberg import TOKEN, rest_catalog, rows, token_of, with_table

HERE = "flights@main"


class Client:
    """Sends requests as they are."""

    def __init__(self, server, token=TOKEN):
        self.host = urlsplit(server.iceberg).netloc
        self.token = token

    def send(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection(self.host, timeout=60)
        content = body if isinstance(body, bytes | None) else json.dumps(body)
        head = {"Authorization": f"Bearer {self.token}", **headers}
        connection.request(method, f"/iceberg/v1/{path}", content, head)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, json.loads(text) if text else None

    def failure(self, method, path, body=None):
        status, answer = self.send(method, f"{HERE}/{path}", body)
        assert answer["error"]["code"] == status
        assert answer["error"]["message"]
        return status, answer["error"]["type"]


@pytest.fixture
def client(server, repo):
    return Client(server)


@pytest.fixture
def main(server, repo):
    with rest_catalog(server, HERE) as opened:
        yield opened


def test_the_configuration_names_the_catalog_and_what_is_offered(client, repo):
    commit = repo.commit("main").id
    repo.tags.create("v1")
    for ref, fixed in (
        ("main", "main"),
        ("v1", "v1"),
        (commit[:8], commit),
        ("main@", commit),
        ("main~0", commit),
    ):
        status, answer = client.send("GET", f"config?warehouse=flights@{quote(ref)}")
        assert status == 200
        assert answer["overrides"] == {
            "prefix": f"flights@{fixed}",
            "token-refresh-enabled": "false",
        }
    offered = client.send("GET", "config?warehouse=flights@main")[1]["endpoints"]
    assert "POST /v1/{prefix}/transactions/commit" in offered
    assert not [each for each in offered if "view" in each]


@pytest.mark.parametrize(
    ("warehouse", "status", "kind"),
    [
        ("", 400, "BadRequestException"),
        ("flights", 400, "BadRequestException"),
        ("@main", 400, "BadRequestException"),
        ("none@main", 404, "NotFoundException"),
        ("flights@none", 404, "NotFoundException"),
        ("flights@main/../x", 400, "BadRequestException"),
        ("..@main", 400, "BadRequestException"),
    ],
)
def test_another_warehouse_is_refused(client, warehouse, status, kind):
    got, answer = client.send("GET", f"config?warehouse={warehouse}")
    assert (got, answer["error"]["type"]) == (status, kind)


@pytest.mark.parametrize(
    ("method", "path", "body", "failure"),
    [
        ("GET", "namespaces/none", None, (404, "NoSuchNamespaceException")),
        ("GET", "namespaces/db/tables/none", None, (404, "NoSuchTableException")),
        ("GET", "namespaces/none/tables/none", None, (404, "NoSuchTableException")),
        ("GET", "namespaces?parent=none", None, (404, "NoSuchNamespaceException")),
        ("DELETE", "namespaces/db", None, (409, "NamespaceNotEmptyException")),
        ("POST", "namespaces", {"namespace": ["db"]}, (409, "AlreadyExistsException")),
        ("POST", "namespaces", {"namespace": []}, (400, "BadRequestException")),
        ("POST", "namespaces", {"namespace": "db"}, (400, "BadRequestException")),
        ("POST", "namespaces", b"{", (400, "BadRequestException")),
        ("POST", "namespaces", b"\xff", (400, "BadRequestException")),
        ("POST", "namespaces", b"[]", (400, "BadRequestException")),
        ("POST", "namespaces/db/tables", {"name": "x"}, (400, "BadRequestException")),
        ("POST", "namespaces/db/tables/flights", {"updates": 1}, (400, "BadRequestException")),
        (
            "POST",
            "namespaces/db/tables/flights",
            {"updates": [{"action": "enable-row-lineage"}]},
            (400, "BadRequestException"),
        ),
        (
            "POST",
            "namespaces/db/tables/flights",
            {"requirements": [{"type": "assert-create"}], "updates": []},
            (409, "CommitFailedException"),
        ),
        (
            "POST",
            "namespaces/db/properties",
            {"removals": ["a"], "updates": {"a": "b"}},
            (422, "UnprocessableEntityException"),
        ),
        ("POST", "namespaces/db/register", {"name": "x"}, (400, "BadRequestException")),
        (
            "POST",
            "namespaces/db/register",
            {"name": "x", "metadata-location": "file:///etc/passwd"},
            (403, "ForbiddenException"),
        ),
        ("POST", "tables/rename", {"source": {}}, (400, "BadRequestException")),
        ("POST", "transactions/commit", {}, (400, "BadRequestException")),
        ("POST", "transactions/commit", {"table-changes": [1]}, (400, "BadRequestException")),
        ("POST", "transactions/commit", {"table-changes": []}, (400, "BadRequestException")),
        ("GET", "namespaces/db/views/v", None, (404, "NoSuchViewException")),
        ("GET", "namespaces/db/views", None, (501, "UnsupportedOperationException")),
        (
            "POST",
            "namespaces/db/tables/flights/plan",
            {},
            (501, "UnsupportedOperationException"),
        ),
        ("GET", "nonsense", None, (501, "UnsupportedOperationException")),
        ("GET", "namespaces/%ff", None, (400, "BadRequestException")),
        ("GET", "namespaces/%2", None, (400, "BadRequestException")),
    ],
)
def test_each_failure_has_its_status(client, repo, main, method, path, body, failure):
    with_table(main)
    head = repo.branch("main").head
    assert client.failure(method, path, body) == failure
    assert repo.branch("main").head == head


def test_heads_and_reports_have_no_content(client, main):
    with_table(main)
    table = f"{HERE}/namespaces/db/tables/flights"
    assert client.send("HEAD", table) == (204, None)
    assert client.send("HEAD", f"{HERE}/namespaces/db") == (204, None)
    assert client.send("HEAD", f"{table}s") == (404, None)
    assert client.send("POST", f"{table}/metrics", {"report-type": "scan-report"}) == (204, None)
    assert client.send("DELETE", f"{table}?purgeRequested=true") == (204, None)


def test_a_load_may_leave_out_the_snapshots_that_no_ref_names(client, main):
    table = with_table(main, 1)
    table.append(rows(2))
    there = f"{HERE}/namespaces/db/tables/flights"
    loaded = [
        client.send("GET", f"{there}{mode}")[1]["metadata"] for mode in ("", "?snapshots=refs")
    ]
    assert [len(each["snapshots"]) for each in loaded] == [2, 1]
    assert loaded[1]["snapshots"][0]["snapshot-id"] == table.current_snapshot().snapshot_id


def test_a_branch_has_a_folder_for_new_metadata(client, repo, main):
    with_table(main, 1)
    repo.create_branch("dev")
    for ref, there in (("dev", True), (repo.commit("main").id, False)):
        path = f"flights@{ref}/namespaces/db/tables/flights"
        location = client.send("GET", path)[1]["metadata"]["location"]
        assert (Path(location.removeprefix("file://")) / "metadata").is_dir() == there


def test_several_tables_change_together(client, repo, main):
    tables = [with_table(main, table=name) for name in ("db.flights", "db.trips")]
    head = repo.branch("main").head
    changes = [
        {
            "identifier": {"namespace": ["db"], "name": table.name()[1]},
            "requirements": [{"type": "assert-table-uuid", "uuid": str(table.metadata.table_uuid)}],
            "updates": [{"action": "set-properties", "updates": {"a": "1"}}],
        }
        for table in tables
    ]
    there = f"{HERE}/transactions/commit"
    assert client.send("POST", there, {"table-changes": changes}) == (204, None)
    assert repo.branch("main").head.parents == (head.id,)
    assert [table.refresh().properties["a"] for table in tables] == ["1", "1"]
    assert client.send("POST", there, {"table-changes": changes[:1] * 2})[0] == 400


def test_gates_and_protection_judge_commits(client, repo, main):
    table = with_table(main, 1)
    repo.gates.require("main", checks.only_within("other/"))
    with pytest.raises(ForbiddenError):
        table.append(rows(2))
    repo.gates.drop("main")
    repo.protection.add("main", ["commit"])
    with pytest.raises(ForbiddenError):
        main.create_namespace("new")


def test_a_server_that_is_read_only_writes_nothing(lake, repo, main):
    with_table(main, 1)
    with Server(lake, token=TOKEN, read_only=True) as server:
        with rest_catalog(server, HERE) as catalog:
            table = catalog.load_table("db.flights")
            assert table.scan().to_arrow().num_rows == 1
            with pytest.raises(ForbiddenError, match="read-only"):
                table.append(rows(2))


def test_rights_decide_on_each_table(lake, repo, server):
    admin = token_of(lake, "admin")
    with rest_catalog(server, HERE, admin) as main:
        with_table(main, 1)
        with_table(main, 2, table="db.secret")
    repo.create_branch("dev")
    reader = token_of(lake, "ann", "allow read on flights@dev:db/flights/*")
    writer = token_of(lake, "bob", "allow read,write on flights@dev:db/*")
    with rest_catalog(server, "flights@dev", reader) as ann:
        assert ann.list_tables("db") == [("db", "flights")]
        table = ann.load_table("db.flights")
        for call in (
            lambda: table.append(rows(2)),
            lambda: ann.load_table("db.secret"),
            lambda: ann.drop_table("db.flights"),
            lambda: ann.rename_table("db.flights", "db.other"),
            lambda: ann.create_namespace("new"),
            lambda: rest_catalog(server, HERE, reader),
            lambda: rest_catalog(server, "none@main", reader),
        ):
            with pytest.raises(ForbiddenError):
                call()
    with rest_catalog(server, "flights@dev", writer) as bob:
        bob.load_table("db.flights").append(rows(2))
        with pytest.raises(ForbiddenError):
            bob.register_table("db.copy", table.metadata_location)
        with pytest.raises(ForbiddenError):
            bob.create_namespace("other")


@pytest.mark.parametrize("token", ["", "wrong-token-of-24-letters"])
def test_without_a_token_nothing_is_learned(server, repo, token):
    client = Client(server, token)
    for path in ("config?warehouse=flights@main", "config", f"{HERE}/namespaces", "nonsense"):
        status, answer = client.send("GET", path)
        assert (status, answer["error"]["type"]) == (401, "NotAuthorizedException")


def test_client_credentials_last_as_long_as_the_token(timed):
    world, lake, server = timed
    secret = token_of(lake, "ann", life=timedelta(seconds=5))
    client = Client(server)
    form = f"grant_type=client_credentials&client_id=ann&client_secret={secret}".encode()
    status, granted = client.send("POST", "oauth/tokens", form)
    assert (status, granted["access_token"]) == (200, secret)
    assert granted["expires_in"] in (4, 5)  # the clock of the world moves a little with each look
    with rest_catalog(server, HERE, credential=f"ann:{secret}") as catalog:
        catalog.create_namespace("db")
        world.clock.sleep(4)
        assert catalog.list_namespaces() == [("db",)]
        world.clock.sleep(2)
        with pytest.raises((UnauthorizedError, OAuthError)):
            catalog.list_namespaces()
    status, answer = client.send("POST", "oauth/tokens", form)
    assert (status, answer["error"]) == (401, "invalid_client")
