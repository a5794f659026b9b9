"""Words that no file of the tree may contain, and promises that the README may make."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# no pattern matches its own text
FORBIDDEN = {
    "a package registry's host": r"\b(?:pypi|pythonhosted|npmjs|crates|maven(?:\.apache)?)\.(?:org|io|com)\b",
    "an index address": r"--(?:extra-)?index-url[ =]\S*://",
    "a path of one machine": r"(?<![\w.}])/(?:work|root)/|/(?:home|Users)/\w",
    "the number of an issue": r"(?i)\bissues? #?\d|(?<![\w&\"'(/])#\d+\b(?!;)",
}


def tree() -> list[Path]:
    """Return every text file that is committed, or not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    files = [ROOT / name for name in listed.split("\0") if name]
    text = [file for file in files if file.suffix != ".png"]
    return [file for file in text if file.is_file() and not file.is_symlink()]


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_names(what):
    pattern = re.compile(FORBIDDEN[what])
    files = tree()
    assert len(files) > 20
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()[:120]}"
        for file in files
        for number, line in enumerate(file.read_text("utf-8", errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("a package registry's host", "index = https://" + "pypi" + ".org/simple"),
        ("a package registry's host", "https://repo1." + "maven" + ".org/maven2"),
        ("an index address", "pip install --index-url" + " https://example.org"),
        ("a path of one machine", "see /" + "work/main/graveler"),
        ("a path of one machine", "see /" + "home/ann/graveler"),
        ("the number of an issue", "fixes #" + "12"),
        ("the number of an issue", "see issue" + " 12"),
    ],
)
def test_the_patterns_match_what_they_are_for(what, line):
    assert re.search(FORBIDDEN[what], line)


def test_threads_of_calls_come_from_one_class():
    # an executor refuses all work once the main thread has ended
    package = ROOT / "graveler"
    files = [f for f in package.rglob("*.py") if package / "testing" not in f.parents]
    found = [f for f in files if "ThreadPoolExecutor" in f.read_text("utf-8")]
    assert found == [package / "base" / "background.py"]


def test_the_readme_promises_only_commands_that_make_has():
    promised = set(re.findall(r"\bmake ([a-z-]+)", (ROOT / "README.md").read_text("utf-8")))
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert {"demo", "test"} <= promised
    assert sorted(promised - targets) == []
