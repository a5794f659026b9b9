"""The connection: where the lake is."""

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk import BaseHook, Connection

import graveler
from graveler.errors import GravelerError, InvalidInputError
from graveler.lake import Lake, Repository

__all__ = ["GravelerHook"]


class GravelerHook(BaseHook):
    """Opens the lake of a connection of type ``graveler``.

    The connection's host is what ``graveler.open`` takes: the folder of the lake or the path
    of a ``graveler.toml``. Its extra ``repo`` names the repository to use where none is named.
    Credentials of an object store are the workers' own (environment, instance role).

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

    @property
    def location(self) -> str:
        """Where the lake is.

        Raises:
            InvalidInputError: The connection does not say.
        """
        return self._location_of(self.get_connection(self.graveler_conn_id))

    async def aget_location(self) -> str:
        """Return where the lake is, for a trigger, which must not wait for the answer.

        Raises:
            InvalidInputError: The connection does not say.
        """
        return self._location_of(await self.aget_connection(self.graveler_conn_id))

    def _location_of(self, connection: Connection) -> str:
        location = connection.host or connection.extra_dejson.get("lake")
        if not location:
            raise InvalidInputError(
                f"connection {self.graveler_conn_id!r} names no lake: set its host to the "
                "lake's folder or to a graveler.toml"
            )
        return str(location)

    @property
    def default_repository(self) -> str:
        """The repository that the connection names, or ""."""
        return str(self.get_connection(self.graveler_conn_id).extra_dejson.get("repo") or "")

    def get_lake(self) -> Lake:
        """Open the lake; the caller closes it."""
        return graveler.open(self.location)

    def get_conn(self) -> Lake:
        """Open the lake, under the name that Airflow's hooks have for it."""
        return self.get_lake()

    @contextmanager
    def repository(self, name: str = "") -> Iterator[Repository]:
        """Open a repository of the lake (the connection's where not named) for a ``with`` block.

        Raises:
            InvalidInputError: Neither the call nor the connection names one.
            RepositoryNotFoundError: There is none of that name.
        """
        name = name or self.default_repository
        if not name:
            raise InvalidInputError(
                f"no repository: name one, or set the extra 'repo' of {self.graveler_conn_id!r}"
            )
        with self.get_lake() as lake:
            yield lake.repository(name)

    def test_connection(self) -> tuple[bool, str]:
        """Return whether the lake can be opened, and what is in it."""
        try:
            with self.get_lake() as lake:
                found = ", ".join(lake.repositories()) or "no repository yet"
                return True, f"{lake.location}: {found}"
        except GravelerError as error:
            return False, str(error)
