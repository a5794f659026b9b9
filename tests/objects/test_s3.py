"""The driver of S3: its suite, bodies in parts, credentials, and what fails once or always."""

import io
import json
import random
import sys
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import boto3
import pytest

from graveler.errors import (
    BackendUnavailableError,
    InvalidInputError,
    NotFoundError,
    OutcomeUnknownError,
    PermissionDeniedError,
    PreconditionFailedError,
    ThrottledError,
)
from graveler.objects.registry import open_store
from graveler.objects.s3 import S3Store
from graveler.objects.s3_client import S3Settings
from graveler.objects.s3_write import PART_BYTES, part_bytes
from graveler.testing.clock import FakeClock, SequenceIds
from tests.harness.programs import FORKS, output_of
from tests.harness.servers.moto import Fault, moto_s3
from tests.objects.suite import ObjectStoreSuite

RULES: dict[str, Any] = {"clock": FakeClock(), "ids": SequenceIds()}
MEBIBYTE = 1 << 20
SMALLEST_PART = 5 * MEBIBYTE  # the smallest that S3 accepts


class TestS3Store(ObjectStoreSuite):
    @pytest.fixture
    def store(self, s3_bucket, s3_options):
        with closing(open_store(f"s3://{s3_bucket}/some/prefix", s3_options)) as store:
            yield store


FEWEST = 8
"""Tries within 30 s, of which no pause is longer than 5 s."""
LONG = b"x" * (SMALLEST_PART + 1)

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
    with closing(open_store(f"s3://{s3_bucket}/p", s3_options, **RULES)) as store:
        yield store


@pytest.fixture
def held(store):
    """A store that holds an object."""
    store.put("there", b"content")
    return store


@pytest.fixture
def parting_store(s3_bucket, s3_options):
    """A store that sends its bodies in the smallest parts that S3 accepts."""
    settings, uri = S3Settings.parse(s3_options), f"s3://{s3_bucket}/p"
    with closing(S3Store(uri, settings, part_bytes=SMALLEST_PART, **RULES)) as store:
        yield store


def unfinished_uploads(bucket):
    return moto_s3().buckets[bucket].multiparts


def test_a_store_sees_only_below_its_prefix(store, s3_bucket, s3_options):
    store.put("x", b"1")
    for scheme, prefix, keys in (("s3a", "/", ["p/x"]), ("s3", "/pp", [])):
        with closing(open_store(f"{scheme}://{s3_bucket}{prefix}", s3_options)) as other:
            assert other.root == f"{scheme}://{s3_bucket}{prefix.rstrip('/')}"
            assert other.uri("a/b") == f"{other.root}/a/b"
            assert [info.key for info in other.list()] == keys


@pytest.mark.parametrize("size", [SMALLEST_PART, SMALLEST_PART + 1, 12 * MEBIBYTE])
def test_a_long_body_in_parts_comes_back_whole(parting_store, s3_bucket, size):
    content = random.Random(size).randbytes(size)
    info = parting_store.put("a", io.BytesIO(content))
    assert parting_store.get("a") == content
    assert (info.size, info.checksum) == (size, f"sha256:{sha256(content).hexdigest()}")
    assert info.etag == parting_store.head("a").etag
    assert not unfinished_uploads(s3_bucket)


def test_conditions_hold_for_a_body_in_parts(parting_store, s3_bucket):
    first, second = (bytes([number]) * (SMALLEST_PART + 1) for number in (1, 2))
    assert parting_store.put_if_absent("a", first) is True
    assert parting_store.put_if_absent("a", second) is False
    seen = parting_store.head("a").etag
    parting_store.put_if_match("a", second, seen)
    with pytest.raises(PreconditionFailedError):
        parting_store.put_if_match("a", first, seen)
    assert parting_store.get("a") == second
    assert not unfinished_uploads(s3_bucket)


def test_a_long_body_that_fails_half_way_leaves_no_parts(parting_store, s3_bucket):
    class Breaks(io.BytesIO):
        def read(self, size=-1):
            if self.tell() > 7 * MEBIBYTE:
                raise ZeroDivisionError
            return super().read(min(size, MEBIBYTE))

    with pytest.raises(ZeroDivisionError):
        parting_store.put("a", Breaks(bytes(11 * MEBIBYTE)))
    assert list(parting_store.list()) == []
    assert not unfinished_uploads(s3_bucket)


def test_ten_thousand_parts_hold_the_longest_object_of_s3():
    assert sum(part_bytes(number) for number in range(1, 10_001)) > 5 << 40
    assert part_bytes(1) == PART_BYTES
    assert part_bytes(10_000) < 5 << 30


def test_a_listing_goes_on_over_many_pages(store, s3_bucket):
    moto = moto_s3()
    for number in range(2_050):
        moto.put_object(s3_bucket, f"p/{number:05}", b"")
    assert [info.key for info in store.list()] == [f"{number:05}" for number in range(2_050)]
    assert len(list(store.list("01"))) == 1_000


