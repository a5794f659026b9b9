"""Bad input by both ways in: it is refused, and the branch stays as it was."""

import json
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pyiceberg.exceptions import (
    NoSuchNamespaceError,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
)
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.table.update import SetPropertiesUpdate, SetStatisticsUpdate

from graveler.errors import NotFoundError
from graveler.tables.landing import TableCommit
from graveler.tables.namespaces import Tables
from tests.harness.iceberg import (
    REFUSED,
    TOKEN,
    catalog_of,
    delays,
    rest_catalog,
    rows,
    with_table,
)

HERE = "flights@main"
ANY = (*REFUSED, NotFoundError, NoSuchTableError)


def path_of(location):
    return Path(location.removeprefix("file://"))


@pytest.fixture
def still(repo):
    """Checks that a block leaves main as it was."""

    class Still:
        def __enter__(self):
            self.head = repo.branch("main").head

        def __exit__(self, *_):
            assert repo.branch("main").head == self.head
            assert not list(repo.branch("main").uncommitted())

    return Still()


@pytest.mark.parametrize("damage", ["missing", "altered", "cut"])
def test_a_commit_onto_damaged_metadata_is_refused(repo, main, still, damage):
    table, other = with_table(main, 1), with_table(main, table="db.other")
    path = path_of(table.metadata_location)
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(
            content[:-9] if damage == "cut" else path_of(other.metadata_location).read_bytes()
        )
    with still, pytest.raises(ANY, match=r"Failed to open|cannot be read|altered"):
        main.commit_table(table, (), (SetPropertiesUpdate(updates={"a": "b"}),))
    with still, pytest.raises(ANY, match=r"Failed to open|cannot be read|altered"):
        changes = [TableCommit(name, (), ()) for name in (("db", "other"), ("db", "flights"))]
        Tables(repo.branch("main")).commit(changes)
    path.write_bytes(content)
    table.append(rows(2))
    assert delays(main) == [1, 2]


def registered(table, tmp_path, **changed):
    """Return the location of the metadata of a table with other values, beside the first one."""
    path = path_of(table.metadata_location)
    document = {**json.loads(path.read_text()), **changed}
    forged = path.with_name("00009-forged.metadata.json")
    forged.write_text(json.dumps(document))
    return f"file://{forged}"


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("file:///etc/passwd", "may link to"),
        ("{storage}/data/x", "not below"),
        ("{storage}/_graveler/marker", "neither a full URI"),
        ("{storage}/tables/../data/x", "not below|unusual spelling"),
        ("s3://bucket/x", "may link to"),
        ("http://localhost/x", "."),
        ("x", "."),
        ("", "."),
    ],
)
def test_registered_metadata_names_no_file_of_others(repo, main, still, tmp_path, place, words):
    table = with_table(main, 1)
    main.drop_table("db.flights")
    named = place.format(storage=repo.storage)
    (snapshot,) = json.loads(path_of(table.metadata_location).read_text())["snapshots"]
    lists = {"snapshots": [{**snapshot, "manifest-list": named}]}
    for changed in (lists, {"statistics": [statistics(table, named).model_dump(by_alias=True)]}):
        forged = registered(table, tmp_path, **changed)
        with still, pytest.raises(REFUSED, match=words):
            main.register_table("db.forged", forged)
    with still, pytest.raises(REFUSED, match=words):
        main.register_table("db.forged", named)


def statistics(table, path):
    return StatisticsFile.model_validate(
        {
            "snapshot-id": table.current_snapshot().snapshot_id,
            "statistics-path": path,
            "file-size-in-bytes": 1,
            "file-footer-size-in-bytes": 1,
            "blob-metadata": [],
        }
    )


@pytest.mark.parametrize("place", ["file:///etc/passwd", "{other}/metadata/x.puffin", "x"])
def test_statistics_elsewhere_are_refused(main, still, place):
    table, other = with_table(main, 1), with_table(main, table="db.other")
    named = statistics(table, place.format(other=other.location()))
    with still, pytest.raises(REFUSED):
        main.commit_table(table, (), (SetStatisticsUpdate.model_validate({"statistics": named}),))


def test_a_table_is_not_renamed_onto_what_is_there(main, still):
    with_table(main, 1)
    with_table(main, 2, table="db.other")
    main.create_namespace("db.space")
    for to in ("db.other", "db.flights", "db.space"):
        with still, pytest.raises(TableAlreadyExistsError):
            main.rename_table("db.flights", to)
    with still, pytest.raises(NoSuchNamespaceError):
        main.rename_table("db.flights", "db.flights.inner")
    for bad in ("..", "a\nb", "\0"):
        with still, pytest.raises((*REFUSED, NoSuchNamespaceError)):
            main.rename_table("db.flights", ("db", bad))
    assert (delays(main), delays(main, "db.other")) == ([1], [2])


