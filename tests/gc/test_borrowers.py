"""Entries that reuse bytes beside a sweep: the sweep sees them, or they are refused.

The bytes are those of a commit that no ref names any more: it is condemned, its window is over,
and it can still be read.
"""

from contextlib import suppress
from dataclasses import replace

import pytest

from graveler.errors import (
    ExpiredError,
    GravelerError,
    NoChangesError,
    ObjectNotFoundError,
)
from graveler.model import Entry
from graveler.repository.writes import bundles
from graveler.testing.faults import ProcessDied
from tests.harness.gc_lakes import NOW, check_sound, commit, days
from tests.harness.operations.collection import sweep
from tests.harness.worlds import ScriptedWorld, interleave, outcome_of, struck_worlds, tree

LOST = {"g0": "garbage 0", "g1": "garbage 1"}
_READ: list[Entry] = []


def condemned(repo):
    commit(repo, "main", "base", a="1")
    commit(repo, "dev", "lost", **LOST)
    _READ[:] = [entry for entry in repo.branch("dev").entries() if entry.path in LOST]
    repo.delete_branch("dev")
    repo.create_branch("again")
    repo.branch("again").put("g0", b"earlier")
    days(repo, 2)
    repo.gc.mark()
    days(repo, 8)


def lost_entries(_repo):
    """Return the entries as they were before the sweep."""
    return list(_READ)


def link_many(repo):
    again = repo.branch("again")
    again.link_many(lost_entries(repo))
    again.commit("linked")


def commit_changes(repo):
    repo.branch("again").commit_changes(lost_entries(repo), message="linked")


def merge_by_a_resolver(repo):
    lost = {entry.path: entry for entry in lost_entries(repo)}
    repo.create_branch("side", "again")
    for name in ("side", "again"):
        commit(repo, name, name, **dict.fromkeys(LOST, name))
    repo.merge("side", into="again", strategy=lambda conflict: lost[conflict.path])


def move_of_staged(repo):
    again = repo.branch("again")
    again.link_many(replace(entry, path=f"from/{entry.path}") for entry in lost_entries(repo))
    again.move("from/", "")
    again.commit("moved")


def copy_in_chunks(repo):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundles, "CHUNK", 1)
        again = repo.branch("again")
        again.link_many(replace(entry, path=f"from/{entry.path}") for entry in lost_entries(repo))
        again.copy(again, "from/", "")
        again.commit("copied")


def link_in_a_run(repo):
    with repo.run("hour", into="main") as run:
        run.link_many(lost_entries(repo))


BORROWERS = {
    work.__name__: work
    for work in (
        link_many,
        commit_changes,
        merge_by_a_resolver,
        move_of_staged,
        copy_in_chunks,
        link_in_a_run,
    )
}
REFUSED = (ExpiredError, ObjectNotFoundError)


def check(world, borrower, swept):
    assert not isinstance(swept, GravelerError), repr(swept)
    assert not isinstance(borrower, GravelerError) or isinstance(borrower, REFUSED), repr(borrower)
    repo = world.repo(scripted=False)
    everywhere = check_sound(repo)
    seen = everywhere["again"]
    if not isinstance(borrower, GravelerError):
        assert any(found.items() >= LOST.items() for found in (seen, everywhere["main"]))
    with suppress(NoChangesError):
        repo.branch("again").commit("what is left")
    assert tree(repo.ref("again")) == seen
    days(repo, 2)
    repo.gc.run(window=NOW)
    days(repo, 8)
    repo.gc.run(window=NOW)
    assert check_sound(repo)["again"] == seen


@pytest.mark.parametrize("borrower", BORROWERS)
def test_a_sweep_comes_in_between_the_steps_of_a_borrower(borrower):
    interleave(
        condemned,
        BORROWERS[borrower],
        sweep,
        check,
        least=6,
    )


@pytest.mark.parametrize("borrower", BORROWERS)
def test_a_borrower_comes_in_between_the_steps_of_a_sweep(borrower):
    interleave(
        condemned,
        sweep,
        BORROWERS[borrower],
        lambda world, swept, borrowed: check(world, borrowed, swept),
        least=30,
    )


@pytest.mark.parametrize("borrower", ["link_many", "link_in_a_run"])
def test_a_borrower_dies_and_a_sweep_and_a_commit_come_after_it(borrower):
    """Its staged rows are not acknowledged. A commit includes them only if their bytes exist."""
    for world, what, _ in struck_worlds("dies", condemned, BORROWERS[borrower], step=5):
        repo = world.repo(scripted=False)
        sweep(repo)
        for _ in range(2):
            with suppress(NoChangesError, ExpiredError):
                repo.branch("again").commit("what there is")
        assert check_sound(repo), what


def test_a_commit_refuses_rows_of_a_dead_borrower_keeps_the_rest():
    """A sweep passes between the borrower's look and its staged rows. Then the borrower dies."""
    world = ScriptedWorld()
    repo = world.repo(scripted=False)
    condemned(repo)
    process = world.repo()
    staging = process.stores.staging
    set_many = staging.set_many

    def late(token, items):
        sweep(repo)
        set_many(token, items)
        raise ProcessDied("set_many")

    staging.set_many = late
    with pytest.raises(ProcessDied):
        process.branch("again").link_many(
            [*lost_entries(process), replace(process.branch("main").stat("a"), path="b")]
        )
    with pytest.raises(ExpiredError, match=r"g0.*g1.*withdrawn.*gc undelete"):
        repo.branch("again").commit("takes it along")
    repo.branch("again").commit("the rest")
    assert check_sound(repo)["again"] == {"a": "1", "b": "1"}


def test_acknowledged_rows_are_committed_despite_earlier_sweeps():
    """The sweep dies at one of its calls, or ends, and a commit follows."""

    def linked(repo):
        condemned(repo)
        repo.branch("again").link_many(lost_entries(repo))

    for world, what, _ in struck_worlds("dies", linked, sweep):
        repo = world.repo(scripted=False)
        repo.branch("again").commit("acknowledged")
        sweep(repo)
        assert check_sound(repo)["again"] == {"a": "1", **LOST}, what


def test_a_sweep_looks_again_at_a_listed_file_that_is_borrowed():
    world = ScriptedWorld()
    repo = world.repo(scripted=False)
    condemned(repo)
    borrower = world.repo(scripted=False)
    looks: list[int] = []

    def meanwhile(what, done, _known):
        if what == "trees" and not looks:  # the branches are already read
            looks.append(done)
            borrower.branch("again").link_many(lost_entries(borrower))

    mark = next(iter(repo.gc.marks()))
    swept = repo.gc.sweep(mark.id, progress=meanwhile)
    assert looks
    assert swept.spared["data"].count == 2
    assert check_sound(repo)["again"] == {"a": "1", **LOST}
    assert outcome_of(sweep, repo).state == "swept"