def test_markers_of_folders_are_no_objects_and_odd_names_are(store, s3_bucket):
    for name in ("p/", "p/folder/", "p/folder/a", "p/a//b", "p//c"):
        moto_s3().put_object(s3_bucket, name, b"")
    assert [info.key for info in store.list()] == ["/c", "a//b", "folder/a"]
    assert list(store.level()) == ["/", "a/", "folder/"]


def test_an_open_object_that_changes_is_not_read_on(store):
    store.put("a", bytes(3 * MEBIBYTE))
    with store.open("a") as file:
        file.read(10)
        store.put("a", b"other".ljust(3 * MEBIBYTE))
        with pytest.raises(PreconditionFailedError):
            file.read()


def test_small_reads_of_an_open_object_share_requests(s3_server, store):
    store.put("a", bytes(MEBIBYTE))
    with s3_server.watching() as requests, store.open("a") as file:
        while file.read(1000):
            pass
    assert len(requests) == 2  # one for the size, one for the bytes


def test_a_bucket_that_is_not_there_is_named_with_the_way_out(s3_options):
    store = open_store("s3://no-such-bucket/p", s3_options)
    calls: list[Callable[[], object]] = [
        lambda: store.get("a"),
        lambda: store.put("a", b""),
        lambda: store.put_if_absent("a", b""),
        lambda: store.put_if_match("a", b"", "etag"),
        lambda: store.delete("a"),
        lambda: list(store.list()),
    ]
    for call in calls:
        with pytest.raises(NotFoundError, match=r"no-such-bucket.*create the bucket"):
            call()
    store.close()


@pytest.fixture
def no_credentials(monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)


@pytest.mark.usefixtures("no_credentials")
def test_without_credentials_the_error_says_where_to_put_them(s3_endpoint):
    with (
        closing(open_store("s3://bucket/p", {"endpoint_url": s3_endpoint})) as store,
        pytest.raises(PermissionDeniedError, match="AWS_ACCESS_KEY_ID"),
    ):
        store.get("a")
    role = {"role_arn": "arn:aws:iam::1:role/lake"}
    with pytest.raises(InvalidInputError, match="to assume arn"):
        open_store("s3://bucket", role).put("a", b"")


def test_credentials_come_from_the_usual_places(monkeypatch, s3_bucket, s3_endpoint):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    with closing(open_store(f"s3://{s3_bucket}/p", {"endpoint_url": s3_endpoint})) as store:
        store.put("a", b"1")
        assert store.get("a") == b"1"


def test_a_forked_child_opens_connections_of_its_own(s3_bucket, s3_options):
    uri, options = f"s3://{s3_bucket}/p", json.dumps(s3_options)
    output_of("objects.programs.s3_in_child", uri, options, warnings=FORKS)


@pytest.mark.parametrize(
    ("option", "endpoint", "expected"),
    [("", "", "auto"), ("", "http://host", "path"), ("false", "http://host", "virtual")],
)
def test_the_bucket_goes_into_the_path_unless_told_otherwise(option, endpoint, expected):
    assert S3Settings(endpoint_url=endpoint, path_style=option).addressing_style == expected


def test_settings_do_not_show_their_secrets():
    settings = S3Settings(access_key="id", secret_key="hidden", session_token="hidden")
    assert "hidden" not in repr(settings)


