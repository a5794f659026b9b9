"""Writing to S3: whole or in parts, exactly once even if replies are lost."""

import hashlib
import logging
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import Any, TypeVar

from graveler.base.retries import Retrier
from graveler.errors import (
    BackendUnavailableError,
    GravelerError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    RetryableError,
    ThrottledError,
)
from graveler.objects.s3_client import S3Client, lost_reply, may_have_landed, reply_field
from graveler.objects.store import Body, BodyReader

T = TypeVar("T")
log = logging.getLogger(__name__)

PART_BYTES = 64 << 20
"""The size from which on a body is sent in parts, and the size of the first parts: 64 MiB."""

_WRITE_ID = "graveler-write"


def part_bytes(number: int, first: int = PART_BYTES) -> int:
    """Return the size of part `number` (from 1).

    The size grows by `first` every 500 parts. So the 10,000 parts that S3 allows have 105,000 times
    `first`: 6.4 TiB at 64 MiB, more than the 5 TiB of the largest object.
    """
    return first * (1 + (number - 1) // 500)


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a write."""

    etag: str
    size: int
    checksum: str


@dataclass(frozen=True, slots=True)
class Writer:
    """A write to a key.

    The object has `write_id` as metadata. If a reply is lost and the repeated request finds an
    object at the key, the metadata shows whether this write stored it.
    """

    client: S3Client
    retrier: Retrier
    uri: str
    name: str
    write_id: str
    condition: Mapping[str, str]

    def write(self, body: Body, first_part_bytes: int) -> Written:
        """Store the body, in parts if it has at least `first_part_bytes`."""
        with BodyReader(body) as reader:
            first = reader.read(first_part_bytes)
            if len(first) < first_part_bytes:
                etag = self._write_whole(first)
            else:
                etag = self._write_parts(first, reader)
            return Written(etag, reader.size, reader.checksum)

    def _write_whole(self, content: bytes) -> str:
        return self._settled(
            partial(
                self._call,
                "put_object",
                Body=content,
                ContentMD5=_md5(content),
                Metadata={_WRITE_ID: self.write_id},
                **self.condition,
            )
        )

    def _write_parts(self, first: bytes, reader: BodyReader) -> str:
        start = partial(self._call, "create_multipart_upload", Metadata={_WRITE_ID: self.write_id})
        upload = reply_field(self._run(start), "UploadId", self.uri)
        try:
            parts: list[dict[str, Any]] = []
            piece = first
            while piece:
                number = len(parts) + 1
                send = partial(
                    self._call,
                    "upload_part",
                    UploadId=upload,
                    PartNumber=number,
                    Body=piece,
                    ContentMD5=_md5(piece),
                )
                parts.append(
                    {"PartNumber": number, "ETag": reply_field(self._run(send), "ETag", self.uri)}
                )
                piece = reader.read(part_bytes(number + 1, len(first)))
            return self._settled(
                partial(
                    self._call,
                    "complete_multipart_upload",
                    UploadId=upload,
                    MultipartUpload={"Parts": parts},
                    **self.condition,
                )
            )
        except BaseException:
            self._abort(upload)
            raise

    def _abort(self, upload: str) -> None:
        try:
            self._run(partial(self._call, "abort_multipart_upload", UploadId=upload))
        except GravelerError as error:
            log.warning(
                "parts of an unfinished upload stay at %s (%s); "
                "a lifecycle rule AbortIncompleteMultipartUpload on the bucket removes such",
                self.uri,
                error,
            )

    def _settled(self, send: Callable[[], Any]) -> str:
        """Send until there is an answer. Return the etag of the object that this write stored."""
        landed = lost = False

        def attempt() -> str:
            nonlocal landed, lost
            try:
                return str(reply_field(send(), "ETag", self.uri))
            except BackendUnavailableError as error:
                landed = landed or may_have_landed(error)
                lost = lost or lost_reply(error)
                raise
            except ThrottledError:
                raise
            except (RetryableError, ObjectNotFoundError):
                # the conflicting object may come from an earlier attempt of this write
                if landed and (etag := self._own_etag()):
                    return etag
                raise

        try:
            return self._run(attempt)
        except (BackendUnavailableError, ThrottledError) as error:
            if lost and self.condition:
                raise OutcomeUnknownError(
                    f"write {self.uri}: no reply, however often it was tried ({error}); "
                    "it may be there or not: read it back"
                ) from error
            raise

    def _run(self, send: Callable[[], T]) -> T:
        return self.retrier.run(f"write {self.uri}", send)

    def _own_etag(self) -> str:
        try:
            head = self._call("head_object")
        except ObjectNotFoundError:
            return ""
        own = head.get("Metadata", {}).get(_WRITE_ID) == self.write_id
        return str(reply_field(head, "ETag", self.uri)) if own else ""

    def _call(self, operation: str, **parameters: Any) -> Any:
        if "Body" in parameters:  # a stream: bytes would have to be sent within the time of silence
            parameters["Body"] = BytesIO(parameters["Body"])
        return self.client.call(f"write {self.uri}", operation, Key=self.name, **parameters)


def _md5(content: bytes) -> str:
    # S3's oldest and most widely supported check against damage in transfer
    return b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()
