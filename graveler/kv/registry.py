"""The driver of each URI."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from graveler.base.arguments import expand_home
from graveler.base.privacy import shown_uri
from graveler.base.retries import NO_PROGRESS_S
from graveler.base.telemetry import is_metered
from graveler.errors import InvalidInputError
from graveler.kv.metered import MeteredKVStore
from graveler.kv.store import KVStore

_ON_NETWORK = "?network=accept"


def _path(uri: str) -> Path:
    scheme, _, rest = uri.partition("://")
    if "?" in rest:
        raise InvalidInputError(f"{uri!r}: {scheme}:// takes no options; write %3F for ? in a path")
    path = expand_home(unquote(rest))
    if not (path.is_absolute() and path.name):
        raise InvalidInputError(f"{uri!r}: give an absolute path, as in {scheme}:///lake/kv")
    return path


class _Driver(NamedTuple):
    """The driver of a scheme, loaded on first use because it may need an extra.

    Attributes:
        module: Its module in `graveler.kv.drivers`.
        name: Its class.
        server: Whether it takes its URI and ``no_progress_s``, not a path.
        login: Whether a URI may hold a user and a password.
        system: OpenTelemetry's name of the database; "" for that of the scheme.
    """

    module: str
    name: str
    server: bool = False
    login: bool = False
    system: str = ""


_POSTGRES = _Driver("postgres", "PostgresKVStore", server=True, login=True, system="postgresql")
_MYSQL = _Driver("mysql", "MySQLKVStore", server=True, login=True)

DRIVERS = {
    "mem": _Driver("memory", "MemoryKVStore", system="memory"),
    "sqlite": _Driver("sqlite", "SQLiteKVStore"),
    "rocksdb": _Driver("rocksdb", "RocksDBKVStore"),
    "postgresql": _POSTGRES,
    "postgresql+psycopg": _POSTGRES,
    "mysql": _MYSQL,
    "mysql+pymysql": _MYSQL._replace(system="mysql"),
    "mariadb": _MYSQL,
    "dynamodb": _Driver("dynamodb", "DynamoDBKVStore", server=True, system="aws.dynamodb"),
}
"""The driver of each scheme. `config` and `base.privacy` list the schemes of files, too."""


def check_driver(uri: str) -> str:
    """Return the scheme of a URI that has a driver."""
    scheme, separator, _ = uri.partition("://")
    if not separator or scheme not in DRIVERS:
        raise InvalidInputError(
            f"no key-value driver for {shown_uri(uri)!r}: give one of "
            + ", ".join(f"{name}://" for name in DRIVERS)
        )
    return scheme


def open_kv(uri: str, *, no_progress_s: float = NO_PROGRESS_S) -> KVStore:
    """Open the key-value store at `uri`. It is created if missing.

    Args:
        uri: ``mem://`` (a new, empty store each time), ``sqlite:///folder/file.sqlite3``,
            ``rocksdb:///folder``, ``postgresql://user@host/database``,
            ``mysql://user@host/database`` or ``dynamodb://table?region=name``. Paths are
            absolute and may be percent-encoded, as by ``Path.as_uri``.
    """
    scheme = check_driver(uri)
    store = _opened(uri, scheme, no_progress_s)
    return MeteredKVStore(store, DRIVERS[scheme].system or scheme) if is_metered() else store


def _opened(uri: str, scheme: str, no_progress_s: float) -> KVStore:
    found = DRIVERS[scheme]
    module = import_module(f"graveler.kv.drivers.{found.module}")
    driver: Callable[..., KVStore] = getattr(module, found.name)
    if found.server:
        return driver(uri, no_progress_s=no_progress_s)
    if scheme == "sqlite" and uri.endswith(_ON_NETWORK):
        return driver(_path(uri.removesuffix(_ON_NETWORK)), network=True)
    if scheme != "mem":
        return driver(_path(uri))
    if uri != "mem://":
        raise InvalidInputError(f"{uri!r}: memory has no name: give 'mem://'")
    return driver()
