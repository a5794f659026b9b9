"""Many files in one call: which are stored, staged and refused, and which remain after an error."""

import errno
import io
import os
import re
import tracemalloc
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

import graveler
from graveler.errors import (
    FencedError,
    InvalidInputError,
    ProtectedBranchError,
    RetryableError,
    StorageFullError,
)
from graveler.model import Transfer
from graveler.objects import store
from graveler.objects.store import BodyReader
from graveler.repository.writes import uploads
from graveler_common.lakes import is_final
from tests.engine.files.folders import rewrite
from tests.harness.worlds import ScriptedWorld, tree

STORES = ["memory-memory", "sqlite-local", "sqlite-s3"]
everywhere = pytest.mark.parametrize("lake", STORES, indirect=True)


@everywhere
@pytest.mark.parametrize("threads", [None, 1, 5])
def test_files_of_every_kind_come_back_as_they_were_put(repo, tmp_path, threads):
    main = repo.branch("main")
    (tmp_path / "disk").write_bytes(b"of the disk")
    items = [
        ("a", b"bytes"),
        ("b", bytearray(b"array")),
        ("c", memoryview(b"view")),
        ("d", tmp_path / "disk"),
        ("e", io.BytesIO(b"stream")),
        ("empty", b""),
    ]
    done = main.put_many(items, content_type="text/plain", metadata={"k": "v"}, threads=threads)
    assert done == Transfer(files=6, bytes=5 + 5 + 4 + 11 + 6)
    assert {entry.path: main.get(entry) for entry in main.entries()} == {
        "a": b"bytes",
        "b": b"array",
        "c": b"view",
        "d": b"of the disk",
        "e": b"stream",
        "empty": b"",
    }
    for entry in main.entries():
        assert (entry.content_type, entry.metadata) == ("text/plain", {"k": "v"})
        assert entry.computed
    main.commit("all")
    assert tree(repo.ref("main"))["e"] == "stream"


@everywhere
def test_entries_are_those_that_put_makes(repo):
    main = repo.branch("main")
    one = main.put("a.csv.gz", b"x")
    main.put_many({"b.csv.gz": b"x"})
    many = main.stat("b.csv.gz")
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


def test_few_files_are_open_at_the_same_time(repo, tmp_path):
    limit = 40
    for number in range(200):
        (tmp_path / str(number)).write_bytes(b"1")
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())
    most = 0

    def seen(*_):
        nonlocal most
        most = max(most, sum(1 for _ in Path("/proc/self/fd").iterdir()) - before)

    main = repo.branch("main")
    files = ((str(number), tmp_path / str(number)) for number in range(200))
    assert main.put_many(files, threads=8, progress=seen).files == 200
    assert most < limit


@pytest.mark.parametrize("lake", ["memory-memory"], indirect=True)
def test_bodies_are_dropped_once_they_are_stored(repo):
    """600 bodies of 1 MiB do not stay in memory."""
    main = repo.branch("main")
    repo.stores.objects.put = lambda key, body, put=repo.stores.objects.put: put(key, b"")
    tracemalloc.start()
    main.put_many(((f"{number:04}", bytes(1 << 20)) for number in range(600)), threads=4)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 100 << 20


def test_entries_are_staged_in_chunks_each_in_one_round_trip(monkeypatch):
    monkeypatch.setattr(uploads, "_CHUNK", 10)
    world = ScriptedWorld()
    main = world.repo().branch("main")
    world.script.arm(0, print)
    main.put_many((f"{number:02}", b"x") for number in range(25))
    assert world.script.calls.count("set_many") == 3
    assert world.script.calls.count("put") == 25
    assert "set" not in world.script.calls


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


def test_progress_tells_what_is_done_and_what_was_taken(repo):
    seen = []
    repo.branch("main").put_many(
        [(str(number), b"x") for number in range(3)], progress=lambda *told: seen.append(told)
    )
    assert seen == [("put", 1, 1), ("put", 2, 2), ("put", 3, 3)]


def test_a_protected_branch_stores_no_byte(repo):
    repo.protection.add("main", actions=["write"])
    items = iter([("a", b"x")])
    with pytest.raises(ProtectedBranchError):
        repo.branch("main").put_many(items)
    assert next(items) == ("a", b"x")
    assert list(repo.stores.objects.list("data/")) == []


@pytest.mark.parametrize("threads", [1, 4])
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
def test_a_bad_item_is_named_and_what_is_before_it_is_staged(repo, threads, bad, said):
    main = repo.branch("main")
    items = [*((f"a{number}", b"x") for number in range(7)), bad, ("z", b"x")]
    with pytest.raises(InvalidInputError) as caught:
        main.put_many(items, threads=threads)
    assert said in str(caught.value)
    assert "7 files are staged: put the items after these again" in str(caught.value)
    assert sorted(tree(main)) == [f"a{number}" for number in range(7)]


def test_a_file_that_is_not_there_is_named(repo, tmp_path):
    with pytest.raises(RetryableError) as caught:
        repo.branch("main").put_many([("b", tmp_path / "gone")], threads=4)
    assert "'b': cannot read" in str(caught.value)
    assert "nothing is staged" in str(caught.value)


