"""A repository with a protected main, like that of a pipeline."""

import pytest

from graveler.base.background import Inline
from graveler.committed.splitting import Splitting
from graveler.config import LakeConfig
from graveler.lake.factory import connect
from graveler.testing.clock import FakeClock, SequenceIds
from tests.runs.histories import History


@pytest.fixture
def lake(tmp_path):
    config = LakeConfig(str(tmp_path), "mem://", f"mem://{tmp_path.name}", cache_folder=None)
    with connect(config, clock=FakeClock(), ids=SequenceIds(), background=Inline()) as opened:
        yield opened


@pytest.fixture
def repo(lake):
    made = lake.create_repository("flights", splitting=Splitting(raggedness=3))
    main = made.branch("main")
    main.put("settled", b"0")
    main.commit("base")
    made.protection.add("main")
    return made


@pytest.fixture
def tree():
    def read(view):
        return {entry.path: view.get(entry.path).decode() for entry in view.list()}

    return read


@pytest.fixture
def history(repo):
    return History(repo)
