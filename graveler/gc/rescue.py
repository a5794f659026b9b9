"""Keeps a condemned table for a writer that needs it."""

from collections.abc import Callable
from typing import Final

from graveler.clock import Clock
from graveler.errors import ThrottledError
from graveler.gc.files import FileRecords, FileState
from graveler.kv.store import KVStore
from graveler.retries import longest_pause

_PATIENCE_S: Final = 30.0
_FIRST_WAIT_S: Final = 0.01
_LONGEST_WAIT_S: Final = 1.0


class Rescuer:
    """Keeps a table that a writer found in the storage.

    Costs one read of the key-value store if the table was not condemned.

    Args:
        kv: Where the records of condemned tables are.
        uid: The repository.
        clock: Measures waits.
    """

    def __init__(self, kv: KVStore, uid: str, *, clock: Clock) -> None:
        self._files = FileRecords(kv, uid)
        self._clock = clock

    def __call__(self, identifier: bytes, put: Callable[[], bool]) -> bool:
        """Return once the table is kept; tell whether it had to be put again.

        Args:
            identifier: Its id.
            put: Puts it if it is absent; returns whether it was absent.

        Raises:
            ThrottledError: A sweep that began to delete it does not finish.
        """
        written = False
        waited, looks = 0.0, 0
        while True:
            found = self._files.find(identifier)
            if found is None:
                return written
            record, predicate = found
            if record.state is FileState.DELETING:
                # only the sweep may finish this: its request to delete may still arrive
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
                # the table before the record: a writer that finds no record must find the table
                written = put() or written
            if self._files.remove(identifier, predicate):
                return written
