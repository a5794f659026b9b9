"""Completion in a shell: refs, paths and runs, as bash and zsh ask for them."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# what is typed, with the cursor at its end; the words that bash would offer
TYPED = [
    ("graveler bran", ["branch"]),
    ("graveler branch del", ["delete"]),
    ("graveler ls ", ["dev:", "main:", "v1:"]),
    ("graveler ls m", ["main:"]),
    ("graveler ls main:", ["in/"]),
    ("graveler ls main:in/", ["in/05:00/", "in/größe.csv"]),
    ("graveler ls main:in/05:", ["in/05:00/"]),
    ("graveler cp -r main:in/ dev:", ["in/"]),
    ("graveler merge d", ["dev"]),
    ("graveler branch delete d", ["dev"]),
    ("graveler tag delete v", ["v1"]),
    ("graveler run show h", ["hour"]),
    ("graveler run show x", []),
    ("graveler ls nowhere:", []),
    ("graveler -C nowhere ls ", []),
]


@pytest.fixture
def lake(repo, folder):
    main = repo.branch("main")
    main.put_many(
        {"in/05:00/a.csv": b"1", "in/größe.csv": b"2", "in/$(touch x)": b"3", "in/a b": b"4"}
    )
    main.commit("files")
    repo.create_branch("dev")
    repo.tags.create("v1", "main")
    repo.runs.open("hour")
    return folder


def completed(folder, **variables):
    done = subprocess.run(
        [sys.executable, "-m", "graveler"],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_bash_is_offered_what_fits(lake):
    for typed, offered in TYPED:
        words = typed.replace(":", " : ").split(" ")  # as bash separates them
        kept = [word for word in words[:-1] if word] + [words[-1]]
        if typed.endswith(":"):
            kept.pop()
        out = completed(
            lake,
            _GRAVELER_COMPLETE="complete_bash",
            COMP_WORDS=" ".join(kept),
            COMP_CWORD=str(len(kept) - 1),
        )
        assert out.split() == offered, typed


def test_zsh_is_offered_the_whole_word(lake):
    out = completed(
        lake, _GRAVELER_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="graveler ls main:in/gr"
    )
    assert "main\\\\:in/größe.csv" in out
