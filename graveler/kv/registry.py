"""The driver of each URI."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
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
    if not path.is_absolute():
        raise InvalidInputError(f"{uri!r}: give an absolute path, as in {scheme}:///lake/kv")
    return path


# Module and class of each driver. A module is loaded on first use, because it may need an extra.
_SERVERS: dict[str, tuple[str, str]] = {
    "postgresql": ("postgres", "PostgresKVStore"),
    "postgresql+psycopg": ("postgres", "PostgresKVStore"),
    "mysql": ("mysql", "MySQLKVStore"),
    "mysql+pymysql": ("mysql", "MySQLKVStore"),
    "mariadb": ("mysql", "MySQLKVStore"),
    "dynamodb": ("dynamodb", "DynamoDBKVStore"),
}
_DRIVERS: dict[str, tuple[str, str]] = {
    "mem": ("memory", "MemoryKVStore"),
    "sqlite": ("sqlite", "SQLiteKVStore"),
    "rocksdb": ("rocksdb", "RocksDBKVStore"),
    **_SERVERS,
}

# OpenTelemetry's names of the databases that differ from the scheme.
_SYSTEMS = {
    "mem": "memory",
    "postgresql+psycopg": "postgresql",
    "mysql+pymysql": "mysql",
    "dynamodb": "aws.dynamodb",
}


def check_driver(uri: str) -> str:
    """Return the scheme of a URI that has a driver."""
    scheme, separator, _ = uri.partition("://")
    if not separator or scheme not in _DRIVERS:
        raise InvalidInputError(
            f"no key-value driver for {shown_uri(uri)!r}: give one of "
            + ", ".join(f"{name}://" for name in _DRIVERS)
        )
    return scheme


def open_kv(uri: str, *, no_progress_s: float = NO_PROGRESS_S) -> KVStore:
    """Open the key-value store at `uri`. It is created if missing.

    Args:
        uri: ``mem://`` (a new, empty store each time), ``sqlite:///folder/file.sqlite3``,
            ``rocksdb:///folder``, ``postgresql://user@host/database``,
            ``mysql://user@host/database`` or ``dynamodb://table?region=name``. Paths are
            absolute and may be percent-encoded, as by ``Path.as_uri``.
        no_progress_s: Seconds without an answer after which a call on a server ends.
    """
    scheme = check_driver(uri)
    store = _opened(uri, scheme, no_progress_s)
    return MeteredKVStore(store, _SYSTEMS.get(scheme, scheme)) if is_metered() else store


def _opened(uri: str, scheme: str, no_progress_s: float) -> KVStore:
    module, name = _DRIVERS[scheme]
    driver: Callable[..., KVStore] = getattr(import_module(f"graveler.kv.{module}"), name)
    if scheme in _SERVERS:
        return driver(uri, no_progress_s=no_progress_s)
    if scheme == "sqlite" and uri.endswith(_ON_NETWORK):
        return driver(_path(uri.removesuffix(_ON_NETWORK)), network=True)
    if scheme != "mem":
        return driver(_path(uri))
    if uri != "mem://":
        raise InvalidInputError(f"{uri!r}: memory has no name: give 'mem://'")
    return driver()