def test_a_role_is_assumed_with_the_keys_once(s3_bucket, s3_options, s3_server, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", s3_options["endpoint_url"])
    role = {"role_arn": "arn:aws:iam::123456789012:role/lake", "external_id": "tenant"}
    with s3_server.watching() as requests:
        store = open_store(f"s3://{s3_bucket}/role", {**s3_options, **role})
        store.put("a", b"1")
        assert store.get("a") == b"1"
        store.close()
    assert requests[0] == "POST /"  # the role is assumed once for all requests
    assert requests.count("POST /") == 1


def reads(request):
    return request.startswith("GET")


def writes_to(key):
    return lambda request: request.startswith("PUT") and key in request


def keys(store):
    return [info.key for info in store.list()]


@pytest.mark.parametrize("fault", [*ON_THE_WAY, Fault.LOST_REPLY, Fault.HALF_BODY])
@pytest.mark.parametrize("read", READS)
def test_a_failing_read_is_repeated_and_ends_in_a_typed_error(s3_server, held, read, fault):
    with s3_server.failing(fault, concerns=reads) as faults:
        assert READS[read](held)
    assert len(faults.requests) == 2
    error = ON_THE_WAY.get(fault, BackendUnavailableError)
    with (
        s3_server.failing(fault, times=None, concerns=reads) as faults,
        pytest.raises(error, match="s3://"),
    ):
        READS[read](held)
    assert len(faults.requests) >= FEWEST


@pytest.mark.parametrize("fault", ALL)
@pytest.mark.parametrize("write", WRITES)
def test_a_write_that_fails_once_is_done_once(s3_server, held, write, fault):
    with s3_server.failing(fault, concerns=writes_to("new")) as faults:
        assert WRITES[write](held)
    assert len(faults.requests) == 2
    assert held.get("new") == b"fresh"


@pytest.mark.parametrize(("fault", "error"), ALL.items())
def test_a_put_that_always_fails_ends_with_a_typed_error(s3_server, held, fault, error):
    with (
        s3_server.failing(fault, times=None, concerns=writes_to("new")) as faults,
        pytest.raises(error, match="s3://"),
    ):
        held.put("new", b"fresh")
    assert len(faults.requests) >= FEWEST
    if fault in {Fault.LOST_REPLY, Fault.ERROR_AFTER}:
        assert held.get("new") == b"fresh"
    else:
        assert keys(held) == ["there"]


@pytest.mark.parametrize(("fault", "error"), ALL.items())
def test_a_conditional_write_does_not_claim_what_it_cannot_know(s3_server, held, fault, error):
    if fault in {Fault.LOST_REQUEST, Fault.LOST_REPLY}:
        error = OutcomeUnknownError
    with (
        s3_server.failing(fault, times=None, concerns=lambda _: True),
        pytest.raises(error, match="s3://"),
    ):
        held.put_if_absent("new", b"fresh")
    assert keys(held) in (["there"], ["new", "there"])


@pytest.mark.parametrize("fault", [Fault.LOST_REPLY, Fault.ERROR_AFTER])
def test_a_lost_reply_does_not_make_another_ones_object_ours(s3_server, held, fault):
    with s3_server.failing(fault, concerns=writes_to("there")) as faults:
        assert held.put_if_absent("there", b"content") is False
    assert len(faults.requests) == 2
    assert held.get("there") == b"content"


@pytest.mark.parametrize("fault", ALL)
def test_a_replacement_that_fails_once_is_done_once(s3_server, held, fault):
    seen = held.head("there").etag
    with s3_server.failing(fault, concerns=writes_to("there")):
        info = held.put_if_match("there", b"fresh", seen)
    assert held.get("there") == b"fresh"
    assert info.etag == held.head("there").etag


def test_a_replacement_overtaken_before_its_retry_is_refused(s3_server, held):
    seen = held.head("there").etag
    held.put("there", b"another writer's")
    with (
        s3_server.failing(Fault.LOST_REPLY, concerns=writes_to("there")),
        pytest.raises(PreconditionFailedError),
    ):
        held.put_if_match("there", b"fresh", seen)
    assert held.get("there") == b"another writer's"


@pytest.mark.parametrize("write", WRITES)
def test_two_writes_at_the_same_time_are_told_apart_by_repeating(s3_server, held, write):
    with s3_server.failing(Fault.CONFLICT, times=2, concerns=writes_to("new")) as faults:
        assert WRITES[write](held)
    assert len(faults.requests) == 3


def test_a_refusal_of_the_credentials_is_not_repeated(s3_server, held):
    with (
        s3_server.failing(Fault.DENIED, times=None) as faults,
        pytest.raises(PermissionDeniedError, match=r"s3:GetObject"),
    ):
        held.get("there")
    assert len(faults.requests) == 1


STEPS = {"POST": "?uploads", "PUT": "?", "POST ": "?uploadId"}


def concerning(step):
    return lambda request: request.startswith(step.strip()) and STEPS[step] in request


@pytest.mark.parametrize("fault", ALL)
@pytest.mark.parametrize("step", STEPS)
def test_each_step_of_an_upload_in_parts_may_fail_once(s3_server, parting_store, step, fault):
    lost = fault in {Fault.LOST_REPLY, Fault.ERROR_AFTER}
    for verb in ("put", "put_if_absent") if lost else ("put",):
        with s3_server.failing(fault, concerns=concerning(step)) as faults:
            assert getattr(parting_store, verb)(verb, io.BytesIO(LONG))
        assert len(faults.requests) >= 2
        assert parting_store.get(verb) == LONG


@pytest.mark.parametrize(("fault", "error"), ON_THE_WAY.items())
@pytest.mark.parametrize("step", STEPS)
def test_a_multipart_upload_that_always_fails_leaves_nothing(
    s3_server, s3_bucket, parting_store, step, fault, error
):
    with (
        s3_server.failing(fault, times=None, concerns=concerning(step)) as faults,
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
    with (
        closing(open_store("s3://bucket/p", options, clock=FakeClock())) as store,
        pytest.raises(BackendUnavailableError, match=r"127\.0\.0\.1:9"),
    ):
        store.put_if_absent("a", b"")


@pytest.mark.parametrize("status", [200, 301])
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
        Thread(target=page.serve_forever, args=(0.01,), daemon=True).start()
        options = {**s3_options, "endpoint_url": f"http://127.0.0.1:{page.server_address[1]}"}
        most = sys.getrecursionlimit()
        sys.setrecursionlimit(400)  # the library follows redirects in deeper calls
        try:
            with (
                closing(open_store("s3://bucket/p", options, clock=FakeClock())) as store,
                pytest.raises((BackendUnavailableError, OutcomeUnknownError)),
            ):
                store.put("a", b"1")
        finally:
            sys.setrecursionlimit(most)
            page.shutdown()


@pytest.mark.parametrize("fault", ALL)
def test_a_deletion_says_that_a_request_may_come_late(held, s3_server, fault):
    with s3_server.failing(fault, times=1):
        assert held.delete("there") is (fault is not Fault.SLOW_DOWN)
    assert keys(held) == []
