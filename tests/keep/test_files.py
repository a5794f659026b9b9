"""Files in blocks: combined, cut, listed in short text, and read back from anywhere."""

import io
import os
import tracemalloc
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.errors import (
    BackendUnavailableError,
    CorruptionError,
    InvalidInputError,
    ObjectNotFoundError,
)
from graveler.keep.cache import BlockCache
from graveler.keep.files import LIST_CHARACTERS, BlockList, BlockWriter, list_block, open_runs
from graveler.keep.locators import BLOCK_BYTES, EMPTY, Locator
from graveler.keep.manifests import Run
from tests.keep.stub import WRONG

A, B = Locator.of(b"a" * 10), Locator.of(b"b" * 10)


def content(size, seed=0):
    return Random(seed).randbytes(size)


def written(client, files, **options):
    writer = BlockWriter(client, **options)
    pairs = list(writer.write((name, io.BytesIO(data)) for name, data in files.items()))
    found = dict(pairs)
    assert len(found) == len(pairs)
    return found


def test_small_files_share_blocks_and_large_ones_are_cut(client, servers):
    files = {"a": b"a" * 4, "large": content(25), "b": b"b" * 5, "c": b"c" * 4, "empty": b""}
    runs = written(client, files, block_bytes=10, replicas=3)
    shared = Locator.of(b"aaaabbbbb")
    assert [(run.locator.digest, *run[1:]) for run in runs["a"] + runs["b"]] == [
        (shared.digest, 0, 4),
        (shared.digest, 4, 5),
    ]
    assert [run.size for run in runs["large"]] == [10, 10, 5]
    assert runs["empty"] == ()
    assert len(servers[0].blocks) == 5
    assert runs["c"][0].locator.signature is not None


def test_equal_large_files_have_equal_blocks(client, servers):
    large = content(25)
    first = written(client, {"x": b"x" * 4, "large": large}, block_bytes=10)["large"]
    again = written(client, {"y": b"y" * 3, "z": b"z" * 5, "copy": large}, block_bytes=10)["copy"]
    assert first == again


def test_a_file_comes_once_its_blocks_are_stored(client, servers):
    def files():
        yield "a", io.BytesIO(content(10))
        yield "b", io.BytesIO(content(30, 1))
        raise ObjectNotFoundError("no third file")

    found = []
    with pytest.raises(ObjectNotFoundError):
        for name, runs in BlockWriter(client, block_bytes=10).write(files()):
            assert client.have(run.locator for run in runs)
            found.append(name)
    assert sorted(found) == ["a", "b"]


def test_a_block_that_is_not_stored_is_an_error(client, servers):
    for server in servers[:2]:
        server.faults.extend([400] * 100)
    with pytest.raises(BackendUnavailableError):
        written(client, {"a": content(100)}, block_bytes=10)


def test_the_memory_of_a_writer_is_bounded():
    class Long:
        left = 300

        def read(self, size):
            self.left -= size > 0
            return bytes(size) if self.left > 0 else b""

    client: Any = _Memory()
    client.put = lambda content, **_: Locator.of(content)
    tracemalloc.start()
    ((_, runs),) = BlockWriter(client, block_bytes=100_000, threads=2).write([("a", Long())])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(runs) == 299
    assert peak < 20 * 100_000


@given(
    sizes=st.lists(st.integers(0, 70), max_size=12),
    block_bytes=st.integers(1, 32),
    threads=st.sampled_from([1, 3]),
)
def test_what_is_written_is_read(all_servers, sizes, block_bytes, threads):
    client: Any = _Memory()
    files = {f"{at}": content(size, at) for at, size in enumerate(sizes)}
    runs = written(client, files, block_bytes=block_bytes, threads=threads)
    assert runs.keys() == files.keys()
    for name, data in files.items():
        text = BlockList.of(runs[name]).store(client)
        loaded = BlockList.load(client, text)
        assert loaded.size == len(data)
        with open_runs(client, loaded.runs) as file:
            assert file.read() == data
    assert all(len(block) <= block_bytes for block in client.blocks.values())


class _Memory:
    """Blocks of a client, in place of servers."""

    def __init__(self):
        self.blocks = {}
        self.reads = []

    def put(self, content, *, replicas=None, classes=()):
        locator = Locator.of(content)
        self.blocks[locator.digest] = bytes(content)
        return locator

    def get(self, locator):
        return self.blocks[locator.digest]

    def read(self, locator, offset, size, *, verify):
        self.reads.append((offset, size))
        return self.blocks[locator.digest][offset : offset + size]


