"""The connection to DynamoDB: single calls, with safe retries and translated errors.

The retries of the library are off. They would repeat a conditional write that has landed, and
report a failed condition although only the reply was lost.
"""

from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from graveler.base.clock import Clock, IdSource
from graveler.base.forks import abandon, held_off, watch
from graveler.base.retries import NO_PROGRESS_S, Retrier, backoff
from graveler.errors import (
    AlreadyExistsError,
    BackendUnavailableError,
    GravelerError,
    InternalError,
    InvalidInputError,
    MissingDependencyError,
    NotFoundError,
    OutcomeUnknownError,
    PermissionDeniedError,
    ThrottledError,
)

try:
    import boto3
    from botocore import exceptions as boto
    from botocore.config import Config

    from graveler import aws
except ImportError as error:
    raise MissingDependencyError(
        f'DynamoDB needs {error.name}: pip install "graveler[dynamodb]"'
    ) from error


_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0

_RIGHTS = (
    "graveler needs dynamodb:DescribeTable, GetItem, PutItem, DeleteItem, "
    "BatchWriteItem, Query and Scan on the table, and CreateTable if it does not exist"
)
_CAPACITY = "wait, or give the table more capacity"
_CODES: dict[str, tuple[type[GravelerError], str]] = {
    "ProvisionedThroughputExceededException": (ThrottledError, _CAPACITY),
    "ThrottlingException": (ThrottledError, _CAPACITY),
    "RequestLimitExceeded": (ThrottledError, _CAPACITY),
    "LimitExceededException": (ThrottledError, _CAPACITY),
    "TransactionConflictException": (ThrottledError, "repeat"),
    "TransactionCanceledException": (ThrottledError, "repeat"),
    "TransactionInProgressException": (ThrottledError, "repeat"),
    "AccessDeniedException": (PermissionDeniedError, _RIGHTS),
    "UnrecognizedClientException": (PermissionDeniedError, _RIGHTS),
    "InvalidSignatureException": (PermissionDeniedError, _RIGHTS),
    "IncompleteSignatureException": (PermissionDeniedError, _RIGHTS),
    "MissingAuthenticationTokenException": (PermissionDeniedError, _RIGHTS),
    "ExpiredTokenException": (PermissionDeniedError, _RIGHTS),
    "ResourceInUseException": (AlreadyExistsError, "it is being made or changed"),
    "ResourceNotFoundException": (NotFoundError, "the table is gone: restore it from a backup"),
}


class ConditionFailed(Exception):
    """The condition on the item does not hold. Only the driver uses this exception."""


class Table(NamedTuple):
    """The fields of ``dynamodb://table?region=eu-central-1&endpoint=http://127.0.0.1:8000``."""

    name: str
    region: str = ""
    endpoint: str = ""

    @classmethod
    def parse(cls, uri: str) -> "Table":
        """Read a URI."""
        parts = urlsplit(uri)
        parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
        # the message does not show the URI, which may contain a secret key
        if not parts.netloc or "@" in parts.netloc or parts.path not in {"", "/"}:
            raise InvalidInputError(
                "cannot read the DynamoDB URI: give dynamodb://table?region=eu-central-1; "
                "credentials come from the usual AWS settings"
            )
        if "@" in parameters.get("endpoint", ""):
            raise InvalidInputError(
                "the endpoint of the DynamoDB URI holds a user: credentials come from the usual AWS "
                "settings"
            )
        if unknown := sorted(set(parameters) - {"region", "endpoint"}):
            raise InvalidInputError(f"dynamodb:// has no {unknown}: give region and endpoint")
        return cls(parts.netloc, **parameters)


class DynamoDBClient:
    """Calls for one table. Threads share the client. A forked child gets its own connections."""

    def __init__(
        self, table: Table, clock: Clock, ids: IdSource, no_progress_s: float = NO_PROGRESS_S
    ) -> None:
        self._table = table
        self._retrier = Retrier(
            clock,
            ids,
            limit_s=no_progress_s,
            first_wait_s=_FIRST_PAUSE,
            longest_wait_s=_LONGEST_PAUSE,
        )
        self._making = Lock()
        self._client: Any = None
        watch(self)

    def call(self, operation: str, *, conditional: bool = False, **parameters: Any) -> Any:
        """Send a request. Send it again if it was not executed or is safe to repeat.

        Args:
            conditional: Whether a repetition could see the write of the first request.
        """
        attempts = self._retrier.attempts(f"{operation} on DynamoDB table {self._table.name}")
        while True:
            try:
                with held_off:
                    reply = getattr(self._connected(), operation)(**parameters)
            except (boto.BotoCoreError, boto.ClientError, ValueError) as error:
                failure = self._translated(operation, error, conditional=conditional)
                again = isinstance(failure, BackendUnavailableError | ThrottledError)
                if not again:
                    attempts.gave_up()
                    raise failure from error
                if not attempts.again(failure):
                    raise failure from error
            else:
                attempts.succeeded()
                return reply

    def close(self) -> None:
        """Close the connections."""
        with self._making:
            if self._client is not None:
                self._client.close()

    def after_fork_in_child(self) -> None:
        """Discard the parent's connections without closing them."""
        abandon(self._client)
        self._client = None
        self._making = Lock()

    def _connected(self) -> Any:
        with self._making:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _connect(self) -> Any:
        try:
            # boto3.client uses the default session, with the settings of the program. Creating a
            # client is not thread-safe.
            with aws.MAKING:
                return boto3.client(
                    "dynamodb",
                    endpoint_url=self._table.endpoint or None,
                    region_name=self._table.region or None,
                    config=Config(
                        retries={"mode": "standard", "total_max_attempts": 1},
                        connect_timeout=self._retrier.try_s,
                        read_timeout=self._retrier.try_s,
                        max_pool_connections=32,
                    ),
                )
        except (boto.BotoCoreError, ValueError) as error:
            raise self._translated("connect", error, conditional=False) from error

    def _translated(
        self, operation: str, error: Exception, *, conditional: bool
    ) -> GravelerError | ConditionFailed:
        what = f"{operation} on DynamoDB table {self._table.name}: {error}"
        if isinstance(error, boto.ClientError):
            return _refused(error, what, conditional=conditional)
        if isinstance(error, aws.NO_CREDENTIALS):
            return PermissionDeniedError(f"{what}; {aws.CREDENTIALS}")
        if isinstance(error, aws.BAD_ARGUMENT):
            return InvalidInputError(f"{what}; fix the URI: dynamodb://table?region=eu-central-1")
        if conditional and not isinstance(error, aws.NEVER_SENT):
            return OutcomeUnknownError(f"{what}; the reply was lost, read back")
        return BackendUnavailableError(f"{what}; check endpoint and network, and repeat")


def pause(attempt: int, clock: Clock, ids: IdSource) -> None:
    """Wait before the next attempt, for a random time below a bound that doubles."""
    backoff(clock, ids, attempt - 1, first_s=_FIRST_PAUSE, longest_s=_LONGEST_PAUSE)


def _refused(
    error: boto.ClientError, what: str, *, conditional: bool
) -> GravelerError | ConditionFailed:
    refusal = aws.Refusal.of(error)
    code, broken = refusal.code, refusal.is_broken
    if code == "ConditionalCheckFailedException":
        return ConditionFailed(what)
    if broken and conditional and code not in _CODES:
        return OutcomeUnknownError(f"{what}; it may have been written, read back")
    kind, hint = _CODES.get(
        code, (BackendUnavailableError, "repeat") if broken else (InternalError, code)
    )
    return kind(f"{what}; {hint}")
