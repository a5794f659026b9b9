"""The dbt project of the guide, parsed as a deployment parses it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from graveler.config import program_environment

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def dbt():
    """The program of dbt, which `make .venv-dbt/.installed` installs."""
    return ROOT / ".venv-dbt/bin/dbt"


@pytest.fixture(scope="session")
def parsed(tmp_path_factory, dbt):
    folder = tmp_path_factory.mktemp("parsed") / "flights_dbt"
    without = shutil.ignore_patterns("target", "logs")
    shutil.copytree(ROOT / "docs/examples/dbt", folder, ignore=without)
    subprocess.run(
        [dbt, "--quiet", "parse"],
        cwd=folder,
        env=program_environment({"GRAVELER_URL": "grav://flights/main"}),
        check=True,
        timeout=120,
    )
    return folder


@pytest.fixture
def project(parsed, tmp_path):
    """A copy of the parsed project, which tests may change."""
    return Path(shutil.copytree(parsed, tmp_path / "flights_dbt"))