@pytest.mark.parametrize(
    ("runs", "text"),
    [
        ([], ""),
        ([Run(EMPTY, 0, 0)], ""),
        ([Run(A, 0, 10)], f"{A}"),
        ([Run(A, 0, 10), Run(A, 0, 10)], f"{A} {A}"),
        ([Run(A, 2, 3), Run(A, 5, 1), Run(B, 0, 0), Run(A, 6, 4)], f"{A}@2+8"),
        ([Run(A, 0, 4), Run(A, 4, 6), Run(B, 0, 9)], f"{A} {B}@0+9"),
        ([Run(A.signed("a" * 40, 1), 9, 1)], f"{A}@9+1"),
    ],
)
def test_the_text_of_a_list(runs, text):
    found = BlockList.of(runs)
    assert str(found) == text
    assert BlockList.parse(text) == found
    assert found.size == sum(run.size for run in runs)


@pytest.mark.parametrize(
    "text",
    [
        *(" ", f"{A} ", f" {A}", f"{A}  {B}", f"{A}\n", f"{A}\t{B}", A.digest, f"{A.digest}+0"),
        *(f"{A}+Aabc", f"{A}@0+10", f"{A}@2+0", f"{A}@2+9", f"{A}@10+1", f"{A}@02+1", f"{A}@2"),
        *(f"{A}@2+3 {A}@5+1", f"{A.digest}+010", f"{A.digest}+{BLOCK_BYTES + 1}", f"*{A}"),
        *(f"{A.digest}+999999999999", f"{A.digest.upper()}+10", f"{A}@-1+2"),
    ],
)
def test_a_text_that_is_no_list_is_refused(text):
    with pytest.raises(InvalidInputError, match="is not a list of blocks"):
        BlockList.parse(text)


def test_a_long_list_is_a_block(client, servers):
    runs = tuple(Run(each, 1, 9) for _ in range(60) for each in (A, B))
    found = BlockList(runs)
    text = found.store(client, replicas=3)
    assert len(text) < 50 < LIST_CHARACTERS < len(str(found))
    assert list_block(text) == Locator.of(str(found).encode())
    assert list_block(str(found)) is None
    assert BlockList.load(client, text) == found
    with pytest.raises(InvalidInputError, match="behind '\\*'"):
        list_block(f"{text}+Z")
    with pytest.raises(CorruptionError, match="is no list"):
        BlockList.load(client, f"*{client.put(b'no list').bare}")


@pytest.fixture
def big(client, servers):
    """A file of 5 blocks of 5,000,000 bytes, and its runs."""
    data = content(21_000_000)
    return data, written(client, {"a": data}, block_bytes=5_000_000, replicas=3)["a"]


@pytest.mark.parametrize("verify", [True, False])
def test_a_file_is_read_from_anywhere(client_of, servers, big, verify):
    data, runs = big
    chosen = Random(1)
    with open_runs(client_of(servers), runs, verify=verify) as file:
        assert (file.readable(), file.seekable(), file.read(0)) == (True, True, b"")
        assert file.seek(-8, io.SEEK_END) == len(data) - 8
        assert file.read() == data[-8:]
        assert file.read(1) == b""
        for _ in range(30):
            start, size = chosen.randrange(len(data) + 10), chosen.choice([1, 1000, 6_000_000])
            file.seek(start)
            assert file.read(size) == data[start : start + size]
            assert file.tell() == max(start, min(start + size, len(data)))
        file.seek(0)
        assert file.read() == data
        with pytest.raises(ValueError, match="before the start"):
            file.seek(-1)


def test_a_small_part_costs_one_small_request(client_of, servers, big):
    data, runs = big
    for server in servers:
        server.requests.clear()
    with open_runs(client_of(servers), runs, verify=False) as file:
        file.seek(12_345_678)
        assert file.read(8) == data[12_345_678:][:8]
    (asked,) = [headers["Range"] for server in servers for _, _, headers in server.requests]
    first, last = map(int, asked.removeprefix("bytes=").split("-"))
    assert first == 2_345_678
    assert last - first < 1 << 20


def test_reading_in_order_fetches_the_next_blocks(client_of, servers, big):
    data, runs = big
    client = client_of(servers, cache=BlockCache(memory_bytes=0))
    with open_runs(client, runs, ahead=2) as opened:
        file: Any = opened
        assert file.read(10) == data[:10]
        assert sorted(file.raw._found) == [0]
        assert file.read(300_000) == data[10:300_010]
        assert sorted(file.raw._found) == [0, 1, 2]
        file.seek(10_000_000)
        assert file.read(10) == data[10_000_000:][:10]
        assert min(file.raw._found) == 2
        assert len(file.raw._found) <= 3


def test_a_failed_read_may_be_repeated(client_of, servers, big):
    data, runs = big
    client = client_of(servers)
    with open_runs(client, runs[:1]) as file:
        for server in servers:
            server.faults.extend([404])
        with pytest.raises(ObjectNotFoundError):
            file.read(10)
        servers[0].faults.append(WRONG)
        assert file.read(10) == data[:10]


def test_a_forked_child_reads_the_file(client_of, servers, big):
    data, runs = big
    with open_runs(client_of(servers), runs) as file:
        file.read(10)
        child = os.fork()
        if not child:
            os._exit(file.read(6_000_000) != data[10:6_000_010])
        assert os.waitpid(child, 0)[1] == 0
