"""Every ref is a tree of files, also with hours such as 05:00 in its paths."""

import fsspec
import pytest
from fsspec import AbstractFileSystem

import graveler
from graveler.errors import GateFailedError
from graveler.fs import GravelerFileSystem, url
from graveler.gates import Gate

HOUR = "input/2013/01/01/05:00"


@pytest.fixture
def main(repo):
    branch = repo.branch("main")
    for hour in ("05:00", "06:00"):
        branch.put(f"input/2013/01/01/{hour}/part-0.csv", f"hour {hour}\n".encode())
    branch.commit("two hours")
    repo.tags.create("v1")
    branch.put(f"{HOUR}/part-0.csv", b"mended\n")
    branch.commit("mended")
    branch.put(f"{HOUR}/late.csv", b"late\n")
    return branch


@pytest.mark.parametrize(
    ("ref", "content"),
    [
        ("main", b"mended\n"),
        ("main~1", b"hour 05:00\n"),
        ("main@{1}~0", b"hour 05:00\n"),
        ("v1", b"hour 05:00\n"),
    ],
)
def test_any_ref_expression_is_read(grav, main, ref, content):
    assert grav.cat(f"grav://flights/{ref}/{HOUR}/part-0.csv") == content
    assert grav.ls(f"flights/{ref}/input/2013/01/01", detail=False) == [
        f"flights/{ref}/input/2013/01/01/05:00",
        f"flights/{ref}/input/2013/01/01/06:00",
    ]


def test_a_time_with_its_colon_and_zone_is_a_ref(grav, main, repo):
    moment = list(repo.moves("main"))[1].at.isoformat()
    assert grav.cat(f"grav://flights/main@{{{moment}}}/{HOUR}/part-0.csv") == b"hour 05:00\n"


def test_the_lake_the_repository_and_the_tree_are_folders(grav, main):
    assert grav.ls("", detail=False) == ["flights"]
    assert grav.ls("grav://", detail=False) == ["flights"]
    assert grav.ls("flights", detail=False) == ["flights/dev", "flights/main", "flights/v1"]
    assert grav.ls("flights/main/", detail=False) == ["flights/main/input"]
    for folder in ("", "flights", "flights/main", "flights/main/input", f"flights/main/{HOUR}/"):
        assert grav.isdir(folder), folder
    assert grav.ls("flights/dev") == []


def test_walking_finding_and_globbing_agree(grav, main):
    files = [
        "flights/main/input/2013/01/01/05:00/late.csv",
        "flights/main/input/2013/01/01/05:00/part-0.csv",
        "flights/main/input/2013/01/01/06:00/part-0.csv",
    ]
    assert grav.find("flights/main/input") == files
    assert grav.glob("flights/main/input/2013/01/01/*:00/*.csv") == files
    assert grav.glob("flights/*/input/2013/01/01/05:00/l?te.csv") == files[:1]
    walked = [f"{root}/{name}" for root, _, names in grav.walk("flights/main") for name in names]
    assert sorted(walked) == files
    assert grav.find("flights/main/input", maxdepth=1) == []
    assert grav.find(files[0]) == files[:1]
    assert grav.find("flights/main/nowhere") == []
    assert grav.find("flights/nowhere") == []
    found = grav.find("flights/main/input/2013", withdirs=True, detail=True)
    assert found["flights/main/input/2013/01"]["type"] == "directory"
    assert found == super(type(grav), grav).find(
        "flights/main/input/2013", withdirs=True, detail=True
    )


@pytest.mark.parametrize(
    "pattern",
    [
        "main/input/2013/*/01/05:??/part-[0-9].csv",
        "main/input/2013/0[12]/",
        "main/*/2013/",
        "main/input/20*/nowhere/*.csv",
        "main/input/**/*.csv",
        "main/in[[]put/*/*",
        "*/a[*]b/*",
        "main/input/2013/*",
    ],
)
def test_a_pattern_matches_what_it_matches_everywhere(grav, main, pattern):
    main.put("a*b/file", b"")
    everywhere = AbstractFileSystem.glob(grav, f"flights/{pattern}", detail=True)
    assert grav.glob(f"flights/{pattern}", detail=True) == everywhere
    assert grav.glob(f"grav://flights/{pattern}") == list(everywhere)


def test_a_file_says_what_is_known_of_it(grav, main, repo):
    path = f"flights/main/{HOUR}/part-0.csv"
    entry = repo.branch("main").stat(f"{HOUR}/part-0.csv")
    info = grav.info(f"grav://{path}")
    assert info["name"] == path
    assert (info["type"], info["size"], info["checksum"]) == ("file", 7, entry.checksum)
    assert info["address"] == f"{repo.storage}/{entry.address}"
    assert grav.modified(path) == grav.created(path) == entry.mtime
    assert grav.ls(path) == [info]
    assert grav.du(f"flights/main/{HOUR}") == 12
    assert grav.du(f"flights/main/{HOUR}", total=False) == {
        f"flights/main/{HOUR}/late.csv": 5,
        path: 7,
    }
    assert grav.sizes([path]) == [7]


