"""A writer takes over a table that garbage collection has condemned."""

from collections.abc import Callable
from typing import Final

from graveler.clock import Clock, IdSource
from graveler.errors import StateError, ThrottledError
from graveler.gc.files import FileRecord, FileRecords, FileState
from graveler.gc.lease import LEASE_SECONDS, Lease
from graveler.kv.store import KVStore
from graveler.objects.store import ObjectStore

__all__ = ["Rescuer"]

_ATTEMPTS: Final = 1_000
_FIRST_WAIT_S: Final = 0.01
_LONGEST_WAIT_S: Final = 1.0


class Rescuer:
    """Sees to it that a table stays which a writer found there already.

    Costs one look at the key-value store where nothing was condemned.

    Args:
        kv: Where the records of condemned tables are.
        uid: The repository.
        objects: Its storage.
        clock: Time to wait in.
        ids: Where nonces come from.
        seconds: The lease of sweeps, see `graveler.gc.lease`.
    """

    def __init__(
        self,
        kv: KVStore,
        uid: str,
        objects: ObjectStore,
        *,
        clock: Clock,
        ids: IdSource,
        seconds: float = LEASE_SECONDS,
    ) -> None:
        self._kv = kv
        self._uid = uid
        self._files = FileRecords(kv, uid)
        self._objects = objects
        self._clock = clock
        self._ids = ids
        self._seconds = seconds

    def __call__(self, identifier: bytes, put: Callable[[], bool]) -> bool:
        """Return once the table is there to stay, and whether it had to be put again.

        Args:
            identifier: Its id.
            put: Puts it if it is absent; returns whether it was.

        Raises:
            ThrottledError: It was deleted and condemned again and again.
        """
        written = False
        waited, pause = 0.0, _FIRST_WAIT_S
        for _ in range(_ATTEMPTS):
            found = self._files.find(identifier)
            if found is None:
                return written
            record, predicate = found
            if record.state is FileState.DELETING:
                if waited > self._seconds:
                    self._finish(identifier)
                    waited = 0.0
                    continue
                self._clock.sleep(pause)
                waited += pause
                pause = min(pause * 2, _LONGEST_WAIT_S)
                continue
            if record.state is FileState.DELETED:
                # first the table, then the record: whoever misses the record finds the table
                written = put() or written
            if self._files.remove(identifier, predicate):
                return written
        raise ThrottledError(
            f"table {identifier.hex()} is being deleted by garbage collection, and again: "
            "see `graveler gc list`, and repeat"
        )

    def _finish(self, identifier: bytes) -> None:
        """Delete in the place of a sweep that died half-way."""
        what = f"finishing the deletion of table {identifier.hex()[:12]}"
        try:
            lease = Lease(
                self._kv, self._uid, what, clock=self._clock, ids=self._ids, seconds=self._seconds
            )
            with lease:
                found = self._files.find(identifier)
                if found is None or found[0].state is not FileState.DELETING:
                    return
                lease.hold()
                self._objects.delete(f"_graveler/{identifier.hex()}")
                self._files.write(
                    identifier, FileRecord(found[0].mark, FileState.DELETED), found[1]
                )
        except StateError:
            return  # the sweep lives: it goes on, and so do we
