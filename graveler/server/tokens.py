"""The token that a client needs to use the server."""

import hmac
import re
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from graveler.base.arguments import text
from graveler.errors import InvalidInputError
from graveler.iam.access import SERVER, Access, Identity

# names that Hadoop's client accepts for a user: Spark sends the token as the user's name
_FORM = re.compile(r"[A-Za-z_][A-Za-z0-9._-]*")
_LEAST = 16
_MOST = 1024
GRANT = "/token"
"""The path where a client exchanges its secret for the token by OAuth 2; here both are the same."""
_PROVIDER = "org.apache.hadoop.hdfs.web.oauth2.ConfCredentialBasedAccessTokenProvider"
TOKEN_VARIABLE = "GRAVELER_GATEWAY_TOKEN"  # noqa: S105 - a name
_LIFE_SECONDS = 86_400
_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - a name
_SCHEMES = frozenset({"bearer", "oauth2"})


def new_token() -> str:
    """Return a fresh token."""
    return f"grav{secrets.token_hex(16)}"


def check_token(token: str) -> str:
    """Return the token if clients can send it."""
    if not _LEAST <= len(text(token, "token", empty=True)) <= _MOST or not _FORM.fullmatch(token):
        raise InvalidInputError(
            f"a token of {len(token)} characters: give {_LEAST} to {_MOST} of A-Z, a-z, 0-9, '_', '.' "
            "and '-', starting with a letter or '_', because Hadoop's client sends it as a user's name"
        )
    return token


def spark_settings(address: str, token: str) -> dict[str, str]:
    """Return the settings of a Spark session that let it use a server.

    Args:
        address: The address of the server, ``webhdfs://host:port/``; ``swebhdfs://host:port/``
            if a proxy in front of it speaks TLS.
        token: Its token.

    Raises:
        InvalidInputError: The address is not that of a server, or the token is none.
    """
    check_token(token)
    name = "spark.hadoop.dfs.webhdfs.oauth2"
    url = urlsplit(text(address, "address"))
    if url.scheme not in {"webhdfs", "swebhdfs"} or not url.netloc:
        raise InvalidInputError(f"address={address!r}: give webhdfs://host:port/")
    scheme = "https" if url.scheme == "swebhdfs" else "http"
    return {
        f"{name}.enabled": "true",
        f"{name}.access.token.provider": _PROVIDER,
        f"{name}.client.id": "graveler",
        f"{name}.credential": token,
        f"{name}.refresh.url": f"{scheme}://{url.netloc}{GRANT}",
    }


class TokenCheck:
    """Finds who sends a request: a user by a token, or the holder of the server's own token.

    The server's token ends when the lake has users.

    Args:
        token: The server's token.
        access: The users of the lake.
    """

    def __init__(self, token: str, access: Access) -> None:
        self._token = token.encode()
        self._access = access

    def identify(self, query: Mapping[str, str], authorization: str) -> Identity | None:
        """Return who sends a request, by the first token that is valid; None without one."""
        scheme, _, bearer = authorization.partition(" ")
        shown = bearer if scheme.lower() in _SCHEMES else ""
        tokens = (shown, query.get("delegation", ""), query.get("user.name", ""))
        return next(filter(None, map(self._of, filter(_FORM.fullmatch, tokens))), None)

    def grant(self, form: bytes) -> dict[str, Any]:
        """Return the answer to a client that sends its secret, with an ``error`` if it gets no token."""
        fields = dict(parse_qsl(form.decode("utf-8", "replace")))
        secret = fields.get("client_secret", "")
        found = self._of(secret)
        if found is None:
            return {
                "error": "invalid_client",
                "error_description": "the secret is missing, wrong, revoked or expired: it is a token "
                "of `graveler token create`, or that of the server",
            }
        left = self._access.seconds_left(found) if found.token else _LIFE_SECONDS
        return {
            "access_token": secret,
            "token_type": "Bearer",
            "issued_token_type": _ACCESS_TOKEN,
            "expires_in": min(left, _LIFE_SECONDS),
        }

    def _of(self, token: str) -> Identity | None:
        if not self._access.has_users():
            right = hmac.compare_digest(token.encode("utf-8", "replace"), self._token)
            return SERVER if right else None
        return self._access.identify(token) if len(token) >= _LEAST else None
