"""A repository on disk, to read from and write to with Spark."""

import pytest

import graveler
from tests.harness.commands import cli  # noqa: F401 - fixture


@pytest.fixture
def repo(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        yield lake.create_repository("tables")


@pytest.fixture
def branch(repo):
    return repo.create_branch("dev")
