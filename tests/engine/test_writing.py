"""Writing, reading and listing a branch."""

import io
import os

import pytest

from graveler.errors import (
    InvalidInputError,
    NoChangesError,
    ObjectNotFoundError,
    ProtectedBranchError,
    RefNotFoundError,
)
from graveler.model import ChangeKind, Entry, Prefix
from graveler.testing.world import link_unseen


def names(view, prefix="", **options):
    return [item.path for item in view.list(prefix, **options)]


def test_what_is_put_can_be_read_before_and_after_its_commit(repo):
    main = repo.branch("main")
    entry = main.put("input/2013/01/01/05:00/part-0.csv", b"a,b\n", metadata={"from": "bts"})
    assert entry.size == 4
    assert entry.checksum.startswith("sha256:")
    assert main.get(entry.path) == b"a,b\n"
    assert main.stat(entry.path) == entry
    commit = main.commit("first", metadata={"hour": "05"}, committer="me")
    assert repo.ref("main").get(entry.path) == b"a,b\n"
    assert repo.ref(commit.id).stat(entry.path).metadata == {"from": "bts"}
    assert commit.metadata == {"hour": "05"}
    assert commit.committer == "me"
    assert list(main.uncommitted()) == []


def test_files_and_streams_are_put_like_bytes(repo, tmp_path):
    main = repo.branch("main")
    file = tmp_path / "data.bin"
    file.write_bytes(b"x" * 100_000)
    main.put("file", file)
    main.put("stream", io.BytesIO(b"y" * 100_000))
    assert main.get("file") == b"x" * 100_000
    with main.open("stream") as stream:
        stream.seek(99_999)
        assert stream.read() == b"y"
    assert main.stat("file").address.startswith("data/")


def test_staged_writes_are_seen_on_their_branch_only(repo):
    repo.branch("main").put("a", b"1")
    repo.branch("main").commit("a")
    dev = repo.create_branch("dev", source="main")
    dev.put("b", b"2")
    dev.delete("a")
    assert names(dev) == ["b"]
    assert names(repo.branch("main")) == ["a"]
    assert names(repo.ref("dev")) == ["a"]  # a ref shows only committed files
    assert [(change.path, change.kind) for change in dev.uncommitted()] == [
        ("a", ChangeKind.REMOVED),
        ("b", ChangeKind.ADDED),
    ]


def test_a_commit_takes_all_that_was_staged_and_leaves_nothing(repo):
    main = repo.branch("main")
    for number in range(40):
        main.put(f"k{number:02}", str(number).encode())
    main.commit("forty")
    main.delete_many([f"k{number:02}" for number in range(0, 40, 2)])
    main.put("k01", b"changed")
    main.commit("twenty fewer")
    assert names(repo.ref("main")) == [f"k{number:02}" for number in range(1, 40, 2)]
    assert repo.ref("main").get("k01") == b"changed"
    assert repo.ref("main~1").get("k01") == b"1"
    with pytest.raises(NoChangesError, match="nothing is staged"):
        main.commit("nothing")


def test_writing_what_is_there_already_is_no_change(repo):
    main = repo.branch("main")
    main.put("a", b"1")
    head = main.commit("a")
    main.put("a", b"1")
    main.delete("never there")
    assert list(main.uncommitted()) == []
    with pytest.raises(NoChangesError, match="equals the head"):
        main.commit("again")
    assert main.head == head
    with pytest.raises(NoChangesError, match="nothing is staged"):  # the equal write is cleared
        main.commit("again")
    assert main.commit("marker", allow_empty=True).parents == (head.id,)


def test_reset_discards_what_is_staged(repo):
    main = repo.branch("main")
    main.put("a", b"1")
    main.commit("a")
    main.put("a", b"2")
    main.put("b", b"2")
    main.reset()
    assert names(main) == ["a"]
    assert main.get("a") == b"1"
    assert list(main.uncommitted()) == []


def test_listings_fold_at_the_delimiter_and_go_on_after_a_path(repo):
    main = repo.branch("main")
    for path in ("a/1", "a/2/x", "a/2/y", "a.txt", "b", "c/d/e", "input/2013/01/01/05:00/f"):
        main.put(path, b"")
    staged = list(main.list(delimiter="/"))
    main.commit("all")
    for view in (main, repo.ref("main")):
        assert names(view, delimiter="/") == ["a.txt", "a/", "b", "c/", "input/"]
        assert names(view, "a/", delimiter="/") == ["a/1", "a/2/"]
        assert names(view, "a/2") == ["a/2/x", "a/2/y"]
        assert names(view, after="a/2/x") == ["a/2/y", "b", "c/d/e", "input/2013/01/01/05:00/f"]
        assert names(view, after="a/", delimiter="/") == ["b", "c/", "input/"]
        assert names(view, "nothing") == []
    assert isinstance(staged[1], Prefix)
    assert [type(item) for item in staged] == [Entry, Prefix, Entry, Prefix, Prefix]


