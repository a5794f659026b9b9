import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.awsrequest import AWSResponse

from graveler.errors import (
    BackendUnavailableError,
    GravelerError,
    InternalError,
    InvalidInputError,
    NotFoundError,
    OutcomeUnknownError,
    PermissionDeniedError,
    ThrottledError,
)
from graveler.kv.drivers.dynamodb import DynamoDBKVStore
from graveler.kv.store import ABSENT, PRESENT
from graveler.testing.clock import FakeClock
from tests.harness.servers.connections import ConditionalSuite
from tests.harness.wires import Wire


class _Body:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self._content


class Service:
    """Between a store and its service: counts requests, and answers some of them."""

    def __init__(self, store: DynamoDBKVStore) -> None:
        self.requests: list[str] = []
        self.answers: list[tuple[int, dict[str, Any]]] = []
        store._client._connected().meta.events.register("before-send.dynamodb.*", self._send)

    def refuse(self, code: str, *, status: int = 400, times: int = 1) -> None:
        self.answers = [(status, {"__type": f"com.amazonaws#{code}", "message": code})] * times

    def _send(self, request: Any, **_: Any) -> AWSResponse | None:
        self.requests.append(request.headers["X-Amz-Target"].decode().partition(".")[2])
        if not self.answers:
            return None
        status, body = self.answers.pop()
        headers = {"Content-Type": "application/x-amz-json-1.0"}
        return AWSResponse(request.url, status, headers, _Body(json.dumps(body).encode()))


@pytest.fixture
def store(dynamodb_uri: str) -> Iterator[DynamoDBKVStore]:
    with DynamoDBKVStore(dynamodb_uri, clock=FakeClock()) as store:
        yield store


@pytest.fixture
def service(store: DynamoDBKVStore) -> Service:
    return Service(store)


@pytest.fixture
def wire(s3_endpoint: str) -> Iterator[Wire]:
    address = urlsplit(s3_endpoint)
    wire = Wire((str(address.hostname), int(address.port or 0)))
    yield wire
    wire.close()


@pytest.fixture
def wired(wire: Wire, dynamodb_uri: str) -> Iterator[DynamoDBKVStore]:
    """A store behind the wire."""
    uri = f"{dynamodb_uri.partition('&')[0]}&endpoint=http://127.0.0.1:{wire.port}"
    with DynamoDBKVStore(uri, clock=FakeClock()) as store:
        yield store


def _calls(store: DynamoDBKVStore) -> list[Callable[[], object]]:
    return [
        lambda: store.get("p", b"k"),
        lambda: store.get_many([("p", b"k"), ("q", b"k")]),
        lambda: store.set("p", b"k", b"v"),
        lambda: store.set_many("p", [(b"k", b"v")]),
        lambda: store.delete("p", b"none"),
        lambda: list(store.scan("p")),
        lambda: list(store.partitions("p")),
        lambda: store.drop("q"),
    ]


def _conditional(store: DynamoDBKVStore) -> list[Callable[[], object]]:
    return [
        lambda: store.set_if("p", b"new", b"v", ABSENT),
        lambda: store.set_if("p", b"k", b"v", PRESENT),
        lambda: store.delete_if("p", b"k", b"v"),
    ]


class TestConditional(ConditionalSuite):
    """The conditional suite on DynamoDB."""


def test_a_lost_reply_to_anything_else_is_asked_for_again(
    wired: DynamoDBKVStore, wire: Wire
) -> None:
    for call in _calls(wired):
        wire.replies_to_lose = 1
        call()
        assert wire.replies_to_lose == 0
    assert list(wired.scan("p")) == [(b"k", b"v")]


def test_a_service_that_is_gone_is_unavailable(wired: DynamoDBKVStore, wire: Wire) -> None:
    wired.set("p", b"k", b"v")
    wire.cut()
    # Nothing is sent, so no outcome is unknown.
    for call in [*_calls(wired), *_conditional(wired)]:
        with pytest.raises(BackendUnavailableError, match="DynamoDB table table-"):
            call()


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("ProvisionedThroughputExceededException", 400, ThrottledError),
        ("ThrottlingException", 400, ThrottledError),
        ("RequestLimitExceeded", 400, ThrottledError),
        ("InternalServerError", 500, BackendUnavailableError),
    ],
)
def test_a_failure_is_waited_out_and_told_in_the_end(
    store: DynamoDBKVStore, service: Service, code: str, status: int, error: type[GravelerError]
) -> None:
    store.set("p", b"k", b"v")
    conditional = _conditional(store)
    for call in [*_calls(store), *(conditional if status == 400 else [])]:
        service.refuse(code, status=status, times=7)
        call()
        assert service.answers == []
        service.refuse(code, status=status, times=100)
        with pytest.raises(error, match=code):
            call()
        assert len(service.answers) < 100 - 8
        store._client._retrier.earlier.silence = (0.0, 0.0)  # as if time had passed
    for call in conditional if status == 500 else []:
        service.refuse(code, status=status, times=2)
        with pytest.raises(OutcomeUnknownError):
            call()
        assert len(service.answers) == 1


