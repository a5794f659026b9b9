"""The settings of a repository: records ``settings/<name>``, each replaced by compare-and-set."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from graveler.clock import Clock, IdSource
from graveler.fields import Fields
from graveler.kv.record_store import RecordStore
from graveler.kv.store import KVStore
from graveler.read_only import refuse_writes
from graveler.records import decode_json, encode_json

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Setting(Generic[S]):
    """One setting of a repository, and the form of its record.

    Attributes:
        name: Its record is ``settings/<name>``.
        what: Names it in errors.
        default: Its value where there is no record.
        encode: Returns the fields of a value; the nonce is added to them.
        read: Returns the value that the fields of a record give.
    """

    name: str
    what: str
    default: S
    encode: Callable[[S], Mapping[str, Any]]
    read: Callable[[Fields], S]

    @property
    def key(self) -> bytes:
        """The key of its record."""
        return f"settings/{self.name}".encode()

    def decode(self, raw: bytes) -> S:
        """Return the value of a stored record, or raise CorruptionError."""
        return self.read(Fields(decode_json(raw, self.what), self.what))


class Settings:
    """The settings of one repository.

    Args:
        kv: The key-value store.
        uid: The repository.
        clock: Measures pauses after lost races.
        ids: Draws nonces and jitter.
    """

    def __init__(self, kv: KVStore, uid: str, *, clock: Clock, ids: IdSource) -> None:
        self._kv = kv
        self._partition = f"refs:{uid}"
        self._clock = clock
        self._ids = ids

    def get(self, setting: Setting[S]) -> S:
        """Return the value of a setting."""
        stored = self._kv.get(self._partition, setting.key)
        return setting.default if stored is None else setting.decode(stored.value)

    def change(self, setting: Setting[S], change: Callable[[S], S]) -> S:
        """Replace the value by ``change(value)``, and return it.

        Args:
            setting: The setting.
            change: Runs again after a lost race; it must do no harm when repeated.

        Raises:
            ReadOnlyError: A gate is judging.
            ThrottledError: 200 races were lost in a row.
        """
        refuse_writes(setting.what)
        record: RecordStore[bytes, S] = RecordStore(
            self._kv,
            self._partition,
            key=bytes,
            encode=partial(self._encode, setting),
            decode=setting.decode,
        )
        return record.update(
            setting.key,
            lambda value: change(setting.default if value is None else value),
            what=setting.what,
            clock=self._clock,
            ids=self._ids,
        )

    def _encode(self, setting: Setting[S], value: S) -> bytes:
        return encode_json({**setting.encode(value), "nonce": self._ids.unique()})
