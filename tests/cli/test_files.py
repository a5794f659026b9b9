import os
import signal
import subprocess
import sys

import pytest

import graveler
from graveler.errors import ErrorCode

ODD = ["input/2013/01/01/05:00/a.csv", "two words/x", "größe/日本語.txt", "a:b:c", "-dash"]


def test_a_file_comes_back_as_it_was_put(cli, folder, tmp_path):
    source, target = tmp_path / "source.bin", tmp_path / "copy"
    source.write_bytes(b"\x00\xff\r\n bytes")
    for path in ODD:
        assert cli("put", source, f"main:{path}").code == 0
        assert cli("get", f"main:{path}").raw == source.read_bytes()
        assert cli("get", f"main:{path}", target).code == 0
        assert target.read_bytes() == source.read_bytes()
        assert cli("stat", f"main:{path}", "--json").json["path"] == path
        assert [line["path"] for line in cli("ls", f"main:{path}", "--json").lines] == [path]


def test_a_listing_folds_folders_unless_it_is_recursive(cli, history):
    lines = cli("ls", "main").out.splitlines()
    assert [line.split()[-1] for line in lines] == ["input/", "readme.txt"]
    lines = cli("ls", "main", "--recursive").out.splitlines()
    assert [line.split()[-1] for line in lines] == ["input/05:00/a.csv", "readme.txt"]
    assert cli("ls", "main:input", "--json").lines == [{"type": "folder", "path": "input/05:00/"}]
    assert cli("ls", "main:input/", "--json").lines == [{"type": "folder", "path": "input/05:00/"}]


def test_a_listing_of_a_branch_shows_staged_its_head_does_not(cli, history):
    history.branch("main").put("new", b"")
    assert "new" in cli("ls", "main").out
    assert "new" in cli("ls").out
    assert "new" not in cli("ls", "main@").out


def test_a_listing_as_json_has_every_field_of_a_file(cli, history):
    (line,) = cli("ls", "v1:input/05:00/", "--json").lines
    entry = history.ref("v1").stat("input/05:00/a.csv")
    assert line == {
        "type": "file",
        "path": "input/05:00/a.csv",
        "size": 4,
        "checksum": entry.checksum,
        "content_type": "text/csv",
        "mtime": entry.mtime.isoformat(timespec="microseconds"),
        "metadata": {"source": "bts"},
        "address": entry.address,
    }


def test_a_file_put_into_a_folder_keeps_its_name(cli, folder, tmp_path):
    (tmp_path / "part 0.csv").write_bytes(b"1")
    assert cli("put", tmp_path / "part 0.csv", "main:input/").code == 0
    assert cli("put", tmp_path / "part 0.csv", "main:").code == 0
    paths = [line["path"] for line in cli("ls", "-r", "--json").lines]
    assert paths == ["input/part 0.csv", "part 0.csv"]


def test_the_standard_input_is_put_with_type_and_pairs(cli, folder):
    said = cli(
        "put", "-", "main:x", "--content-type", "text/plain", "--meta", "a=1=2", stdin=b"\xfftext"
    )
    assert said.code == 0
    entry = cli("stat", "main:x", "--json").json
    assert (entry["content_type"], entry["metadata"]) == ("text/plain", {"a": "1=2"})
    assert cli("get", "main:x").raw == b"\xfftext"


def test_get_into_a_folder_keeps_the_name_and_json_needs_a_file(cli, history, tmp_path):
    (tmp_path / "out").mkdir()
    said = cli("get", "main:input/05:00/a.csv", tmp_path / "out", "--json")
    assert said.json["file"] == str(tmp_path / "out" / "a.csv")
    assert (tmp_path / "out" / "a.csv").read_bytes() == b"a\n1\n"


@pytest.mark.parametrize("where", ["/dev/fd", "/proc/thread-self/fd"])
def test_a_path_that_names_a_descriptor_is_written_on(cli, history, tmp_path, where):
    """As /dev/stdout does; the file behind it may have more, which a replacement would lose."""
    (tmp_path / "twice").symlink_to("once")
    with (tmp_path / "log").open("wb", buffering=0) as log:
        (tmp_path / "once").symlink_to(f"{where}/{log.fileno()}")
        log.write(b"before\n")
        assert cli("get", "main:readme.txt", tmp_path / "twice").code == 0
        log.write(b"after\n")
        said = cli("refs", "dump", tmp_path / "twice")
    assert "not a regular file" in said.err
    text = history.ref("main").get("readme.txt")
    assert (tmp_path / "log").read_bytes() == b"before\n" + text + b"after\n"
    assert (tmp_path / "once").is_symlink()


def test_a_descriptor_of_another_process_is_refused(cli, history, tmp_path):
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=log) as cat,
    ):
        name = f"/proc/{cat.pid}/fd/1"
        answers = cli("get", "main:readme.txt", name), cli("refs", "dump", name)
        cat.communicate()
    assert all("a descriptor of another process" in said.err for said in answers)


def test_get_writes_through_a_link_or_a_device(cli, history, tmp_path):
    real = tmp_path / "deep" / "real.txt"
    real.parent.mkdir()
    real.write_text("before")
    (tmp_path / "link").symlink_to(real)
    assert cli("get", "main:input/05:00/a.csv", tmp_path / "link").code == 0
    assert (tmp_path / "link").is_symlink()
    assert real.read_bytes() == b"a\n1\n"
    assert [file.name for file in real.parent.iterdir()] == ["real.txt"]
    assert cli("get", "main:input/05:00/a.csv", "/dev/null").code == 0
    os.mkfifo(tmp_path / "pipe")
    with os.fdopen(os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK), "rb") as pipe:
        assert cli("get", "main:input/05:00/a.csv", tmp_path / "pipe").code == 0
        assert pipe.read() == b"a\n1\n"


