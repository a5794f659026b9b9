"""A fault at every call of a mark, a sweep or an undelete: nothing is lost, and a retry works."""

import logging

import pytest

from graveler.gc.marks import MarkState
from tests.harness.gc_lakes import NOW, check_sound, commit, keys, pass_days
from tests.harness.operations.collection import mark, marked, start, sweep, undelete
from tests.harness.worlds import FAULTS, ScriptedWorld, struck_worlds


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL)


def finished():
    """Return the number of keys, and the readable content, after a collection without faults."""
    world = ScriptedWorld()
    repo = world.repo(scripted=False)
    marked(repo)
    sweep(repo)
    return len(keys(repo)), check_sound(repo)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("operation", [mark, sweep, undelete])
def test_nothing_is_lost_and_it_can_be_repeated(operation, fault):
    left, seen = finished()
    prepare = start if operation is mark else marked
    for world, what, failed in struck_worlds(fault, prepare, operation):
        repo = world.repo(scripted=False)
        assert check_sound(repo) == seen, what
        if operation is sweep:
            assert sweep(repo).state is MarkState.SWEPT, what
        else:
            if operation is mark and failed is None:
                assert next(iter(repo.gc.marks())).state is MarkState.CONDEMNED, what
            if operation is undelete:
                undelete(repo)
                assert not list(repo.stores.refs.expired.list()), what
            new = repo.gc.mark()
            pass_days(world, 8)
            repo.gc.sweep(new.id)
        assert check_sound(repo) == seen, what
        # files of a table that was condemned earlier go with the next collection
        for _ in range(2):
            repo.gc.run(grace=NOW, window=NOW)
        assert len(keys(repo)) == left, what
        assert check_sound(repo) == seen, what
        assert not [token for token in repo.stores.staging.tokens() if _dead(repo, token)], what


def _dead(repo, token):
    return all(
        token not in (record.staging_token, *record.sealed_tokens)
        for record in repo.branches(hidden=True)
    )


@pytest.mark.parametrize("fault", FAULTS)
def test_a_dry_run_that_fails_leaves_nothing(fault):
    for world, what, _ in struck_worlds(fault, start, lambda repo: repo.gc.mark(dry_run=True)):
        repo = world.repo(scripted=False)
        assert list(repo.gc.marks()) == [], what
        assert list(repo.stores.refs.expired.list()) == [], what


@pytest.mark.parametrize("fault", FAULTS)
def test_a_writer_that_takes_over_a_table_meets_a_fault(fault):
    def prepare(repo):
        commit(repo, "main", a="1")
        commit(repo, "dev", x="x")  # one range, so that no threads put ranges
        repo.delete_branch("dev")
        repo.stores.clock.sleep(2 * 86_400)
        assert repo.gc.mark().condemned["ranges"].count == 1

    def write(repo):
        return commit(repo, "again", x="x")

    for world, what, failed in struck_worlds(fault, prepare, write):
        repo = world.repo(scripted=False)
        seen = check_sound(repo)
        pass_days(world, 8)
        sweep(repo)
        assert check_sound(repo) == seen, what
        if failed is None:
            assert seen["again"]["x"] == "x", what