class Client:
    """Sends bytes as they are."""

    def __init__(self, server, token=TOKEN):
        self.place = urlsplit(server.iceberg).netloc.split(":")
        self.token = token

    def send(self, method, path, body=b"", *, cut=0):
        """Return the status and the type of the error; with `cut`, leave before the last bytes."""
        head = (
            f"{method} /iceberg/v1/{HERE}/{path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n"
            f"Authorization: Bearer {self.token}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        host, port = self.place
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(head.encode() + body[: len(body) - cut])
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        status, _, text = answer.partition(b"\r\n\r\n")
        code = int(status.split()[1]) if status else 0
        return code, json.loads(text)["error"]["type"] if code >= 400 and text else ""


@pytest.fixture
def client(server):
    return Client(server)


def commit_of(**updates):
    update = {"action": "set-properties", "updates": updates}
    return json.dumps({"requirements": [], "updates": [update]}).encode()


def test_a_client_that_dies_within_its_request_changes_nothing(repo, server, client, still):
    with rest_catalog(server, HERE) as main:
        with_table(main, 1)
    body = commit_of(a="1")
    for cut in (1, len(body) // 2, len(body)):
        with still:
            code, _ = client.send("POST", "namespaces/db/tables/flights", body, cut=cut)
        assert not 200 <= code < 300
    assert client.send("POST", "namespaces/db/tables/flights", body)[0] == 200


@pytest.mark.parametrize(
    "name", ["%00", "a%0Ab", "..", ".", "%1B%5B2J", "%7F", "a%1F..", "%1F", ""]
)
def test_names_that_are_none_are_refused_by_status(repo, server, client, still, name):
    with rest_catalog(server, HERE) as main:
        with_table(main, 1)
    for method, path, body in (
        ("GET", f"namespaces/{name}/tables/flights", b""),
        ("GET", f"namespaces/db/tables/{name}", b""),
        ("DELETE", f"namespaces/{name}", b""),
        ("POST", f"namespaces/db/tables/{name}", commit_of(a="1")),
    ):
        with still:
            code, kind = client.send(method, path, body)
        assert (code, kind) in {
            (400, "BadRequestException"),
            (404, "NoSuchNamespaceException"),
            (404, "NoSuchTableException"),
            (501, "UnsupportedOperationException"),
        }, (method, path)


def test_a_name_with_a_slash_is_one_name_by_rest(repo, server, client):
    with rest_catalog(server, HERE) as main:
        with_table(main, 1)
        main.create_table("db.a/b", main.load_table("db.flights").schema())
        assert main.list_tables("db") == [("db", "a/b"), ("db", "flights")]
    assert client.send("HEAD", "namespaces/db/tables/a%2Fb") == (204, "")
    assert client.send("HEAD", "namespaces/db/tables/a/b")[0] == 501
    assert client.send("DELETE", "namespaces/db/tables/a%2Fb") == (204, "")


def test_rights_on_one_of_two_tables_change_neither(lake, repo, server, still):
    for name in ("flights", "secret"):
        with_table(catalog_of(repo.branch("main")), 1, table=f"db.{name}")
    lake.iam.create_user("admin")
    lake.iam.create_user("bob")
    lake.iam.put_policy("bob", ["allow read,write on flights@main:db/flights/*"])
    lake.iam.attach("bob", user="bob")
    bob = Client(server, lake.iam.create_token("bob")[0])
    changes = [
        {"identifier": {"namespace": ["db"], "name": name}, **json.loads(commit_of(a="1"))}
        for name in ("flights", "secret")
    ]
    renamed = {"source": changes[0]["identifier"], "destination": changes[1]["identifier"]}
    location = {"name": "x", "metadata-location": "file:///x"}
    for method, path, body in (
        ("POST", "transactions/commit", {"table-changes": changes}),
        ("POST", "tables/rename", renamed),
        ("POST", "namespaces/db/register", location),
        ("POST", "namespaces/db/tables/secret", json.loads(commit_of(a="1"))),
        ("DELETE", "namespaces/db/tables/secret", {}),
        ("POST", "namespaces/db/properties", {"updates": {"a": "1"}}),
        ("DELETE", "namespaces/db", {}),
        ("GET", "namespaces/db/tables/secret", {}),
        ("GET", "namespaces/db/tables/none", {}),
    ):
        with still:
            answered = bob.send(method, path, json.dumps(body).encode() if body else b"")
        assert answered == (403, "ForbiddenException"), (method, path)
    assert bob.send("POST", "namespaces/db/tables/flights", commit_of(a="1"))[0] == 200


def test_of_two_engines_that_alter_at_once_one_reads_again(repo, catalog, main):
    with_table(main, 1)
    first, second = (catalog().load_table("db.flights") for _ in range(2))
    first.append(rows(2))
    with second.transaction() as transaction:
        transaction.append(rows(3))
    assert delays(main) == [1, 2, 3]
    second = catalog().load_table("db.flights")
    main.drop_table("db.flights")
    with pytest.raises((NoSuchTableError, RESTError), match="Table does not exist"):
        second.append(rows(4))
    assert not main.table_exists("db.flights")
