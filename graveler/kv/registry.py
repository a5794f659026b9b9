"""From a URI to the driver that answers for it."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from graveler.errors import InvalidInputError
from graveler.kv.store import KVStore
from graveler.privacy import shown_uri
from graveler.retries import NO_PROGRESS_S


def _path(uri: str) -> Path:
    scheme, _, rest = uri.partition("://")
    if "?" in rest:
        raise InvalidInputError(f"{uri!r}: {scheme}:// takes no options; write %3F for ? in a path")
    path = Path(unquote(rest))
    if not path.is_absolute():
        raise InvalidInputError(f"{uri!r}: give an absolute path, as in {scheme}:///lake/kv")
    return path


def _driver(module: str, name: str) -> Callable[..., KVStore]:
    # Loaded when it is asked for: a driver may need an extra, and takes its time.
    driver: Callable[..., KVStore] = getattr(import_module(f"graveler.kv.{module}"), name)
    return driver


def _memory(uri: str, **_: float) -> KVStore:
    if uri != "mem://":
        raise InvalidInputError(f"{uri!r}: memory has no names, give 'mem://'")
    return _driver("memory", "MemoryKVStore")()


def _sqlite(uri: str, **_: float) -> KVStore:
    return _driver("sqlite", "SQLiteKVStore")(_path(uri))


def _rocksdb(uri: str, **_: float) -> KVStore:
    return _driver("rocksdb", "RocksDBKVStore")(_path(uri))


def _postgres(uri: str, **bounds: float) -> KVStore:
    return _driver("postgres", "PostgresKVStore")(uri, **bounds)


def _mysql(uri: str, **bounds: float) -> KVStore:
    return _driver("mysql", "MySQLKVStore")(uri, **bounds)


def _dynamodb(uri: str, **bounds: float) -> KVStore:
    return _driver("dynamodb", "DynamoDBKVStore")(uri, **bounds)


_DRIVERS: Final[dict[str, Callable[..., KVStore]]] = {
    "mem": _memory,
    "sqlite": _sqlite,
    "rocksdb": _rocksdb,
    "postgresql": _postgres,
    "postgresql+psycopg": _postgres,
    "mysql": _mysql,
    "mysql+pymysql": _mysql,
    "mariadb": _mysql,
    "dynamodb": _dynamodb,
}


def open_kv(uri: str, *, no_progress_s: float = NO_PROGRESS_S) -> KVStore:
    """Open the key-value store at `uri`; what is not there yet is made.

    Args:
        uri: ``mem://`` (a new, empty store each time), ``sqlite:///folder/file.sqlite3``,
            ``rocksdb:///folder``, ``postgresql://user@host/database``,
            ``mysql://user@host/database`` or ``dynamodb://table?region=name``. Paths are
            absolute and may be percent-encoded, as ``Path.as_uri`` gives them.
        no_progress_s: Seconds without an answer after which a call on a server ends.

    Raises:
        InvalidInputError: No driver of that name, or the path is not usable.
        MissingDependencyError: The driver's extra is not installed.
        LakeLockedError: The folder takes one process, and another one has it.
        BackendUnavailableError: The database does not answer.
        CorruptionError: What is at the path is damaged, or no such database.
    """
    scheme, separator, _ = uri.partition("://")
    driver = _DRIVERS.get(scheme) if separator else None
    if driver is None:
        raise InvalidInputError(
            f"no key-value driver for {shown_uri(uri)!r}: give one of "
            + ", ".join(f"{name}://" for name in _DRIVERS)
        )
    return driver(uri, no_progress_s=no_progress_s)
