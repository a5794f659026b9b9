"""The states of a run, the events that are allowed in each, and its publishes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from graveler.base.records import Digest, DigestOrNone, Name
from graveler.errors import RunStateError
from graveler.gates import Verdict

_PUBLISHES_KEPT = 50
_JUDGED = 10


class RunState(StrEnum):
    """The state of a run.

    Attributes:
        NONE: There is no run of the key.
        OPEN: An attempt works.
        PUBLISHING: A judged candidate lands.
        PUBLISHED: The target holds the run.
        PARKED: The run is set aside for a newer attempt.
        REAPED: The run is given up, and its branch is deleted.
        ROLLED_BACK: The run is reverted on the target.
    """

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


TRANSITIONS: Mapping[tuple[RunState, RunEvent], RunState] = {
    (RunState.NONE, RunEvent.OPENED): RunState.OPEN,
    (RunState.OPEN, RunEvent.OPENED): RunState.OPEN,
    (RunState.PARKED, RunEvent.OPENED): RunState.OPEN,
    (RunState.PUBLISHED, RunEvent.OPENED): RunState.OPEN,
    (RunState.REAPED, RunEvent.OPENED): RunState.OPEN,
    (RunState.ROLLED_BACK, RunEvent.OPENED): RunState.OPEN,
    # only after the new attempt has seen that the candidate did not land
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
    """Return the state that follows."""
    after = TRANSITIONS.get((state, event))
    if after is None:
        raise RunStateError(
            f"run {key!r} is {state}: cannot {event}; a new attempt (`repo.runs.open`, `graveler run "
            "open`) keeps everything committed"
        )
    return after


@dataclass(frozen=True, slots=True)
class Publish:
    """One publish of a run; later attempts of the run do not change it.

    Attributes:
        commit: The target's commit that has the run's work.
        head: The head of the run's branch.
        into: The target.
        attempt: The attempt that published.
        at: Time.
        changed: Whether it changed a file of the target; an attempt that writes equal files again
            does not.
        verdicts: The verdicts of the gates; kept for the latest 10 publishes.
        rollback: The commit that reverted it; "" while it stands.
        lost: Whether the target has lost it, by a reset or its deletion. Only `Runs.publishes`
            and `Runs.on_targets` compare with the target; it is not part of the record.
    """

    commit: Digest
    head: Digest
    into: Name
    attempt: int
    at: datetime
    changed: bool = True
    verdicts: tuple[Verdict, ...] = ()
    rollback: DigestOrNone = ""
    lost: bool = False


def with_publish(publishes: Sequence[Publish], new: Publish) -> tuple[Publish, ...]:
    """Return the publishes of a run with a new one, the newest last; at most 50.

    A publish that changed nothing is dropped before one that did, because a rollback needs the latter.
    """
    kept = (*publishes, new)
    if len(kept) > _PUBLISHES_KEPT:
        spare = next((at for at, publish in enumerate(kept[:-1]) if not publish.changed), 0)
        kept = kept[:spare] + kept[spare + 1 :]
    bare = tuple(replace(publish, verdicts=()) for publish in kept[:-_JUDGED])
    return bare + kept[-_JUDGED:]


def with_rollback(
    publishes: Sequence[Publish], commit: str, rollback: str, rests: Callable[[Publish], bool]
) -> tuple[Publish, ...]:
    """Return the publishes of a run after a revert of the publish `commit`.

    Later publishes that changed nothing depend on it, and are reverted with it.
    """
    marked: list[Publish] = []
    reverted: Publish | None = None
    for publish in publishes:
        mine = publish.changed and publish.commit == commit
        if mine:
            reverted = publish
        elif reverted is not None and publish.into == reverted.into:
            if publish.changed and not publish.rollback:
                reverted = None
            else:
                mine = not publish.changed and rests(publish)
        marked.append(replace(publish, rollback=rollback) if mine else publish)
    return tuple(marked)


def latest_change(publishes: Sequence[Publish]) -> Publish | None:
    """Return the latest publish that changed its target, and is on the target of the latest one."""
    mine = (
        item for item in reversed(publishes) if item.changed and item.into == publishes[-1].into
    )
    return next(mine, None)


def last_change(publishes: Sequence[Publish]) -> Publish | None:
    """Return the latest publish, or the publish on which it depends if it changed nothing.

    The result is None if no publish changed the target.
    """
    for publish in reversed(publishes):
        last = publishes[-1]
        mine = (publish.into, publish.rollback, publish.lost)
        if publish.changed and mine == (last.into, last.rollback, last.lost):
            return publish
    return None
