"""Asking garbage collection about a table that is there already, loading it only then."""

from collections.abc import Callable

from graveler.clock import Clock
from graveler.committed import Rescue
from graveler.kv.store import KVStore

__all__ = ["rescuer"]


def rescuer(kv: KVStore, uid: str, clock: Clock) -> Rescue:
    """Return what a repository's ranges ask about tables that are there already."""

    def rescue(identifier: bytes, put: Callable[[], bool]) -> bool:
        from graveler.gc.rescue import Rescuer  # noqa: PLC0415 - most lakes are opened to read

        return Rescuer(kv, uid, clock=clock)(identifier, put)

    return rescue
