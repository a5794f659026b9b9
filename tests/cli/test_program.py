"""The command line as a separate process."""

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from graveler.model import Entry
from graveler.testing.world import link_unseen
from tests.harness.programs import command

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = [sys.executable, "-m", "graveler"]


def call(*arguments, cwd, **more):
    done = subprocess.run(
        [*PROGRAM, *arguments],
        cwd=cwd,
        capture_output=True,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", **more},
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_a_lake_is_worked_with_from_a_shell(folder, repo):
    (folder / "größe 1.csv").write_bytes(b"1")
    assert call("put", "größe 1.csv", "main:in/05:00/größe 1.csv", cwd=folder)[0] == 0
    code, out, err = call("commit", "-m", "one", "--json", cwd=folder, GRAVELER_COMMITTER="ann")
    assert (code, json.loads(out)["committer"], err) == (0, "ann", "")
    assert "in/05:00/größe 1.csv" in call("ls", "main", "--recursive", cwd=folder)[1]


def test_an_output_that_knows_no_umlauts_still_gets_every_line(folder, history):
    history.branch("main").put("größe", b"1")
    code, out, err = call("ls", cwd=folder, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (code, err) == (0, "")
    assert "gr\\xf6\\xdfe" in out
    code, out, _ = call("ls", "--json", cwd=folder, PYTHONIOENCODING="ascii")
    assert "größe" in [json.loads(line)["path"] for line in out.splitlines()]


def in_a_shell(line, *arguments, cwd):
    done = subprocess.run(
        ["sh", "-c", f'"$@" {line}', "sh", *PROGRAM, *arguments],
        cwd=cwd,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("line", [">&-", ">&- 2>&- <&-"])
def test_a_verb_with_a_closed_output_does_its_work(folder, history, line):
    history.branch("main").put("a", b"1")
    assert in_a_shell(line, "commit", "-m", "quiet", cwd=folder) == (0, "")
    assert history.commit("main").message == "quiet"
    assert in_a_shell(line, "get", "main:a", cwd=folder) == (0, "")


def test_an_output_or_input_that_cannot_be_used_is_named(folder, history):
    code, err = in_a_shell(">/dev/full", "ls", cwd=folder)
    assert (code, "cannot write to the standard output: No space left" in err) == (1, True)
    code, err = in_a_shell("<&-", "put", "-", ":a", cwd=folder)
    assert (code, "the standard input is closed" in err) == (2, True)


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_reader_that_has_had_enough_ends_a_listing_quietly(folder, repo, options):
    link_unseen(
        repo.branch("main"),
        (Entry(f"a/{number:06}", f"data/{number}", size=1) for number in range(5_000)),
    )
    program = subprocess.Popen(
        [*PROGRAM, "ls", "-r", "main", *options],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert program.stdout is not None
    assert program.stderr is not None
    assert b"a/000000" in program.stdout.readline()
    program.stdout.close()
    errors = program.stderr.read()
    program.stderr.close()
    assert (program.wait(), errors) == (0, b"")


def test_looking_at_the_log_loads_nothing_heavy(folder, history):
    done = subprocess.run(
        command("cli.programs.log"),
        cwd=folder,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert "first" in done.stdout.splitlines()[0]
    for heavy in ("rich", "pyspark", "boto3", "sqlalchemy", "graveler.demo", "graveler.gc"):
        assert f"'{heavy}'" not in done.stdout


def on_a_terminal(*arguments, cwd, **more):
    """Return the exit code and everything that a terminal receives."""
    terminal, side = pty.openpty()
    with subprocess.Popen(
        [*PROGRAM, *arguments],
        cwd=cwd,
        stdout=side,
        stderr=side,
        env={"PYTHONPATH": str(ROOT), "TERM": "xterm", **more},
    ) as program:
        os.close(side)
        seen = b""
        with suppress(OSError):  # a closed terminal ends in this error
            while piece := os.read(terminal, 4096):
                seen += piece
    os.close(terminal)
    return program.returncode, seen.decode()


def test_a_terminal_gets_colours_unless_it_does_not_want_them(folder, history):
    head = history.commit("main").id[:12]
    code, seen = on_a_terminal("log", "-n", "1", cwd=folder)
    assert code == 0
    assert seen.startswith(f"\x1b[33m{head}\x1b[0m  ")
    code, seen = on_a_terminal("log", "-n", "1", cwd=folder, NO_COLOR="1")
    assert code == 0
    assert seen.startswith(f"{head}  ")
    code, seen = on_a_terminal("log", "nowhere", cwd=folder)
    assert code == 1
    assert seen.startswith("\x1b[31merror: ")


def test_fsck_shows_a_person_how_far_it_is(folder, history):
    code, seen = on_a_terminal("fsck", cwd=folder)
    assert code == 0
    assert "flights: " in seen
    assert "\x1b[32msound\x1b[0m" in seen
    assert "━" in seen
    _, quiet = on_a_terminal("fsck", "--json", cwd=folder)
    assert json.loads(quiet)["sound"] is True


def test_windows_gets_an_error_with_the_way_out():
    code = "import sys; sys.platform = 'win32'; import graveler"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: graveler runs on Linux and macOS, not on Windows")
    assert "WSL" in last