def test_a_long_listing_is_whole_and_in_byte_order(repo):
    main = repo.branch("main")
    paths = [f"{number * 7919 % 3000:04}/é" for number in range(1500)]
    link_unseen(main, (Entry(path, f"data/{path}", 1, "md5:0") for path in paths))
    main.commit("many")
    link_unseen(main, (Entry(path + "2", f"data/{path}", 1, "md5:1") for path in paths[:700]))
    main.delete_many(paths[700:1400])
    expected = sorted([*paths[:700], *paths[1400:], *(path + "2" for path in paths[:700])])
    assert names(main) == sorted(expected, key=str.encode)


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


def test_files_of_other_stores_are_linked_by_their_uri(repo, tmp_path):
    outside = tmp_path / "landing" / "hour 05:00"
    outside.mkdir(parents=True)
    (outside / "raw.csv").write_bytes(b"raw")
    main = repo.branch("main")
    repo.links.allow(str(tmp_path / "landing"))
    entry = main.link("input/raw.csv", address=f"file://{outside}/raw.csv")
    assert entry.size == 3
    assert main.get("input/raw.csv") == b"raw"
    assert list(main.uris("input/")) == [f"file://{outside}/raw.csv"]


@pytest.mark.parametrize(
    "path",
    ["", "x" * 1025, "nul\0", "lone \udcff surrogate"],
    ids=["empty", "too long", "nul", "not UTF-8"],
)
def test_a_path_that_cannot_be_stored_is_refused_first(repo, path):
    main = repo.branch("main")
    with pytest.raises(InvalidInputError, match="path"):
        main.put(path, b"x")
    with pytest.raises(InvalidInputError, match="path"):
        main.link_many([Entry(path, "data/x", 1)])
    assert list(main.uncommitted()) == []
    assert list(repo.stores.objects.list("data/")) == []


@pytest.mark.parametrize("name", ["format", "name", "key", "metadata", "", "größe ü"])
def test_metadata_may_have_any_name(repo, name):
    main, pairs = repo.branch("main"), {name: "3"}
    main.put("a", b"1", metadata=pairs)
    assert main.stat("a").metadata == pairs
    assert main.commit("c", metadata=pairs).metadata == pairs
    (entry,) = repo.ref("main").list()
    assert entry.metadata == pairs
    assert main.table().read_all()["metadata"].to_pylist() == [list(pairs.items())]
    assert main.get("a") == b"1"


def test_entries_that_point_into_the_metadata_are_refused(repo):
    main = repo.branch("main")
    for address in ("", "_graveler/0", "other/x", f"{repo.storage}/_graveler/0"):
        with pytest.raises(InvalidInputError, match="address"):
            main.link_many([Entry("a", address, 1)])
    with pytest.raises(InvalidInputError, match="size=-1"):
        main.link_many([Entry("a", "data/x", -1)])


def test_nothing_is_read_from_where_nothing_is(repo):
    with pytest.raises(ObjectNotFoundError, match="'x'"):
        repo.branch("main").get("x")
    assert not repo.branch("main").exists("x")
    for call in (repo.branch, repo.ref, lambda name: repo.create_branch("dev", source=name)):
        with pytest.raises(RefNotFoundError, match="nowhere"):
            call("nowhere")


def test_a_protected_branch_takes_merges_only(repo):
    repo.protection.add("ma*")
    main = repo.branch("main")
    for write in (
        lambda: main.put("a", b"1"),
        lambda: main.delete("a"),
        lambda: main.link_many([Entry("a", "data/x", 1)]),
        lambda: main.commit("x"),
    ):
        with pytest.raises(ProtectedBranchError, match="merge it"):
            write()
    assert list(repo.stores.objects.list("data/")) == []
    dev = repo.create_branch("dev")
    dev.put("a", b"1")
    dev.commit("a")
    repo.merge("dev", into="main")
    assert main.get("a") == b"1"
    repo.protection.remove("ma*")
    assert repo.protection.list() == {}
    main.put("b", b"2")


def test_a_deleted_branch_takes_its_staged_writes_along(repo):
    dev = repo.create_branch("dev")
    dev.put("a", b"1")
    repo.delete_branch("dev")
    with pytest.raises(RefNotFoundError):
        dev.put("b", b"2")
    assert [record.name for record in repo.branches()] == ["main"]
    assert names(repo.create_branch("dev")) == []
    with pytest.raises(InvalidInputError, match="default branch"):
        repo.delete_branch("main")


def test_a_closed_stream_is_refused_by_name(repo):
    closed = io.BytesIO(b"1")
    closed.close()
    main = repo.branch("main")
    with pytest.raises(InvalidInputError, match="'a': the stream is closed"):
        main.put_many([("a", closed)])
    with pytest.raises(InvalidInputError, match="the stream is closed"):
        main.put("a", closed)


@pytest.mark.parametrize("place", ["/dev/zero", "pipe", "link"])
def test_a_device_and_a_pipe_are_no_files(repo, tmp_path, place):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    main, body = repo.branch("main"), tmp_path / place
    for put in (
        lambda: main.put("a", body),
        lambda: main.put_many([("a", body)]),
    ):
        with pytest.raises(InvalidInputError, match=f"{place} is a device or a pipe"):
            put()
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
