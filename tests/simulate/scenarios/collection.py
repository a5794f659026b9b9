"""Garbage collection with concurrent writers, borrowers and restored branches."""

from contextlib import suppress
from datetime import timedelta
from typing import Any, NoReturn
from unittest.mock import patch

from graveler.gc.files import FileRecords, FileState
from graveler.gc.marks import MarkState
from graveler.gc.sweep import Sweep
from graveler.lake.repository import Repository
from graveler.model import Entry
from graveler.testing.faults import ProcessDied
from tests.simulate.scenarios.actions import (
    commit,
)
from tests.simulate.scenarios.scenario import Scenario
from tests.simulate.schedules.client import Client

_SWEEPABLE = (MarkState.CONDEMNED, MarkState.SWEEPING)


REFUSED = frozenset({"ExpiredError", "ObjectNotFoundError", "NoChangesError"})


def _uploads(c: Client) -> None:
    """Stage files that no commit holds, some of them under a sealed token."""
    c.upload("k", "sealed")
    c.seal()
    c.upload("j", "staged")


_FORSAKEN: dict[str, str] = {}
"""The head of the deleted branch, which the preparation passes to the schedules."""


def _forsaken(c: Client) -> None:
    """Leave a commit and tables in the storage to which nothing refers."""
    c.put("k", "old")
    c.commit()
    c.create_branch("dev", contents={"k": "old"})
    c.put("d", "x", "dev")
    _FORSAKEN["dev"] = c.commit("dev")
    c.delete_branch("dev")


def _condemned(c: Client) -> None:
    _forsaken(c)
    mark_all(c)


def mark_all(c: Client) -> None:
    c.other("mark", lambda repo, _: repo.gc.mark(grace=timedelta(0), window=timedelta(0)).id)


def _mark(c: Client) -> None:
    c.other("mark", lambda repo, _: repo.gc.mark().id)


def sweep(c: Client) -> None:
    """Sweep every mark that can be swept."""

    def sweep(repo: Repository, _: str) -> None:
        for mark in list(repo.gc.marks()):
            if mark.state in _SWEEPABLE:
                repo.gc.sweep(mark.id)

    c.other("sweep", sweep)


def _half_swept(c: Client) -> None:
    """Let a sweep die after it deleted a table and before it records the deletion."""
    _condemned(c)
    stores = c.repository.stores
    (mark,) = c.repository.gc.marks()
    write = FileRecords.write

    def die_when_deleted(files: FileRecords, *given: Any) -> bool:
        if given[1].state is FileState.DELETED:
            raise ProcessDied("while sweeping")
        return write(files, *given)

    with patch.object(FileRecords, "write", die_when_deleted), suppress(ProcessDied):
        c.repository.gc.sweep(mark.id)
    stores.kv.delete(f"gc:{stores.uid}", b"lease")  # it would be waited for, for a minute


def _again(c: Client) -> None:
    """Make a tree that is equal to a tree without references."""
    c.put("d", "x")
    c.commit()


def _back(c: Client) -> None:
    """Create a branch at a commit without references."""
    c.create_branch("back", _FORSAKEN["dev"], contents={"k": "old", "d": "x"})


_LENT: list[Entry] = []
"""The contents of a condemned commit, as read before the schedule."""


def _lent(c: Client) -> None:
    """Condemn a commit whose bytes in the storage have no other reference."""
    c.put("k", "old")
    c.commit()
    c.create_branch("dev", contents={"k": "old"})
    c.upload("d", "x", "dev")
    c.commit("dev")
    _LENT[:] = [c.repository.ref("dev").stat("d")]
    c.delete_branch("dev")
    mark_all(c)


def _half_collected(c: Client) -> None:
    """Let a sweep die after it decided what to delete."""
    _lent(c)
    stores = c.repository.stores
    (mark,) = c.repository.gc.marks()

    def die(*_: Any) -> NoReturn:
        raise ProcessDied("while sweeping")

    with patch.object(Sweep, "_delete_data", die), suppress(ProcessDied):
        c.repository.gc.sweep(mark.id)
    stores.kv.delete(f"gc:{stores.uid}", b"lease")  # it would be waited for, for a minute


def _borrow(c: Client) -> None:
    c.borrow(_LENT[0])


def _patch(c: Client) -> None:
    """Commit a borrowing entry without staging it."""

    def make(repo: Repository, message: str) -> str:
        made = repo.branch("main").commit_changes(_LENT, message=message, committer="simulated")
        return made.id

    c.other("revert", make, writes={"d": "x"})


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "mark-staged",
        {"collector": _mark, "writer": lambda c: c.upload("w", "new")},
        _uploads,
        finish=sweep,
        all_steps=True,
    ),
    Scenario(
        "sweep-write",
        {"collector": sweep, "writer": _again},
        _condemned,
        finish=sweep,
        all_steps=True,
        errors=frozenset({"ThrottledError"}),
    ),
    Scenario(
        "half-swept-write",
        {"writer": _again, "collector": sweep},
        _half_swept,
        finish=sweep,
        all_steps=True,
        errors=frozenset({"ThrottledError"}),
    ),
    Scenario(
        "sweep-branch",
        {"collector": sweep, "brancher": _back},
        _condemned,
        finish=sweep,
        all_steps=True,
        errors=frozenset({"ExpiredError"}),
    ),
    Scenario(
        "mark-write",
        {"collector": _mark, "writer": _again},
        _forsaken,
        finish=sweep,
        all_steps=True,
    ),
    Scenario(
        "mark-branch",
        {"collector": _mark, "brancher": _back},
        _forsaken,
        finish=sweep,
        all_steps=True,
        errors=frozenset({"ExpiredError"}),
    ),
    Scenario(
        "sweep-borrow",
        {"collector": sweep, "borrower": _borrow},
        _lent,
        finish=sweep,
        all_steps=True,
        errors=REFUSED,
    ),
    Scenario(
        "sweep-borrow-commit",
        {"collector": sweep, "borrower": _borrow, "committer": commit},
        _lent,
        finish=sweep,
        all_steps=True,
        errors=REFUSED,
    ),
    Scenario(
        "sweep-patch",
        {"collector": sweep, "borrower": _patch},
        _lent,
        finish=sweep,
        all_steps=True,
        errors=REFUSED,
    ),
    Scenario(
        "half-swept-borrow",
        {"collector": sweep, "borrower": _borrow},
        _half_collected,
        finish=sweep,
        all_steps=True,
        errors=REFUSED,
    ),
)
