"""Folders on the command line: summaries, exit codes, Ctrl-C, a progress bar on terminals."""

import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from graveler.base.clock import SystemClock
from graveler.errors import ErrorCode, FencedError
from graveler.reads import downloads
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


def test_type_and_pairs_are_those_of_all_files(cli, folder, source):
    cli("put", "-r", source, "main:", "--content-type", "text/plain", "--meta", "k=v")
    entry = cli("stat", "main:deep/b", "--json").json
    assert (entry["content_type"], entry["metadata"]) == ("text/plain", {"k": "v"})
    assert cli("put", "-r", source, "main:", "--replace", "--json").json["files"] == 2


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["put", "graveler.toml", "main:x", "--delete"], "--delete: only with -r"),
        (["put", "graveler.toml", "main:x", "--no-follow-links"], "--no-follow-links: only"),
        (
            ["get", "main:x", "out", "--exclude", "x", "--threads", "2"],
            "--exclude, --threads: only",
        ),
        (["put", "-r", ".", "a/x"], "or :PATH on the default branch"),
        (["get", "-r", "a/x", "out"], "or :PATH on the default branch"),
        (["get", "-r", "main:input"], "name the FOLDER"),
        (["get", "-r", "main:readme.txt", "out"], "get it without -r"),
        (["get", "-r", "main:input", "out", "--threads", "65"], "64"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(cli, history, arguments, hint):
    said = cli(*arguments)
    assert said.code == 2
    assert hint in said.err


def test_nothing_below_is_an_error(cli, history, tmp_path):
    said = cli("get", "-r", "main:nowhere", tmp_path / "out", "--json")
    assert (said.code, said.error["code"]) == (1, ErrorCode.OBJECT_NOT_FOUND)


def test_an_error_says_what_is_staged(cli, folder, source, monkeypatch):
    (source / "bad\udcff").write_text("")
    said = cli("put", "-r", source, "main:", "--json")
    assert (said.code, said.error["code"]) == (1, ErrorCode.INVALID_INPUT)
    assert "bad" in said.error["message"]
    (source / "bad\udcff").unlink()

    def fenced(self, job):
        raise FencedError("another attempt has the branch")

    monkeypatch.setattr(folders._Sender, "send", fenced)
    assert cli("put", "-r", source, "main:", "--json").error["code"] == ErrorCode.FENCED


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
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert cli("put", "-r", source, "main:", "--json").json["skipped"] == 1


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


def test_a_signal_ends_the_program_and_the_same_command_goes_on(folder, tmp_path):
    source = tmp_path / "many"
    source.mkdir()
    for number in range(400):
        (source / f"{number:05}").write_bytes(b"%d" % number)
    call = [sys.executable, "-m", "graveler.cli", "put", "-r", str(source), "main:", "--json"]
    program = subprocess.Popen(call, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    objects = folder / "objects"
    while sum(1 for _ in objects.rglob("data/*/*")) < 20:
        SystemClock().sleep(0.02)
        assert program.poll() is None
    program.send_signal(signal.SIGINT)
    _, err = program.communicate(timeout=60)
    assert program.returncode == 130, err
    message = json.loads(err)["error"]["message"]
    staged = int(message.split("; ")[1].split()[0].replace(",", ""))
    again = subprocess.run(call, cwd=folder, capture_output=True, check=True)
    done = json.loads(again.stdout)
    assert done["skipped"] == staged > 0
    assert done["files"] == 400 - staged


def test_a_bar_is_shown_on_a_terminal_and_nowhere_else(folder, source):
    call = [sys.executable, "-m", "graveler.cli", "put", "-r", str(source), "main:"]
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
