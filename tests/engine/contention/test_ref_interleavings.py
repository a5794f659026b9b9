"""Revert, cherry-pick, hard reset and undo, with another process at work between their calls."""

import itertools

import pytest

from graveler.errors import (
    GravelerError,
    MergeConflictError,
    NoChangesError,
    PreconditionFailedError,
    RefNotFoundError,
)
from graveler.model import Commit
from tests.harness.worlds import interleave, tree

BASE = {"base": "0", "bad": "1"}


def start(repo):
    """Make main with a commit to undo, a branch beside it, and a staged write."""
    main = repo.branch("main")
    main.put("base", b"0")
    main.commit("base")
    dev = repo.create_branch("dev")
    dev.put("dev", b"d")
    dev.commit("dev")
    main.put("bad", b"1")
    main.commit("bad")
    repo.tags.create("bad")
    main.put("staged", b"s")


def main_of(world):
    return world.repo(scripted=False).branch("main")


def committed(world, ref="main"):
    return tree(world.repo(scripted=False).ref(ref))


def log_of(world):
    return list(world.repo(scripted=False).moves("main"))


def assert_chained(world):
    """Assert that the log of moves has no gap, and ends at the head of main."""
    lines = log_of(world)
    for later, earlier in itertools.pairwise(lines):
        assert later.before == earlier.after
    assert lines[0].after == main_of(world).head.id


def revert(repo):
    return repo.revert("bad")


def pick(repo):
    return repo.cherry_pick("dev")


def reset(repo):
    return repo.branch("main").reset(to="main~1")


def undo(repo):
    return repo.undo("main")


def commit(repo):
    return repo.branch("main").commit("theirs")


def merge(repo):
    return repo.merge("dev", "main").commit


@pytest.mark.parametrize("mover", [revert, pick])
def test_a_commit_beside_a_revert_or_pick_lands_too(mover):
    def check(world, made, theirs):
        assert {type(made), type(theirs)} == {Commit}
        expected = BASE | {"staged": "s"}
        expected = expected | {"dev": "d"} if mover is pick else {"base": "0", "staged": "s"}
        assert committed(world) == expected == tree(main_of(world))
        ids = [commit.id for commit in world.repo(scripted=False).log("main")]
        assert {made.id, theirs.id} <= set(ids)
        assert_chained(world)

    interleave(start, mover, commit, check)
    interleave(start, commit, mover, lambda world, theirs, made: check(world, made, theirs))


def test_of_two_that_revert_the_same_one_has_nothing_to_do():
    def check(world, mine, theirs):
        assert isinstance(mine, NoChangesError)
        assert main_of(world).head == theirs
        assert committed(world) == {"base": "0"}

    interleave(start, revert, revert, check)


@pytest.mark.parametrize("mover", [revert, pick, undo, reset])
def test_a_branch_that_is_deleted_meanwhile_is_gone(mover):
    def on_dev(repo):
        if mover is reset:
            return repo.branch("dev").reset(to="dev~1")
        if mover is undo:
            return repo.undo("dev")
        if mover is revert:
            return repo.revert("dev", on="dev")
        return repo.cherry_pick("bad", onto="dev")

    def check(world, outcome, _):
        repo = world.repo(scripted=False)
        names = [record.name for record in repo.branches()]
        if "dev" in names:  # the undo reverted the deletion
            assert mover is undo
            assert committed(world, "dev") == {"base": "0", "dev": "d"}
        elif isinstance(outcome, GravelerError):
            assert isinstance(outcome, RefNotFoundError)
        last = next(repo.moves("dev"))
        assert (last.after is None) == ("dev" not in names)

    def delete(repo):
        return repo.delete_branch("dev")

    interleave(start, on_dev, delete, check)
    interleave(start, delete, on_dev, lambda world, outcome, made: check(world, made, outcome))


def test_an_undo_never_takes_back_what_its_caller_has_not_seen():
    def check(world, outcome, theirs):
        assert isinstance(theirs, Commit)
        lines = log_of(world)
        assert_chained(world)
        if isinstance(outcome, PreconditionFailedError):
            assert "undo" not in [line.action for line in lines]
            assert main_of(world).head == theirs
            return
        (undone,) = [line for line in lines if line.action == "undo"]
        # the undo reverts the latest move; this is the other move only if that came before any read
        assert undone.after == lines[lines.index(undone) + 1].before

    for other in (merge, commit):
        interleave(start, undo, other, check)


def test_of_two_that_undo_a_deletion_one_does():
    def prepare(repo):
        start(repo)
        repo.delete_branch("dev")

    def undelete(repo):
        return repo.undo("dev")

    def check(world, outcome, theirs):
        (made,) = [one for one in (outcome, theirs) if isinstance(one, Commit)]
        (failed,) = [one for one in (outcome, theirs) if isinstance(one, GravelerError)]
        assert isinstance(failed, PreconditionFailedError | RefNotFoundError)
        assert committed(world, "dev") == {"base": "0", "dev": "d"}
        assert made == world.repo(scripted=False).commit("dev")

    interleave(prepare, undelete, undelete, check)


def test_a_slow_deleter_does_not_overwrite_the_last_log_page():
    """The deleter reads the page. Another process moves and deletes the branch before it writes."""

    def move_and_delete(repo):
        repo.branch("dev").put("more", b"m")
        head = repo.branch("dev").commit("more")
        repo.delete_branch("dev")
        return head

    def check(world, outcome, head):
        assert outcome is None or isinstance(outcome, RefNotFoundError)
        if isinstance(head, Commit):
            assert world.repo(scripted=False).undo("dev") == head

    interleave(start, lambda repo: repo.delete_branch("dev"), move_and_delete, check)


def publish(repo):
    with repo.run("hour 05") as run:
        run.put("out", b"1")
    return run.result.commit


@pytest.mark.parametrize("mover", [revert, pick, reset, undo])
def test_a_run_that_is_published_beside_another_mover_lands_once(mover):
    def check(world, landed, other):
        assert isinstance(other, Commit | int | None)
        repo = world.repo(scripted=False)
        if mover in (reset, undo) and isinstance(landed, MergeConflictError):
            # main has dropped the commit from which the run was forked
            assert "out" not in committed(world)
            assert not [line for line in log_of(world) if line.action == "publish"]
            return
        assert isinstance(landed, Commit)
        record = repo.runs.get("hour 05")
        assert (str(record.state), record.commit) == ("PUBLISHED", landed.id)
        lines = log_of(world)
        assert [line.action for line in lines].count("publish") == 1
        assert [line.after for line in lines if line.action == "publish"] == [landed.id]
        assert_chained(world)
        # the work is in main unless a later undo or reset reverted the move
        newest = lines[0]
        taken_back = newest.before == landed.id and newest.action in ("undo", "reset")
        assert ("out" in committed(world)) != taken_back
        assert tree(main_of(world)).get("staged") == (None if mover is reset else "s")

    interleave(start, publish, mover, check)
    interleave(start, mover, publish, lambda w, other, landed: check(w, landed, drop_error(other)))


def drop_error(outcome):
    """An undo fails if another move came in between: count it as no undo."""
    return None if isinstance(outcome, PreconditionFailedError) else outcome
