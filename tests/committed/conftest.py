import tempfile
from pathlib import Path

import pytest


@pytest.fixture(autouse=True, scope="package")
def tables_in_memory(tmp_path_factory):
    """Write the tables of thousands of small trees to memory, where a sync costs nothing."""
    tmp_path_factory.getbasetemp()  # pytest's own folder stays on disk
    before = tempfile.tempdir
    if Path("/dev/shm").is_dir():  # noqa: S108 - each table gets a folder of its own
        tempfile.tempdir = "/dev/shm"  # noqa: S108
    yield
    tempfile.tempdir = before
