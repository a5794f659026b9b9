"""The connection: the lake, the default terms of its runs, and the errors without a retry."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import timedelta
from functools import cached_property
from typing import Any
from urllib.parse import quote

from airflow.sdk import BaseHook, Connection
from airflow.sdk.configuration import conf
from airflow.sdk.log import mask_secret

from graveler.base.arguments import expand_home
from graveler.base.privacy import is_uri, shown_uri
from graveler.config import LakeConfig, is_environment_lake, load_config
from graveler.errors import InvalidInputError
from graveler.lake import Lake, Repository
from graveler.objects.registry import open_store
from graveler_airflow.lineage.hooks import HookLineage, LineageRepository
from graveler_airflow.lineage.naming import DEFAULT_CONNECTION
from graveler_common.lakes import open_lake
from graveler_common.settings import kv_uri, lake_settings, settings_location

_KEYS = ("access_key", "secret_key", "session_token", "role_arn", "external_id")
_S3 = ("endpoint_url", "region", "path_style", *_KEYS)
_CACHE = {"cache": "folder", "cache_max_bytes": "max_bytes"}
_LIMITS = ("no_progress_seconds",)
_OF_SETTINGS = ("storage", "aws_conn_id", *_S3, *_CACHE, *_LIMITS)
EXTRAS = ("lake", "repo", "lease_minutes", "ttl_days", *_OF_SETTINGS)
"""The names that the extra of a connection may have."""

_AWS_IDENTITIES = ("profile_name", "assume_role_kwargs", "assume_role_with_web_identity")


class GravelerHook(BaseHook):
    """Opens the lake of a connection of type ``graveler``.

    The connection's host is the folder of the lake, the path of a ``graveler.toml`` as for
    ``graveler.open``, or the URI of its key-value store (``postgresql://host/database``). With such
    a URI, login and password are those of the database, and the extra has the rest: ``storage``
    (``s3://bucket/prefix``), the keys of the store (``access_key``, ``secret_key``,
    ``session_token``, ``endpoint_url``, ``region``, ``path_style``) or the ``aws_conn_id`` that
    has them, ``cache`` and ``cache_max_bytes``, ``no_progress_seconds``.

    In every extra, ``repo`` is the default repository. ``lease_minutes`` and ``ttl_days`` override
    the settings of the same names in Airflow's section ``[graveler]``.

    Args:
        graveler_conn_id: The id of the connection.
    """

    conn_name_attr = "graveler_conn_id"
    default_conn_name = DEFAULT_CONNECTION
    conn_type = "graveler"
    hook_name = "Graveler"

    def __init__(self, graveler_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.graveler_conn_id = graveler_conn_id

    @cached_property
    def connection(self) -> Connection:
        """The connection, which is looked up once."""
        return self.get_connection(self.graveler_conn_id)

    @property
    def extras(self) -> dict[str, Any]:
        """The extra of the connection, without empty fields of its form."""
        what, extras = f"connection {self.graveler_conn_id!r}", self.connection.extra_dejson
        if unknown := sorted(set(extras) - set(EXTRAS)):
            raise InvalidInputError(f"{what}: unknown extra {unknown}; known are {sorted(EXTRAS)}")
        return {name: value for name, value in extras.items() if value not in (None, "")}

    @property
    def location(self) -> str:
        """The lake's location, for ``graveler.open`` in this process; it holds no secret."""
        aws_id = self.extras.get("aws_conn_id")
        aws = self.get_connection(aws_id) if aws_id else None
        return _location(self.connection, self.extras, aws)

    async def aget_location(self) -> str:
        """Return the lake's location, for a trigger, which must not block."""
        self.connection = await self.aget_connection(self.graveler_conn_id)
        aws_id = self.extras.get("aws_conn_id")
        aws = await self.aget_connection(aws_id) if aws_id else None
        return _location(self.connection, self.extras, aws)

    @property
    def default_repository(self) -> str:
        """The repository that the connection names, or ""."""
        return str(self.extras.get("repo") or "")

    @property
    def lease(self) -> timedelta:
        """How long a run may be silent, as between two tasks, before it counts as dead."""
        return timedelta(minutes=self._number("lease_minutes"))

    @property
    def ttl(self) -> timedelta:
        """How long a parked run is kept for a newer attempt."""
        return timedelta(days=self._number("ttl_days"))

    def _number(self, name: str) -> float:
        given = self.extras.get(name) or conf.get("graveler", name)
        try:
            number = float(given)
        except (TypeError, ValueError):
            number = 0
        if not 0 < number < 1e6:
            raise InvalidInputError(
                f"{name} {given!r} of connection {self.graveler_conn_id!r} or of the section "
                "[graveler]: give a number above 0"
            )
        return number

    def get_conn(self) -> Lake:
        """Open the lake; the caller closes it.

        Raises:
            BackendUnavailableError: There is none, or it cannot be reached now.
        """
        return open_lake(self.location)

    async def aget_conn(self) -> Lake:
        """Open the lake, for a trigger, which must not block; the caller closes it."""
        return await asyncio.to_thread(open_lake, await self.aget_location())

    @contextmanager
    def repository(self, name: str = "") -> Iterator[Repository]:
        """Open a repository of the lake, by default the connection's, for a ``with`` block.

        Reads and commits in the block become hook lineage.

        Raises:
            InvalidInputError: Neither the call nor the connection names one.
            RepositoryNotFoundError: There is none of that name.
            BackendUnavailableError: There is no lake, or it cannot be reached now.
        """
        with self.opened(name) as repository:
            yield LineageRepository.of(repository, HookLineage(self, self.graveler_conn_id))

    @contextmanager
    def opened(self, name: str = "", location: str = "") -> Iterator[Repository]:
        """Open a repository as `repository` does, but without hook lineage."""
        name = name or self.default_repository
        if not name:
            raise InvalidInputError(
                f"no repository: name one, or set the extra 'repo' of connection "
                f"{self.graveler_conn_id!r}"
            )
        with open_lake(location or self.location) as lake:
            yield lake.repository(name)

    def test_connection(self) -> tuple[bool, str]:
        """Return whether both stores and the default repository can be read, and a message.

        Airflow calls it for the button "Test" of a connection. It changes nothing.
        """
        try:
            _ = self.lease, self.ttl  # an invalid setting raises
            with self.get_conn() as lake:
                names = ", ".join(lake.repositories())
                if name := self.default_repository:
                    repository = lake.repository(name)
                    next(repository.branches(), None)
                    next(iter(repository.stores.objects.list("data/")), None)
                settings = load_config(lake.location)
                place = lake.location
                if is_environment_lake(place):
                    place = f"{shown_uri(settings.kv_uri)} with {shown_uri(settings.storage_uri)}"
                    _check_storage(settings)
                return True, f"{place}: {names or 'no repository yet'}"
        except Exception as error:  # noqa: BLE001 - the form shows every error
            return False, f"{type(error).__name__}: {error}"


def _check_storage(settings: LakeConfig) -> None:
    """Read from the object store of new repositories, which the first repository needs."""
    uri, limit = settings.storage_uri, settings.no_progress_s
    with closing(open_store(uri, settings.options_of(uri), no_progress_s=limit)) as store:
        next(iter(store.list("")), None)


def _location(
    connection: Connection, extras: Mapping[str, Any], aws: Connection | None = None
) -> str:
    """Return the location of a connection's lake; its secrets are masked in every log."""
    what = f"connection {connection.conn_id!r}"
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
    extras = aws.extra_dejson
    method = extras.get("assume_role_method", "assume_role")
    others = [name for name in _AWS_IDENTITIES if extras.get(name)]
    if method != "assume_role" or others:
        raise InvalidInputError(
            f"connection {aws.conn_id!r} takes its identity by {', '.join(others) or method}: graveler "
            "uses keys, assumes roles by 'assume_role', or takes the AWS settings of the worker (leave "
            "aws_conn_id out)"
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
        for text in tuple(texts):
            in_quotes = text.replace("\\", "\\\\").replace("'", "\\'")
            in_json = (json.dumps(text, ensure_ascii=ascii) for ascii in (True, False))
            texts |= {in_quotes, *(quoted[1:-1] for quoted in (*in_json, repr(text)))}
    return texts
