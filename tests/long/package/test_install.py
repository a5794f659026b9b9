"""The wheel and the source package, installed in fresh environments of each supported Python."""

import email
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from time import monotonic

import pytest

ROOT = Path(__file__).resolve().parents[3]
LOCK = str(ROOT / "requirements.lock")
UV = Path(sys.executable).parent / "uv"
FIRST_RUN = Path(__file__).parent / "programs/first_run.py"
VERSIONS = ("3.11", "3.12", "3.13")


def python_of(version):
    """Return the interpreter of a version: one on the PATH, or one that uv has installed."""
    found = subprocess.run(
        [UV, "python", "find", version], capture_output=True, text=True, check=False
    )
    if found.returncode:
        pytest.fail(f"no Python {version} on this machine: `uv python install {version}`")
    return found.stdout.strip()


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the source package, built from the files of the repository."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    for name in filter(None, listed):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    build = [sys.executable, "-m", "hatchling", "build", "-d", out]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    return {file.suffix: file for file in out.iterdir()}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", [".whl", ".gz"])
def test_a_first_run_on_a_fresh_environment(built, tmp_path, kind, version):
    begun = monotonic()
    subprocess.run([UV, "venv", "-q", "--python", python_of(version), tmp_path / "env"], check=True)
    python = tmp_path / "env/bin/python"
    install = [UV, "pip", "install", "-q", "--python", python]
    pins = ["--constraint", LOCK, "--build-constraint", LOCK]
    subprocess.run([*install, *pins, built[kind]], check=True)
    installed = monotonic() - begun
    call = {"cwd": tmp_path, "capture_output": True, "text": True, "check": True}
    lines = subprocess.run([python, "-I", FIRST_RUN], **call).stdout.splitlines()
    assert lines[0] == "published 5"
    assert lines[1].startswith("refused 6 run 'hour 6' was refused: has_rows: ")
    assert lines[2] == "main has ['input/2013/01/01/05:00/flights.csv']"
    shown = subprocess.run(
        [python, "-I", "-m", "graveler", "-C", "lake", "ls", "-r"], **call
    ).stdout
    assert "input/2013/01/01/05:00/flights.csv" in shown
    size = sum(file.stat().st_size for file in (tmp_path / "env").rglob("*") if file.is_file())
    print(f"{kind} on {version}: installed in {installed:.1f} s, {size >> 20} MiB")


def test_what_the_packages_have(built):
    wheel, source = zipfile.ZipFile(built[".whl"]), tarfile.open(built[".gz"])
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if "dist-info" not in top} == {
        "graveler",
        "graveler_common",
        "graveler_airflow",
        "dagster_graveler",
        "pyspark_graveler.py",
    }
    names = {name.partition("/")[2] for name in source.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "docs/index.md", "tests/conftest.py"} <= names


def test_what_an_index_shows(built):
    wheel = zipfile.ZipFile(built[".whl"])
    (path,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
    shown = email.message_from_bytes(wheel.read(path))
    assert {url.partition(",")[0] for url in shown.get_all("Project-URL", [])} == {
        "Homepage",
        "Documentation",
        "Changelog",
    }
    readme = str(shown.get_payload())
    targets = re.findall(r"\]\(([^)]*)\)", readme)
    assert targets
    assert [target for target in targets if not target.startswith("https://")] == []
    assert "<!--" not in readme


def test_all_has_no_tools_of_developers(built):
    wheel = zipfile.ZipFile(built[".whl"])
    (path,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
    lines = email.message_from_bytes(wheel.read(path)).get_all("Requires-Dist", [])
    every = {re.split(r"[\[<>=; ]", line)[0] for line in lines if "extra == 'all'" in line}
    assert "graveler" in every or "pyspark" in every
    assert every.isdisjoint({"pytest", "mypy", "ruff", "hypothesis", "moto", "hatchling"})
