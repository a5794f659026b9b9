"""S3 or the network fails once or always: a retry succeeds, or a typed error is raised."""

import io
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from graveler.base.retries import Retrier
from graveler.errors import (
    BackendUnavailableError,
    OutcomeUnknownError,
    PermissionDeniedError,
    PreconditionFailedError,
    ThrottledError,
)
from graveler.objects.registry import open_store
from graveler.objects.s3 import S3Store
from graveler.objects.s3_client import S3Settings
from graveler.testing.clock import FakeClock, SequenceIds
from tests.harness.servers.moto import Fault, moto_s3

FEWEST = 8
"""Tries within 30 s, of which no pause is longer than 5 s."""
SMALLEST_PART = 5 << 20
LONG = b"x" * (2 * SMALLEST_PART + 1)

# a request's failure, and the error that is raised if it fails every time
ON_THE_WAY = {
    Fault.INTERNAL_ERROR: BackendUnavailableError,
    Fault.SLOW_DOWN: ThrottledError,
    Fault.LOST_REQUEST: BackendUnavailableError,
}
ALL = {
    **ON_THE_WAY,
    Fault.ERROR_AFTER: BackendUnavailableError,
    Fault.LOST_REPLY: BackendUnavailableError,
}

READS = {
    "get": lambda store: store.get("there") == b"content",
    "get_range": lambda store: store.get_range("there", 3, 2) == b"te",
    "open": lambda store: store.open("there").read() == b"content",
    "list": lambda store: [info.key for info in store.list()] == ["there"],
}
WRITES = {
    "put": lambda store: store.put("new", b"fresh").size == 5,
    "put_if_absent": lambda store: store.put_if_absent("new", b"fresh") is True,
}


@pytest.fixture
def store(s3_bucket, s3_options):
    store = open_store(f"s3://{s3_bucket}/p", s3_options, clock=FakeClock(), ids=SequenceIds())
    store.put("there", b"content")
    yield store
    store.close()


@pytest.fixture
def parting_store(s3_bucket, s3_options):
    settings = S3Settings.parse(s3_options)
    store = S3Store(
        f"s3://{s3_bucket}/p",
        settings,
        clock=FakeClock(),
        ids=SequenceIds(),
        part_bytes=SMALLEST_PART,
    )
    yield store
    store.close()


def writes_to(key):
    return lambda request: request.startswith("PUT") and key in request


def keys(store):
    return [info.key for info in store.list()]


@pytest.mark.parametrize("fault", [*ON_THE_WAY, Fault.LOST_REPLY, Fault.HALF_BODY])
@pytest.mark.parametrize("read", READS)
def test_a_read_that_fails_once_is_repeated(s3_server, store, read, fault):
    with s3_server.failing(fault, concerns=lambda request: request.startswith("GET")) as faults:
        assert READS[read](store)
    assert len(faults.requests) == 2


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        *ON_THE_WAY.items(),
        (Fault.LOST_REPLY, BackendUnavailableError),
        (Fault.HALF_BODY, BackendUnavailableError),
    ],
)
def test_a_read_that_always_fails_ends_with_a_typed_error(s3_server, store, read, fault, error):
    def concerns(request):
        return request.startswith("GET")

    with (
        s3_server.failing(fault, times=None, concerns=concerns) as faults,
        pytest.raises(error, match="s3://"),
    ):
        READS[read](store)
    assert len(faults.requests) >= FEWEST


@pytest.mark.parametrize("fault", ALL)
@pytest.mark.parametrize("write", WRITES)
def test_a_write_that_fails_once_is_done_once(s3_server, store, write, fault):
    with s3_server.failing(fault, concerns=writes_to("new")) as faults:
        assert WRITES[write](store)
    assert len(faults.requests) == 2
    assert store.get("new") == b"fresh"


