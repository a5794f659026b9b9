"""Shared parts of the AWS drivers: the creation of boto3 clients, and the kinds of their errors.

Drivers import this module together with boto3, so that each can name its missing extra.
"""

from http import HTTPStatus
from threading import Lock
from typing import NamedTuple

from botocore import exceptions as boto

MAKING = Lock()
"""The lock for creating a client of any service: boto3 uses one session for the whole process."""

NO_CREDENTIALS = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.CredentialRetrievalError,
    boto.TokenRetrievalError,
    boto.SSOError,
    boto.ProfileNotFound,
)
NEVER_SENT = (boto.EndpointConnectionError, boto.ConnectTimeoutError)
BAD_ARGUMENT = (
    boto.ParamValidationError,
    boto.InvalidRegionError,
    boto.NoRegionError,
    ValueError,
)

CREDENTIALS = "set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"


class Refusal(NamedTuple):
    """The refusal of a request by a service.

    Attributes:
        code: The name of the error, or "".
        status: The HTTP status, or 0.
    """

    code: str
    status: int

    @classmethod
    def of(cls, error: boto.ClientError) -> "Refusal":
        """Return the refusal in an error of the library."""
        code = error.response.get("Error", {}).get("Code", "")
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return cls(str(code), int(status))

    @property
    def is_broken(self) -> bool:
        """Whether the service failed, and not the request."""
        return self.status >= HTTPStatus.INTERNAL_SERVER_ERROR
