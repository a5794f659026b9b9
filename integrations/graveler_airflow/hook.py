"""The connection: the lake, the default terms of its runs, and the errors without a retry."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property

from airflow.sdk import BaseHook, Connection
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowFailException

from graveler.base.privacy import shown_uri
from graveler.config import LakeConfig, is_environment_lake, load_config
from graveler.errors import GravelerError, InvalidInputError
from graveler.lake import Lake, Repository
from graveler.objects.registry import open_store
from graveler_airflow.connection import extras_of, location_of
from graveler_airflow.lineage.hooks import HookLineage, LineageRepository
from graveler_common.lakes import is_final, open_lake


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
    default_conn_name = "graveler_default"
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
    def location(self) -> str:
        """The lake's location, for ``graveler.open`` in this process; it holds no secret.

        Raises:
            InvalidInputError: The connection names no lake, or contradicts itself.
        """
        aws_id = extras_of(self.connection).get("aws_conn_id")
        return location_of(self.connection, self.get_connection(aws_id) if aws_id else None)

    async def aget_location(self) -> str:
        """Return the lake's location, for a trigger, which must not block.

        Raises:
            InvalidInputError: The connection names no lake, or contradicts itself.
        """
        connection = await self.aget_connection(self.graveler_conn_id)
        aws_id = extras_of(connection).get("aws_conn_id")
        return location_of(connection, await self.aget_connection(aws_id) if aws_id else None)

    @property
    def default_repository(self) -> str:
        """The repository that the connection names, or ""."""
        return str(extras_of(self.connection).get("repo") or "")

    @property
    def lease(self) -> timedelta:
        """How long a run may be silent, as between two tasks, before it counts as dead."""
        return timedelta(minutes=self._number("lease_minutes"))

    @property
    def ttl(self) -> timedelta:
        """How long a parked run is kept for a newer attempt."""
        return timedelta(days=self._number("ttl_days"))

    def _number(self, name: str) -> float:
        given = extras_of(self.connection).get(name) or conf.get("graveler", name)
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
        """Open a repository as `repository` does, but without hook lineage.

        Args:
            name: The repository; the connection's if not given.
            location: The location of the lake, if the caller knows it.
        """
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
                    _check_readable(lake.repository(name))
                settings = load_config(lake.location)
                place = lake.location
                if is_environment_lake(place):
                    place = f"{shown_uri(settings.kv_uri)} with {shown_uri(settings.storage_uri)}"
                    _check_storage(settings)
                return True, f"{place}: {names or 'no repository yet'}"
        except Exception as error:  # noqa: BLE001 - the form shows every error
            return False, f"{type(error).__name__}: {error}"


def _check_readable(repository: Repository) -> None:
    """Read from the key-value store and from the object store."""
    next(repository.branches(), None)
    next(iter(repository.stores.objects.list("data/")), None)


def _check_storage(settings: LakeConfig) -> None:
    """Read from the object store of new repositories, which the first repository needs."""
    uri = settings.storage_uri
    store = open_store(uri, settings.options_of(uri), no_progress_s=settings.no_progress_s)
    try:
        next(iter(store.list("")), None)
    finally:
        store.close()


@contextmanager
def final_failures() -> Iterator[None]:
    """Turn errors for which a retry does not help into failures without a retry.

    The failure has the traceback and the cause of the error and replaces it. If the error were its
    cause, it would be in the task's log twice.
    """
    try:
        yield
    except GravelerError as error:
        if not is_final(error):
            raise
        failure = AirflowFailException(f"{error.code}: {error}")
        raise failure.with_traceback(error.__traceback__) from error.__cause__