@pytest.mark.parametrize(("fault", "error"), ALL.items())
def test_a_put_that_always_fails_ends_with_a_typed_error(s3_server, store, fault, error):
    with (
        s3_server.failing(fault, times=None, concerns=writes_to("new")) as faults,
        pytest.raises(error, match="s3://"),
    ):
        store.put("new", b"fresh")
    assert len(faults.requests) >= FEWEST
    if fault in {Fault.LOST_REPLY, Fault.ERROR_AFTER}:
        assert store.get("new") == b"fresh"
    else:
        assert keys(store) == ["there"]


@pytest.mark.parametrize(("fault", "error"), ALL.items())
def test_a_conditional_write_does_not_claim_what_it_cannot_know(s3_server, store, fault, error):
    if fault in {Fault.LOST_REQUEST, Fault.LOST_REPLY}:
        error = OutcomeUnknownError
    with (
        s3_server.failing(fault, times=None, concerns=lambda _: True),
        pytest.raises(error, match="s3://"),
    ):
        store.put_if_absent("new", b"fresh")
    assert keys(store) in (["there"], ["new", "there"])


@pytest.mark.parametrize("fault", [Fault.LOST_REPLY, Fault.ERROR_AFTER])
def test_a_lost_reply_does_not_make_another_ones_object_ours(s3_server, store, fault):
    with s3_server.failing(fault, concerns=writes_to("there")) as faults:
        assert store.put_if_absent("there", b"content") is False
    assert len(faults.requests) == 2
    assert store.get("there") == b"content"


@pytest.mark.parametrize("fault", ALL)
def test_a_replacement_that_fails_once_is_done_once(s3_server, store, fault):
    seen = store.head("there").etag
    with s3_server.failing(fault, concerns=writes_to("there")):
        info = store.put_if_match("there", b"fresh", seen)
    assert store.get("there") == b"fresh"
    assert info.etag == store.head("there").etag


def test_a_replacement_overtaken_before_its_retry_is_refused(s3_server, store):
    seen = store.head("there").etag
    store.put("there", b"another writer's")
    with (
        s3_server.failing(Fault.LOST_REPLY, concerns=writes_to("there")),
        pytest.raises(PreconditionFailedError),
    ):
        store.put_if_match("there", b"fresh", seen)
    assert store.get("there") == b"another writer's"


@pytest.mark.parametrize("write", WRITES)
def test_two_writes_at_the_same_time_are_told_apart_by_repeating(s3_server, store, write):
    with s3_server.failing(Fault.CONFLICT, times=2, concerns=writes_to("new")) as faults:
        assert WRITES[write](store)
    assert len(faults.requests) == 3


def test_a_refusal_of_the_credentials_is_not_repeated(s3_server, store):
    with (
        s3_server.failing(Fault.DENIED, times=None) as faults,
        pytest.raises(PermissionDeniedError, match=r"s3:GetObject"),
    ):
        store.get("there")
    assert len(faults.requests) == 1


@pytest.mark.parametrize("fault", ALL)
@pytest.mark.parametrize("step", ["POST ?uploads", "PUT ?", "POST ?uploadId"])
@pytest.mark.parametrize("verb", ["put", "put_if_absent"])
def test_each_step_of_an_upload_in_parts_may_fail_once(
    s3_server, s3_bucket, parting_store, verb, step, fault
):
    method, _, query = step.partition(" ")

    def concerns(request):
        return request.startswith(method) and query in request

    with s3_server.failing(fault, concerns=concerns) as faults:
        assert getattr(parting_store, verb)("new", io.BytesIO(LONG))
    assert len(faults.requests) >= 2
    assert parting_store.get("new") == LONG


