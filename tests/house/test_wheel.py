import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"graveler", "graveler_common", "graveler_airflow", "dagster_graveler"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (file,) = folder.glob("*.whl")
    with ZipFile(file) as opened:
        yield opened


def test_the_wheel_holds_its_packages_and_nothing_else(wheel):
    top = {name.partition("/")[0] for name in wheel.namelist()}
    names = {name for name in top if not name.endswith(".dist-info")}
    assert names == {*PACKAGES, "pyspark_graveler.py"}


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_each_package_of_the_wheel_says_that_it_is_typed(wheel, package):
    assert f"{package}/py.typed" in wheel.namelist()
    assert f"{package}/__init__.py" in wheel.namelist()


def test_the_wheel_holds_every_module_and_the_licence(wheel):
    tree = [ROOT / "graveler", *(ROOT / "integrations").iterdir()]
    modules = {
        file.relative_to(package.parent).as_posix()
        for package in tree
        for pattern in ("*.py", "*.html", "*.properties")
        for file in package.rglob(pattern)
    }
    held = set(wheel.namelist())
    assert sorted(modules - held) == []
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in held)
