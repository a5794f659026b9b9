"""Files whose bytes differ from the stored ones, through every reader of a tree."""

import hashlib
import io
import zlib
from itertools import product

import pytest
import xxhash

from graveler.errors import (
    CorruptionError,
    InvalidInputError,
    ObjectNotFoundError,
    SourceChangedError,
)
from graveler.model import Entry
from graveler.reads.files import read_range

CONTENT = b"".join(b"%06d,some,more,columns\n" % number for number in range(12_000))

DAMAGES = {
    "flipped": lambda raw: raw[:150_000] + bytes((raw[150_000] ^ 1,)) + raw[150_001:],
    "last byte": lambda raw: raw[:-1] + b"x",
    "cut": lambda raw: raw[:-1],
    "emptied": lambda _: b"",
    "longer": lambda raw: raw + b"x",
}


def in_pieces(stream, size=1 << 16):
    pieces = []
    while piece := stream.read(size):
        pieces.append(piece)
    return b"".join(pieces)


def into_buffers(stream):
    found, buffer = bytearray(), bytearray(50_000)
    while count := stream.readinto(buffer):
        found += buffer[:count]
    return bytes(found)


def _opened(read):
    def reader(view, path):
        with view.open(path) as stream:
            return read(stream)

    return reader


def _measured(stream):
    assert stream.seek(0, io.SEEK_END) > 0
    stream.seek(0)
    return in_pieces(stream)


READERS = {
    "get": lambda view, path: view.get(path),
    "get an entry": lambda view, path: view.get(next(view.entries(path))),
    "read all": _opened(lambda stream: stream.read()),
    "read pieces": _opened(in_pieces),
    "read bytes": _opened(lambda stream: in_pieces(stream, 777)),
    "read1": _opened(lambda stream: b"".join(iter(stream.read1, b""))),
    "readinto": _opened(into_buffers),
    "lines": _opened(b"".join),
    "readline": _opened(lambda stream: b"".join(iter(stream.readline, b""))),
    "text": _opened(lambda stream: io.TextIOWrapper(stream, newline="").read().encode()),
    "measured first": _opened(_measured),
    "an entry": lambda view, path: _opened(in_pieces)(view, next(view.entries(path))),
}


on_each = pytest.mark.parametrize("lake", ["sqlite-local", "sqlite-s3"], indirect=True)


@pytest.fixture
def repo(lake):
    made = lake.create_repository("flights")
    made.branch("main").put("a.csv", CONTENT)
    made.branch("main").put("empty", b"")
    made.branch("main").commit("a file")
    return made


def damage(repo, path, change):
    entry = repo.branch("main").stat(path)
    store, key = repo.stores.locate(entry.address)
    store.put(key, change(store.get(key)))
    return entry


@on_each
def test_a_whole_file_comes_back(repo):
    for reader, read in READERS.items():
        assert read(repo.branch("main"), "a.csv") == CONTENT, reader
        if reader != "measured first":
            assert read(repo.ref("main"), "empty") == b"", reader


@on_each
@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_file_is_no_reading(repo, kind):
    entry = damage(repo, "a.csv", DAMAGES[kind])
    for reader, view in product(READERS, (repo.branch("main"), repo.ref("main"))):
        with pytest.raises(CorruptionError) as raised:
            READERS[reader](view, "a.csv")
        said = str(raised.value)
        assert not isinstance(raised.value, SourceChangedError)
        assert "'a.csv'" in said
        assert repo.stores.uri(entry.address) in said
        assert "put('a.csv', …, replace=True)" in said
        assert "fsck" in said
        same_size = kind in {"flipped", "last byte"}
        assert (entry.checksum if same_size else f"{entry.size} bytes") in said


def test_what_should_be_empty_and_is_not_is_no_reading(repo):
    damage(repo, "empty", lambda _: b"x")
    for reader in ("get", "read all", "lines"):
        with pytest.raises(CorruptionError, match="'empty'"):
            READERS[reader](repo.branch("main"), "empty")


def test_the_read_of_the_last_byte_raises_and_so_do_later_ones(repo):
    damage(repo, "a.csv", DAMAGES["last byte"])
    with repo.branch("main").open("a.csv") as stream:
        assert stream.read(100_000) == CONTENT[:100_000]
        with pytest.raises(CorruptionError):
            stream.read()
        for read in (stream.read, lambda: stream.read(1), stream.readline):
            with pytest.raises(CorruptionError):
                read()


def test_a_seek_ends_verification_and_a_read_from_0_restarts_it(repo):
    damage(repo, "a.csv", DAMAGES["flipped"])
    damaged = DAMAGES["flipped"](CONTENT)
    with repo.branch("main").open("a.csv") as stream:
        assert stream.read(10) == damaged[:10]
        stream.seek(200_000)
        assert stream.read() == damaged[200_000:]
        stream.seek(-5, io.SEEK_END)
        assert stream.read() == damaged[-5:]
        stream.seek(0)
        with pytest.raises(CorruptionError):
            stream.read()


