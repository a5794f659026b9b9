"""Folders on the command line: summaries, exit codes, Ctrl-C, a progress bar on terminals."""

import os
import pty
import subprocess
import sys
from contextlib import suppress

import pytest

from graveler.errors import ErrorCode
from graveler.reads.local import downloads
from graveler.repository.writes import folders

FILES = {"a": "1", "deep/b": "22"}


@pytest.fixture
def source(tmp_path):
    for name, text in FILES.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text(text)
    return tmp_path / "in"


def test_a_folder_goes_in_and_out_and_then_nothing_moves(cli, folder, source, tmp_path):
    said = cli("put", "-r", source, "main:data", "--json")
    summary = {"branch": "main", "path": "data", "files": 2, "bytes": 3, "skipped": 0, "deleted": 0}
    assert (said.code, said.json) == (0, summary)
    assert (
        cli("put", "-r", source, "main:data").out == "main:data  0 files (0 B), 2 there already\n"
    )
    target = tmp_path / "out"
    assert cli("get", "-r", "main:data", target).out == f"{target}  2 files (3 B)\n"
    assert (target / "deep" / "b").read_text() == "22"
    said = cli("get", "-r", "main:data/", target, "--json")
    assert said.json == {
        "ref": "main",
        "path": "data/",
        "folder": str(target),
        "files": 0,
        "bytes": 0,
        "skipped": 2,
        "deleted": 0,
    }


def test_a_mirror_deletes_and_patterns_leave_out(cli, folder, source, tmp_path):
    cli("put", "-r", source, "main:")
    (source / "a").unlink()
    (source / "x.tmp").write_text("")
    said = cli("put", "-r", source, "main:", "--delete", "--exclude", "*.tmp", "--threads", 3)
    assert said.out == "main:  0 files (0 B), 1 there already, 1 deleted\n"
    target = tmp_path / "out"
    target.mkdir()
    (target / "old").write_text("")
    (target / "kept.tmp").write_text("")
    said = cli("get", "-r", "main:", target, "--delete", "--exclude", "*.tmp", "--threads", "2")
    assert said.out == f"{target}  1 file (2 B), 1 deleted\n"
    assert sorted(file.name for file in target.iterdir()) == ["deep", "kept.tmp"]


def test_links_are_followed_unless_told_otherwise(cli, folder, source):
    (source / "link").symlink_to("a")
    assert cli("put", "-r", source, "main:", "--no-follow-links", "--json").json["files"] == 2
    assert cli("put", "-r", source, "main:", "--json").json["files"] == 1


def test_an_error_says_what_is_staged(cli, folder, source, monkeypatch):
    (source / "bad\udcff").write_text("")
    said = cli("put", "-r", source, "main:", "--json")
    assert (said.code, said.error["code"]) == (1, ErrorCode.INVALID_INPUT)
    assert "bad" in said.error["message"]


def test_ctrl_c_leaves_what_is_staged_and_says_how_to_go_on(cli, folder, source, monkeypatch):
    sent = folders._Sender.send

    def interrupted(self, job):
        if job.path == "deep/b":
            raise KeyboardInterrupt
        return sent(self, job)

    monkeypatch.setattr(folders._Sender, "send", interrupted)
    said = cli("put", "-r", source, "main:", "--json")
    assert said.code == 130
    assert said.error == {
        "code": "interrupted",
        "message": "interrupted; 1 file is staged: upload again to go on, what is there is skipped",
    }


def test_ctrl_c_while_a_folder_comes_down(cli, folder, source, tmp_path, monkeypatch):
    cli("put", "-r", source, "main:")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(downloads, "holds", interrupted)
    said = cli("get", "-r", "main:", tmp_path / "out")
    assert said.code == 130
    assert said.err == (
        "error: interrupted; download again to go on, the files that are there stay\n"
    )


def test_a_bar_is_shown_on_a_terminal_and_nowhere_else(folder, source):
    call = [sys.executable, "-m", "graveler", "put", "-r", str(source), "main:"]
    master, terminal = pty.openpty()
    done = subprocess.run(call, cwd=folder, stdout=subprocess.PIPE, stderr=terminal, check=True)
    os.close(terminal)
    shown = b""
    with suppress(OSError):
        while piece := os.read(master, 4096):
            shown += piece
    os.close(master)
    assert b"put: upload" in shown
    assert done.stdout == b"main:  2 files (3 B)\n"
    plain = subprocess.run(call, cwd=folder, capture_output=True, check=True)
    assert plain.stderr == b""
