"""Opening a run for an owner that is several processes: one opens the attempt, the rest attach.

An orchestrator runs the steps of one of its runs in processes that do not know of each other,
and may start two of them at the same moment. Who is first is decided by the one
compare-and-set on the run's record, which names the owner; whoever comes later finds itself
named there and takes the attempt as it is. Making the branch the attempt's is a second write:
every process does it, and the first one's is kept, so that nobody waits for a process that died.
"""

from typing import Final

from graveler.errors import FencedError, InvalidInputError
from graveler.repository.stores import Stores
from graveler.runs.opening import look_again, opened, take_branch, tell_resumed, was_deleted
from graveler.runs.record import RunRecord
from graveler.runs.records import RunRecords
from graveler.runs.state import RunState
from graveler.runs.terms import Terms

__all__ = ["open_or_attach"]

_OVER: Final = (RunState.PARKED, RunState.REAPED, RunState.ROLLED_BACK)


def open_or_attach(stores: Stores, records: RunRecords, key: str, terms: Terms) -> RunRecord:
    """Return the record of the owner's attempt, opened by this call or before.

    Raises:
        FencedError: The owner's attempt is over.
    """
    terms.check(key, stores.clock.now())
    owner = terms.owner
    if not owner:
        raise InvalidInputError(f"run {key!r}: name its owner, or open it with `runs.open`")

    attaches = True

    def change(record: RunRecord | None) -> RunRecord:
        nonlocal attaches
        attaches = record is not None and _is_owned(record, owner)
        if record is not None and attaches:
            return record
        return opened(stores, records, key, record, terms)

    record = records.find(key)
    if record is None or not _is_owned(record, owner):
        record = records.update(key, change)
    if record.state is not RunState.OPEN:
        return record  # its branch was made long ago
    if attaches and was_deleted(stores, record):
        _check_is_over(records.get(key), record)
    else:
        take_branch(stores, record)
    now = look_again(stores, records, record)
    if not _is_owned(now, owner):
        raise FencedError(f"run {key!r} is at attempt {now.attempt}, opened since")
    if not attaches:
        tell_resumed(stores, now)
    return now


def _check_is_over(now: RunRecord, record: RunRecord) -> None:
    """Refuse to go on with an attempt whose branch is gone, though nobody has ended it."""
    if now.fence == record.fence and now.state is RunState.OPEN:
        raise FencedError(
            f"run {record.key!r}: its branch {record.branch!r} was deleted, and with it what was "
            f"staged there: attempt {record.attempt} cannot go on; start a new one, which has all "
            "that was committed"
        )


def _is_owned(record: RunRecord, owner: str) -> bool:
    """Return whether the present attempt is the owner's; refuse one whose attempt is over.

    One whose attempt was ended because it was silent, a step that waited for its retry, say,
    opens the next one, as long as nobody else has.
    """
    if owner in record.owners:
        raise FencedError(
            f"run {record.key!r} is at attempt {record.attempt}, opened since {owner} had it: stop"
        )
    if record.owner != owner or (record.lapsed and record.live):
        return False
    if record.state in _OVER:
        raise FencedError(
            f"run {record.key!r}: the attempt of {owner} is over, it is {record.state} "
            f"({record.reason or 'no reason given'}): start a new one"
        )
    return True
