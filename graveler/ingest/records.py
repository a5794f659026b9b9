"""The records of one ingestion branch, in the key-value partition ``ingest:<uid>``.

``standing/<branch>`` says what is going on, ``hour/<branch>/<hour>`` what the ticks of an hour
did, ``quarantine/<branch>/<name>`` what was taken off the branch. Each is changed by
compare-and-set alone.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from graveler.ingest.record import (
    HourRecord,
    Quarantine,
    Standing,
    decode_hour,
    decode_quarantine,
    decode_standing,
    encode,
)
from graveler.kv.record_store import RecordStore
from graveler.reads.stores import Stores

_Record = TypeVar("_Record", HourRecord, Quarantine, Standing)


class IngestRecords:
    """What is kept of one ingestion branch."""

    def __init__(self, stores: Stores, branch: str) -> None:
        self._stores = stores
        self._branch = branch
        self._partition = f"ingest:{stores.uid}"

    def standing(self) -> Standing:
        """Return what is going on with the branch."""
        return self._get(self._name("standing"), decode_standing) or Standing()

    def change_standing(self, change: Callable[[Standing], Standing]) -> Standing:
        """Replace the standing by ``change(standing)`` in one atomic step and return it."""
        return self._update(
            self._name("standing"), decode_standing, lambda there: change(there or Standing())
        )

    def hour(self, hour: str) -> HourRecord | None:
        """Return what the ticks of an hour did, or None where there was none."""
        return self._get(self._name("hour", hour), decode_hour)

    def change_hour(self, hour: str, change: Callable[[HourRecord], HourRecord]) -> HourRecord:
        """Replace the record of an hour by ``change(record)`` in one atomic step and return it."""
        return self._update(
            self._name("hour", hour), decode_hour, lambda there: change(there or HourRecord(hour))
        )

    def quarantine(self, name: str) -> Quarantine | None:
        """Return what is kept of a quarantine, or None where there is none of that name."""
        return self._get(self._name("quarantine", name), decode_quarantine)

    def quarantines(self) -> Iterator[Quarantine]:
        """Yield every quarantine, the released ones too, by name."""
        return self._all(self._name("quarantine", ""), decode_quarantine)

    def add_quarantine(self, record: Quarantine) -> Quarantine:
        """Keep a quarantine, unless it is kept already; return what is kept."""
        return self._update(
            self._name("quarantine", record.name),
            decode_quarantine,
            lambda there: there or record,
        )

    def change_quarantine(
        self, record: Quarantine, change: Callable[[Quarantine], Quarantine]
    ) -> Quarantine:
        """Replace the record of a quarantine by ``change(record)`` in one atomic step."""
        return self._update(
            self._name("quarantine", record.name),
            decode_quarantine,
            lambda there: change(there or record),
        )

    def _name(self, kind: str, rest: str | None = None) -> bytes:
        name = f"{kind}/{self._branch}"
        return (name if rest is None else f"{name}/{rest}").encode()

    def _records(self, decode: Callable[[bytes], _Record]) -> RecordStore[bytes, _Record]:
        return RecordStore(
            self._stores.kv, self._partition, key=bytes, encode=encode, decode=decode
        )

    def _get(self, name: bytes, decode: Callable[[bytes], _Record]) -> _Record | None:
        return self._records(decode).get(name)

    def _all(self, prefix: bytes, decode: Callable[[bytes], _Record]) -> Iterator[_Record]:
        return (record for _, record in self._records(decode).scan(prefix))

    def _update(
        self,
        name: bytes,
        decode: Callable[[bytes], _Record],
        change: Callable[[_Record | None], _Record],
    ) -> _Record:
        """Write ``change(record)``; it runs again after a lost race, and may return what it got."""
        stores = self._stores

        def changed(record: _Record | None) -> _Record:
            new = change(record)
            return new if new is record else replace(new, nonce=stores.ids.unique())

        return self._records(decode).update(
            name,
            changed,
            what=f"records of ingestion branch {self._branch!r}",
            clock=stores.clock,
            ids=stores.ids,
        )
