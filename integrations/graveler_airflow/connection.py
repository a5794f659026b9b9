"""The location of the lake of an Airflow connection."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from airflow.sdk import Connection
from airflow.sdk.log import mask_secret

from graveler.base.arguments import expand_home
from graveler.base.privacy import is_uri
from graveler.config import is_environment_lake
from graveler.errors import InvalidInputError
from graveler_common.settings import kv_uri, lake_settings, settings_location

_S3 = (
    "endpoint_url",
    "region",
    "access_key",
    "secret_key",
    "session_token",
    "role_arn",
    "external_id",
    "path_style",
)
_KEYS = ("access_key", "secret_key", "session_token", "role_arn", "external_id")
_CACHE = {"cache": "folder", "cache_max_bytes": "max_bytes"}
_LIMITS = ("no_progress_seconds",)
_OF_SETTINGS = ("storage", "aws_conn_id", *_S3, *_CACHE, *_LIMITS)
EXTRAS = ("lake", "repo", "lease_minutes", "ttl_days", *_OF_SETTINGS)
"""The names that the extra of a connection may have."""

_AWS_IDENTITIES = ("profile_name", "assume_role_kwargs", "assume_role_with_web_identity")


def extras_of(connection: Connection) -> dict[str, Any]:
    """Return the extra of a connection, without empty fields of its form.

    Raises:
        InvalidInputError: The extra has an unknown name.
    """
    what = f"connection {connection.conn_id!r}"
    extras = connection.extra_dejson
    if unknown := sorted(set(extras) - set(EXTRAS)):
        raise InvalidInputError(f"{what}: unknown extra {unknown}; known are {sorted(EXTRAS)}")
    return {name: value for name, value in extras.items() if value not in (None, "")}


def location_of(connection: Connection, aws: Connection | None = None) -> str:
    """Return the location of a connection's lake; its secrets are masked in every log.

    Args:
        connection: The connection.
        aws: The connection that its extra ``aws_conn_id`` names.

    Raises:
        InvalidInputError: The connection names no lake, or contradicts itself.
    """
    what = f"connection {connection.conn_id!r}"
    extras = extras_of(connection)
    host = str(connection.host or extras.get("lake") or "")
    if not host:
        raise InvalidInputError(
            f"{what} names no lake: set its host to the lake's folder, to a graveler.toml, or to "
            "the URI of a key-value store (postgresql://host/database) with the extra 'storage'"
        )
    for name, value in {"port": connection.port, "schema": connection.schema}.items():
        if value:
            raise InvalidInputError(
                f"{what} has a {name}, {value!r}: put it into the host, as in "
                "postgresql://host:5432/database"
            )
    if is_uri(host):
        settings = _settings(connection, host, extras, aws)
        _mask(settings, connection.password or "")
        return settings_location(settings)
    given: list[str] = [name for name in _OF_SETTINGS if name in extras]
    if connection.login or connection.password:
        given += ["login, password"]
    if given:
        raise InvalidInputError(
            f"{what}: {', '.join(given)} belong to a lake whose host is a URI; the lake at {host} "
            "has them in its graveler.toml"
        )
    if not (is_environment_lake(host) or expand_home(host).is_absolute()):
        raise InvalidInputError(
            f"{what}: the host {host!r} is a relative path, which is another folder for each "
            "worker: give an absolute path, or the URI of a key-value store"
        )
    return host


def _settings(
    connection: Connection, host: str, extras: Mapping[str, Any], aws: Connection | None
) -> dict[str, Any]:
    what = f"connection {connection.conn_id!r}"
    uri = kv_uri(host, connection.login or "", connection.password or "", what=f"{what}: the host")
    s3 = {name: extras[name] for name in _S3 if name in extras}
    if aws is not None:
        if keys := [name for name in _KEYS if name in s3]:
            raise InvalidInputError(f"{what} has aws_conn_id and {', '.join(keys)}: leave one out")
        s3 = {**_s3_of(aws), **s3}
    return lake_settings(
        uri,
        str(extras.get("storage", "")),
        s3=s3,
        cache={name: extras[extra] for extra, name in _CACHE.items() if extra in extras},
        limits={name: extras[name] for name in _LIMITS if name in extras},
        what=what,
    )


def _s3_of(aws: Connection) -> dict[str, Any]:
    """Return the settings of S3 in an AWS connection."""
    extras = aws.extra_dejson
    method = extras.get("assume_role_method", "assume_role")
    if method != "assume_role":
        raise InvalidInputError(
            f"connection {aws.conn_id!r} takes its identity by {method!r}: graveler assumes roles by "
            "'assume_role', or takes the AWS settings of the worker (leave aws_conn_id out)"
        )
    if identities := [name for name in _AWS_IDENTITIES if extras.get(name)]:
        raise InvalidInputError(
            f"connection {aws.conn_id!r} takes its identity from {', '.join(identities)}: graveler "
            "uses keys, or the AWS settings of the worker (leave aws_conn_id out)"
        )
    service = (extras.get("service_config") or {}).get("s3") or {}
    values = {
        "access_key": aws.login or extras.get("aws_access_key_id"),
        "secret_key": aws.password or extras.get("aws_secret_access_key"),
        "session_token": extras.get("aws_session_token"),
        "role_arn": extras.get("role_arn"),
        "external_id": extras.get("external_id"),
        "region": extras.get("region_name"),
        "endpoint_url": service.get("endpoint_url") or extras.get("endpoint_url"),
    }
    return {name: value for name, value in values.items() if value}


def _mask(settings: Mapping[str, Any], password: str) -> None:
    s3 = settings.get("s3", {})
    for secret in (password, s3.get("secret_key"), s3.get("session_token")):
        for spelling in spellings(secret) if secret else ():
            mask_secret(spelling)


def spellings(secret: str) -> set[str]:
    """Return the spellings of a secret in URIs, JSON, Python literals, and texts within these."""
    texts = {secret, quote(secret, safe="")}
    for _ in range(2):
        texts.update(*(_escaped(text) for text in texts))
    return texts


def _escaped(text: str) -> tuple[str, ...]:
    unicode = json.dumps(text, ensure_ascii=False)[1:-1]
    in_quotes = text.replace("\\", "\\\\").replace("'", "\\'")
    return json.dumps(text)[1:-1], unicode, repr(text)[1:-1], in_quotes
