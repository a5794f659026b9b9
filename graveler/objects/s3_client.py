"""The connection to S3: settings, the library's client, single calls, translated errors."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, Self

from graveler.base.forks import held_off
from graveler.base.parallel import MOST_THREADS
from graveler.base.privacy import shown_uri
from graveler.errors import (
    BackendUnavailableError,
    GravelerError,
    InvalidInputError,
    MissingDependencyError,
    NotFoundError,
    ObjectNotFoundError,
    PermissionDeniedError,
    PreconditionFailedError,
    RetryableError,
    StorageFullError,
    ThrottledError,
)

try:
    import boto3
    import botocore.session
    from botocore import exceptions as boto
    from botocore.config import Config
    from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials

    from graveler import aws
except ImportError as error:
    raise MissingDependencyError(f"S3 needs boto3 ({error}): pip install 'graveler[s3]'") from error


_STORING = frozenset({"put_object", "create_multipart_upload"})
_EXPIRED = frozenset(
    {"ExpiredToken", "ExpiredTokenException", "InvalidToken", "TokenRefreshRequired", "400"}
)
"""The codes of expired credentials. A reply to HEAD has no body, and therefore the code 400."""
_CONNECTIONS = MOST_THREADS  # kept open. Further threads open their own


@dataclass(frozen=True, slots=True)
class S3Settings:
    """Endpoint and credentials. Empty attributes come from the usual AWS settings.

    Attributes:
        endpoint_url: A store other than AWS: ``http://127.0.0.1:9000``.
        role_arn: A role to assume, with these keys or those of the usual AWS settings. Its
            temporary credentials are renewed before they expire.
        external_id: The external id, if the role requires one.
        path_style: "true" puts the bucket into the path, "false" into the host name. If it is
            empty, an `endpoint_url` means "true". Otherwise the library decides.
        sse: Encryption by the store of new objects: ``AES256``, ``aws:kms``.
        sse_kms_key_id: The key of ``aws:kms``; by default that of the bucket.
    """

    endpoint_url: str = ""
    region: str = ""
    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    role_arn: str = ""
    external_id: str = ""
    path_style: str = ""
    sse: str = ""
    sse_kms_key_id: str = ""

    @property
    def encryption(self) -> dict[str, str]:
        """The parameters of a request that stores an object."""
        given = {"ServerSideEncryption": self.sse, "SSEKMSKeyId": self.sse_kms_key_id}
        return {name: value for name, value in given.items() if value}

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Return the settings of the options of :func:`graveler.objects.open_store`."""
        known = [option.name for option in fields(cls)]
        if unknown := sorted(set(options) - set(known)):
            raise InvalidInputError(f"S3 has no options {unknown}: give some of {known}")
        settings = cls(**options)
        if "@" in settings.endpoint_url:
            raise InvalidInputError(
                f"endpoint_url {shown_uri(settings.endpoint_url)!r} holds a user: give keys as "
                "access_key and secret_key"
            )
        if settings.path_style not in {"", "true", "false"}:
            raise InvalidInputError(f"path_style={settings.path_style!r}: give 'true' or 'false'")
        return settings

    @property
    def addressing_style(self) -> str:
        """The library's name of the path style."""
        if not self.path_style:
            return "path" if self.endpoint_url else "auto"
        return "path" if self.path_style == "true" else "virtual"


def _keys(settings: S3Settings) -> dict[str, str | None]:
    return {
        "aws_access_key_id": settings.access_key or None,
        "aws_secret_access_key": settings.secret_key or None,
        "aws_session_token": settings.session_token or None,
    }