_KILLED = """
import os, signal, sys
from pathlib import Path
import graveler
from graveler.reads.files import download

lake, target = sys.argv[1:]
view = graveler.open(lake).repository("flights").branch("main")
download(view.repository, view.stat("a"), Path(target), lambda _: os.kill(os.getpid(), signal.SIGKILL))
"""


@pytest.mark.parametrize("there", [None, b"before"])
def test_a_killed_get_leaves_no_half_file(cli, folder, tmp_path, there):
    with graveler.open(folder) as lake:
        lake.repository("flights").branch("main").put("a", b"x" * 20_000_000)
    (tmp_path / "out").mkdir()
    target = tmp_path / "out" / "got"
    if there is not None:
        target.write_bytes(there)
    killed = subprocess.run([sys.executable, "-c", _KILLED, folder, target], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert (target.read_bytes() if target.exists() else None) == there
    assert cli("get", "main:a", target).code == 0
    assert target.stat().st_size == 20_000_000
    assert list(target.parent.iterdir()) == [target]  # the temporary file is gone


def test_removing_takes_files_or_what_lies_below_a_folder(cli, history):
    history.branch("main").put("input/05:00/b.csv", b"")
    assert cli("rm", "main:readme.txt", "main:input/05:00/b.csv").code == 0
    assert "(-r removes everything below a folder)" in cli("rm", "main:input/").err
    assert cli("rm", "-r", "main:input", "--json").lines == [
        {"branch": "main", "path": "input/05:00/a.csv"}
    ]
    assert cli("ls", "-r").out == ""
    assert "input/05:00/a.csv" in cli("ls", "-r", "main@").out


def test_files_and_folders_are_copied_and_moved(cli, history):
    assert (
        cli("cp", "v1:readme.txt", "dev:docs/").out == "copied 1 file to docs/readme.txt on dev\n"
    )
    said = cli("cp", "-r", "main:input", "dev:old", "--json")
    assert said.json == {"branch": "dev", "path": "input/", "to": "old/", "count": 1}
    assert cli("mv", "-r", "dev:old", "dev:new/").out == "moved 1 file to new/ on dev\n"
    assert cli("mv", "dev:docs/readme.txt", ":r.txt").code == 0
    paths = {entry.path for entry in history.branch("dev").entries()}
    assert paths >= {"new/05:00/a.csv", "r.txt"}
    assert not paths & {"old/05:00/a.csv", "docs/readme.txt"}
    history.branch("dev").put("new/extra", b"1")
    assert cli("cp", "-r", "main:input", "dev:new").code == 0
    assert history.branch("dev").exists("new/extra")
    assert cli("cp", "-r", "main:input", "dev:new", "--replace").code == 0
    assert not history.branch("dev").exists("new/extra")


def test_a_target_without_a_colon_is_a_branch(cli, history, tmp_path):
    """`put file dev`, `import folder dev` and `cp main:file dev` write to the same branch."""
    (tmp_path / "f.txt").write_text("f")
    assert cli("put", tmp_path / "f.txt", "dev").code == 0
    said = cli("cp", "main:input/05:00/a.csv", "dev", "--json")
    assert said.json == {"branch": "dev", "path": "input/05:00/a.csv", "to": "a.csv", "count": 1}
    assert cli("cp", "-r", "main:input", "dev").out == "copied 1 file to / on dev\n"
    paths = {entry.path for entry in history.branch("dev").entries()}
    assert paths >= {"f.txt", "a.csv", "05:00/a.csv"}
    assert not history.branch("main").exists("dev")
    assert cli("cp", "main:readme.txt", ":copy.txt").out == "copied 1 file to copy.txt on main\n"


def test_a_folder_is_imported(cli, history, tmp_path):
    landing = tmp_path / "landing"
    landing.mkdir()
    (landing / "a.csv").write_text("1,2\n")
    refused = cli("import", landing, "dev:in", "--json")
    assert (refused.code, refused.error["code"]) == (1, ErrorCode.PERMISSION_DENIED)
    assert cli("links", "allow", landing).code == 0
    said = cli("import", landing, "dev:in", "--replace", "--json")
    assert said.json == {"branch": "dev", "prefix": "in/", "files": 1, "size": 4, "removed": 0}
    assert cli("import", landing, "dev:in/").out == "imported 1 file (4 B) to in/ on dev\n"
    left_out = cli("import", landing, "dev:out/", "--exclude", "*.tmp", "--exclude", "**", "--json")
    assert left_out.error["code"] == "object-not-found"


def test_a_path_that_is_file_and_folder_is_taken_whole(cli, repo, tmp_path):
    dev = repo.create_branch("dev")
    dev.put_many({"x": b"file", "x/a": b"below"})
    said = cli("get", "-r", "dev:x", str(tmp_path / "x"))
    assert said.code == 2
    assert "'x' is a file: get it without -r, and the folder as 'x/'" in said.err
    assert cli("rm", "-r", "dev:x").code == 0
    assert list(dev.entries()) == []
