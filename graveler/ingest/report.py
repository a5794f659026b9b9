"""What an ingestion answers: a tick, an hour, a release, how things stand."""

from dataclasses import dataclass

from graveler.ingest.record import HourState, Quarantine
from graveler.model import Commit
from graveler.runs.record import Refusal


@dataclass(frozen=True, slots=True)
class Hour:
    """Where an hour stands.

    Attributes:
        hour: The hour, ``2013-01-01T05:00Z``.
        state: Where it stands.
        commit: What was committed for it on the ingestion branch, the last of it; None where
            nothing was staged.
        published: The commit on the target that holds it, or None.
        late: Earlier hours of which it brings files.
        quarantined: The branches its change was moved to.
        refused: Why it is held or in quarantine, or None.
    """

    hour: str
    state: HourState
    commit: Commit | None = None
    published: Commit | None = None
    late: tuple[str, ...] = ()
    quarantined: tuple[str, ...] = ()
    refused: Refusal | None = None


class Tick(Hour):
    """What became of the hour that a tick was called for; every caller gets the same."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Release:
    """What releasing a quarantine did.

    Attributes:
        name: Of the quarantine.
        commit: The commit on the target that holds it.
        already: It had been released before.
    """

    name: str
    commit: Commit
    already: bool


@dataclass(frozen=True, slots=True)
class Status:
    """How an ingestion branch stands.

    Attributes:
        branch: Its name.
        into: Where it is published.
        staged: How many paths are staged for the next hour.
        pending: Hours that are committed and not published.
        held: Why publishing is held, or None.
        quarantined: What is in quarantine.
    """

    branch: str
    into: str
    staged: int
    pending: tuple[Hour, ...]
    held: Refusal | None
    quarantined: tuple[Quarantine, ...]
