"""A lake with a repository, no lake left open by the resource, and a temporary Dagster instance."""

import dagster as dg
import pytest

import graveler
from dagster_graveler import GravelerResource
from dagster_graveler.resource import forget_runs
from graveler.lake.shared import close_lakes


@pytest.fixture
def lake(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as made:
        made.create_repository("flights").protection.add("main")
    yield str(tmp_path / "lake")
    forget_runs()
    close_lakes()


@pytest.fixture
def resource(lake):
    return GravelerResource(lake=lake, repository="flights")


@pytest.fixture
def repo(resource):
    return resource.repo()


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as made:
        yield made
