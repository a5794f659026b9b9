"""A lakeFS repository, written from its byte layout, is imported with its history."""

from datetime import UTC, datetime

import pytest

from graveler.errors import SourceChangedError
from graveler.fsck.check import fsck
from graveler.lakefs.importing import COMMIT
from graveler.objects.registry import open_store
from tests.harness.lakefs import Obj
from tests.lakefs.trees import check_history, held, imported


@pytest.fixture
def bring(world, source, lakefs):
    """Imports what was written into a repository; returns the result and the repository."""
    with world.open() as lake:

        def run(name="flights", allow=(), **options):
            lakefs.dump()
            done = lake.import_lakefs(source, name, allow=[source, *allow], **options)
            return done, lake.repository(name)

        yield run


def history(lakefs):
    """Write two merged branches, a tag and many ranges; return the files of the trees."""
    files = {
        f"in/{day:02}/{hour:02}.csv": lakefs.upload(f"{day}-{hour}", b"%d" % (day * hour))
        for day in range(3)
        for hour in range(24)
    }
    root = lakefs.commit({}, message="Repository created", committer="", time=(1_600_000_000, 0))
    first = lakefs.commit(files, [root], message="first", metadata={"source": "bts"})
    dev = lakefs.commit({**files, "dev": lakefs.upload("dev", b"dev")}, [first], message="dev")
    gone = {path: found for path, found in files.items() if path != "in/01/05.csv"}
    main = lakefs.commit(gone, [first], message="main")
    merged = lakefs.commit({**gone, "dev": lakefs.trees[dev]["dev"]}, [main, dev], message="merge")
    lakefs.branches.update(main=merged, dev=dev)
    lakefs.tags.update({"v1.0": first})
    lakefs.dump()
    return files


@pytest.mark.parametrize("footer", ["rocksdb", "leveldb"])
@pytest.mark.parametrize("block_bytes", [64, 4096])
def test_branches_tags_merges_and_trees_come_in(bring, source, lakefs, footer, block_bytes):
    lakefs.options = {"footer": footer, "block_bytes": block_bytes, "index_bytes": 200}
    lakefs.commit({"lost": lakefs.upload("lost", b"")}, message="not reached")
    files = history(lakefs)
    done, repo = bring()
    check_history(repo, source, lakefs)
    assert (done.commits, done.new_commits, done.branches, done.tags) == (5, 5, 2, 1)
    assert len(imported(repo)) == 5
    assert done.ranges < len(lakefs.ranges)  # ranges of the dump are not imported
    assert repo.stores.default_branch == "main"
    assert repo.branch("main").get("in/02/03.csv") == b"6"
    assert [one.message for one in repo.log("main", first_parent=True)] == [
        "merge", "main", "first", "Repository created",
    ]  # fmt: skip
    merge = repo.commit("main")
    assert (len(merge.parents), merge.generation) == (2, 4)
    assert merge.metadata == {COMMIT: lakefs.branches["main"]}
    first = repo.commit("v1.0")
    assert first.metadata["source"] == "bts"
    assert first.created == datetime.fromtimestamp(1_700_000_000, UTC).replace(microsecond=5)
    assert {change.path for change in repo.diff("v1.0", "main")} == {"dev", "in/01/05.csv"}
    assert not fsck(repo.stores, objects="checksum").problems
    main = repo.branch("main")
    main.put("out/all.csv", b"all")
    main.delete("in/00/00.csv")
    main.commit("ours")
    repo.merge("dev", into="main")
    assert len(held(repo.ref("main"))) == len(files)
    assert (main.get("out/all.csv"), main.get("in/00/01.csv")) == (b"all", b"0")


def test_entries_carry_what_lakefs_knew(world, bring, lakefs):
    elsewhere = f"{world.config.storage_uri}-raw"
    open_store(elsewhere).put("in/a.parquet", b"0123")
    tree = {
        "up": lakefs.upload("up", b"up", metadata={"k": "ü"}, content_type="text/csv"),
        "linked": Obj(f"{elsewhere}/in/a.parquet", 4, "d41d8cd98f00b204e9800998ecf8427e", kind=2),
        "old": lakefs.upload("old", b"old", kind=0),
        "old-full": Obj(f"{elsewhere}/in/a.parquet", 4, "", kind=0, mtime=None),
        "multipart": lakefs.upload("m", b"m")._replace(etag="0123456789abcdef0123456789abcdef-2"),
    }
    lakefs.branches["main"] = lakefs.commit(tree)
    main = bring(allow=[elsewhere])[1].branch("main")
    assert held(main) == sorted(held(main))
    up = main.stat("up")
    assert (up.metadata, up.content_type, up.computed) == ({"k": "ü"}, "text/csv", False)
    assert up.checksum == f"md5:{tree['up'].etag}"
    assert up.mtime == datetime.fromtimestamp(1_600_000_000, UTC).replace(microsecond=123_456)
    assert main.stat("linked").address == f"{elsewhere}/in/a.parquet"
    assert main.stat("linked").checksum == ""  # the checksum in the source is not an MD5
    assert main.stat("old-full").mtime is None
    assert main.stat("multipart").checksum == ""
    contents = {"up": b"up", "linked": b"0123", "old": b"old", "multipart": b"m"}
    assert {path: main.get(path) for path in contents} == contents


def test_an_md5_of_lakefs_is_verified_and_can_be_ignored(bring, source, lakefs):
    lakefs.branches["main"] = lakefs.commit({"a": lakefs.upload("a", b"a")})
    open_store(source).put("data/gp/a", b"b")
    with pytest.raises(SourceChangedError, match="md5"):
        bring()[1].branch("main").get("a")
    assert bring("trains", etags=False)[1].branch("main").get("a") == b"b"


def test_a_version_0_commit_has_its_main_parent_last(bring, lakefs):
    one = lakefs.commit({"a": lakefs.upload("a", b"a")}, message="one")
    two = lakefs.commit({"b": lakefs.upload("b", b"b")}, message="two")
    merge = lakefs.commit(lakefs.trees[one], [one, two], message="merge", version=0)
    lakefs.branches["main"] = merge
    log = bring()[1].log("main", first_parent=True)
    assert [commit.message for commit in log] == ["merge", "one"]


def test_names_are_changed_on_request(bring, lakefs):
    commit = lakefs.commit({"a": lakefs.upload("a", b"a")})
    lakefs.branches.update({"main": commit, "run-5": commit, "old": commit})
    lakefs.tags["v1+x"] = commit
    done, repo = bring(rename={"run-5": "r5", "v1+x": "v1", "old": ""})
    assert [branch.name for branch in repo.branches()] == ["main", "r5"]
    assert list(repo.tags.list()) == ["v1"]
    assert (done.branches, done.tags) == (2, 1)


def test_metadata_in_graveler_s_own_names_is_renamed(bring, lakefs):
    forged = {"graveler.run": "x", COMMIT: "0" * 64}
    lakefs.branches["main"] = lakefs.commit({}, metadata=forged)
    assert bring()[1].commit("main").metadata == {
        "lakefs:graveler.run": "x",
        f"lakefs:{COMMIT}": "0" * 64,
        COMMIT: lakefs.branches["main"],
    }
