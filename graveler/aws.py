"""What the drivers for AWS share of boto3: how a client is made, and the kinds of its errors.

Drivers import it where they import boto3, so that each names the extra that is missing.
"""

from http import HTTPStatus
from threading import Lock
from typing import Final, NamedTuple

from botocore import exceptions as boto

MAKING: Final = Lock()
"""Held while a client is made, of any service: boto3 makes them by a session of the whole process."""

NO_CREDENTIALS: Final = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.CredentialRetrievalError,
    boto.TokenRetrievalError,
    boto.ProfileNotFound,
)
NEVER_SENT: Final = (boto.EndpointConnectionError, boto.ConnectTimeoutError)
BAD_ARGUMENT: Final = (
    boto.ParamValidationError,
    boto.InvalidRegionError,
    boto.NoRegionError,
    ValueError,
)

CREDENTIALS: Final = "set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"


class Refusal(NamedTuple):
    """What a service says when it refuses a request.

    Attributes:
        code: The name of the error; "" if there is none.
        status: That of HTTP; 0 if there is none.
    """

    code: str
    status: int

    @classmethod
    def of(cls, error: boto.ClientError) -> "Refusal":
        """Return what an error of the library has."""
        code = error.response.get("Error", {}).get("Code", "")
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return cls(str(code), int(status))

    @property
    def is_broken(self) -> bool:
        """Whether the service has failed, and not the request."""
        return self.status >= HTTPStatus.INTERNAL_SERVER_ERROR
