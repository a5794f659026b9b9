"""The kinds of lake, each for the time of a torture."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy.engine import make_url

from tests.harness.servers.pgbouncer import killed_pooler
from tests.harness.servers.postgres import postgres_server, schema, socket_of
from tests.real.torture.lakes import Place


@dataclass(frozen=True)
class Rack:
    """A lake for a torture, with its database.

    Attributes:
        place: The location of the lake.
        settle: Returns when no work of a dead process is in progress.
        disturb: Stops the database at once and restarts it, or in turns its pooler; None if there is
            no server.
    """

    place: Place
    settle: Callable[[], object] = lambda: None
    disturb: Callable[[], object] | None = None


@contextmanager
def _in_folder(kind: str, folder: Path) -> Iterator[Rack]:
    yield Rack(Place(str(folder), f"{kind}://{folder / 'kv'}"))


@contextmanager
def _postgres(folder: Path) -> Iterator[Rack]:
    with postgres_server() as server, schema(socket_of(server)) as url:
        yield Rack(Place(str(folder), url), lambda: settled(url), lambda: _restart(server))


@contextmanager
def _pooled(folder: Path) -> Iterator[Rack]:
    with (
        postgres_server(durable=True) as server,
        killed_pooler(socket_of(server), "transaction") as (url, restart),
    ):
        direct = f"postgresql://postgres@/postgres?host={socket_of(server)}"
        kills = cycle([lambda: _restart(server), restart])

        def disturb() -> None:
            next(kills)()

        yield Rack(Place(str(folder), url), lambda: settled(direct), disturb)


DRIVERS: dict[str, Callable[[Path], Any]] = {
    "sqlite": lambda folder: _in_folder("sqlite", folder),
    "rocksdb": lambda folder: _in_folder("rocksdb", folder),
    "postgres": _postgres,
    "pgbouncer": _pooled,
}


def rack(driver: str, folder: Path) -> Any:
    """Return a context with a lake of one of DRIVERS."""
    return DRIVERS[driver](folder)


def settled(url: str) -> None:
    """Wait until the server has finished all requests of dead clients."""
    query = make_url(url).query
    for _ in range(1000):
        with psycopg.connect(
            user="postgres", host=str(query["host"]), autocommit=True
        ) as connection:
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                " AND backend_type = 'client backend' AND query LIKE '%graveler_kv%'"
                " AND state <> 'idle'"  # a pooler keeps the session
            ).fetchone()
        if row == (0,):
            return
        time.sleep(0.01)
    raise TimeoutError("a dead client's connection is still there")


def _restart(server: Any) -> None:
    """Kill the server without a flush or a notice to clients, and restart it."""
    process = server.get_postmaster_info().process
    process.send_signal(signal.SIGQUIT)
    process.wait(30)
    server.start()
