"""What distinguishes the databases behind SQLAlchemy: statements, options, locks, errors."""

# The statements are put together from constants.
# ruff: noqa: S608

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import TextClause, text

from graveler.errors import GravelerError
from graveler.kv.server_turns import SessionLocks


@dataclass(frozen=True, slots=True)
class Statements:
    """The words of a database for what the store does; parameters as in ``:partition``."""

    get: TextClause
    get_each: TextClause
    set: TextClause
    set_absent: TextClause
    set_present: TextClause
    set_equal: TextClause
    delete: TextClause
    delete_equal: TextClause
    page: TextClause
    partition: TextClause
    drop: TextClause


def statements(
    *, quote: str, get_each: TextClause, insert: str, upsert: str, absent: str, drop: str
) -> Statements:
    """Return the statements of a dialect.

    Args:
        quote: Stands around the names of columns that are words of the dialect.
        get_each: Reads one key of several partitions.
        insert: Writes a row that must not exist.
        upsert: Follows `insert` where the row may exist.
        absent: Follows `insert` where a row that exists stays.
        drop: Removes the first rows of a partition.
    """
    partition, key = f"{quote}partition{quote}", f"{quote}key{quote}"
    where = f" WHERE {partition} = :partition AND {key} = :key"
    update = f"UPDATE graveler_kv SET value = :value{where}"
    delete = f"DELETE FROM graveler_kv{where}"
    return Statements(
        get=text(f"SELECT value FROM graveler_kv{where}"),
        get_each=get_each,
        set=text(insert + upsert),
        set_absent=text(insert + absent),
        set_present=text(update),
        set_equal=text(f"{update} AND value = :predicate"),
        delete=text(delete),
        delete_equal=text(f"{delete} AND value = :predicate"),
        page=text(
            f"SELECT {key}, value FROM graveler_kv"
            f" WHERE {partition} = :partition AND {key} >= :start ORDER BY {key} LIMIT :limit"
        ),
        partition=text(
            f"SELECT {partition} FROM graveler_kv WHERE {partition} >= :start"
            f" ORDER BY {partition}, {key} LIMIT 1"
        ),
        drop=text(drop),
    )


@dataclass(frozen=True, slots=True)
class Dialect:
    """What distinguishes a kind of database.

    Attributes:
        name: For messages: ``MySQL``.
        scheme: Of its URLs.
        driver: What SQLAlchemy calls database and library.
        options: The options that the query of a URL may have.
        sql: Its statements.
        locks: The server's locks for turns.
        needs_database: Whether a URL must name a database.
    """

    name: str
    scheme: str
    driver: str
    options: Collection[str]
    sql: Statements
    locks: SessionLocks
    needs_database: bool = False


class Failure(NamedTuple):
    """What an error of the database means.

    Attributes:
        kind: The error for the caller.
        way_out: What the caller can do; follows the message of the database.
        repeat: Whether repeating the statement may help, and is harmless.
        lost: Whether the connection is gone or was never made, so that the outcome of the
            statement is unknown.
    """

    kind: type[GravelerError]
    way_out: str = ""
    repeat: bool = False
    lost: bool = False
