"""Files whose bytes differ from the stored ones, through the filesystem."""

import errno
import io

import pytest

from graveler.errors import CorruptionError

CONTENT = b"".join(b"%06d,some,more,columns\n" % number for number in range(12_000))
PATH = "flights/dev/a.csv"

DAMAGES = {
    "flipped": lambda raw: raw[:150_000] + bytes((raw[150_000] ^ 1,)) + raw[150_001:],
    "cut": lambda raw: raw[:-1],
    "emptied": lambda _: b"",
    "longer": lambda raw: raw + b"x",
}


def opened(read, **options):
    def reader(grav, _):
        with grav.open(PATH, block_size=1 << 15, **options) as file:
            return read(file)

    return reader


def in_pieces(file, size=10_000):
    return b"".join(iter(lambda: file.read(size), b""))


def into_buffers(file):
    found, buffer = bytearray(), bytearray(50_000)
    while count := file.readinto(buffer):
        found += buffer[:count]
    return bytes(found)


def got(grav, folder):
    target = folder / "got" / "a.csv"
    grav.get_file(PATH, target)
    return target.read_bytes()


def got_below(grav, folder):
    grav.get("flights/dev", str(folder / "all"), recursive=True)
    return (folder / "all" / "a.csv").read_bytes()


def got_into(grav, _):
    target = io.BytesIO()
    grav.get_file(PATH, target)
    return target.getvalue()


READERS = {
    "cat_file": lambda grav, _: grav.cat_file(PATH),
    "cat": lambda grav, _: grav.cat([PATH, PATH])[PATH],
    "cat_ranges": lambda grav, _: grav.cat_ranges([PATH], [None], [None], on_error="raise")[0],
    "read": opened(lambda file: file.read()),
    "pieces": opened(in_pieces),
    "readinto": opened(into_buffers),
    "lines": opened(b"".join),
    "text": lambda grav, _: grav.read_text(PATH, newline="").encode(),
    "no cache": opened(in_pieces, cache_type="none"),
    "bytes cache": opened(in_pieces, cache_type="bytes"),
    "whole cache": opened(in_pieces, cache_type="all"),
    "block cache": opened(in_pieces, cache_type="blockcache"),
    "get_file": got,
    "get": got_below,
    "get into": got_into,
}


@pytest.fixture
def stored(grav, repo):
    grav.pipe_file(PATH, CONTENT)
    return repo.branch("dev").stat("a.csv")


def damage(repo, entry, kind):
    store, key = repo.stores.locate(entry.address)
    store.put(key, DAMAGES[kind](CONTENT))


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("reader", READERS)
def test_a_damaged_file_is_no_reading(grav, repo, stored, tmp_path, reader, kind):
    assert READERS[reader](grav, tmp_path / "before") == CONTENT
    damage(repo, stored, kind)
    with pytest.raises(OSError, match=r"a\.csv") as raised:
        READERS[reader](grav, tmp_path)
    assert raised.value.errno == errno.EIO
    assert isinstance(raised.value.__cause__, CorruptionError)
    assert [path.parents[1] for path in tmp_path.rglob("a.csv")] in ([], [tmp_path / "before"])


def test_a_range_of_a_damaged_file_is_read_if_the_size_is_right(grav, repo, stored):
    damage(repo, stored, "flipped")
    assert grav.cat_file(PATH, 0, 100) == CONTENT[:100]
    with grav.open(PATH, block_size=1 << 15) as file:
        file.seek(200_000)
        assert file.read() == CONTENT[200_000:]
    damage(repo, stored, "cut")
    for begin, end in ((0, 100), (len(CONTENT) - 1, len(CONTENT))):
        with pytest.raises(OSError, match=f"{len(CONTENT) - 1} bytes"):
            grav.cat_file(PATH, begin, end)


def test_a_damaged_file_is_not_copied_into_another_repository(lake, grav, repo, stored):
    other = lake.create_repository("other")
    damage(repo, stored, "flipped")
    with pytest.raises(OSError, match=r"a\.csv"):
        grav.cp_file(PATH, "other/main/a.csv")
    assert not other.branch("main").exists("a.csv")
