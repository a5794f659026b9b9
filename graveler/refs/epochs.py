"""The epoch of sweeps: key ``epoch`` in the partition ``gc:<uid>``, raised by compare-and-set.

A sweep raises it before it surveys the repository, when it has decided which bytes it deletes, and
when it ends. An operation that names existing bytes reads the epoch before and after. If the epoch
has not changed and no sweep is running, every later sweep sees the new name.
"""

from dataclasses import dataclass, replace

from graveler.base.clock import Clock, IdSource
from graveler.base.records import Schema, integer
from graveler.kv.record_store import Place, RecordStore
from graveler.kv.store import ABSENT, KVStore

_KEY = b"epoch"


@dataclass(frozen=True, slots=True)
class Epoch:
    """The state of sweeps at one moment.

    Attributes:
        mark: Id of the mark that is being swept, or "" for none.
        names: Key prefix of the pages that list the condemned objects. The page number follows it.
        spared: Number of pages that list the spared objects, or None before the decision.
    """

    number: int = 0
    mark: str = ""
    names: str = ""
    pages: int = 0
    spared: int | None = None
    nonce: str = ""

    @property
    def sweeping(self) -> bool:
        """Whether a sweep is running, or died before it ended."""
        return bool(self.mark)


_EPOCH = Schema(Epoch, "epoch of sweeps", types={"number": integer(least=1)}, stamped=True)


class Epochs:
    """The epoch of one repository."""

    def __init__(self, kv: KVStore, uid: str, *, clock: Clock, ids: IdSource) -> None:
        self._records: RecordStore[Epoch] = RecordStore(
            kv, f"gc:{uid}", encode=_EPOCH.encode, decode=_EPOCH.decode
        )
        self._clock = clock
        self._ids = ids

    @property
    def place(self) -> Place:
        """The place of the epoch, to read it together with others."""
        return self._records.place(_KEY)

    def read(self) -> Epoch:
        """Return the current epoch."""
        return self._records.get(_KEY) or Epoch()

    def begin(self, mark: str, *, names: str, pages: int) -> Epoch:
        """Raise the epoch unconditionally, before a sweep surveys the repository."""

        def change(now: Epoch | None) -> Epoch:
            return self._raised(now or Epoch(), Epoch(mark=mark, names=names, pages=pages))

        return self._records.update(
            _KEY, change, what=_EPOCH.what, clock=self._clock, ids=self._ids
        )

    def look_again(self, seen: Epoch) -> Epoch | None:
        """Raise the epoch so that the running sweep has to survey the repository again.

        Returns:
            None if the epoch has changed since it was `seen`.
        """
        return self._raise(seen, seen)

    def decide(self, seen: Epoch, spared: int) -> Epoch | None:
        """Record that the sweep deletes the objects of its mark, except those on `spared` pages.

        Returns:
            None if the epoch has changed since it was `seen`, so that the survey is outdated.
        """
        return self._raise(seen, replace(seen, spared=spared))

    def end(self, seen: Epoch) -> bool:
        """Record the end of the sweep. Return whether it was still running."""
        return self._raise(seen, Epoch()) is not None

    def _raise(self, seen: Epoch, new: Epoch) -> Epoch | None:
        now, predicate = self._records.find(_KEY) or (Epoch(), ABSENT)
        if now != seen:
            return None
        raised = self._raised(now, new)
        return raised if self._records.write(_KEY, raised, predicate) else None

    def _raised(self, now: Epoch, new: Epoch) -> Epoch:
        return replace(new, number=now.number + 1, nonce=self._ids.unique())
