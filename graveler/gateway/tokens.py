"""The token by which a client proves that it may use the gateway."""

import hmac
import re
import secrets
from typing import Final

from graveler.errors import InvalidInputError

_BEARER: Final = "Bearer "
# what Hadoop's client accepts as a user's name, which is where Spark carries the token
_FORM: Final = re.compile(r"[A-Za-z_][A-Za-z0-9._-]*")
_LEAST: Final = 16


def new_token() -> str:
    """Return a fresh token."""
    return f"grav{secrets.token_hex(16)}"


def check_token(token: str) -> str:
    """Return the token if clients can send it.

    Raises:
        InvalidInputError: It is too short, or no name that Hadoop's client accepts for a user.
    """
    if len(token) < _LEAST or not _FORM.fullmatch(token):
        raise InvalidInputError(
            f"a token of {len(token)} characters: give {_LEAST} or more of A-Z, a-z, 0-9, '_', '.' "
            "and '-', starting with a letter or '_', for Hadoop's client sends it as a user's name"
        )
    return token


class TokenCheck:
    """Compares tokens with the right one, in a time that does not depend on them.

    Args:
        token: The right one.
    """

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    def admits(self, query: dict[str, str], authorization: str) -> bool:
        """Return whether one of the places where a request may carry the token has it.

        Args:
            query: The parameters of the request.
            authorization: Its ``Authorization`` header, or "".
        """
        bearer = authorization.removeprefix(_BEARER) if authorization.startswith(_BEARER) else ""
        given = (query.get("user.name", ""), query.get("delegation", ""), bearer)
        return any(
            hmac.compare_digest(text.encode("utf-8", "replace"), self._token) for text in given
        )
