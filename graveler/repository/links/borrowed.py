"""Borrowed bytes: entries whose bytes are in the repository's storage already.

A sweep deletes the objects that its mark lists and its survey finds unnamed. Bytes that the same call
has put are too young to be listed; borrowed bytes may be listed. A borrower therefore

1. reads the epoch of sweeps,
2. looks the objects up,
3. makes its entries visible to surveys, as staged rows that carry the epoch,
4. reads the epoch again.

If the epoch is unchanged and no sweep runs, every later sweep sees the rows. Otherwise the state of
the sweep decides: one that surveys is made to survey again; one that has decided lists on its pages
what it deletes; after one that is over, the store says what is left.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from graveler.errors import (
    BackendUnavailableError,
    CorruptionError,
    ExpiredError,
    GravelerError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    ThrottledError,
)
from graveler.model import Entry
from graveler.objects.address import is_own
from graveler.records import decode_entry, decode_json, stage_entry, staged_epoch, staged_value
from graveler.refs import Epoch
from graveler.repository.links.links import look_up
from graveler.repository.stores import Stores
from graveler.retries import backoff
from graveler.staging import HOLD

CONDEMNED: Final = "data"
SPARED: Final = "spared"
"""Kinds of a mark's pages: the files that it condemned, and those that its sweep leaves."""

_ATTEMPTS: Final = 100
_SHOWN: Final = 5


class Row(NamedTuple):
    """A staged write.

    Attributes:
        key: Of its path.
        value: Its staged form.
        borrowed: The key of the bytes in the repository's storage that it borrows, else "".
    """

    key: bytes
    value: bytes
    borrowed: str = ""


def rows_of(entries: Iterable[Entry], epoch: Epoch) -> list[Row]:
    """Return the rows of entries that were looked up under an epoch."""
    rows = []
    for entry in entries:
        key = entry.path.encode()
        own = is_own(entry.address)
        value = stage_entry(key, entry, epoch=epoch.number if own else None)
        rows.append(Row(key, value, entry.address if own else ""))
    return rows


def confirm(stores: Stores, token: str, rows: Sequence[Row], epoch: Epoch) -> None:
    """Return if every sweep to come sees what the rows borrow; else withdraw those it does not.

    Args:
        stores: The repository.
        token: Under which the rows are staged.
        rows: What is staged.
        epoch: Read before the objects were looked up.

    Raises:
        ExpiredError: A sweep has deleted some of the bytes meanwhile.
    """
    lost = _lost(stores, {row.borrowed: epoch.number for row in rows if row.borrowed})
    if not lost:
        return
    gone = [row for row in rows if row.borrowed in lost]
    for row in gone:
        stores.staging.withdraw(token, row.key, row.value)
    raise _collected([(row.key, row.borrowed) for row in gone])


@contextmanager
def held(stores: Stores, rows: Sequence[Row], epoch: Epoch) -> Iterator[None]:
    """Keep what the rows borrow while a block commits them without staging them on a branch.

    They are staged under a token of their own, which no branch names and which looks see.

    Raises:
        ExpiredError: A sweep has deleted some of the bytes meanwhile.
    """
    borrowed = [row for row in rows if row.borrowed]
    if not borrowed:
        yield
        return
    token = HOLD + stores.ids.unique()
    stores.staging.set_many(token, [(row.key, row.value) for row in borrowed])
    try:
        confirm(stores, token, borrowed, epoch)
        yield
    except (OutcomeUnknownError, BackendUnavailableError):
        raise  # the commit may land yet: collection removes what is held a window later
    except GravelerError:
        stores.staging.drop(token)
        raise
    stores.staging.drop(token)


class Borrowed:
    """What the staged rows of one commit borrow, noted while they are read."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._rows: dict[Row, int] = {}

    def note(self, key: bytes, write: bytes) -> None:
        """Note a staged write that borrows bytes."""
        epoch = staged_epoch(write)
        if epoch is not None:
            entry = decode_entry(key, staged_value(write) or b"")
            self._rows[Row(key, write, entry.address)] = epoch

    def check(self, tokens: Collection[str]) -> None:
        """Return if every sweep to come sees what was noted; call it before the branch moves.

        The rows must be visible to looks from before this call until the branch has moved.
        What was checked once is not checked again.

        Raises:
            ExpiredError: A sweep has deleted some of the bytes, so whoever staged them was told
                that it failed, or died before. They are withdrawn; committing again commits
                the rest.
        """
        rows, self._rows = self._rows, {}
        if not rows:
            return
        lost = _lost(self._stores, {row.borrowed: epoch for row, epoch in rows.items()})
        if not lost:
            return
        gone = [row for row in rows if row.borrowed in lost]
        for row in gone:
            for token in tokens:
                self._stores.staging.withdraw(token, row.key, row.value)
        raise _collected([(row.key, row.borrowed) for row in gone])


def _lost(stores: Stores, keys: Mapping[str, int]) -> set[str]:
    """Return which of the keys sweeps have deleted, or will although rows name them.

    Args:
        stores: The repository.
        keys: Objects that rows name which looks can see, each with the number of an epoch under
            which it was looked up and was there.
    """
    if not keys:
        return set()
    for attempt in range(_ATTEMPTS):
        now = stores.refs.epochs.read()
        changed = {key for key, number in keys.items() if number != now.number}
        if not now.sweeping and not changed:
            return set()
        doomed: set[str] | None = set()
        try:
            doomed = _doomed(stores, now, keys) if now.sweeping else set()
        except ObjectNotFoundError:
            if stores.refs.epochs.read() != now:
                doomed = None
            # else the sweep is over, and a key-value store of an older backup has forgotten it
            changed = set(keys)
        if doomed is None:
            backoff(stores.clock, stores.ids, attempt)
            continue
        there = look_up(stores.objects, changed - doomed)
        return doomed | {key for key in changed if key not in there}
    raise ThrottledError(f"sweeps began or ended during each of {_ATTEMPTS} looks; try again")


def _doomed(stores: Stores, now: Epoch, keys: Collection[str]) -> set[str] | None:
    """Return which of the keys the sweep that is under way deletes; None: it went on meanwhile."""
    listed = _listed(stores, f"{now.names}{CONDEMNED}", now.pages, keys)
    if not listed:
        return listed
    if now.spared is None:  # it may have looked before the rows were there
        return None if stores.refs.epochs.look_again(now) is None else set()
    return listed - _listed(stores, f"{now.names}{SPARED}", now.spared, listed)


def _listed(stores: Stores, pages: str, count: int, keys: Collection[str]) -> set[str]:
    wanted, last = set(keys), max(keys, key=str.encode).encode()
    found: set[str] = set()
    for number in range(count):
        name = f"{pages}-{number:06}"
        page = decode_json(stores.objects.get(name), f"page {name}")
        try:
            names = [str(key) for key, _ in page]
        except (TypeError, ValueError) as error:
            raise CorruptionError(f"page {name} is no list of names and sizes") from error
        found.update(wanted.intersection(names))
        if names and names[-1].encode() >= last:
            break
    return found


def _collected(lost: Sequence[tuple[bytes, str]]) -> ExpiredError:
    shown = ", ".join(f"{key.decode()!r} ({address})" for key, address in lost[:_SHOWN])
    more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    return ExpiredError(
        f"garbage collection has removed the bytes of {shown}{more}, which nothing else named: "
        "their staged entries were withdrawn. Put the bytes again, or link a copy of them; what a "
        "mark condemns can be kept by `graveler gc undelete` only until its sweep begins"
    )
