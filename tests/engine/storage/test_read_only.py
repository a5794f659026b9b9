"""A lake without write permission, as on a read-only disk, can be read completely."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import graveler
from graveler.lake.factory import write_default_config
from tests.harness.programs import output_of

ROOT = Path(__file__).resolve().parents[3]

LAKES = {
    "sqlite, closed": ("sqlite", "closes"),
    "sqlite, its process died, and the log alone was copied": ("sqlite", "dies without index"),
    "rocksdb, its process died": ("rocksdb", "dies"),
}


def protected(folder, *, writable):
    """Remove or restore write permission for a folder and everything below it."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o200 if writable else path.stat().st_mode & ~0o222)


def everything(folder):
    return {
        path.relative_to(folder): path.stat().st_mtime_ns if path.is_dir() else path.read_bytes()
        for path in folder.rglob("*")
    }


@pytest.fixture(params=LAKES, scope="module")
def sealed(request, tmp_path_factory):
    """The folder of a lake without write permission, with an empty cache."""
    kind, end = LAKES[request.param]
    folder = tmp_path_factory.mktemp("sealed") / "lake"
    write_default_config(folder, kv_uri=f"{kind}://kv")
    output_of("engine.storage.programs.filled_lake", folder, end.split()[0])
    assert (folder / "kv-wal").exists() == (kind == "sqlite" and end != "closes")
    if end == "dies without index":
        (folder / "kv-shm").unlink()
    shutil.rmtree(folder / "cache")
    protected(folder, writable=False)
    yield folder
    protected(folder, writable=True)


def called(folder, *verbs):
    """Call the command line in a process that cannot write to the folder; yield its replies."""
    asked = "".join(json.dumps(["-C", str(folder), *verb]) + "\n" for verb in verbs)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.engine.storage.reader"],
        cwd=ROOT,
        input=asked,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


READING = {
    ("log", "main", "--json"): '"message": "first"',
    ("log", "-n", "1"): "hourly",
    ("show", "v1"): "second",
    ("ls", "main"): "staged",
    ("ls", "main@"): "a/",
    ("stat", "main:a/1"): "a/1",
    ("get", "main:a/1"): "one",
    ("get", "main:staged"): "four",
    ("get", "v1:b"): "two",
    ("diff", "main@", "v1"): "b",
    ("branch", "list"): "dev",
    ("tag", "list"): "v1",
    ("run", "list"): "hourly",
    ("repo", "list"): "flights",
    ("repo", "show"): "objects/flights",
    ("reflog", "main"): "create",
    ("gc", "rules"): "everything",
    ("gc", "list"): "",
    ("gc", "run", "--dry-run"): "nothing",
    ("fsck", "--checksums"): "flights: sound",
}


WRITING = [
    ("put", __file__, "main:new"),
    ("commit", "main", "-m", "no"),
    ("branch", "create", "no"),
    ("tag", "create", "no"),
    ("merge", "main", "dev"),
    ("repo", "create", "other"),
    ("repo", "accept", "flights"),
    ("gc", "mark"),
]


def test_every_verb_reads_or_says_that_it_may_not(sealed):
    before = everything(sealed)
    said = called(sealed, *READING, *((*verb, "--json") for verb in WRITING))
    reads, writes = said[: len(READING)], said[len(READING) :]
    for (verb, shown), (code, out, err) in zip(READING.items(), reads, strict=True):
        assert (code, err) == (0, ""), verb
        assert shown in out.replace('":"', '": "'), verb
    for verb, (code, out, err) in zip(WRITING, writes, strict=True):
        assert (code, out) == (1, ""), verb
        error = json.loads(err)["error"]
        assert error["code"] == "read-only", (verb, error)
        for part in (str(sealed), "read-only", "user id"):
            assert part in error["message"]
    assert everything(sealed) == before


def test_what_may_be_written_to_again_goes_on(sealed, tmp_path):
    folder = tmp_path / "lake"
    shutil.copytree(sealed, folder)
    protected(folder, writable=True)
    with graveler.open(folder) as lake:
        main = lake.repository("flights").branch("main")
        assert main.get("staged") == b"four"
        main.commit("later")
        assert main.head.message == "later"


@pytest.mark.parametrize("kind", ["sqlite", "rocksdb"])
def test_a_reader_beside_a_writer_sees_the_store_or_an_error(tmp_path, kind):
    folder = tmp_path / "lake"
    write_default_config(folder, kv_uri=f"{kind}://kv")
    with graveler.open(folder, create=True) as lake:
        main = lake.create_repository("flights").branch("main")
        main.put("before", b"1")
        protected(folder, writable=False)  # the writer still has its files open
        try:
            (code, out, err), *_ = called(folder, ("ls", "main", "--json"))
        finally:
            protected(folder, writable=True)
        if kind == "sqlite":
            assert (code, err) == (0, "")
            assert '"before"' in out
        else:
            assert code == 1
            assert json.loads(err)["error"]["code"] == "lake-locked"