@pytest.mark.parametrize("name", ["ENOENT", "EIO", "ESTALE", "ETIMEDOUT", "ENXIO"])
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

    with monkeypatch.context() as patch:
        patch.setattr(store, "_opened", failing)
        with pytest.raises(RetryableError, match=re.escape(os.strerror(number))) as caught:
            repo.branch("main").put("b", file)
    assert not is_final(caught.value)
    repo.branch("main").put("b", file)


def test_a_body_that_is_no_file_is_refused_for_good(repo, tmp_path):
    for place in (tmp_path, tmp_path / ("x" * 300)):
        with pytest.raises(InvalidInputError, match=r"cannot read|name too long") as caught:
            repo.branch("main").put("b", place)
        assert is_final(caught.value)


@pytest.mark.parametrize("size", [3, 100])
def test_a_file_that_is_written_while_it_is_put_is_refused(repo, tmp_path, monkeypatch, size):
    file = tmp_path / "growing"
    file.write_bytes(b"a" * 10)
    read = BodyReader._piece

    def writing(self, wanted):
        piece = read(self, wanted)
        file.write_bytes(b"b" * size)
        return piece

    monkeypatch.setattr(BodyReader, "_piece", writing)
    main = repo.branch("main")
    for put in (lambda: main.put("a", file), lambda: main.put_many([("a", file)])):
        file.write_bytes(b"a" * 10)
        with pytest.raises(InvalidInputError, match="growing was written while it was read"):
            put()
    assert tree(main) == {}
    monkeypatch.undo()
    main.put("a", file)
    assert main.get("a") == b"b" * size


def test_an_error_of_the_caller_passes_with_a_note(repo):
    main = repo.branch("main")

    def items():
        yield "a", b"1"
        raise KeyError("mine")

    with pytest.raises(KeyError) as caught:
        main.put_many(items(), threads=4)
    assert caught.value.__notes__ == ["1 file is staged: put the items after these again"]
    assert tree(main) == {"a": "1"}


def test_an_interrupt_leaves_staged_what_was_stored(repo):
    main = repo.branch("main")

    def items():
        yield "a", b"1"
        yield "b", b"2"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        main.put_many(items())
    assert "2 files are staged" in caught.value.__notes__[0]
    assert tree(main) == {"a": "1", "b": "2"}


@pytest.mark.parametrize("threads", [1, 6])
def test_a_full_store_stops_the_call_and_the_rest_can_follow(repo, threads):
    main = repo.branch("main")
    items = [(f"{number:03}", b"%d" % number) for number in range(100)]
    with full_after(repo, 60), pytest.raises(StorageFullError) as caught:
        main.put_many(items, threads=threads)
    staged = sorted(tree(main))
    assert staged == [path for path, _ in items[: len(staged)]]
    assert f"{len(staged)} files are staged" in str(caught.value)
    assert len(staged) >= 60 - threads
    main.put_many(items[len(staged) :], threads=threads)
    assert tree(main) == {path: body.decode() for path, body in items}


@contextmanager
def full_after(repo, files):
    store, put = repo.stores.objects, repo.stores.objects.put
    stored: list[str] = []

    def limited(key, body):
        if len(stored) >= files:
            raise StorageFullError("no space left")
        stored.append(key)
        return put(key, body)

    store.put = limited
    try:
        yield
    finally:
        del store.put


def test_a_run_and_its_steps_put_many(repo):
    with repo.run("hour") as run:
        run.put_many({"a": b"1", "b": b"2"})
        with run.step("work") as step:
            step.put_many({"c": b"3"})
    assert tree(repo.ref("main")) == {"a": "1", "b": "2", "c": "3"}
    assert run.result.commit.metadata["graveler.run"] == "hour"


@pytest.mark.parametrize("threads", [1, 4])
def test_a_stale_attempt_is_fenced_and_acknowledges_nothing(repo, threads):
    stale = repo.runs.open("hour")

    def items():
        for number in range(100):
            if number == 50:
                repo.runs.open("hour")
            yield f"{number:03}", b"stale"

    with pytest.raises(FencedError) as caught:
        stale.put_many(items(), threads=threads)
    assert "staged" not in str(caught.value)
    with repo.run("hour") as run:
        assert tree(run) == {}
        run.put("a", b"new")
    assert tree(repo.ref("main")) == {"a": "new"}


def test_a_long_call_renews_the_lease_of_its_run(lake, repo):
    run = repo.runs.open("hour", lease="1m")

    def items():
        for number in range(30):
            lake._clock.advance(seconds=15)
            repo.runs.reap(dry_run=False)
            yield f"{number}", b"x"

    run.put_many(items())
    run.commit("all")
    run.publish()
    assert len(tree(repo.ref("main"))) == 30


def test_a_gate_puts_nothing(repo):
    @graveler.gate
    def writes(candidate):
        repo.branch("main").put_many({"gate": b"x"})

    with pytest.raises(graveler.GateFailedError), repo.run("hour", gates=[writes]) as run:
        run.put("a", b"1")
    assert tree(repo.branch("main")) == {}


def test_a_file_whose_writer_sets_the_time_back_is_refused(repo, tmp_path, monkeypatch):
    file = tmp_path / "written"
    file.write_bytes(b"a" * 10)
    read = BodyReader._piece

    def writing(self, wanted):
        piece = read(self, wanted)
        if piece:
            rewrite(file, b"b" * 10)
        return piece

    monkeypatch.setattr(BodyReader, "_piece", writing)
    with pytest.raises(InvalidInputError, match="was written while it was read"):
        repo.branch("main").put("a", file)
