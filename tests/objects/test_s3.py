import io
import json
import random
from collections.abc import Callable
from hashlib import sha256

import boto3
import pytest

from graveler.errors import (
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionFailedError,
)
from graveler.objects.registry import open_store
from graveler.objects.s3 import S3Store
from graveler.objects.s3_client import S3Settings
from graveler.objects.s3_write import PART_BYTES, part_bytes
from tests.harness.programs import FORKS, output_of
from tests.harness.servers.moto import moto_s3
from tests.objects.suite import ObjectStoreSuite

MEBIBYTE = 1 << 20
SMALLEST_PART = 5 * MEBIBYTE  # the smallest that S3 accepts


class TestS3Store(ObjectStoreSuite):
    @pytest.fixture
    def store(self, s3_bucket, s3_options):
        store = open_store(f"s3://{s3_bucket}/some/prefix", s3_options)
        yield store
        store.close()


@pytest.fixture
def parting_store(s3_bucket, s3_options):
    """A store that sends its bodies in the smallest parts that S3 accepts."""
    settings = S3Settings.parse(s3_options)
    store = S3Store(f"s3://{s3_bucket}/p", settings, part_bytes=SMALLEST_PART)
    yield store
    store.close()


def unfinished_uploads(bucket):
    return moto_s3().buckets[bucket].multiparts


def test_a_whole_bucket_may_be_a_store(s3_bucket, s3_options):
    store = open_store(f"s3a://{s3_bucket}/", s3_options)
    store.put("a/b", b"1")
    assert store.root == f"s3a://{s3_bucket}"
    assert store.uri("a/b") == f"s3a://{s3_bucket}/a/b"
    assert [info.key for info in store.list()] == ["a/b"]
    store.close()


def test_stores_of_one_bucket_see_only_below_their_prefix(s3_bucket, s3_options):
    left, right = (open_store(f"s3://{s3_bucket}/{name}", s3_options) for name in ("a", "ab"))
    left.put("x", b"left")
    right.put("x", b"right")
    assert left.get("x") == b"left"
    assert [info.key for info in left.list()] == ["x"]
    left.close()
    right.close()


@pytest.mark.parametrize(
    "size", [SMALLEST_PART - 1, SMALLEST_PART, SMALLEST_PART + 1, 12 * MEBIBYTE]
)
def test_a_long_body_in_parts_comes_back_whole(parting_store, s3_bucket, size):
    content = random.Random(size).randbytes(size)
    info = parting_store.put("a", io.BytesIO(content))
    assert parting_store.get("a") == content
    assert (info.size, info.checksum) == (size, f"sha256:{sha256(content).hexdigest()}")
    assert info.etag == parting_store.head("a").etag
    assert not unfinished_uploads(s3_bucket)


def test_conditions_hold_for_a_body_in_parts(parting_store, s3_bucket):
    first, second = (bytes([number]) * 11 * MEBIBYTE for number in (1, 2))
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


def test_a_listing_goes_on_over_many_pages(s3_bucket, s3_options):
    moto = moto_s3()
    for number in range(2_050):
        moto.put_object(s3_bucket, f"p/{number:05}", b"")
    store = open_store(f"s3://{s3_bucket}/p", s3_options)
    assert [info.key for info in store.list()] == [f"{number:05}" for number in range(2_050)]
    assert len(list(store.list("01"))) == 1_000
    store.close()


def test_markers_of_folders_are_no_objects(s3_bucket, s3_options):
    moto = moto_s3()
    for name in ("p/", "p/folder/", "p/folder/a"):
        moto.put_object(s3_bucket, name, b"")
    store = open_store(f"s3://{s3_bucket}/p", s3_options)
    assert [info.key for info in store.list()] == ["folder/a"]
    store.close()


def test_a_name_that_no_key_can_have_is_listed(s3_bucket, s3_options):
    moto_s3().put_object(s3_bucket, "p/a//b", b"")
    store = open_store(f"s3://{s3_bucket}/p", s3_options)
    moto_s3().put_object(s3_bucket, "p//c", b"")
    assert [info.key for info in store.list()] == ["/c", "a//b"]
    assert list(store.level()) == ["/", "a/"]
    store.close()


def test_an_open_object_that_changes_is_not_read_on(s3_bucket, s3_options):
    store = open_store(f"s3://{s3_bucket}/p", s3_options)
    store.put("a", bytes(3 * MEBIBYTE))
    with store.open("a") as file:
        file.read(10)
        store.put("a", b"other".ljust(3 * MEBIBYTE))
        with pytest.raises(PreconditionFailedError):
            file.read()
    store.close()


def test_small_reads_of_an_open_object_share_requests(s3_server, s3_bucket, s3_options):
    store = open_store(f"s3://{s3_bucket}/p", s3_options)
    store.put("a", bytes(MEBIBYTE))
    with s3_server.watching() as requests, store.open("a") as file:
        while file.read(1000):
            pass
    assert len(requests) == 2  # one for the size, one for the bytes
    store.close()


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


def test_without_credentials_the_error_says_where_to_put_them(monkeypatch, s3_endpoint, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    store = open_store("s3://bucket/p", {"endpoint_url": s3_endpoint})
    with pytest.raises(PermissionDeniedError, match="AWS_ACCESS_KEY_ID"):
        store.get("a")
    store.close()


def test_credentials_come_from_the_usual_places(monkeypatch, s3_bucket, s3_endpoint):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    store = open_store(f"s3://{s3_bucket}/p", {"endpoint_url": s3_endpoint})
    store.put("a", b"1")
    assert store.get("a") == b"1"
    store.close()


def test_a_forked_child_opens_connections_of_its_own(s3_bucket, s3_options):
    output_of(
        "objects.programs.s3_in_child",
        f"s3://{s3_bucket}/p",
        json.dumps(s3_options),
        warnings=FORKS,
    )


def test_a_child_that_cannot_connect_spares_the_parents_sockets(s3_bucket, s3_options):
    uri = f"s3://{s3_bucket}/p"
    output_of("objects.programs.s3_refused_in_child", uri, json.dumps(s3_options), warnings=FORKS)


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


def test_a_role_needs_credentials_to_be_assumed_with(s3_bucket, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    with pytest.raises(InvalidInputError, match="to assume arn"):
        open_store(f"s3://{s3_bucket}", {"role_arn": "arn:aws:iam::1:role/lake"}).put("a", b"")
