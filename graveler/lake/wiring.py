"""What a lake is wired from: the record of a repository, its storage, the rescue of its tables."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from graveler.clock import Clock
from graveler.committed import Rescue, Splitting
from graveler.errors import CorruptionError, InvalidInputError
from graveler.fields import Fields, row
from graveler.kv.store import KVStore
from graveler.records import decode_json


def rescuer(kv: KVStore, uid: str, clock: Clock) -> Rescue:
    """Return the function that keeps an existing table of a repository from garbage collection."""

    def rescue(identifier: bytes, put: Callable[[], bool]) -> bool:
        from graveler.gc.files import Rescuer  # noqa: PLC0415 - most lakes are opened to read

        return Rescuer(kv, uid, clock=clock)(identifier, put)

    return rescue


def read_settings(raw: bytes, what: str) -> dict[str, Any]:
    """Return the record of a repository, or raise CorruptionError or OlderFormatError."""
    fields = Fields(decode_json(raw, what, stamped=True), what)
    splitting = row(fields.value("splitting"), ("min_bytes", "max_bytes", "raggedness"), what)
    rule = [splitting.number(name) for name in splitting]
    try:
        Splitting(*rule)
    except InvalidInputError as error:
        raise CorruptionError(f"{what} cannot be read: {error}") from error
    return {
        "lake": fields.name("lake"),
        "uid": fields.name("uid"),
        "storage": fields.place("storage"),
        "default_branch": fields.name("default_branch"),
        "splitting": rule,
    }


def absolute(storage: str) -> str:
    """Return a storage that names the same place in whatever folder a process starts."""
    return storage if "://" in storage else f"file://{Path(storage).expanduser().absolute()}"
