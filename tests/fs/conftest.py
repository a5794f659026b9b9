"""A lake that is opened by its address alone, as another program does: in memory or in a folder."""

import pytest

import graveler
from graveler.base.background import Inline
from graveler.config import LakeConfig
from graveler.fs import GravelerFileSystem, close_lakes, share_lake
from graveler.lake.factory import connect
from graveler.repository.writes import unfinished
from graveler.testing.clock import FakeClock, SequenceIds


@pytest.fixture(autouse=True)
def _forgotten():
    yield
    GravelerFileSystem.clear_instance_cache()
    close_lakes()
    for files in list(unfinished._files.values()):  # the ids of repositories repeat in tests
        for file in list(files.values()):
            file.discard()


@pytest.fixture
def lake(tmp_path):
    config = LakeConfig(str(tmp_path), "mem://", f"mem://{tmp_path.name}", cache_folder=None)
    with connect(config, clock=FakeClock(), ids=SequenceIds(), background=Inline()) as opened:
        share_lake(opened)
        yield opened


@pytest.fixture
def repo(lake):
    made = lake.create_repository("flights")
    made.create_branch("dev")
    return made


@pytest.fixture
def grav(lake, repo):
    return GravelerFileSystem(lake.location)


@pytest.fixture
def folder_lake(tmp_path):
    """A lake that other processes can open too."""
    with graveler.open(tmp_path / "lake", create=True) as opened:
        opened.create_repository("flights").create_branch("dev")
        yield opened