def test_a_part_of_a_damaged_file_is_read_if_its_size_is_right(repo):
    damage(repo, "a.csv", DAMAGES["flipped"])
    with repo.branch("main").open("a.csv") as stream:
        assert stream.read(1000) == CONTENT[:1000]
    damage(repo, "a.csv", DAMAGES["cut"])
    with pytest.raises(CorruptionError, match=f"has {len(CONTENT) - 1} bytes"):
        repo.branch("main").open("a.csv")


@pytest.mark.parametrize("algorithm", ["sha256", "md5", "blake2b", "xxh64", "SHA1"])
def test_a_checksum_that_the_caller_declared_is_compared(repo, algorithm):
    main, address = repo.branch("main"), repo.branch("main").stat("a.csv").address
    fresh = (
        xxhash.xxh64() if algorithm == "xxh64" else hashlib.new(algorithm, usedforsecurity=False)
    )
    fresh.update(CONTENT)
    size = len(CONTENT)
    for path, text in (("right", fresh.hexdigest()), ("loud", fresh.hexdigest().upper())):
        main.link_many([Entry(path, address, size, f"{algorithm}:{text}")])
        assert main.get(path) == CONTENT
        with main.open(path) as stream:
            assert in_pieces(stream) == CONTENT
    fresh.update(b"more")
    wrong = fresh.hexdigest()
    main.link_many([Entry("wrong", address, size, f"{algorithm}:{wrong}")])
    for reader in ("get", "read pieces"):
        with pytest.raises(CorruptionError, match="'wrong'"):
            READERS[reader](main, "wrong")


@pytest.mark.parametrize(
    "checksum",
    [
        f"crc32:{zlib.crc32(CONTENT):x}",
        "shake_128:00",
        "etag:x",
        "x",
        "sha256:",
        "sha256:ab",
        f"md5:{hashlib.sha256(CONTENT).hexdigest()}",
        f"sha256:{'g' * 64}",
        f"sha256:{'0' * 63}\n",
    ],
)
def test_a_link_whose_checksum_cannot_be_verified_is_refused(repo, checksum):
    main, address = repo.branch("main"), repo.branch("main").stat("a.csv").address
    with pytest.raises(InvalidInputError, match="checksum") as caught:
        main.link_many([Entry("odd", address, len(CONTENT), checksum)])
    assert repr(checksum) in str(caught.value)
    with pytest.raises(InvalidInputError, match="checksum"):
        main.link("odd", address=address, checksum=checksum)
    assert not main.exists("odd")


def test_without_a_checksum_the_size_alone_is_compared(repo):
    main, address = repo.branch("main"), repo.branch("main").stat("a.csv").address
    main.link_many([Entry("bare", address, len(CONTENT))])
    assert main.get("bare") == CONTENT
    damage(repo, "bare", DAMAGES["cut"])
    with pytest.raises(CorruptionError, match=f"{len(CONTENT)} bytes"):
        main.get("bare")


def test_an_object_that_is_gone_is_told_as_that(repo):
    entry = repo.branch("main").stat("a.csv")
    repo.stores.objects.delete(entry.address)
    for reader in ("get", "read all"):
        with pytest.raises(ObjectNotFoundError):
            READERS[reader](repo.branch("main"), "a.csv")


@pytest.fixture
def foreign(repo, tmp_path):
    """The root of another store, of the kind that the repository uses."""
    root = repo.stores.objects.root
    return f"{root}-elsewhere" if root.startswith("s3:") else (tmp_path / "elsewhere").as_uri()


def _linked(repo, foreign, content, **given):
    store = repo.stores.open_store(foreign)
    store.put("there", content)
    repo.links.allow(foreign)
    repo.branch("main").link("linked", address=f"{foreign}/there", **given)
    return store


@on_each
@pytest.mark.parametrize("content", [b"as it is.", b"longer than it was", b""])
def test_a_linked_file_that_was_changed_since_is_told_as_that(repo, foreign, content):
    store = _linked(repo, foreign, b"as it was")
    store.put("there", content)
    repo.links.allow(foreign)
    for read in READERS.values():
        with pytest.raises(SourceChangedError, match="'linked' is linked to") as raised:
            read(repo.branch("main"), "linked")
        entry = repo.branch("main").stat("linked")
        assert f"{len(content)} bytes" in str(raised.value)
        assert entry.version in str(raised.value)
    entry = repo.branch("main").stat("linked")
    with pytest.raises(SourceChangedError):
        read_range(repo.stores, entry, 0, 2)
