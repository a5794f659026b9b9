"""Steps that belong to one program in each attempt, and the memory of their joins."""

import pytest

from graveler.errors import AlreadyExistsError
from graveler.runs.steps.environment import StepEnvironment, StepHandle

KEY = "hourly 2013-01-01T05:00"


@pytest.fixture
def run(repo):
    return repo.runs.open(KEY)


def write(run, owner, path, step="load"):
    with run.step(step, owner=owner) as opened:
        opened.put(path, b"1")
    return opened.result


def test_a_step_has_one_owner_in_an_attempt(repo, run, tree):
    write(run, "north", "a")
    with pytest.raises(AlreadyExistsError, match="belongs to 'north', and 'south' would replace"):
        run.step("load", owner="south")
    write(run, "north", "b")
    assert tree(run) == {"settled": "0", "b": "1"}
    write(repo.runs.open(KEY), "south", "c")
    assert tree(run) == {"settled": "0", "c": "1"}


def test_an_open_or_joined_step_has_an_owner_a_failed_one_none(run, tree):
    with pytest.raises(ZeroDivisionError), run.step("load", owner="north"):
        raise ZeroDivisionError
    step = run.step("load", owner="south")
    for joined in (False, True):
        if joined:
            step.put("a", b"1")
            step.join()
            with pytest.raises(ZeroDivisionError), run.step("load", owner="south"):
                raise ZeroDivisionError  # the joined work is still there
        with pytest.raises(AlreadyExistsError):
            run.step("load", owner="north")
    assert tree(run) == {"settled": "0", "a": "1"}


def test_the_last_joins_outlive_the_branch(repo, run):
    first = write(run, "north", "a")
    write(run, "north", "b", "other")
    write(run, "", "c", "unowned")
    last = write(run, "north", "d")
    run.abandon()
    again = repo.runs.open(KEY)
    made = {step: commit.id for step, commit in again.last_joins().items()}
    assert made.keys() == {"load", "other"}
    assert made["load"] == last.id != first.id
    write(again, "north", "d")
    assert again.lost_steps(made) == ("load", "other")  # by another commit
    with again.step("other", owner="north"):
        pass
    assert again.last_joins().keys() == {"load"}


def test_a_program_takes_the_owner_of_its_step_along(repo, run):
    write(run, "north", "a")
    named = StepHandle.from_text(StepHandle("load", owner="south").to_json())
    given = StepEnvironment(run.handle, named)
    with pytest.raises(AlreadyExistsError), repo.runs.working(given):
        pass
    of_version_0_2 = '{"name": "a", "try_number": 1, "metadata": {}, "fence": ""}'
    assert StepHandle.from_text(of_version_0_2) == StepHandle("a")