def test_the_key_of_a_file_changes_with_its_content_alone(grav, main, repo):
    path = f"flights/main/{HOUR}/part-0.csv"
    key, checksum = grav.ukey(path), grav.checksum(path)
    main.put(f"{HOUR}/part-0.csv", b"mended\n")
    assert (grav.ukey(path), grav.checksum(path)) == (key, checksum)
    main.put(f"{HOUR}/part-0.csv", b"other\n")
    assert grav.ukey(path) != key
    assert grav.checksum(path) != checksum


def test_a_file_is_read_in_pieces_through_the_cache(grav, main):
    main.put("large", bytes(range(256)) * 1000)
    with grav.open("flights/main/large", block_size=1000, cache_type="readahead") as file:
        assert file.size == 256_000
        file.seek(-3, 2)
        assert file.read() == b"\xfd\xfe\xff"
        file.seek(256)
        assert file.read(2) == b"\x00\x01"
        assert file.tell() == 258
        assert file.info()["size"] == 256_000
    assert grav.head("flights/main/large", 2) == b"\x00\x01"
    assert grav.tail("flights/main/large", 2) == b"\xfe\xff"
    assert grav.cat_file("flights/main/large", -2) == b"\xfe\xff"
    assert grav.cat_file("flights/main/large", 5, 5) == b""
    assert grav.read_block("flights/main/large", 1, 2) == b"\x01\x02"


def test_an_open_file_stays_the_one_that_was_opened(grav, main):
    with grav.open(f"flights/main/{HOUR}/part-0.csv", cache_type="none") as file:
        assert file.read(3) == b"men"
        main.put(f"{HOUR}/part-0.csv", b"something else entirely")
        assert file.read() == b"ded\n"


def test_ranges_are_read_together_and_tell_of_what_is_missing(grav, main):
    path = f"flights/main/{HOUR}/part-0.csv"
    assert grav.cat_ranges([path, path], [0, 4], [2, 6]) == [b"me", b"ed"]
    first, second = grav.cat_ranges([path, f"{path}.no"], 0, 2)
    assert first == b"me"
    assert isinstance(second, FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        grav.cat_ranges([path, f"{path}.no"], 0, 2, on_error="raise")
    assert grav.cat([path, f"flights/main/{HOUR}/late.csv"]) == {
        path: b"mended\n",
        f"flights/main/{HOUR}/late.csv": b"late\n",
    }


@pytest.mark.parametrize("path", ["nowhere/main/a", "flights/main/nowhere", "flights/main~9/a"])
def test_what_is_not_there_is_not_found(grav, main, path):
    assert not grav.exists(path)
    assert not grav.isdir(path)
    assert not grav.isfile(path)
    for look in (grav.info, grav.ls, grav.cat_file, grav.open, grav.modified, grav.ukey):
        with pytest.raises(FileNotFoundError):
            look(path)
    assert not grav.exists("flights/main~~x/a")
    assert not grav.isdir("flights/main~~x/a")


def test_the_address_alone_is_enough(lake, main, monkeypatch):
    url = f"grav://flights/main/{HOUR}/part-0.csv"
    with fsspec.open(url, lake=lake.location) as file:
        assert file.read() == b"mended\n"
    monkeypatch.setenv("GRAVELER_LAKE", lake.location)
    with fsspec.open(url, "r") as file:
        assert file.read() == "mended\n"
    mapper = fsspec.get_mapper("grav://flights/main/input/2013/01/01")
    assert sorted(mapper) == ["05:00/late.csv", "05:00/part-0.csv", "06:00/part-0.csv"]


def test_a_lake_that_is_not_named_or_not_there_is_never_made(tmp_path, monkeypatch):
    monkeypatch.delenv("GRAVELER_LAKE", raising=False)
    with pytest.raises(ValueError, match="GRAVELER_LAKE"):
        fsspec.filesystem("grav")
    with pytest.raises(FileNotFoundError, match="no lake at"):
        fsspec.filesystem("grav", lake=tmp_path / "typo")
    assert not (tmp_path / "typo").exists()


def test_a_gate_that_reads_anything_has_an_address_of_its_own(grav, repo):
    seen = []

    def reads(candidate):
        seen.append(grav.cat(url(candidate, "new.csv")))

    with repo.run("hour 05", gates=[Gate("reads", reads, reads="anything")]) as run:
        run.put("new.csv", b"new\n")
    assert seen == [b"new\n"]


@pytest.mark.parametrize("place", ["candidate", "before"])
def test_another_gate_has_none_and_the_refusal_says_what_to_do(repo, place):
    def reads(candidate):
        url(candidate if place == "candidate" else candidate.before, "new.csv")

    with pytest.raises(GateFailedError, match=r"anything|no address"):
        with repo.run("hour 05", gates=[Gate("reads", reads)]) as run:
            run.put("new.csv", b"new\n")


def test_get_does_not_write_the_lakes_own_files(tmp_path):
    home = tmp_path / "lake"
    with graveler.init(home) as lake:
        main = lake.create_repository("flights").branch("main")
        main.put("a", b"1")
        main.commit("one")
    before = (home / "graveler.toml").read_bytes()
    fs = GravelerFileSystem(str(home))
    for name in ("graveler.toml", "kv.sqlite3", "objects/flights/x"):
        with pytest.raises(OSError, match="one of the lake's own files"):
            fs.get_file("flights/main/a", str(home / name))
    assert (home / "graveler.toml").read_bytes() == before
    fs.get("flights/main/a", str(home / "b"))
    assert (home / "b").read_bytes() == b"1"
