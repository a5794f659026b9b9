"""Linked local files that are written while they are read."""

import os
from collections.abc import Callable
from hashlib import md5
from pathlib import Path

import fsspec
import pytest

import graveler
from graveler.errors import SourceChangedError
from graveler.objects.local import LocalStore
from graveler.reads.files import read_range

SIZE = 1 << 20
OLD, NEW = b"o" * SIZE, b"n" * SIZE


@pytest.fixture
def repo(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        yield lake.create_repository("flights")


@pytest.fixture
def landed(tmp_path, repo):
    """Return a landed file, linked and committed as ``in/raw``."""
    file = tmp_path / "landing" / "raw"
    file.parent.mkdir()
    file.write_bytes(OLD)
    repo.links.allow(str(file.parent))
    link(repo, file)
    return file


def link(repo, file, **fields):
    main = repo.branch("main")
    main.link("in/raw", address=str(file), **fields)
    main.commit("raw")


def rewrite(file):
    """Write the second half of a file again."""
    with file.open("r+b") as out:
        out.seek(SIZE // 2)
        out.write(NEW[SIZE // 2 :])
    touch(file)


def touch(file):
    # the clock of the kernel may not have moved since the file was opened
    time = file.stat().st_mtime_ns + 1_000_000
    os.utime(file, ns=(time, time))


def replace_by_another(file):
    other = file.with_name("other")
    other.write_bytes(NEW)
    other.replace(file)


@pytest.fixture
def writer(monkeypatch, landed):
    """Change the landed file once, as soon as a reader has opened it."""
    opened = LocalStore.open
    changes: list[Callable[[Path], None]] = []

    def open_(self, *args):
        stream = opened(self, *args)
        if changes and self.root == f"file://{landed.parent}":
            changes.pop()(landed)
        return stream

    monkeypatch.setattr(LocalStore, "open", open_)
    return changes


def chunks(stream):
    with stream:
        return b"".join(iter(lambda: stream.read(1 << 16), b""))


def reads(repo, tmp_path):
    """Return every way to the bytes of ``in/raw``."""
    ref, folder, file = repo.ref("main"), tmp_path / "out", tmp_path / "out" / "raw"
    fs, path = fsspec.filesystem("grav", lake=tmp_path / "lake"), "grav://flights/main/in/raw"
    return {
        "get": lambda: ref.get("in/raw"),
        "range": lambda: read_range(repo.stores, ref.stat("in/raw"), 1, SIZE),
        "many": lambda: list(ref.get_many(["in/raw"])),
        "open": lambda: ref.open("in/raw").read(),
        "chunks": lambda: chunks(ref.open("in/raw")),
        "download": lambda: ref.download("in", folder, delete=True),
        "put": lambda: repo.branch("main").put("copy", ref.open("in/raw")),
        "cat": lambda: fs.cat(path),
        "cat range": lambda: fs.cat_file(path, 1, SIZE),
        "fs.get": lambda: fs.get(path, str(file)),
        "fs.open": lambda: fs.open(path).read(),
    }


WAYS = [
    *("get", "range", "many", "open", "chunks", "download"),
    *("put", "cat", "cat range", "fs.get", "fs.open"),
]


@pytest.mark.parametrize("change", [rewrite, replace_by_another])
@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_is_written_meanwhile_is_refused(repo, writer, tmp_path, way, change):
    folder = tmp_path / "out"
    folder.mkdir()
    for name in ("raw", "kept"):
        (folder / name).write_bytes(b"mine")
    read = reads(repo, tmp_path)[way]
    writer.append(change)
    with pytest.raises((SourceChangedError, OSError), match=r"in/raw.*changed since"):
        pytest.fail(f"{read()!r:.80}")
    assert not writer
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == {
        "raw": b"mine",
        "kept": b"mine",
    }
    assert not repo.branch("main").exists("copy")


def test_an_open_stream_refuses_what_was_written_since(repo, landed):
    with repo.ref("main").open("in/raw") as stream:
        assert stream.read(4) == OLD[:4]
        rewrite(landed)
        with pytest.raises(SourceChangedError, match="written while it was read"):
            chunks(stream)


def test_a_known_checksum_decides_after_a_change(repo, landed, writer):
    checksum = f"md5:{md5(OLD, usedforsecurity=False).hexdigest()}"
    landed.write_bytes(OLD)
    touch(landed)
    link(repo, landed, checksum=checksum)
    writer.append(lambda file: file.chmod(0o640))
    assert repo.ref("main").get("in/raw") == OLD
