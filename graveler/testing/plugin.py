"""The pytest plugin: real repositories for the tests of pipelines; pytest loads it automatically.

Loading it is cheap, because its modules are imported by the first test that uses a fixture.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from graveler.fs import GravelerFileSystem
    from graveler.lake import Lake, Repository
    from graveler.testing.clock import FakeClock
    from graveler.testing.process import Faults, Process
    from graveler.testing.world import World

_REPOSITORY = "test"


@pytest.fixture
def graveler_clock() -> "FakeClock":
    """The clock of the test's lake: ``graveler_clock.advance(hours=1)``."""
    from graveler.testing.clock import FakeClock
    from graveler.testing.world import START

    return FakeClock(START)


@pytest.fixture
def graveler_world(graveler_clock: "FakeClock") -> "World":
    """The stores of the test's lake, which any number of processes may open."""
    from graveler.testing.world import World

    return World(graveler_clock)


@pytest.fixture
def _graveler_process() -> "Process":
    from graveler.testing.process import Process

    return Process()


@pytest.fixture
def graveler_lake(graveler_world: "World", _graveler_process: "Process") -> "Iterator[Lake]":
    """A lake in memory: the real engine over stores that the test owns."""
    with graveler_world.shared(_graveler_process) as lake:
        yield lake


@pytest.fixture
def graveler_repo(graveler_lake: "Lake") -> "Repository":
    """A new repository, with an empty ``main``."""
    return graveler_lake.create_repository(_REPOSITORY)


@pytest.fixture
def graveler_reopen(
    graveler_world: "World", graveler_repo: "Repository"
) -> "Callable[[], Repository]":
    """A function that opens the repository as another process, without faults."""
    return lambda: graveler_world.open().repository(graveler_repo.name)


@pytest.fixture
def graveler_faults(_graveler_process: "Process") -> "Faults":
    """Faults at the n-th call of the test: ``with graveler_faults.dies(3): …``."""
    from graveler.testing.process import Faults

    return Faults(_graveler_process)


@pytest.fixture
def graveler_fs(
    graveler_lake: "Lake", graveler_repo: "Repository"
) -> "Iterator[GravelerFileSystem]":
    """The test's lake as an fsspec filesystem, at ``grav://test/main/…``."""
    from graveler.fs import GravelerFileSystem
    from graveler.lake.shared import lend_lake

    with lend_lake(graveler_lake):
        yield GravelerFileSystem(graveler_lake.location, skip_instance_cache=True)


@pytest.fixture
def graveler_disk_repo(tmp_path: Path) -> "Iterator[Repository]":
    """A new repository in a folder, for processes such as Spark or a scheduler to open."""
    from graveler.lake import init

    with init(tmp_path / "lake") as lake:
        yield lake.create_repository(_REPOSITORY)
