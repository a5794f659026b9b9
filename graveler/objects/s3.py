"""Objects on S3, and on any store with its protocol and conditional writes."""

import io
import logging
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, BinaryIO, cast

from graveler.base.clock import Clock, IdSource, RandomIds, SystemClock
from graveler.base.privacy import shown_uri
from graveler.base.retries import NO_PROGRESS_S, Retrier
from graveler.errors import (
    BackendUnavailableError,
    InvalidInputError,
    ObjectNotFoundError,
    PreconditionFailedError,
)
from graveler.objects.s3_client import PastTheEndError, S3Client, S3Settings, reply_field, s3_errors
from graveler.objects.s3_write import PART_BYTES, Writer, Written
from graveler.objects.store import (
    ANYTHING,
    Body,
    Expected,
    ObjectInfo,
    ObjectStore,
    check_key,
    check_prefix,
    check_range,
    folder_of_prefix,
)
from graveler.objects.verified import READ_AHEAD_BYTES, RangedFile

log = logging.getLogger(__name__)

# `ObjectStore` documents the methods.
# ruff: noqa: D102


class S3Store(ObjectStore):
    """A prefix of a bucket. The bucket must exist.

    Requests that fail because of the store or the network are repeated. A body of 64 MiB or more is
    sent in parts. A crash may leave parts behind: give the bucket a lifecycle rule
    ``AbortIncompleteMultipartUpload``.

    Lists of a *directory bucket* have no order. Listing such a bucket is refused.
    """

    def __init__(
        self,
        uri: str,
        settings: S3Settings,
        *,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        part_bytes: int = PART_BYTES,
        no_progress_s: float = NO_PROGRESS_S,
    ) -> None:
        self._clock = clock or SystemClock()
        self._ids = ids or RandomIds(self._clock)
        self._retrier = Retrier(self._clock, self._ids, limit_s=no_progress_s)
        self._part_bytes = part_bytes
        self._root = uri.rstrip("/")
        bucket, _, prefix = self._root.partition("://")[2].partition("/")
        if not bucket or "@" in bucket:
            raise InvalidInputError(
                f"{shown_uri(uri)!r} names no bucket: give s3://bucket/prefix; keys belong into the "
                "options access_key and secret_key, or the usual AWS settings"
            )
        if prefix:
            check_key(prefix)
        self._prefix = f"{prefix}/" if prefix else ""
        self._client = S3Client(bucket, settings, self._retrier.try_s)
        self._no_progress_s = no_progress_s
        self._settings = settings
        self._versioned = False

    def __reduce__(self) -> tuple[Any, ...]:
        made = partial(S3Store, part_bytes=self._part_bytes, no_progress_s=self._no_progress_s)
        return made, (self._root, self._settings)

    @property
    def root(self) -> str:
        return self._root

    def put(self, key: str, body: Body) -> ObjectInfo:
        return self._info(key, self._writer(key).write(body, self._part_bytes))

    def put_if_absent(self, key: str, body: Body) -> bool:
        try:
            self._writer(key, IfNoneMatch="*").write(body, self._part_bytes)
        except PreconditionFailedError:
            return False
        return True

    def put_if_match(self, key: str, body: Body, etag: str) -> ObjectInfo:
        try:
            return self._info(key, self._writer(key, IfMatch=etag).write(body, self._part_bytes))
        except ObjectNotFoundError as error:
            raise PreconditionFailedError(
                f"{self.uri(key)} is gone, not at {etag}: read it again and repeat"
            ) from error

    def get(self, key: str, expected: Expected = ANYTHING) -> bytes:
        return self._retrier.run(f"read {self.uri(key)}", partial(self._read, key, expected))

    def get_range(self, key: str, start: int, length: int, expected: Expected = ANYTHING) -> bytes:
        check_range(start, length)
        return self._range(key, start, length, expected)

    def open(self, key: str, expected: Expected = ANYTHING) -> BinaryIO:
        info = self.head(key)
        expected.check(self.uri(key), info)
        # all reads are of the version that was opened
        opened = Expected(info.size, f"etag:{info.etag}")

        def read_range(start: int, length: int) -> bytes:
            return self._range(key, start, length, opened)

        return cast(
            "BinaryIO", io.BufferedReader(RangedFile(info.size, read_range), READ_AHEAD_BYTES)
        )

    def head(self, key: str) -> ObjectInfo:
        name = self._name(key)
        ask = partial(self._call, "read", key, "head_object", Key=name)
        return _info_of(key, self._retrier.run(f"read {self.uri(key)}", ask))

    def delete(self, key: str) -> bool:
        name, lost = self._name(key), False

        def remove() -> Any:
            nonlocal lost
            try:
                return self._call("delete", key, "delete_object", Key=name)
            except BackendUnavailableError:
                lost = True
                raise

        try:
            reply = self._retrier.run(f"delete {self.uri(key)}", remove)
            if reply.get("DeleteMarker") and not self._versioned:
                self._versioned = True
                log.warning(
                    "the bucket of %s keeps versions: what is deleted stays stored, and costs, until a "
                    "lifecycle rule NoncurrentVersionExpiration removes it",
                    self.root,
                )
        except ObjectNotFoundError:
            pass  # some stores report a missing object
        return lost

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        check_prefix(prefix)
        check_prefix(after)
        if folder_of_prefix(prefix) is None:
            return
        last = b""
        for item in self._listed(prefix, after):
            key = item["Key"].removeprefix(self._prefix)
            if not key or key.endswith("/"):
                continue  # a folder marker of a console or Hadoop
            if key.encode() <= last:
                raise InvalidInputError(
                    f"{self.root} lists {key!r} after {last.decode()!r}: a directory bucket has "
                    "no order; use a general purpose bucket"
                )
            last = key.encode()
            yield _listed_info(key, item)

    def level(self, folder: str = "") -> Iterator[ObjectInfo | str]:
        check_prefix(folder)
        for item in self._listed(folder, "", Delimiter="/"):
            name = item.get("Prefix", item.get("Key", "")).removeprefix(self._prefix)
            if "Prefix" in item:
                yield name
            elif name and not name.endswith("/"):
                yield _listed_info(name, item)

    def close(self) -> None:
        self._client.close()

    def _listed(self, prefix: str, after: str, **options: str) -> Iterator[dict[str, Any]]:
        if after:
            options["StartAfter"] = f"{self._prefix}{after}"
        ask = partial(
            self._call,
            "list",
            prefix,
            "list_objects_v2",
            Prefix=f"{self._prefix}{prefix}",
            **options,
        )
        what = f"list {self.uri(prefix)}"
        page = self._retrier.run(what, ask)
        while True:
            yield from page.get("Contents", ())
            yield from page.get("CommonPrefixes", ())
            if not page.get("IsTruncated"):
                return
            token = reply_field(page, "NextContinuationToken", what)
            page = self._retrier.run(what, partial(ask, ContinuationToken=token))

    def _range(self, key: str, start: int, length: int, expected: Expected) -> bytes:
        if not length:
            expected.check(self.uri(key), self.head(key))
            return b""
        wanted = f"bytes={start}-{start + length - 1}"
        try:
            read = partial(self._read, key, expected, Range=wanted)
            return self._retrier.run(f"read {self.uri(key)}", read)
        except PastTheEndError:
            if expected.size is not None and start < expected.size:
                raise PreconditionFailedError(
                    f"{self.uri(key)} ends before byte {start}, and had {expected.size} bytes"
                ) from None
            return b""

    def _read(self, key: str, expected: Expected, **parameters: str) -> bytes:
        if expected.etag:
            parameters["IfMatch"] = expected.etag
        response = self._call("read", key, "get_object", Key=self._name(key), **parameters)
        with s3_errors(f"read {self.uri(key)}"), closing(response["Body"]) as body:
            expected.check(self.uri(key), _info_of(key, response))
            content: bytes = body.read()
        if len(content) != response["ContentLength"]:
            raise BackendUnavailableError(
                f"read {self.uri(key)}: {len(content)} bytes came of {response['ContentLength']}"
            )
        return content

    def _writer(self, key: str, **condition: str) -> Writer:
        return Writer(
            self._client,
            self._retrier,
            self.uri(key),
            self._name(key),
            self._ids.unique(),
            condition,
        )

    def _info(self, key: str, written: Written) -> ObjectInfo:
        try:
            mtime = parsedate_to_datetime(self._client.date).astimezone(UTC)
        except ValueError:
            mtime = self._clock.now()  # a reply without a date
        return ObjectInfo(key, written.size, written.etag, mtime, written.checksum)

    def _name(self, key: str) -> str:
        check_key(key)
        name = f"{self._prefix}{key}"
        check_key(name)
        return name

    def _call(self, verb: str, key: str, operation: str, **parameters: Any) -> Any:
        return self._client.call(f"{verb} {self.uri(key)}", operation, **parameters)


def _listed_info(key: str, item: dict[str, Any]) -> ObjectInfo:
    etag, size = reply_field(item, "ETag", key), reply_field(item, "Size", key)
    return ObjectInfo(key, size, etag, reply_field(item, "LastModified", key).astimezone(UTC))


def _info_of(key: str, response: dict[str, Any]) -> ObjectInfo:
    """Return the properties of the whole object from a reply, also if it has only a part of it."""
    _, _, whole = str(response.get("ContentRange", "")).rpartition("/")
    size = int(whole) if whole.isdecimal() else reply_field(response, "ContentLength", key)
    return _listed_info(key, {**response, "Size": size})
