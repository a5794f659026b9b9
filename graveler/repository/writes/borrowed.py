"""Borrowed bytes: bytes that are in the storage already, so that a sweep may list them.

A borrower reads the epoch of sweeps, looks the objects up, makes rows visible that carry the epoch,
and reads it again. If it is unchanged and no sweep runs, every later sweep sees the rows; otherwise
the state of the sweep decides. See ``docs/design/0013-borrowed-bytes.md``.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from graveler.base.records import decode_json
from graveler.base.retries import backoff
from graveler.errors import (
    BackendUnavailableError,
    CorruptionError,
    ExpiredError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    ThrottledError,
)
from graveler.model import Entry
from graveler.objects.address import is_own
from graveler.reads.stores import Stores
from graveler.refs.epochs import Epoch
from graveler.repository.writes.links import look_up
from graveler.staging.area import HOLD
from graveler.values import entry_address, stage_entry, staged_epoch, staged_value

CONDEMNED = "data"
SPARED = "spared"
"""The kinds of a mark's pages: the files that it condemned, and those that its sweep spares."""

_ATTEMPTS = 100
_SHOWN = 5


class Row(NamedTuple):
    """A staged write.

    Attributes:
        borrowed: The key of the borrowed bytes in the repository's storage, or "".
        epoch: Number of the epoch under which these bytes were looked up.
    """

    key: bytes
    value: bytes
    borrowed: str = ""
    epoch: int = 0


def rows_of(entries: Iterable[Entry], epoch: Epoch) -> list[Row]:
    """Return the rows of entries that were looked up under an epoch."""
    rows = []
    for entry in entries:
        key = entry.path.encode()
        if is_own(entry.address):
            value = stage_entry(key, entry, epoch=epoch.number)
            rows.append(Row(key, value, entry.address, epoch.number))
        else:
            rows.append(Row(key, stage_entry(key, entry)))
    return rows


def borrowed_row(key: bytes, write: bytes) -> Row:
    """Return the row of a staged write that borrows bytes."""
    address = entry_address(key, staged_value(write) or b"").decode("utf-8", "surrogatepass")
    return Row(key, write, address, staged_epoch(write) or 0)


def confirm(
    stores: Stores, tokens: Collection[str], rows: Iterable[Row], *, now: Epoch | None = None
) -> None:
    """Make sure that every later sweep sees the borrowed bytes. Withdraw rows whose bytes are lost.

    The rows must be visible to surveys from before this call until a branch names their bytes.

    Args:
        now: The epoch, read after the rows were staged. None: this function reads it.
    """
    borrowed = [row for row in rows if row.borrowed]
    lost = _lost(stores, {row.borrowed: row.epoch for row in borrowed}, now)
    if not lost:
        return
    expired = [row for row in borrowed if row.borrowed in lost]
    for row in expired:
        for token in tokens:
            with suppress(OutcomeUnknownError):  # the next commit checks again
                stores.staging.withdraw(token, row.key, row.value)
    raise _collected(expired)


class Hold:
    """Rows under a token of one operation, which no branch names and which surveys read."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self.token = ""

    def add(self, rows: Sequence[Row]) -> None:
        """Stage rows under the token."""
        self.token = self.token or HOLD + self._stores.ids.unique()
        self._stores.staging.set_many(self.token, [(row.key, row.value) for row in rows])
        confirm(self._stores, [self.token], rows)

    def keep(self, rows: Sequence[Row]) -> None:
        """Stage the rows that borrow bytes. The bytes are kept while a block commits the rows."""
        borrowed = [row for row in rows if row.borrowed]
        if borrowed:
            self.add(borrowed)

    def release(self) -> None:
        """Remove the rows."""
        if self.token:
            self._stores.staging.drop(self.token)


@contextmanager
def holding(stores: Stores) -> Iterator[Hold]:
    """Yield a hold that is released when the block ends."""
    hold = Hold(stores)
    try:
        yield hold
    except (OutcomeUnknownError, BackendUnavailableError):
        raise  # the operation may still land: garbage collection removes the rows later
    except Exception:
        hold.release()
        raise
    hold.release()


def _lost(stores: Stores, keys: Mapping[str, int], seen: Epoch | None = None) -> set[str]:
    """Return the keys that sweeps have deleted, or will delete although rows name them.

    Args:
        keys: Objects that rows visible to surveys name, each with the number of an epoch under
            which it was looked up and existed.
        seen: The epoch after the rows were staged. None: this function reads it.
    """
    if not keys:
        return set()
    for attempt in range(_ATTEMPTS):
        now = stores.refs.epochs.read() if seen is None else seen
        seen = None
        changed = {key for key, number in keys.items() if number != now.number}
        if not now.sweeping and not changed:
            return set()
        doomed: set[str] | None = set()
        try:
            doomed = _doomed(stores, now, keys) if now.sweeping else set()
        except ObjectNotFoundError:
            if stores.refs.epochs.read() != now:
                doomed = None
            # otherwise the sweep is over, and a key-value store of an older backup lacks it
            changed = set(keys)
        if doomed is None:
            backoff(stores.clock, stores.ids, attempt)
            continue
        return doomed | (changed - look_up(stores.objects, changed - doomed).keys())
    raise ThrottledError(f"sweeps began or ended during each of {_ATTEMPTS} looks; try again")


def _doomed(stores: Stores, now: Epoch, keys: Collection[str]) -> set[str] | None:
    """Return the keys that the running sweep deletes, or None if it has advanced meanwhile."""
    listed = _listed(stores, f"{now.names}{CONDEMNED}", now.pages, keys)
    if not listed:
        return listed
    if now.spared is None:  # its survey may have missed the rows
        return None if stores.refs.epochs.look_again(now) is None else set()
    return listed - _listed(stores, f"{now.names}{SPARED}", now.spared, listed)


def _listed(stores: Stores, pages: str, count: int, keys: Collection[str]) -> set[str]:
    wanted, last = set(keys), max(keys, key=str.encode).encode()
    listed: set[str] = set()
    for number in range(count):
        name = f"{pages}-{number:06}"
        page = decode_json(stores.objects.get(name), f"page {name}")
        try:
            names = [str(key) for key, _ in page]
        except (TypeError, ValueError) as error:
            raise CorruptionError(f"page {name} is not a list of names and sizes") from error
        listed.update(wanted.intersection(names))
        if names and names[-1].encode() >= last:
            break
    return listed


def _collected(lost: Sequence[Row]) -> ExpiredError:
    shown = ", ".join(f"{row.key.decode()!r} ({row.borrowed})" for row in lost[:_SHOWN])
    more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    return ExpiredError(
        f"garbage collection has removed the bytes of {shown}{more}, which nothing else named: "
        "their staged entries were withdrawn. Put the bytes again, or link a copy of them; what a "
        "mark condemns can be kept by `graveler gc undelete` only until its sweep begins"
    )
