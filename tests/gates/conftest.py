"""Repositories for gates: one in memory, and one on disk that other processes can open too."""

import pytest

import graveler
from graveler.base.background import Inline
from graveler.committed.splitting import Splitting
from graveler.config import LakeConfig
from graveler.lake.factory import connect
from graveler.testing.clock import FakeClock, SequenceIds
from tests.harness.commands import cli  # noqa: F401 - a fixture


@pytest.fixture
def memory_lake(tmp_path):
    config = LakeConfig(str(tmp_path), "mem://", f"mem://{tmp_path.name}", cache_folder=None)
    with connect(config, clock=FakeClock(), ids=SequenceIds(), background=Inline()) as opened:
        yield opened


@pytest.fixture
def repo(memory_lake):
    made = memory_lake.create_repository("flights", splitting=Splitting(raggedness=3))
    main = made.branch("main")
    main.put("settled", b"0")
    main.commit("base")
    return made


@pytest.fixture
def disk(tmp_path):
    """A repository on SQLite and a local folder."""
    with graveler.open(tmp_path / "lake", create=True) as lake:
        made = lake.create_repository("flights")
        main = made.branch("main")
        main.put("settled", b"0")
        main.commit("base")
        yield made


@pytest.fixture
def refused():
    """Publish a run with one gate; return the verdict that refused it."""

    def attempt(repo, gate, key="hour 05"):
        head = repo.commit("main")
        with pytest.raises(graveler.errors.GateFailedError) as caught:
            with repo.run(key, gates=[gate]) as run:
                run.put("a/1", b"1")
        assert repo.commit("main") == head
        assert repo.runs.get(key).state == "PARKED"
        (verdict,) = caught.value.verdicts
        assert verdict.refuses
        return verdict

    return attempt
