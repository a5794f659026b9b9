"""What the S3 library raises, as the errors that say what to do next."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

from botocore import exceptions as boto

from graveler.errors import (
    BackendUnavailableError,
    GravelerError,
    InvalidInputError,
    NotFoundError,
    ObjectNotFoundError,
    PermissionDeniedError,
    PreconditionFailedError,
    RetryableError,
    StorageFullError,
    ThrottledError,
)

_NO_CREDENTIALS: Final = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.CredentialRetrievalError,
    boto.TokenRetrievalError,
    boto.ProfileNotFound,
)
_NEVER_SENT: Final = (boto.EndpointConnectionError, boto.ConnectTimeoutError)
_BAD_ARGUMENT: Final = (boto.ParamValidationError, boto.InvalidRegionError, boto.NoRegionError)

_REPEAT: Final = "repeat"
_WAIT: Final = "wait and repeat"
_ROOM: Final = "free some space or raise the quota, and repeat"
_RIGHTS: Final = (
    "graveler reads, writes, lists and deletes objects: give these credentials s3:GetObject, "
    "s3:PutObject, s3:DeleteObject and s3:ListBucket, or use others"
)
_OTHER_STORE: Final = (
    "graveler needs a store with conditional writes (If-None-Match, If-Match): use another"
)


class PastTheEndError(InvalidInputError):
    """A range starts where the object has ended; inside the driver only."""


_CODES: Final[dict[str, tuple[type[GravelerError], str]]] = {
    "NoSuchBucket": (NotFoundError, "create the bucket, or fix its name in the URI"),
    "NoSuchUpload": (
        RetryableError,
        "another process aborted the multipart upload: write the object again",
    ),
    "SlowDown": (ThrottledError, _WAIT),
    "Throttling": (ThrottledError, _WAIT),
    "RequestLimitExceeded": (ThrottledError, _WAIT),
    # two writes to one key at the same time: S3 asks to send the same request again
    "ConditionalRequestConflict": (ThrottledError, _WAIT),
    "OperationAborted": (ThrottledError, _WAIT),
    # damaged or cut off on the way, although the status blames the client
    "RequestTimeout": (BackendUnavailableError, _REPEAT),
    "IncompleteBody": (BackendUnavailableError, _REPEAT),
    "BadDigest": (BackendUnavailableError, _REPEAT),
    # comes with the status 200 at the end of an upload in parts
    "InternalError": (BackendUnavailableError, _REPEAT),
    "QuotaExceeded": (StorageFullError, _ROOM),
    "XMinioStorageFull": (StorageFullError, _ROOM),
    "ExpiredToken": (PermissionDeniedError, _RIGHTS),
    "InvalidToken": (PermissionDeniedError, _RIGHTS),
}

_STATUSES: Final[dict[int, tuple[type[GravelerError], str]]] = {
    401: (PermissionDeniedError, _RIGHTS),
    403: (PermissionDeniedError, _RIGHTS),
    404: (ObjectNotFoundError, "nothing is there"),
    412: (PreconditionFailedError, "read it again and repeat"),
    416: (PastTheEndError, "the object ends before"),
    429: (ThrottledError, _WAIT),
    501: (InvalidInputError, _OTHER_STORE),
    503: (ThrottledError, _WAIT),
    507: (StorageFullError, _ROOM),
}


@contextmanager
def s3_errors(what: str) -> Iterator[None]:
    """Turn what the library raises in the block into graveler's errors.

    Args:
        what: What was tried, for the message: ``read s3://bucket/key``.
    """
    try:
        yield
    except boto.ClientError as error:
        raise _refused(error, what) from error
    except _NO_CREDENTIALS as error:
        raise PermissionDeniedError(
            f"{what}: {error}; set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
            "or the options access_key and secret_key"
        ) from error
    except (*_BAD_ARGUMENT, ValueError) as error:
        raise InvalidInputError(f"{what}: {error}; fix the URI or its options") from error
    except (boto.BotoCoreError, boto.HTTPClientError) as error:
        raise BackendUnavailableError(
            f"{what}: {error}; check endpoint_url and the network, and repeat"
        ) from error


def _refused(error: boto.ClientError, what: str) -> GravelerError:
    code = str(error.response.get("Error", {}).get("Code", ""))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    broken = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    otherwise = (
        (BackendUnavailableError, _REPEAT)
        if broken
        else (InvalidInputError, "the store does not take this request")
    )
    kind, way_out = _CODES.get(code) or _STATUSES.get(status) or otherwise
    return kind(f"{what}: {error}; {way_out}")


def may_have_landed(error: BackendUnavailableError) -> bool:
    """Return whether a write that failed with this error may have taken effect."""
    return not isinstance(error.__cause__, _NEVER_SENT)


def lost_reply(error: BackendUnavailableError) -> bool:
    """Return whether a write was sent and no reply arrived, not even a refusal."""
    return may_have_landed(error) and not isinstance(error.__cause__, boto.ClientError)
