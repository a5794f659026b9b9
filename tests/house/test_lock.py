import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LOCK = (ROOT / "requirements.lock").read_text("utf-8")
PIN = re.compile(r"^([a-z0-9][a-z0-9.-]*)==([^ ;\\]+)", re.MULTILINE)
PINNED = dict(PIN.findall(LOCK))
SECTIONS = {"(core)": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}


def name_of(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match, requirement
    return re.sub(r"[-_.]+", "-", match[0]).lower()


def test_the_lock_names_no_address():
    assert "://" not in LOCK
    assert "--index" not in LOCK


def test_every_pin_of_the_lock_has_a_hash():
    blocks = re.split(r"\n(?=\S)", LOCK.strip())
    assert len(blocks) >= len(PINNED) > 100
    assert [block.split()[0] for block in blocks if "--hash=sha256:" not in block] == []


@pytest.mark.parametrize("section", SECTIONS)
def test_every_requirement_of_every_extra_is_pinned(section):
    wanted = {name_of(requirement) for requirement in SECTIONS[section]} - {"graveler"}
    assert sorted(wanted - set(PINNED)) == []


def test_the_extra_all_takes_in_every_other_extra():
    (everything,) = PROJECT["optional-dependencies"]["all"]
    named = re.fullmatch(r"graveler\[(.+)\]", everything)
    assert named
    assert set(named[1].split(",")) == set(PROJECT["optional-dependencies"]) - {"all"}


def test_the_lock_brings_the_tool_that_installs_it():
    assert "uv" in PINNED
