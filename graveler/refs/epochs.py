"""The epoch of sweeps: key ``epoch`` in the partition ``gc:<uid>``, raised by compare-and-set.

It is raised before a sweep takes its look, when the sweep has decided what it deletes, and when
it is over. Who names existing bytes reads it before and after: as long as it stays the same and
no sweep is under way, every sweep to come sees what was named.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Final

from graveler.clock import IdSource
from graveler.errors import OutcomeUnknownError, PreconditionFailedError, ThrottledError
from graveler.fields import Fields
from graveler.kv.store import ABSENT, KVStore
from graveler.records import FORMAT, decode_json, encode_json

__all__ = ["Epoch", "Epochs"]

_KEY: Final = b"epoch"
_WHAT: Final = "epoch of sweeps"
_ATTEMPTS: Final = 100


@dataclass(frozen=True, slots=True)
class Epoch:
    """What is known of sweeps at one moment.

    Attributes:
        number: Grows with every write of the record.
        mark: Id of the mark that is being swept; "" for none.
        names: Where the pages lie that list what the mark condemned; their number is behind it.
        pages: How many.
        spared: How many pages list what the sweep leaves of it; None while it is still looking.
        nonce: Differs with every write.
    """

    number: int = 0
    mark: str = ""
    names: str = ""
    pages: int = 0
    spared: int | None = None
    nonce: str = ""

    @property
    def sweeping(self) -> bool:
        """Whether a sweep is under way, or has died."""
        return bool(self.mark)


class Epochs:
    """The epoch of one repository."""

    def __init__(self, kv: KVStore, uid: str, ids: IdSource) -> None:
        self._kv = kv
        self._partition = f"gc:{uid}"
        self._ids = ids

    def read(self) -> Epoch:
        """Return the present epoch."""
        stored = self._kv.get(self._partition, _KEY)
        return Epoch() if stored is None else _decode(stored.value)

    def begin(self, mark: str, *, names: str, pages: int) -> Epoch:
        """Raise the epoch before the look of a sweep, whatever was there."""
        for _ in range(_ATTEMPTS):
            begun = self._raise(lambda now: Epoch(now.number, mark, names, pages), lambda _: True)
            if begun is not None:
                return begun
        raise ThrottledError(f"{_WHAT}: lost {_ATTEMPTS} races; try again")

    def look_again(self, seen: Epoch) -> Epoch | None:
        """Raise the epoch so that the sweep that is looking has to look again.

        Returns:
            None where the epoch was not as `seen` any more.
        """
        return self._raise(lambda now: now, lambda now: now == seen)

    def decide(self, seen: Epoch, spared: int) -> Epoch | None:
        """Say that the sweep deletes what its mark lists, but for what `spared` pages list.

        Returns:
            None where somebody has raised the epoch since it was `seen`: look again.
        """
        return self._raise(lambda now: replace(now, spared=spared), lambda now: now == seen)

    def end(self, seen: Epoch) -> bool:
        """Say that the sweep is over; return whether it was still under way."""
        return self._raise(lambda now: Epoch(now.number), lambda now: now == seen) is not None

    def _raise(
        self, change: Callable[[Epoch], Epoch], still: Callable[[Epoch], bool]
    ) -> Epoch | None:
        stored = self._kv.get(self._partition, _KEY)
        now = Epoch() if stored is None else _decode(stored.value)
        if not still(now):
            return None
        raised = replace(change(now), number=now.number + 1, nonce=self._ids.unique())
        value = encode_json({"format": FORMAT, **asdict(raised)})
        try:
            self._kv.set_if(
                self._partition, _KEY, value, ABSENT if stored is None else stored.predicate
            )
        except PreconditionFailedError:
            return None
        except OutcomeUnknownError:
            return raised if self.read() == raised else None
        return raised


def _decode(raw: bytes) -> Epoch:
    fields = Fields(decode_json(raw, _WHAT, stamped=True), _WHAT)
    spared = fields.value("spared")
    return Epoch(
        fields.number("number", least=1),
        fields.text("mark"),
        fields.text("names"),
        fields.number("pages"),
        None if spared is None else fields.number("spared"),
        fields.text("nonce"),
    )