@pytest.mark.parametrize(("fault", "error"), ON_THE_WAY.items())
@pytest.mark.parametrize("step", ["POST ?uploads", "PUT ?", "POST ?uploadId"])
def test_a_multipart_upload_that_always_fails_leaves_nothing(
    s3_server, s3_bucket, parting_store, step, fault, error
):
    method, _, query = step.partition(" ")

    def concerns(request):
        return request.startswith(method) and query in request

    with (
        s3_server.failing(fault, times=None, concerns=concerns) as faults,
        pytest.raises(error, match="s3://"),
    ):
        parting_store.put("new", io.BytesIO(LONG))
    assert len(faults.requests) >= FEWEST
    assert keys(parting_store) == []
    assert not moto_s3().buckets[s3_bucket].multiparts


def test_parts_that_cannot_be_removed_are_told_in_the_log(s3_server, parting_store, caplog):
    def concerns(request):
        return "partNumber=2" in request or request.startswith("DELETE")

    with (
        s3_server.failing(Fault.INTERNAL_ERROR, times=None, concerns=concerns),
        pytest.raises(BackendUnavailableError, match="UploadPart"),
    ):
        parting_store.put("new", io.BytesIO(LONG))
    assert "AbortIncompleteMultipartUpload" in caplog.text


def test_an_endpoint_that_is_not_there_is_named(s3_options):
    options = {**s3_options, "endpoint_url": "http://127.0.0.1:9"}
    store = open_store("s3://bucket/p", options, clock=FakeClock(), ids=SequenceIds())
    with pytest.raises(BackendUnavailableError, match=r"127\.0\.0\.1:9"):
        store.put_if_absent("a", b"")
    store.close()


@pytest.mark.parametrize("status", [200, 301, 302])
def test_an_endpoint_that_is_no_s3_is_named(s3_options, status):
    """A page of a login, or a proxy, answers without an ETag or redirects each request."""

    class Page(BaseHTTPRequestHandler):
        def do_PUT(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_HEAD = do_PUT  # noqa: N815 - names of the base class

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as page:
        Thread(target=page.serve_forever, daemon=True).start()
        options = {**s3_options, "endpoint_url": f"http://127.0.0.1:{page.server_address[1]}"}
        store = open_store("s3://bucket/p", options, clock=FakeClock(), ids=SequenceIds())
        with pytest.raises((BackendUnavailableError, OutcomeUnknownError)):
            store.put("a", b"1")
        store.close()
        page.shutdown()


def test_waits_grow_are_spread_and_end():
    waits = []

    class Watched(FakeClock):
        def sleep(self, seconds):
            waits.append(seconds)

    def fail():
        raise ThrottledError("slow down")

    retrier = Retrier(Watched(), SequenceIds(seed=1), limit_s=300)
    with pytest.raises(ThrottledError):
        retrier.run("it", fail)
    longest = [min(5.0, 0.1 * 2**n) for n in range(len(waits))]
    assert all(0 <= wait <= most for wait, most in zip(waits, longest, strict=True))
    assert len(set(waits)) == len(waits)
    assert 200 < sum(waits) <= 300


@pytest.mark.parametrize(("took", "tried"), [(0.5, True), (9.5, False)])
def test_a_call_after_a_quick_failure_is_tried(monkeypatch, took, tried):
    clock = FakeClock()
    monkeypatch.setattr("graveler.base.retries.monotonic", lambda: clock.now().timestamp())
    made: list[None] = []

    def fail():
        made.append(None)
        clock.advance(seconds=took)
        raise BackendUnavailableError("no answer")

    for seed in range(20):
        retrier = Retrier(clock, SequenceIds(seed=seed), limit_s=30, whole=True)
        with pytest.raises(BackendUnavailableError):
            retrier.run("it", fail)
        made.clear()
        with pytest.raises(BackendUnavailableError):
            retrier.run("what it left", fail)
        assert bool(made) is tried, seed


@pytest.mark.parametrize("fault", ALL)
def test_a_deletion_says_that_a_request_may_come_late(store, s3_server, fault):
    with s3_server.failing(fault, times=1):
        assert store.delete("there") is (fault is not Fault.SLOW_DOWN)
    assert keys(store) == []
