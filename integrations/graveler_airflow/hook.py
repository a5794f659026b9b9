"""The connection: where the lake is, and on which terms runs are opened there."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from typing import Any

from airflow.sdk import BaseHook, Connection
from airflow.sdk.configuration import conf

from graveler.config import lake_path
from graveler.errors import InvalidInputError
from graveler.lake import Lake, Repository
from graveler_airflow.lakes import open_lake

__all__ = ["GravelerHook"]


class GravelerHook(BaseHook):
    """Opens the lake of a connection of type ``graveler``.

    The connection's host is what ``graveler.open`` takes: the folder of the lake or the path
    of a ``graveler.toml``. In its extra, ``repo`` names the repository to use where none is
    named, and ``lease_minutes`` and ``ttl_days`` go before the settings of the same names in
    Airflow's section ``[graveler]``. Credentials of an object store are the workers' own
    (environment, instance role).

    Args:
        graveler_conn_id: Id of the connection.
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
        """The connection, looked up once."""
        return self.get_connection(self.graveler_conn_id)

    @property
    def location(self) -> str:
        """Where the lake is.

        Raises:
            InvalidInputError: The connection does not say, or names a URI.
        """
        return self._location_of(self.connection)

    async def aget_location(self) -> str:
        """Return where the lake is, for a trigger, which must not wait for the answer.

        Raises:
            InvalidInputError: The connection does not say, or names a URI.
        """
        return self._location_of(await self.aget_connection(self.graveler_conn_id))

    def _location_of(self, connection: Connection) -> str:
        location = connection.host or connection.extra_dejson.get("lake")
        if not location:
            raise InvalidInputError(
                f"connection {self.graveler_conn_id!r} names no lake: set its host to the "
                "lake's folder or to a graveler.toml"
            )
        try:
            lake_path(str(location))
        except InvalidInputError as error:
            raise InvalidInputError(f"connection {self.graveler_conn_id!r}: {error}") from None
        return str(location)

    @property
    def default_repository(self) -> str:
        """The repository that the connection names, or ""."""
        return str(self.connection.extra_dejson.get("repo") or "")

    @property
    def lease(self) -> timedelta:
        """How long a run may be silent, between two tasks say, before it counts as dead."""
        return timedelta(minutes=self._number("lease_minutes"))

    @property
    def ttl(self) -> timedelta:
        """How long a parked run is kept for a newer attempt."""
        return timedelta(days=self._number("ttl_days"))

    def _number(self, name: str) -> float:
        given = self.connection.extra_dejson.get(name) or conf.get("graveler", name)
        try:
            number = float(given)
        except (TypeError, ValueError):
            number = 0
        if not 0 < number < 1e6:
            raise InvalidInputError(
                f"{name} {given!r} of {self.graveler_conn_id!r} or of the section [graveler]: "
                "give a number above 0"
            )
        return number

    def get_lake(self) -> Lake:
        """Open the lake; the caller closes it.

        Raises:
            BackendUnavailableError: There is none, or not now.
        """
        return open_lake(self.location)

    def get_conn(self) -> Lake:
        """Open the lake, under the name that Airflow's hooks have for it."""
        return self.get_lake()

    async def aget_conn(self) -> Lake:
        """Open the lake, for a trigger, which must not wait; the caller closes it."""
        return await asyncio.to_thread(open_lake, await self.aget_location())

    @contextmanager
    def repository(self, name: str = "") -> Iterator[Repository]:
        """Open a repository of the lake (the connection's where not named) for a ``with`` block.

        Raises:
            InvalidInputError: Neither the call nor the connection names one.
            RepositoryNotFoundError: There is none of that name.
            BackendUnavailableError: There is no lake, or not now.
        """
        name = name or self.default_repository
        if not name:
            raise InvalidInputError(
                f"no repository: name one, or set the extra 'repo' of {self.graveler_conn_id!r}"
            )
        with self.get_lake() as lake:
            yield lake.repository(name)

    def test_connection(self) -> tuple[bool, str]:
        """Return whether the lake, its repository and its store can be reached, and what is there.

        What the button of that name in the form asks for. Nothing is made or changed.
        """
        try:
            with self.get_lake() as lake:
                found = lake.repositories()
                if name := self.default_repository:
                    _look_at(lake.repository(name))
                self._check_terms()
                there = ", ".join(found) or "no repository yet"
                return True, f"{lake.location}: {there}"
        except Exception as error:  # noqa: BLE001 - whatever it is, the form shall say it
            return False, f"{type(error).__name__}: {error}"

    def _check_terms(self) -> tuple[Any, ...]:
        return self.lease, self.ttl


def _look_at(repository: Repository) -> None:
    """Read something from the key-value store and something from the object store."""
    next(repository.branches(), None)
    next(iter(repository.stores.objects.list("data/")), None)
