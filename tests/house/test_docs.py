import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import pages

ROOT = Path(__file__).resolve().parents[2]


def test_the_documentation_builds_without_a_warning(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    copy = tmp_path / "build" / "docs"
    shutil.copytree(ROOT / "docs", copy, ignore=shutil.ignore_patterns("_build"))
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "mkdocs.yml", tmp_path / "docs")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-f", "docs/mkdocs.yml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    built = {page.relative_to(tmp_path / "docs" / "_build") for page in tmp_path.rglob("*.html")}
    written = {page.relative_to(copy).with_suffix(".html") for page in copy.rglob("*.md")}
    assert Path("index.html") in written
    assert sorted(written - built) == []


def test_set_up_is_visible_before_the_first_block():
    """A reader who types what a page shows must succeed."""
    exceptions = {"docs/guides/lakefs.md"}  # the reader has a lakeFS, and the test writes one
    first = {page.name: page.blocks[0] for page in pages()}
    assert len(first) > 20
    assert {name for name, block in first.items() if block.hidden} == exceptions


def test_the_start_is_forty_lines_without_spark():
    page = (ROOT / "docs" / "guides" / "getting-started.md").read_text("utf-8")
    start = "\n".join(page.splitlines()[:40])
    assert all(step in start for step in ("pip install", "init(", "gate", ".run(", "graveler ls"))
    assert start.endswith("```")
    assert not re.search("(?i)spark|postgres", start)


def test_design_notes_are_numbered_without_a_double():
    names = [note.name for note in (ROOT / "docs" / "design").glob("*.md")]
    assert [name for name in names if not re.match(r"\d{4}-[a-z0-9-]+\.md|index\.md", name)] == []
    numbers = [name[:4] for name in names if name != "index.md"]
    assert sorted(set(numbers)) == sorted(numbers)


def test_each_guarantee_names_tests_that_are_there():
    page = (ROOT / "docs" / "guarantees.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    table = [line for line in rows if not line.startswith("| promise |")]
    proofs = r"`(tests/[^`]+|make simulate)`"
    named = [re.findall(proofs, line.rpartition(" | ")[2]) for line in table]
    assert len(table) > 10
    assert all(named)
    tests = {test.partition("::")[::2] for tests in named for test in tests if "/" in test}
    assert sorted(path for path, _ in tests if not (ROOT / path).exists()) == []
    gone = [
        f"{path}::{name}"
        for path, name in tests
        if name and f"def {name}(" not in (ROOT / path).read_text("utf-8")
    ]
    assert sorted(gone) == []