def _assume(settings: S3Settings) -> Any:
    """Return a session with credentials of a role. The library renews them."""
    source = boto3.Session(region_name=settings.region or None, **_keys(settings))
    credentials = source.get_credentials()
    if credentials is None:
        raise InvalidInputError(
            f"no AWS credentials to assume {settings.role_arn} with: give access_key and "
            "secret_key, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    arguments = {"RoleSessionName": "graveler"}
    if settings.external_id:
        arguments["ExternalId"] = settings.external_id
    fetcher = AssumeRoleCredentialFetcher(
        source.client, credentials, settings.role_arn, extra_args=arguments
    )
    session = botocore.session.Session()
    session._credentials = DeferredRefreshableCredentials(
        method="assume-role", refresh_using=fetcher.fetch_credentials
    )
    return boto3.Session(botocore_session=session)


class S3Client:
    """Calls for one bucket. Threads share the client. A forked child gets its own connections.

    Attributes:
        date: The time of the store's last reply, as HTTP writes it; "" if it gave none.
    """

    def __init__(self, bucket: str, settings: S3Settings, silence_s: float) -> None:
        self._silence_s = silence_s
        self._bucket = bucket
        self._settings = settings
        self._client = self._connect()
        self._process = os.getpid()
        self.date = ""

    def call(self, what: str, operation: str, **parameters: Any) -> Any:
        """Send one request for the bucket, once."""
        if self._process != os.getpid():
            self._client = self._connect()
            self._process = os.getpid()  # last, so that no thread uses the parent's client
        if operation in _STORING:
            parameters |= self._settings.encryption
        with s3_errors(what):
            try:
                reply = getattr(self._client, operation)(Bucket=self._bucket, **parameters)
            except boto.ClientError as error:
                if self._settings.access_key or aws.Refusal.of(error).code not in _EXPIRED:
                    raise
                # another program may have renewed the credentials in the shared file
                boto3.DEFAULT_SESSION = None
                self._client = self._connect()
                body = parameters.get("Body")
                if body is not None:
                    body.seek(0)
                reply = getattr(self._client, operation)(Bucket=self._bucket, **parameters)
        self.date = reply.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date", "")
        return reply

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _connect(self) -> Any:
        settings = self._settings
        # boto3.client uses the default session with the settings of the program. A second client
        # then costs 4 ms, not 60. Creating a client is not thread-safe.
        with held_off, aws.MAKING, s3_errors(f"connect to S3 for bucket {self._bucket}"):
            # a role has its own session, whose credentials are renewed
            make = _assume(settings).client if settings.role_arn else boto3.client
            client = make(
                "s3",
                endpoint_url=settings.endpoint_url or None,
                region_name=settings.region or None,
                **({} if settings.role_arn else _keys(settings)),
                config=Config(
                    # the driver retries, because a repeated conditional write needs a check
                    retries={"mode": "standard", "total_max_attempts": 1},
                    s3={"addressing_style": settings.addressing_style},
                    # many stores refuse the newer checksums, so the driver sends MD5
                    request_checksum_calculation="when_required",
                    response_checksum_validation="when_required",
                    connect_timeout=self._silence_s,
                    read_timeout=self._silence_s,
                    max_pool_connections=_CONNECTIONS,
                ),
            )
            client.meta.events.register_last("before-call.s3", _send_at_once)
            return client


def _send_at_once(params: Mapping[str, Any], **_: Any) -> None:
    # with this header, the library sends a stream only after the store has sent 100-continue
    params["headers"].pop("Expect", None)


_REPEAT = "repeat"
_WAIT = "wait and repeat"
_ROOM = "free some space or raise the quota, and repeat"
_RIGHTS = (
    "graveler reads, writes, lists and deletes objects: give these credentials s3:GetObject, "
    "s3:PutObject, s3:DeleteObject and s3:ListBucket, or use others"
)
_OTHER_STORE = (
    "graveler needs a store with conditional writes (If-None-Match, If-Match): use another"
)


class PastTheEndError(InvalidInputError):
    """A range starts at or after the end of the object. Only the driver uses this error."""


_CODES: dict[str, tuple[type[GravelerError], str]] = {
    "NoSuchBucket": (NotFoundError, "create the bucket, or fix its name in the URI"),
    "NoSuchUpload": (
        RetryableError,
        "another process aborted the multipart upload: write the object again",
    ),
    "SlowDown": (ThrottledError, _WAIT),
    "Throttling": (ThrottledError, _WAIT),
    "RequestLimitExceeded": (ThrottledError, _WAIT),
    # two concurrent writes to one key: S3 requires the same request to be sent again
    "ConditionalRequestConflict": (ThrottledError, _WAIT),
    "OperationAborted": (ThrottledError, _WAIT),
    # the request was damaged or cut off in transfer, although the status blames the client
    "RequestTimeout": (BackendUnavailableError, _REPEAT),
    "IncompleteBody": (BackendUnavailableError, _REPEAT),
    "BadDigest": (BackendUnavailableError, _REPEAT),
    # can come with status 200 at the end of a multipart upload
    "InternalError": (BackendUnavailableError, _REPEAT),
    "QuotaExceeded": (StorageFullError, _ROOM),
    "XMinioStorageFull": (StorageFullError, _ROOM),
    "ExpiredToken": (PermissionDeniedError, "renew the credentials"),
    "InvalidToken": (PermissionDeniedError, "renew the credentials"),
    "TokenRefreshRequired": (PermissionDeniedError, "renew the credentials"),
    "400": (
        PermissionDeniedError,
        "the store gives no reason: renew the credentials, or correct region or endpoint_url",
    ),
    "InvalidAccessKeyId": (PermissionDeniedError, "the store does not know the key: correct it"),
    "SignatureDoesNotMatch": (PermissionDeniedError, "correct secret_key, region or endpoint_url"),
    "RequestTimeTooSkewed": (PermissionDeniedError, "set the clock of this host right"),
}

_STATUSES: dict[int, tuple[type[GravelerError], str]] = {
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
    """Turn errors of the library in the block into errors of graveler."""
    try:
        yield
    except boto.ClientError as error:
        raise _refused(error, what) from error
    except aws.NO_CREDENTIALS as error:
        raise PermissionDeniedError(
            f"{what}: {error}; {aws.CREDENTIALS}, or the options access_key and secret_key"
        ) from error
    except aws.BAD_ARGUMENT as error:
        raise InvalidInputError(f"{what}: {error}; fix the URI or its options") from error
    except boto.BotoCoreError as error:
        raise BackendUnavailableError(
            f"{what}: {error}; check endpoint_url and the network, and repeat"
        ) from error
    except RecursionError as error:  # the library follows each redirect in a deeper call
        raise BackendUnavailableError(
            f"{what}: the endpoint redirects every request; check endpoint_url and region"
        ) from error


def reply_field(reply: Mapping[str, Any], name: str, what: str) -> Any:
    """Return a field of a reply, or raise BackendUnavailableError."""
    if name not in reply:
        raise BackendUnavailableError(
            f"{what}: the store's reply has no {name}, which S3 always sends: a proxy may remove it, or "
            "endpoint_url is no S3 endpoint"
        )
    return reply[name]


def _refused(error: boto.ClientError, what: str) -> GravelerError:
    refusal = aws.Refusal.of(error)
    otherwise = (
        (BackendUnavailableError, _REPEAT)
        if refusal.is_broken
        else (InvalidInputError, "the store refuses this request")
    )
    kind, hint = _CODES.get(refusal.code) or _STATUSES.get(refusal.status) or otherwise
    return kind(f"{what}: {error}; {hint}")


def may_have_landed(error: BackendUnavailableError) -> bool:
    """Return whether a write that failed with this error may have taken effect."""
    return not isinstance(error.__cause__, aws.NEVER_SENT)


def lost_reply(error: BackendUnavailableError) -> bool:
    """Return whether a write was sent and no reply arrived, not even a refusal."""
    return may_have_landed(error) and not isinstance(error.__cause__, boto.ClientError)
