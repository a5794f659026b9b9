"""SQL dialects: statements, options and errors."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import TextClause, text

from graveler.errors import GravelerError

# The statements consist of constants.
# ruff: noqa: S608


@dataclass(frozen=True, slots=True)
class Statements:
    """The SQL statements of a dialect. Parameters look like ``:partition``."""

    get: TextClause
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
    *, quote: str, insert: str, upsert: str, absent: str, drop: str, settings: str = ""
) -> Statements:
    """Return the statements of a dialect.

    Args:
        quote: The quotation mark for column names that are reserved words.
        insert: Writes a row that must not exist.
        upsert: The suffix of `insert` that replaces an existing row.
        absent: The suffix of `insert` that keeps an existing row.
        drop: Removes the first rows of a partition.
        settings: A derived table that sets what holds for the transaction of a write.
    """
    partition, key = f"{quote}partition{quote}", f"{quote}key{quote}"
    where = f" WHERE {partition} = :partition AND {key} = :key"
    update = f"UPDATE graveler_kv SET value = :value{settings and ' FROM ' + settings}{where}"
    delete = f"DELETE FROM graveler_kv{settings and ' USING ' + settings}{where}"
    return Statements(
        get=text(f"SELECT value FROM graveler_kv{where}"),
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


@lru_cache(maxsize=256)
def get_many(quote: str, count: int) -> TextClause:
    """Return the statement of a dialect that reads the keys ``p0 k0``, ``p1 k1`` …."""
    partition, key = f"{quote}partition{quote}", f"{quote}key{quote}"
    # Each pair is one index lookup. For a list of pairs some servers scan the whole table.
    pairs = (f"({partition} = :p{number} AND {key} = :k{number})" for number in range(count))
    return text(f"SELECT {partition}, {key}, value FROM graveler_kv WHERE {' OR '.join(pairs)}")


@dataclass(frozen=True, slots=True)
class Dialect:
    """The properties of a kind of database.

    Attributes:
        name: Its name in messages: ``MySQL``.
        driver: SQLAlchemy's name of the database and the library.
        options: The options that the query of a URL may have.
        quote: The quotation mark for column names that are reserved words.
        needs_database: Whether a URL must name a database.
    """

    name: str
    scheme: str
    driver: str
    options: Collection[str]
    quote: str
    needs_database: bool = False
    engine: Mapping[str, Any] = field(default_factory=dict)

    def get_many(self, count: int) -> TextClause:
        """Return the statement that reads `count` keys, the parameters ``p0``, ``k0``, ``p1`` …."""
        return get_many(self.quote, count)


class Failure(NamedTuple):
    """The meaning of an error of the database.

    Attributes:
        way_out: What the caller can do. It is appended to the message of the database.
        repeat: Whether repeating the statement may help, and is harmless.
        lost: Whether the connection is lost or was never made, so that the outcome of the
            statement is unknown.
    """

    kind: type[GravelerError]
    way_out: str = ""
    repeat: bool = False
    lost: bool = False
