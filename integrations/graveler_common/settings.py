"""The settings of a lake in the connections or resources of an orchestrator."""

import json
import re
import secrets
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any
from urllib.parse import quote, urlsplit

from graveler.base.privacy import shown_uri
from graveler.config import ENVIRONMENT_LAKE, set_environment
from graveler.errors import InvalidInputError
from graveler.kv.registry import DRIVERS, check_driver

OBJECT_SCHEMES = ("s3", "s3a", "s3n", "file", "gs", "abfs", "abfss", "http", "https")
_KEY = secrets.token_bytes(16)  # so that no name is the hash of a password alone


def settings_location(settings: Mapping[str, Any]) -> str:
    """Put settings into this process's environment; return the location of their lake.

    The location has no secret, and programs that this process starts can use it too.
    """
    text = json.dumps(settings, sort_keys=True)
    digest = blake2b(text.encode(), key=_KEY, digest_size=4).hexdigest()
    store = re.sub(r"[^A-Za-z0-9]+", "_", shown_uri(settings["kv"]["uri"]).partition("?")[0])
    name = f"GRAVELER_{store.strip('_')[:80]}_{digest}".upper()
    set_environment(name, text)
    return f"{ENVIRONMENT_LAKE}{name}"


def lake_settings(
    kv: str,
    storage: str,
    *,
    s3: Mapping[str, Any],
    cache: Mapping[str, Any],
    limits: Mapping[str, Any],
    what: str,
) -> dict[str, Any]:
    """Return the settings of a lake whose stores are servers; empty values are left out.

    No text in them is replaced: neither a variable nor the output of a command.
    """
    if not storage:
        raise InvalidInputError(
            f"{what} has no storage: set 'storage' to s3://bucket/prefix or file:///folder, where "
            "new repositories keep their objects"
        )
    if s3 and not storage.startswith("s3"):
        raise InvalidInputError(f"{what}: {', '.join(s3)} are settings of S3, not of {storage}")
    settings = {
        "kv": {"uri": _literal(kv)},
        "storage": {"uri": _literal(storage)},
        "s3": {name: _literal(value) for name, value in s3.items()},
        "cache": dict(cache),
        "limits": dict(limits),
    }
    return {name: table for name, table in settings.items() if table}


def _literal(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text.replace("${", "$${")


def kv_uri(uri: str, user: str = "", password: str = "", *, what: str) -> str:
    """Return the URI of a key-value store with a user and a password in it."""
    scheme, _, rest = uri.partition("://")
    if scheme in OBJECT_SCHEMES:
        raise InvalidInputError(
            f"{what} {shown_uri(uri)} is an object store: it is the storage; the key-value store "
            "is postgresql://host/database, for instance"
        )
    driver = DRIVERS[check_driver(uri)]
    try:
        given = urlsplit(uri)
        given_user, given_password = given.username or "", given.password
    except ValueError:
        raise InvalidInputError(f"{what}: {shown_uri(uri)} cannot be read as a URI") from None
    if given_password or "@" in rest.partition("/")[2]:
        raise InvalidInputError(
            f"{what} {shown_uri(uri)} holds a password, which is shown there: leave it out, and "
            "give it as the password"
        )
    if not (user or password):
        return uri
    if not driver.login:
        raise InvalidInputError(
            f"{what} {shown_uri(uri)} takes no login and password: leave them empty"
        )
    if given_user and user and quote(user, safe="") != given_user:
        raise InvalidInputError(
            f"{what} {shown_uri(uri)} names a user, and the login is another: leave one out"
        )
    login = given_user or quote(user, safe="")
    if not login:
        raise InvalidInputError(f"{what}: a password without a login: give both")
    secret = f":{quote(password, safe='')}" if password else ""
    return f"{scheme}://{login}{secret}@{rest.rpartition('@')[2]}"
