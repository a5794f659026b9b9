"""The foreign places that a repository may link to: one record, ``settings/links``."""

from collections.abc import Callable, Iterable
from typing import Final

from graveler.clock import IdSource
from graveler.errors import OutcomeUnknownError, PreconditionFailedError, ThrottledError
from graveler.fields import Fields
from graveler.judging import refuse_writes
from graveler.kv.store import ABSENT, KVStore, Stored
from graveler.records import decode_json, encode_json

__all__ = ["LinkPlaces"]

_KEY: Final = b"settings/links"
_ATTEMPTS: Final = 20
_WHAT: Final = "declared places of links"


class LinkPlaces:
    """The declared places of one repository; each in the one form of its address."""

    def __init__(self, kv: KVStore, partition: str, ids: IdSource) -> None:
        self._kv = kv
        self._partition = partition
        self._ids = ids

    def list(self) -> list[str]:
        """Return the places, sorted."""
        return _decode(self._kv.get(self._partition, _KEY))

    def add(self, place: str) -> None:
        """Declare a place; no error where it is declared."""
        self._change(lambda places: {*places, place})

    def remove(self, place: str) -> None:
        """Declare a place no more; no error where it is not declared."""
        self._change(lambda places: set(places) - {place})

    def _change(self, change: Callable[[Iterable[str]], set[str]]) -> None:
        refuse_writes(_WHAT)
        for _ in range(_ATTEMPTS):
            stored = self._kv.get(self._partition, _KEY)
            places = sorted(change(_decode(stored)))
            value = encode_json({"places": places, "nonce": self._ids.unique()})
            predicate = ABSENT if stored is None else stored.predicate
            try:
                self._kv.set_if(self._partition, _KEY, value, predicate)
            except (PreconditionFailedError, OutcomeUnknownError):
                continue  # declaring a place twice is harmless
            return
        raise ThrottledError(f"{_WHAT}: lost {_ATTEMPTS} races; try again")


def _decode(stored: Stored | None) -> "list[str]":
    if stored is None:
        return []
    return sorted(Fields(decode_json(stored.value, _WHAT), _WHAT).texts("places"))
