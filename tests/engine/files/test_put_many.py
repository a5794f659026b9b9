"""Many files in one call: which are stored, staged and refused, and which remain after an error."""

import errno
import io
import os
import re
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pytest

from graveler.errors import (
    InvalidInputError,
    ProtectedBranchError,
    RetryableError,
)
from graveler.model import Transfer
from graveler.objects import store
from graveler.objects.store import BodyReader
from graveler.repository.writes import uploads
from graveler_common.failures import is_final
from tests.engine.files.folders import rewrite
from tests.harness.worlds import tree

STORES = ["memory-memory", "sqlite-local", "sqlite-s3"]
everywhere = pytest.mark.parametrize("lake", STORES, indirect=True)


@everywhere
@pytest.mark.parametrize("threads", [None, 1])
def test_files_of_every_kind_come_back_as_they_were_put(repo, tmp_path, threads):
    main, seen = repo.branch("main"), []
    (tmp_path / "disk").write_bytes(b"of the disk")
    items = [
        ("a.csv.gz", b"bytes"),
        ("b", bytearray(b"array")),
        ("c", memoryview(b"view")),
        ("d", tmp_path / "disk"),
        ("e", io.BytesIO(b"stream")),
        ("empty", b""),
    ]
    done = main.put_many(
        items,
        content_type="text/plain",
        metadata={"k": "v"},
        threads=threads,
        progress=lambda *told: seen.append(told),
    )
    assert done == Transfer(files=6, bytes=5 + 5 + 4 + 11 + 6)
    assert [told[:2] for told in seen] == [("put", number) for number in range(1, 7)]
    contents = [b"bytes", b"array", b"view", b"of the disk", b"stream", b""]
    assert [main.get(entry) for entry in main.entries()] == contents
    for entry in main.entries():
        assert (entry.content_type, entry.metadata) == ("text/plain", {"k": "v"})
        assert entry.computed
    many, one = main.stat("a.csv.gz"), main.put("b.csv.gz", b"bytes")
    assert many.checksum == one.checksum
    assert many.address.endswith(".csv.gz")
    assert many.address != one.address


def test_of_a_path_that_comes_twice_the_last_one_counts(repo, monkeypatch):
    main = repo.branch("main")
    main.put_many([("a", b"1"), ("b", b"1"), ("a", b"2")])
    assert main.get("a") == b"2"
    monkeypatch.setattr(uploads, "_CHUNK", 1)
    main.put_many([("a", b"3"), ("b", b"1"), ("a", b"4")], threads=8)
    assert main.get("a") == b"4"


def test_a_generator_may_close_streams_and_reuse_its_buffer(repo, tmp_path):
    main = repo.branch("main")
    for number in range(40):
        (tmp_path / str(number)).write_bytes(b"%d" % number)

    def items():
        buffer = bytearray(2)
        for number in range(40):
            with (tmp_path / str(number)).open("rb") as stream:
                yield f"file/{number:02}", stream
            buffer[:] = b"%02d" % number
            yield f"buffer/{number:02}", buffer

    main.put_many(items(), threads=8)
    assert main.get("file/07") == b"7"
    assert [main.get(f"buffer/{number:02}") for number in range(40)] == [
        b"%02d" % number for number in range(40)
    ]


def test_a_long_stream_is_stored_before_the_next_item_is_taken(repo, monkeypatch):
    monkeypatch.setattr(uploads, "_STREAM_BYTES", 1000)
    main = repo.branch("main")
    content = os.urandom(5000)

    def items():
        for number in range(5):
            with io.BytesIO(content) as stream:
                yield f"{number}", stream

    main.put_many(items(), threads=4)
    assert all(main.get(str(number)) == content for number in range(5))


def test_few_files_are_open_and_few_bodies_in_memory_at_a_time(repo, tmp_path):
    main, most = repo.branch("main"), 0
    for number in range(60):
        (tmp_path / str(number)).write_bytes(b"1")

    def opened():
        return sum(1 for _ in Path("/proc/self/fd").iterdir())

    def seen(*_):
        nonlocal most
        most = max(most, opened() - before)

    before = opened()
    files = ((str(number), tmp_path / str(number)) for number in range(60))
    assert main.put_many(files, threads=8, progress=seen).files == 60
    assert most < 40
    tracemalloc.start()
    main.put_many(((f"{number:04}", bytes(1 << 20)) for number in range(100)), threads=4)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50 << 20


def test_a_chunk_does_not_wait_for_long(lake, repo):
    """A slow upload stages its files every ten seconds."""
    main, staged = repo.branch("main"), []

    def items():
        for number in range(6):
            lake._clock.advance(seconds=4)
            staged.append(sum(1 for _ in main.entries()))
            yield f"{number}", b"x"

    main.put_many(items())
    assert staged == [0, 0, 0, 0, 4, 4]


