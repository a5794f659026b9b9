"""A world, and a repository with nine files."""

import pytest

from tests.harness.gc_lakes import commit
from tests.harness.worlds import ScriptedWorld


@pytest.fixture
def world():
    return ScriptedWorld()


@pytest.fixture
def repo(world):
    repo = world.repo(scripted=False)
    commit(repo, "main", "base", **{f"p{number}": str(number) for number in range(9)})
    return repo
