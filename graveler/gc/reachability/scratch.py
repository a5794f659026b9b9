"""Reachable names in a temporary database, so that tens of millions need little memory."""

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Self

from graveler.base.forks import held_off

_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -16384;
CREATE TABLE address (key BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE seen (id BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE file (id BLOB PRIMARY KEY, size INTEGER, mtime INTEGER) WITHOUT ROWID;
CREATE TABLE old (key BLOB PRIMARY KEY, size INTEGER, mtime INTEGER) WITHOUT ROWID;
CREATE TABLE list (id BLOB PRIMARY KEY) WITHOUT ROWID;
"""
_SEEN = "SELECT id, size, mtime FROM file WHERE id > ? AND id IN (SELECT id FROM seen)"
_UNSEEN = "SELECT id, size, mtime FROM file WHERE id > ? AND id NOT IN (SELECT id FROM seen)"
_BATCH = 5_000
_PAGE = 1_000


class ListedFile(NamedTuple):
    """A range or metarange in the store."""

    id: bytes
    size: int
    mtime: int


class Scratch:
    """Addresses and ids of tables; a context manager that removes them."""

    def __init__(self) -> None:
        with held_off:
            # a file without a name, which the system removes even after kill -9
            self._db = sqlite3.connect("", isolation_level=None)
            self._db.executescript(_SCHEMA)
        self._waiting: list[tuple[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with held_off:
            self._db.close()

    def add_addresses(self, keys: Iterable[bytes]) -> None:
        """Note keys that something names."""
        for key in keys:
            self._waiting.append((key,))
            if len(self._waiting) >= _BATCH:
                self._write()

    def addresses(self) -> Iterator[bytes]:
        """Yield the keys that something names, ascending."""
        self._write()
        return (key for (key,) in self._pages("SELECT key FROM address WHERE key > ?", "key"))

    def is_named(self, key: bytes) -> bool:
        """Return whether something names the key."""
        self._write()
        return bool(self._run("SELECT 1 FROM address WHERE key = ?", key))

    def see(self, identifier: bytes) -> bool:
        """Note a table that something names; return whether this is the first time."""
        with held_off:
            done = self._db.execute(
                "INSERT INTO seen VALUES (?) ON CONFLICT DO NOTHING", (identifier,)
            )
            return done.rowcount == 1

    def is_seen(self, identifier: bytes) -> bool:
        """Return whether something names the table."""
        return bool(self._run("SELECT 1 FROM seen WHERE id = ?", identifier))

    def add_file(self, file: ListedFile) -> None:
        """Note a table in the store."""
        self._run("INSERT INTO file VALUES (?, ?, ?) ON CONFLICT DO NOTHING", *file)

    def add_old(self, key: bytes, size: int, mtime: int) -> None:
        """Note a data file without a storage id that nothing names."""
        self._run("INSERT INTO old VALUES (?, ?, ?)", key, size, mtime)

    def old(self) -> Iterator[tuple[bytes, int, int]]:
        """Yield these files, ascending: key, size, time."""
        return self._pages("SELECT key, size, mtime FROM old WHERE key > ?", "key")

    def add_list(self, identifier: bytes) -> None:
        """Note a range whose list of addresses is in the store."""
        self._run("INSERT INTO list VALUES (?) ON CONFLICT DO NOTHING", identifier)

    def has_list(self, identifier: bytes) -> bool:
        """Return whether a range and its list of addresses are in the store."""
        both = "SELECT 1 FROM list JOIN file USING (id) WHERE id = ?"
        return bool(self._run(both, identifier))

    def lost_lists(self) -> list[bytes]:
        """Return the ranges that are not in the store although their lists are."""
        alone = "SELECT id FROM list WHERE id NOT IN (SELECT id FROM file)"
        return [identifier for (identifier,) in self._run(alone)]

    def seen_files(self) -> Iterator[ListedFile]:
        """Yield the tables in the store that something names, by id."""
        return map(ListedFile._make, self._pages(_SEEN, "id"))

    def unseen_files(self) -> Iterator[ListedFile]:
        """Yield the tables in the store that nothing is known to name, by id."""
        return map(ListedFile._make, self._pages(_UNSEEN, "id"))

    def _pages(self, select: str, key: str) -> Iterator[Any]:
        last = b""
        while page := self._run(f"{select} ORDER BY {key} LIMIT {_PAGE}", last):
            yield from page
            last = page[-1][0]

    def counts(self) -> tuple[int, int]:
        """Return the numbers of named tables and named keys."""
        self._write()
        ((tables,),) = self._run("SELECT count(*) FROM seen")
        ((keys,),) = self._run("SELECT count(*) FROM address")
        return tables, keys

    def _run(self, statement: str, *values: bytes | int) -> list[Any]:
        with held_off:
            return self._db.execute(statement, values).fetchall()

    def _write(self) -> None:
        if self._waiting:
            with held_off:
                self._db.execute("BEGIN")
                self._db.executemany(
                    "INSERT INTO address VALUES (?) ON CONFLICT DO NOTHING", self._waiting
                )
                self._db.execute("COMMIT")
            self._waiting.clear()
