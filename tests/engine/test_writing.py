"""Writing, reading and listing a branch."""

import io
import os
from pathlib import Path

import pytest

from graveler.errors import (
    InvalidInputError,
    ObjectNotFoundError,
    RefNotFoundError,
)
from graveler.lake.factory import init
from graveler.lake.factory import open as open_lake
from graveler.model import Entry
from graveler.values import stage_entry


def names(view, prefix="", **options):
    return [item.path for item in view.list(prefix, **options)]


def test_what_is_put_can_be_read_before_and_after_its_commit(repo):
    main = repo.branch("main")
    entry = main.put("input/2013/01/01/05:00/part-0.csv", b"a,b\n", metadata={"from": "bts"})
    assert entry.size == 4
    assert entry.checksum.startswith("sha256:")
    assert main.get(entry.path) == b"a,b\n"
    assert main.stat(entry.path) == entry
    assert repo.view("main@").exists(entry.path) is False
    commit = main.commit("first", metadata={"format": "05", "": "größe ü"}, committer="me")
    assert repo.ref("main").get(entry.path) == b"a,b\n"
    assert repo.ref(commit.id).stat(entry.path).metadata == {"from": "bts"}
    assert commit.metadata == {"format": "05", "": "größe ü"}
    assert commit.committer == "me"
    assert list(main.uncommitted()) == []


def test_links_copy_nothing_and_are_looked_up(repo):
    main = repo.branch("main")
    store = repo.stores.objects
    address = main.new_address() + "/part-0.parquet"
    info = store.put(address, b"spark wrote this")
    linked = main.link("output/part-0.parquet", address=address)
    assert linked.size == info.size
    assert main.get("output/part-0.parquet") == b"spark wrote this"
    assert list(main.uris("output/")) == [store.uri(address)]
    assert list(main.uris("output/part-0.parquet")) == [store.uri(address)]
    with pytest.raises(ObjectNotFoundError):
        main.link("missing", address="data/missing")
    with pytest.raises(ObjectNotFoundError, match=r"'said'.*'data/missing'"):
        main.link("said", address="data/missing", size=1)
    with pytest.raises(InvalidInputError, match="has 16 bytes, not 15"):
        main.link("short", address=address, size=15)
    assert names(main) == ["output/part-0.parquet"]


def test_entries_that_point_into_the_metadata_are_refused(repo):
    main = repo.branch("main")
    for address in ("", "_graveler/0", "other/x", f"{repo.storage}/_graveler/0"):
        with pytest.raises(InvalidInputError, match="address"):
            main.link_many([Entry("a", address, 1)])
    with pytest.raises(InvalidInputError, match="size=-1"):
        main.link_many([Entry("a", "data/x", -1)])


@pytest.mark.parametrize("many", [False, True])
def test_a_device_a_pipe_and_a_closed_stream_are_no_files(repo, tmp_path, many):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    closed = io.BytesIO(b"1")
    closed.close()
    main = repo.branch("main")
    for body, said in (
        (Path("/dev/zero"), "/dev/zero is a device or a pipe"),
        (tmp_path / "pipe", "pipe is a device or a pipe"),
        (tmp_path / "link", "link is a device or a pipe"),
        (closed, "the stream is closed"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            main.put_many([("a", body)]) if many else main.put("a", body)
    assert list(main.entries()) == []


class Remaking(io.BytesIO):
    """A body that is read while its branch is deleted and made again."""

    def __init__(self, remake):
        super().__init__(b"x")
        self._remake = remake

    def read(self, size=-1):
        self._remake()
        self._remake = int
        return super().read(size)


@pytest.mark.parametrize(
    "write",
    [
        lambda dev, body: dev.put("b", body),
        lambda dev, body: dev.put_many([("a", b"x"), ("b", body)], threads=1),
    ],
    ids=["put", "put_many"],
)
def test_a_write_does_not_land_on_a_later_branch(repo, write):
    dev = repo.create_branch("dev")

    def remake():
        repo.delete_branch("dev")
        repo.create_branch("dev").put("later", b"x")

    with pytest.raises(RefNotFoundError, match="branch 'dev' was deleted and made again"):
        write(dev, Remaking(remake))
    assert names(dev) == ["later"]
    dev.put("b", b"x")
    assert names(dev) == ["b", "later"]


ODD = ["/a", "a/", "a//b", ".", "..", "./a", "a/.", "a/../b", "../a", "a/..", "//", "/"]
UNSTORABLE = ["", "x" * 1025, "nul\0", "lone \udcff surrogate"]


@pytest.mark.parametrize("path", [*ODD, *UNSTORABLE], ids=ascii)
def test_what_is_no_path_is_refused_on_every_way_in_at_once(repo, path):
    main = repo.branch("main")
    there = main.put("there", b"x")
    objects = list(repo.stores.objects.list("data/"))
    for write in (
        lambda: main.put(path, b"x"),
        lambda: main.store(path, b"x"),
        lambda: main.link(path, address=there.address),
        lambda: main.link_many([Entry(path, there.address, 1)]),
        lambda: main.commit_changes([Entry(path, there.address, 1)], message="m"),
    ):
        with pytest.raises(InvalidInputError, match="path"):
            write()
    assert [entry.path for entry in main.entries()] == ["there"]
    assert list(repo.stores.objects.list("data/")) == objects


@pytest.mark.parametrize("path", ["a..b", "...", ".a", "a./b", "a b/ c", "..a/b.."])
def test_dots_within_a_part_are_only_dots(repo, path):
    main = repo.branch("main")
    main.put(path, b"x")
    assert main.get(path) == b"x"


@pytest.mark.parametrize("path", ODD)
def test_one_that_was_stored_earlier_can_be_read_and_deleted(repo, path):
    main = repo.branch("main")
    entry = main.put("there", b"x")
    old = Entry(path, entry.address, 1, entry.checksum)
    token = repo.stores.refs.branches.get("main").staging_token
    repo.stores.staging.set(token, path.encode(), stage_entry(path.encode(), old))
    for _ in range(2):
        assert main.get(path) == b"x"
        assert path in [item.path for item in main.list()]
        if list(main.uncommitted()):
            main.commit("as an earlier version did")
    main.delete(path)
    main.commit("gone")
    assert not main.exists(path)


def test_a_closed_lake_has_no_file_mapped_or_open(tmp_path):
    def held():
        files = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.exists()]
        maps = Path("/proc/self/maps").read_text().splitlines()
        return [line for line in (*files, *maps) if str(tmp_path) in line]

    with init(tmp_path / "lake") as lake:
        main = lake.create_repository("flights").branch("main")
        main.put("a", b"1")
        main.commit("one")
    with open_lake(tmp_path / "lake") as lake:
        view = lake.repository("flights").ref("main")
        assert view.get("a") == b"1"
        assert [entry and entry.size for entry in view.stat_many(["a"])] == [1]
        assert [entry.path for entry in view.entries()] == ["a"]
        assert held()
    assert held() == []