ANSWERS: dict[str, type[GravelerError]] = {
    "AccessDeniedException": PermissionDeniedError,
    "UnrecognizedClientException": PermissionDeniedError,
    "ExpiredTokenException": PermissionDeniedError,
    "ResourceNotFoundException": NotFoundError,
    "ValidationException": InternalError,
}


def test_what_the_service_says_becomes_what_the_caller_can_do(
    store: DynamoDBKVStore, service: Service
) -> None:
    for code, kind in ANSWERS.items():
        for call in [*_calls(store), *_conditional(store)]:
            service.refuse(code)
            with pytest.raises(kind, match=code) as caught:
                call()
            assert type(caught.value) is kind


def test_what_a_batch_leaves_over_is_written_later(
    store: DynamoDBKVStore, service: Service
) -> None:
    def left(number: int) -> dict[str, Any]:
        put = {"Item": {"p": {"S": "p"}, "k": {"B": f"{number:08d}"}, "v": {"B": "dmFsdWU="}}}
        return {"UnprocessedItems": {store._table.name: [{"PutRequest": put}]}}

    service.answers = [(200, left(2)), (200, left(1))]
    store.set_many("p", [(b"k", b"v")])
    assert service.requests == ["BatchWriteItem"] * 3
    service.answers = [(200, left(1))] * 100
    with pytest.raises(ThrottledError, match="more capacity"):
        store.set_many("p", [(b"k", b"v")])


@pytest.mark.parametrize("code", ["TransactionCanceledException", "TransactionInProgressException"])
def test_a_read_of_many_keys_that_was_canceled_is_repeated(
    store: DynamoDBKVStore, service: Service, code: str
) -> None:
    store.set("a", b"k", b"1")
    service.requests.clear()
    service.refuse(code)
    found = store.get_many([("a", b"k"), ("b", b"k")])
    assert [stored and stored.value for stored in found] == [b"1", None]
    assert service.requests == ["TransactGetItems"] * 2


def test_a_page_that_ends_at_a_megabyte_is_not_the_last_one(store: DynamoDBKVStore) -> None:
    items = [(b"%03d" % number, b"%03d" % number * 100_000) for number in range(8)]
    store.set_many("p", items)
    assert list(store.scan("p")) == items
    assert list(store.scan("p", b"004")) == items[4:]
    store.drop("p")
    assert list(store.scan("p")) == []


def test_many_may_make_the_table_at_once(dynamodb_uri: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(DynamoDBKVStore, [dynamodb_uri] * 4))
    table = stores[0]._call("describe_table")["Table"]
    assert table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert [key["KeyType"] for key in table["KeySchema"]] == ["HASH", "RANGE"]
    for number, store in enumerate([*stores, DynamoDBKVStore(dynamodb_uri)]):
        assert len(list(store.scan("p"))) == number
        store.set("p", b"%d" % number, b"v")
        store.close()


def test_a_table_that_is_not_ready_is_waited_for(store: DynamoDBKVStore, service: Service) -> None:
    table = store._call("describe_table")["Table"]
    schema = {name: table[name] for name in ("KeySchema", "AttributeDefinitions")}
    making = 200, {"Table": {**schema, "TableStatus": "CREATING"}}
    service.answers = [making] * 3
    store._prepare()
    assert service.answers == []
    service.answers = [making] * 1_000
    with pytest.raises(ThrottledError, match="is still CREATING after 300 seconds"):
        store._prepare()


def test_a_table_of_somebody_else_is_left_alone(dynamodb_uri: str, s3_endpoint: str) -> None:
    name = urlsplit(dynamodb_uri).netloc
    client = boto3.client("dynamodb", endpoint_url=s3_endpoint, region_name="us-east-1")
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
    )
    client.close()
    with pytest.raises(InvalidInputError, match="name a table of graveler's"):
        DynamoDBKVStore(dynamodb_uri)


@pytest.mark.parametrize(
    "uri",
    [
        "dynamodb://",
        "dynamodb://key:secret@table",
        "dynamodb://table/path",
        "dynamodb://table?regoin=eu-central-1",
        "dynamodb://table?region=eu-central-1&endpoint=secret",
        "dynamodb://?region=eu-central-1",
    ],
)
def test_a_uri_that_cannot_be_read_is_told(uri: str) -> None:
    with pytest.raises(InvalidInputError):
        DynamoDBKVStore(uri)


def test_missing_credentials_are_told(dynamodb_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    boto3.setup_default_session()
    try:
        with pytest.raises(PermissionDeniedError, match="AWS_PROFILE"):
            DynamoDBKVStore(dynamodb_uri)
    finally:
        boto3.DEFAULT_SESSION = None


def test_a_forked_child_connects_anew(store: DynamoDBKVStore) -> None:
    parents = store._client._connected()
    store._client.after_fork_in_child()
    store.set("p", b"k", b"v")
    assert store._client._connected() is not parents
    # The parent's client is still open.
    assert parents.describe_table(TableName=store._table.name)["Table"]["ItemCount"] == 1
