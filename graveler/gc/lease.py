"""One sweep at a time: a lease that its holder renews; no clocks are compared."""

from contextlib import suppress
from typing import Self

from graveler.base.clock import Clock, IdSource
from graveler.base.records import encode_json
from graveler.errors import OutcomeUnknownError, StateError
from graveler.kv.record_store import RecordStore, Version
from graveler.kv.store import ABSENT, KVStore, Predicate

LEASE_SECONDS = 60.0
"""A holder that does not renew its lease for this time is considered dead. A request to delete must
take effect within this time after the last renewal."""

_KEY = b"lease"
_LOOKS = 60


class Lease:
    """The right to delete tables of one repository; a context manager.

    A sweep that finds a holder waits for the length of a lease. If the holder has not renewed by
    then, it is dead, and the sweep takes over the lease.

    Args:
        what: The purpose of the lease, for the error of a sweep that is refused.
        clock: Measures waits and the time between renewals, never a time of day.

    Attributes:
        late: Whether a request to delete a table was sent, and may still take effect.
    """

    def __init__(
        self,
        kv: KVStore,
        uid: str,
        what: str,
        *,
        clock: Clock,
        ids: IdSource,
        seconds: float = LEASE_SECONDS,
    ) -> None:
        # the bytes of the record are compared, never decoded
        self._records: RecordStore[bytes] = RecordStore(kv, f"gc:{uid}", encode=bytes, decode=bytes)
        self._what = what
        self._clock = clock
        self._ids = ids
        self._seconds = seconds
        self._predicate: Predicate = ABSENT
        self.late = False
        self._renewed = clock.now()

    def __enter__(self) -> Self:
        holder = self._records.find(_KEY)
        if holder is not None:
            holder = self._wait_for_silence(holder)
        self._predicate = ABSENT if holder is None else holder[1]
        if not self._renew():
            raise self._busy()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        ended = kind is None or issubclass(kind, (Exception, KeyboardInterrupt))
        if ended and not self.late:  # otherwise the next sweep waits until the lease runs out
            with suppress(OutcomeUnknownError):  # the lease then runs out
                self._records.remove(_KEY, self._predicate)

    def hold(self) -> None:
        """Renew the lease if it is due; called before each step that deletes."""
        passed = (self._clock.now() - self._renewed).total_seconds()
        if not 0 <= passed < self._seconds / 4 and not self._renew():
            raise self._busy()

    def outlast(self) -> None:
        """Hold the lease until no request to delete that was sent before can take effect."""
        for _ in range(_LOOKS):
            self._clock.sleep(self._seconds / _LOOKS)
            self.hold()

    def _renew(self) -> bool:
        self._renewed = self._clock.now()
        value = encode_json({"for": self._what, "nonce": self._ids.unique()})
        with suppress(OutcomeUnknownError):
            if not self._records.write(_KEY, value, self._predicate):
                return False
        current = self._records.find(_KEY)
        if current is None or current[0] != value:
            return False
        self._predicate = current[1]
        return True

    def _wait_for_silence(self, holder: Version[bytes]) -> Version[bytes] | None:
        for _ in range(_LOOKS):
            self._clock.sleep(self._seconds / _LOOKS)
            current = self._records.find(_KEY)
            if current is None:
                return None
            if current[0] != holder[0]:
                raise self._busy()
        return holder

    def _busy(self) -> StateError:
        return StateError(
            f"{self._what}: another sweep of this repository is under way; wait for it, or "
            f"repeat later: one that died is noticed after {self._seconds:g} seconds of silence"
        )
