"""A repository with a protected main, and an ingestion into it."""

import pytest

from tests.harness.judges import no_bad_file
from tests.harness.worlds import ScriptedWorld
from tests.ingest.histories import Ingesting


@pytest.fixture
def world():
    made = ScriptedWorld()
    repo = made.repo(scripted=False)
    main = repo.branch("main")
    main.put("settled", b"0")
    main.commit("base")
    repo.protection.add("main")
    return made


@pytest.fixture
def repo(world):
    return world.repo(scripted=False)


@pytest.fixture
def holding(repo):
    return repo.ingestion(gates=[no_bad_file])


@pytest.fixture
def quarantining(repo):
    return repo.ingestion(gates=[no_bad_file], on_refusal="quarantine")


@pytest.fixture
def history(world, tmp_path):
    return Ingesting(world.repo(scripted=False), world, tmp_path)
