"""The lakes of Airflow's connections, as the web server finds them."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from airflow.models.connection import Connection
from airflow.sdk.exceptions import AirflowNotFoundException
from sqlalchemy import select
from sqlalchemy.orm import Session

from graveler.errors import GravelerError
from graveler.lake import Repository
from graveler_airflow.hook import GravelerHook
from graveler_common.lakes import open_lake


@dataclass(frozen=True, slots=True)
class Place:
    """The location of a connection's lake, or why there is none.

    Attributes:
        conn_id: The connection.
        location: The lake's location.
        trouble: Why the connection names no lake; "" if it names one.
    """

    conn_id: str
    location: str
    trouble: str = ""


def known_places(session: Session) -> list[Place]:
    """Return the lakes of the connections of type ``graveler``, each lake once.

    Connections in the environment or in a secrets backend cannot be listed; of those only the
    default one is included.
    """
    rows = select(Connection.conn_id).where(Connection.conn_type == GravelerHook.conn_type)
    listed = [str(conn_id) for conn_id in session.scalars(rows.order_by(Connection.conn_id))]
    default = GravelerHook.default_conn_name
    places: dict[str, Place] = {}
    for conn_id in dict.fromkeys([default, *listed]):
        place = place_of(conn_id)
        if place is not None:
            places.setdefault(place.location or conn_id, place)
    return list(places.values())


def place_of(conn_id: str) -> Place | None:
    """Return the place of a connection's lake, or None if there is no such connection."""
    try:
        connection = Connection.get_connection_from_secrets(conn_id)
    except AirflowNotFoundException:
        return None
    if connection.conn_type != GravelerHook.conn_type:
        return None
    hook = GravelerHook(conn_id)
    vars(hook)["connection"] = connection  # a hook would ask as tasks do
    try:
        return Place(conn_id, hook.location)
    except GravelerError as error:
        return Place(conn_id, "", str(error))


@contextmanager
def opened(place: Place) -> Iterator[list[Repository]]:
    """Open a lake for a ``with`` block, which gets its repositories."""
    with ExitStack() as stack:
        lake = stack.enter_context(open_lake(place.location))
        yield [lake.repository(name) for name in lake.repositories()]