def test_a_protected_branch_stores_no_byte(repo):
    repo.protection.add("main", actions=["write"])
    items = iter([("a", b"x")])
    with pytest.raises(ProtectedBranchError):
        repo.branch("main").put_many(items)
    assert next(items) == ("a", b"x")
    assert list(repo.stores.objects.list("data/")) == []


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (("b/../c", b"x"), "'b/../c'"),
        (("b", "text"), "'b': a body is bytes"),
        (("b", io.StringIO("text")), "'b': the stream gives str"),
        (("b", b"x", "three"), "items[7]"),
        ("bc", "items[7]"),
        ((7, b"x"), "items[7][0]=7"),
    ],
)
def test_a_bad_item_is_named_and_what_is_before_it_is_staged(repo, bad, said):
    main = repo.branch("main")
    items = [*((f"a{number}", b"x") for number in range(7)), bad, ("z", b"x")]
    with pytest.raises(InvalidInputError) as caught:
        main.put_many(items, threads=4)
    assert said in str(caught.value)
    assert "7 files are staged: put the items after these again" in str(caught.value)
    assert sorted(tree(main)) == [f"a{number}" for number in range(7)]


@pytest.mark.parametrize("name", ["ENOENT", "EIO", "ESTALE"])
@pytest.mark.parametrize("when", ["open", "read"])
def test_a_body_that_cannot_be_read_now_may_be_later(repo, tmp_path, monkeypatch, when, name):
    number = getattr(errno, name)
    file = tmp_path / "landing"
    file.write_bytes(b"rows")

    def fail(*_):
        raise OSError(number, os.strerror(number))

    opened = store._opened

    def failing(path):
        real = fail() if when == "open" else opened(path)
        return SimpleNamespace(read=fail, close=real.close, fileno=real.fileno)

    main = repo.branch("main")
    with monkeypatch.context() as patch:
        patch.setattr(store, "_opened", failing)
        with pytest.raises(RetryableError, match=re.escape(os.strerror(number))) as caught:
            main.put("b", file)
        with pytest.raises(RetryableError, match=r"'b': cannot read .*nothing is staged"):
            main.put_many([("b", file)], threads=4)
    assert not is_final(caught.value)
    main.put("b", file)
    with pytest.raises(RetryableError, match="'b': cannot read"):
        main.put_many([("b", tmp_path / "gone")])


def test_a_body_that_is_no_file_is_refused_for_good(repo, tmp_path):
    for place in (tmp_path, tmp_path / ("x" * 300)):
        with pytest.raises(InvalidInputError, match=r"cannot read|name too long") as caught:
            repo.branch("main").put("b", place)
        assert is_final(caught.value)


@pytest.mark.parametrize("content", [b"b" * 3, b"b" * 100, b"b" * 10])
@pytest.mark.parametrize("many", [False, True])
def test_a_file_that_is_written_while_it_is_put_is_refused(
    repo, tmp_path, monkeypatch, content, many
):
    """Also if its writer sets its time back, and its size is as it was."""
    file = tmp_path / "growing"
    file.write_bytes(b"a" * 10)
    read, main = BodyReader._piece, repo.branch("main")

    def writing(self, wanted):
        piece = read(self, wanted)
        if piece:
            rewrite(file, content)
        return piece

    with monkeypatch.context() as patch:
        patch.setattr(BodyReader, "_piece", writing)
        with pytest.raises(InvalidInputError, match="growing was written while it was read"):
            main.put_many([("a", file)]) if many else main.put("a", file)
    assert tree(main) == {}
    main.put("a", file)
    assert main.get("a") == content


@pytest.mark.parametrize("error", [KeyError("mine"), KeyboardInterrupt()])
def test_an_error_of_the_caller_passes_with_a_note(repo, error):
    main = repo.branch("main")

    def items():
        yield "a", b"1"
        yield "b", b"2"
        raise error

    with pytest.raises(type(error)) as caught:
        main.put_many(items())
    assert caught.value.__notes__ == ["2 files are staged: put the items after these again"]
    assert tree(main) == {"a": "1", "b": "2"}


def test_a_long_call_renews_the_lease_of_its_run(lake, repo):
    run = repo.runs.open("hour", lease="1m")

    def items():
        for number in range(10):
            lake._clock.advance(seconds=15)
            repo.runs.reap(dry_run=False)
            yield f"{number}", b"x"

    run.put_many(items())
    run.commit("all")
    run.publish()
    assert len(tree(repo.ref("main"))) == 10
