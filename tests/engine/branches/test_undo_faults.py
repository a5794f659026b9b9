"""A fault at every call of an undo: the branch is at its old or its new position."""

import logging
from itertools import count

import pytest

from graveler.errors import AlreadyExistsError, GravelerError
from graveler.repository.commits.sealing import _seal
from graveler.testing.faults import lost_reply
from tests.harness.histories import commit
from tests.harness.operations.undo import OPERATIONS, start
from tests.harness.worlds import FAULTS, ScriptedWorld, outcome_of, struck_worlds, tree


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL)


def snapshot(repo):
    seen = {record.name: tree(repo.branch(record.name)) for record in repo.branches()}
    seen["tags"] = repo.tags.list()
    logs = {name: repo.moves(name) for name in ("main", "dev")}
    logs |= {name: repo.tags.moves(name) for name in ("v1", "v2")}
    for name, log in logs.items():
        seen["log", name] = [(line.action, line.before, line.after) for line in log]
    return seen


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_branch_and_log_are_old_or_new_together(operation, fault):
    prepare, operate = OPERATIONS[operation]
    world = ScriptedWorld()
    prepare(world.repo(scripted=False))
    old = snapshot(world.repo(scripted=False))
    operate(world.repo(scripted=False))
    new = snapshot(world.repo(scripted=False))
    assert old != new
    for struck, what, failed in struck_worlds(fault, prepare, operate):
        seen = snapshot(struck.repo(scripted=False))
        assert seen in (old, new), what
        if failed is None:
            assert seen == new, f"{what}: acknowledged, but not there"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_tag_that_was_not_made_is_not_in_the_log(fault):
    """The name is taken. The move that was logged in advance is removed or ignored."""

    def make(repo):
        with pytest.raises(AlreadyExistsError):
            repo.tags.create("v1", "dev")

    for world, what, _ in struck_worlds(fault, start, make):
        repo = world.repo(scripted=False)
        (line,) = repo.tags.moves("v1")
        assert line.after == repo.tags.list()["v1"], what


def test_an_undo_that_was_lost_is_not_taken_for_an_earlier_one():
    """The log has an undo to the same head. The second undo is lost, and a later write lands."""
    struck = []
    for number in count(1):
        world = ScriptedWorld()
        other = world.repo(scripted=False)
        main = other.branch("main")
        for content in ("1", "2"):
            commit(main, a=content)
        first = other.undo("main")
        commit(main, a="3")
        main.put("staged", b"s")

        def lose(call, other=other):
            _seal(other.stores, "main", "")
            lost_reply(call)

        repo = world.repo()
        world.script.arm(number, lose)
        undone = outcome_of(lambda repo: repo.undo("main"), repo)
        struck.append(world.script.disarm())
        if isinstance(undone, GravelerError):
            continue
        assert main.head == first, struck[-1]
        assert main.get("staged") == b"s"
        if not struck[-1]:
            break
    assert "set_if" in struck
