"""A writer takes over a table that garbage collection has condemned."""

from collections.abc import Callable
from typing import Final

from graveler.clock import Clock
from graveler.errors import ThrottledError
from graveler.gc.files import FileRecords, FileState
from graveler.kv.store import KVStore
from graveler.retries import longest_pause

__all__ = ["Rescuer"]

_PATIENCE_S: Final = 30.0
_FIRST_WAIT_S: Final = 0.01
_LONGEST_WAIT_S: Final = 1.0


class Rescuer:
    """Sees to it that a table stays which a writer found there already.

    Costs one look at the key-value store where nothing was condemned.

    Args:
        kv: Where the records of condemned tables are.
        uid: The repository.
        clock: Time to wait in.
    """

    def __init__(self, kv: KVStore, uid: str, *, clock: Clock) -> None:
        self._files = FileRecords(kv, uid)
        self._clock = clock

    def __call__(self, identifier: bytes, put: Callable[[], bool]) -> bool:
        """Return once the table is there to stay, and whether it had to be put again.

        Args:
            identifier: Its id.
            put: Puts it if it is absent; returns whether it was.

        Raises:
            ThrottledError: A sweep that began to delete it does not come to the end.
        """
        written = False
        waited, looks = 0.0, 0
        while True:
            found = self._files.find(identifier)
            if found is None:
                return written
            record, predicate = found
            if record.state is FileState.DELETING:
                # only the sweep may end what it began: its request to delete may be on the way
                if waited > _PATIENCE_S:
                    raise ThrottledError(
                        f"table {identifier.hex()} is being deleted, by a sweep that seems to have "
                        f"died: `graveler gc sweep {record.mark}` finishes it; then repeat"
                    )
                pause = longest_pause(looks, _FIRST_WAIT_S, _LONGEST_WAIT_S)
                self._clock.sleep(pause)
                waited, looks = waited + pause, looks + 1
                continue
            if record.state is FileState.DELETED:
                # first the table, then the record: whoever misses the record finds the table
                written = put() or written
            if self._files.remove(identifier, predicate):
                return written
