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
from graveler.runs.opening import look_again, opened, take_branch
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
    owner = terms.owner
    if not owner:
        raise InvalidInputError(f"run {key!r}: name its owner, or open it with `runs.open`")

    def change(record: RunRecord | None) -> RunRecord:
        if record is not None and _is_owned(record, owner):
            return record
        return opened(stores, records, key, record, terms)

    record = records.find(key)
    if record is None or not _is_owned(record, owner):
        record = records.update(key, change)
    if record.state is not RunState.OPEN:
        return record  # its branch was made long ago
    take_branch(stores, record)
    now = look_again(stores, records, record)
    if not _is_owned(now, owner):
        raise FencedError(f"run {key!r} is at attempt {now.attempt}, opened since")
    return now


def _is_owned(record: RunRecord, owner: str) -> bool:
    """Return whether the present attempt is the owner's; refuse one whose attempt is over."""
    if owner in record.owners:
        raise FencedError(
            f"run {record.key!r} is at attempt {record.attempt}, opened since {owner} had it: stop"
        )
    if record.owner != owner:
        return False
    if record.state in _OVER:
        raise FencedError(
            f"run {record.key!r}: the attempt of {owner} is over, it is {record.state} "
            f"({record.reason or 'no reason given'}): start a new one"
        )
    return True
