"""The token that a client needs to use the server."""

import hmac
import re
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from graveler.base.arguments import text
from graveler.errors import InvalidInputError

# names that Hadoop's client accepts for a user: Spark sends the token as the user's name
_FORM = re.compile(r"[A-Za-z_][A-Za-z0-9._-]*")
_LEAST = 16
_MOST = 1024
GRANT = "/token"
"""The path where a client exchanges its secret for the token by OAuth 2; here both are the same."""
_PROVIDER = "org.apache.hadoop.hdfs.web.oauth2.ConfCredentialBasedAccessTokenProvider"
_LIFE_SECONDS = 86_400


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
    """Compares tokens with the right one in constant time."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    def admits(self, query: Mapping[str, str], authorization: str) -> bool:
        """Return whether a request has the token, in any place where it may have it."""
        scheme, _, bearer = authorization.partition(" ")
        return any(
            [
                self._is_right(query.get("user.name", "")),
                self._is_right(query.get("delegation", "")),
                scheme.lower() == "bearer" and self._is_right(bearer),
            ]
        )

    def grant(self, form: bytes) -> dict[str, Any] | None:
        """Return the answer to a client that sends its secret; None if the secret is wrong."""
        fields = dict(parse_qsl(form.decode("utf-8", "replace")))
        secret = fields.get("client_secret", "")
        if not self._is_right(secret):
            return None
        return {"access_token": secret, "token_type": "Bearer", "expires_in": _LIFE_SECONDS}

    def _is_right(self, text: str) -> bool:
        return hmac.compare_digest(text.encode("utf-8", "replace"), self._token)
