"""The states of a run and the events that are allowed in each."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from graveler.errors import RunStateError


class RunState(StrEnum):
    """The state of a run."""

    NONE = "NONE"
    OPEN = "OPEN"
    PUBLISHING = "PUBLISHING"
    PUBLISHED = "PUBLISHED"
    PARKED = "PARKED"
    REAPED = "REAPED"
    ROLLED_BACK = "ROLLED_BACK"


class RunEvent(StrEnum):
    """An event in the life of a run."""

    OPENED = "open"
    CANDIDATE = "publish"
    LANDED = "the target moved to the candidate"
    LOST = "the target moved elsewhere"
    PARKED = "park"
    ABANDONED = "abandon"
    ROLLED_BACK = "roll back"


TRANSITIONS: Final[Mapping[tuple[RunState, RunEvent], RunState]] = {
    (RunState.NONE, RunEvent.OPENED): RunState.OPEN,
    (RunState.OPEN, RunEvent.OPENED): RunState.OPEN,
    (RunState.PARKED, RunEvent.OPENED): RunState.OPEN,
    (RunState.PUBLISHED, RunEvent.OPENED): RunState.OPEN,
    (RunState.REAPED, RunEvent.OPENED): RunState.OPEN,
    (RunState.ROLLED_BACK, RunEvent.OPENED): RunState.OPEN,
    # only after the newcomer has seen that the candidate did not land
    (RunState.PUBLISHING, RunEvent.OPENED): RunState.OPEN,
    (RunState.OPEN, RunEvent.CANDIDATE): RunState.PUBLISHING,
    (RunState.OPEN, RunEvent.LANDED): RunState.PUBLISHED,  # nothing to merge
    (RunState.PUBLISHING, RunEvent.LANDED): RunState.PUBLISHED,
    (RunState.PUBLISHING, RunEvent.LOST): RunState.OPEN,
    (RunState.OPEN, RunEvent.PARKED): RunState.PARKED,
    (RunState.PARKED, RunEvent.PARKED): RunState.PARKED,  # orchestrators call twice
    (RunState.OPEN, RunEvent.ABANDONED): RunState.REAPED,
    (RunState.PARKED, RunEvent.ABANDONED): RunState.REAPED,
    (RunState.REAPED, RunEvent.ABANDONED): RunState.REAPED,
    (RunState.PUBLISHED, RunEvent.ROLLED_BACK): RunState.ROLLED_BACK,
    (RunState.ROLLED_BACK, RunEvent.ROLLED_BACK): RunState.ROLLED_BACK,
}


def next_state(key: str, state: RunState, event: RunEvent) -> RunState:
    """Return the state that follows.

    Raises:
        RunStateError: The event cannot happen in that state.
    """
    after = TRANSITIONS.get((state, event))
    if after is None:
        raise RunStateError(
            f"run {key!r} is {state}: cannot {event}; a new attempt (`repo.runs.open`) goes on "
            "from what is committed"
        )
    return after
