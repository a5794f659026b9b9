"""Refs that are older than a sweep: a dump or a key-value store that was restored."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import graveler
from graveler.committed.metarange import read
from graveler.errors import (
    CorruptionError,
    ExpiredError,
    KVOutdatedError,
    ObjectNotFoundError,
    StateError,
)
from graveler.repository import wholeness
from tests.harness.gc_lakes import NOW, check_sound, collect, commit, keys

HOURS = 9


@pytest.fixture(autouse=True)
def _short_histories(monkeypatch):
    """Of these histories a fourth may be incomplete, instead of a twentieth."""
    monkeypatch.setattr(wholeness, "_FEW", 4)


class Lost:
    """A lake with a dump and a copy of its key-value store, both older than a sweep."""

    def __init__(self, folder, *, keep=HOURS, hours=HOURS):
        self.folder, self.file = folder / "lake", folder / "dump"
        with graveler.init(self.folder) as lake:
            repo = lake.create_repository("flights")
            repo.links.allow(str(folder / "landing"))
            repo.packing.set(after=7)
            made = [commit(repo, "main", f"{hour}", a=str(hour)) for hour in range(hours)]
            self.first, self.second = made[0].id, made[1].id
            repo.gc.keep("main", count=keep)
            repo.dump_refs(self.file)
        shutil.copyfile(self.folder / "kv.sqlite3", folder / "backup")
        self.backup = folder / "backup"
        with graveler.open(self.folder) as lake:
            repo = lake.repository("flights")
            commit(repo, "main", "after", a="after")
            self.held = {key: repo.stores.objects.get(key) for key in keys(repo)}
            collect(repo)
            self.gone = self.held.keys() - keys(repo)

    def by_dump(self, **options):
        (self.folder / "kv.sqlite3").unlink()
        lake = graveler.open(self.folder)
        return lake.restore_repository(self.file, take_over=True, **options)

    def by_copy(self, **options):
        shutil.copyfile(self.backup, self.folder / "kv.sqlite3")
        return graveler.open(self.folder).accept("flights", **options)


@pytest.fixture
def lost(tmp_path):
    return Lost(tmp_path)


@pytest.mark.parametrize("way", [Lost.by_dump, Lost.by_copy])
def test_what_a_sweep_removed_is_expired_after_a_restore(lost, way):
    repo = way(lost)
    assert repo.ref("main").get("a") == str(HOURS - 1).encode()
    with pytest.raises(ExpiredError, match=r"a check on .* found parts of its tree missing"):
        repo.ref(f"main~{HOURS - 1}")
    with pytest.raises(ExpiredError):
        repo.create_branch("over-missing", lost.first)
    assert repo.ref(lost.second).get("a") == b"1"
    check_sound(repo)
    with pytest.raises(StateError, match="fsck"):
        repo.gc.run(grace=NOW, window=NOW)
    assert repo.fsck().sound
    repo.gc.run(grace=NOW, window=NOW)
    check_sound(repo)


@pytest.mark.parametrize("way", [Lost.by_dump, Lost.by_copy])
@pytest.mark.parametrize("keep", [1, HOURS - 5])
def test_a_restore_that_lacks_a_head_or_many_commits_is_refused(tmp_path, way, keep):
    lost = Lost(tmp_path, keep=keep)
    count = HOURS + 1 - keep
    with pytest.raises(ObjectNotFoundError, match=rf"lacks .* {count} of .*--missing {count}\b"):
        way(lost)
    with graveler.open(lost.folder) as lake:
        if way is Lost.by_dump:
            with pytest.raises(KVOutdatedError, match="emptied"):
                lake.repositories()
        else:
            assert lake.repositories() == ["flights"]
    repo = way(lost, missing=count)
    with pytest.raises(ExpiredError):
        repo.ref(lost.second if keep > 1 else lost.first)
    if keep > 1:
        check_sound(repo)


def test_the_records_are_lifted_when_the_bytes_return(lost):
    """Files count as parts of a tree, too."""
    repo = lost.by_copy()
    for key in lost.gone:
        repo.stores.objects.put(key, lost.held[key])
    assert repo.expire_missing().returned == (lost.first,)
    assert repo.ref(lost.first).get("a") == b"0"
    check_sound(repo)
    address = repo.ref(lost.second).stat("a").address
    Path(repo.stores.uri(address).removeprefix("file://")).unlink()
    assert repo.expire_missing().missing == (lost.second,)
    with pytest.raises(ExpiredError):
        repo.ref(lost.second).get("a")


def test_a_dump_has_all_that_reads_and_rules_depend_on(lost, tmp_path):
    repo = lost.by_dump()
    assert repo.links.list() == [f"file://{tmp_path}/landing"]
    assert repo.packing.show().after == 7
    assert repo.gc.rules.of("main").count == HOURS
    repo.packing.set(after=9)
    repo.restore_refs(lost.file)  # existing settings stay
    assert repo.packing.show().after == 9


USES = [
    lambda repo, head: list(repo.ref(head).entries()),
    lambda repo, _: repo.branch("main").get("a"),
    lambda repo, _: list(repo.branch("main").entries()),
    lambda repo, head: repo.create_branch("over", head),
    lambda repo, _: repo.create_branch("over", "main"),
    lambda repo, head: repo.tags.create("over", head),
    lambda repo, _: repo.tags.create("over", "main"),
    lambda repo, head: repo.branch("whole").reset(head),
    lambda repo, _: repo.branch("whole").reset("main"),
    lambda repo, _: repo.merge("main", into="whole"),
    lambda repo, _: repo.revert("main", "main"),
    lambda repo, _: (repo.branch("main").put("b", b""), repo.branch("main").commit("on it")),
]


@pytest.fixture
def headless(tmp_path):
    """A lake whose main names a commit that was accepted as lost."""
    lost = Lost(tmp_path, keep=1, hours=2)
    shutil.rmtree(lost.folder / "cache")
    repo = lost.by_copy(missing=2)
    whole = repo.create_branch("whole", "main~2")
    whole.put("a", b"whole")
    whole.commit("whole")
    return lost, repo


def test_a_head_accepted_as_lost_is_expired(headless):
    repo = headless[1]
    head = repo.branch("main").head
    for use in USES:
        with pytest.raises(ExpiredError, match="a check on"):
            use(repo, getattr(head, "id", head))
        assert not repo.stores.refs.branches.find("over")
        assert not repo.stores.refs.tags.find("over")
        assert repo.branch("whole").get("a") == b"whole"


def test_fsck_reports_such_a_head_until_the_branch_is_reset(headless):
    repo = headless[1]
    assert all(problem.refs == ("main",) for problem in repo.fsck().problems)
    assert not repo.fsck().sound
    with pytest.raises(CorruptionError, match="fsck"):
        repo.gc.run(grace=NOW, window=NOW)
    repo.branch("main").reset("whole")
    assert repo.fsck().sound
    repo.gc.run(grace=NOW, window=NOW)
    check_sound(repo)


@pytest.fixture
def staged(tmp_path):
    """A lake whose key-value store has staged writes of which a sweep has deleted the bytes."""
    folder = tmp_path / "lake"
    with graveler.init(folder) as lake:
        repo = lake.create_repository("flights")
        commit(repo, "main", a="1")
        for path in ("gone", "kept"):
            repo.create_branch("dev", exist_ok=True).put(path, path.encode())
        repo.create_branch("copies", "main").put("other", b"other")
    shutil.copyfile(folder / "kv.sqlite3", tmp_path / "backup")
    with graveler.open(folder) as lake:
        repo = lake.repository("flights")
        held = {key: repo.stores.objects.get(key) for key in keys(repo)}
        repo.branch("dev").delete("gone")
        collect(repo)
        gone = held.keys() - keys(repo)
        assert len(gone) == 1
    shutil.copyfile(tmp_path / "backup", folder / "kv.sqlite3")
    return graveler.open(folder), {key: held[key] for key in gone}


@pytest.mark.parametrize("accept", ["accept", "expire_missing"])
def test_no_commit_names_staged_bytes_that_are_gone(staged, accept):
    lake, _ = staged
    repo = lake.accept("flights")
    if accept == "expire_missing":
        assert repo.expire_missing().staged == ("dev:gone",)
    with pytest.raises(ExpiredError, match="'gone'"):
        repo.branch("dev").commit("c", paths=["gone"] if accept == "accept" else None)
    for branch, path in (("dev", "kept"), ("copies", "other")):
        repo.branch(branch).commit("the rest")
        assert [change.path for change in repo.diff("main", branch)] == [path]
    check_sound(repo)


def test_a_store_that_is_older_than_a_sweep_is_noticed(tmp_path):
    folder = tmp_path / "lake"
    with graveler.init(folder) as lake:
        repo = lake.create_repository("flights")
        commit(repo, "main", a="1")
        repo.create_branch("dev").put("gone", b"gone")
        with closing(sqlite3.connect(folder / "kv.sqlite3")) as kv:
            kv.execute("VACUUM INTO ?", [str(tmp_path / "backup")])
        repo.branch("dev").delete("gone")
        assert collect(repo).bytes_freed  # in the same second as the first count of the process
    shutil.copyfile(tmp_path / "backup", folder / "kv.sqlite3")
    with graveler.open(folder) as lake, pytest.raises(KVOutdatedError, match="repo accept"):
        lake.repository("flights").branch("dev").commit("gone")


def test_staged_bytes_that_return_are_committed(staged):
    lake, gone = staged
    repo = lake.accept("flights")
    for key, body in gone.items():
        repo.stores.objects.put(key, body)
    repo.branch("dev").commit("c")
    assert repo.branch("dev").get("gone") == b"gone"
    check_sound(repo)


@pytest.mark.parametrize("kind", ["metarange", "range"])
def test_a_damaged_table_is_not_missing(lost, kind):
    with graveler.open(lost.folder) as lake:
        repo = lake.repository("flights")
        tree = repo.ref(lost.second).commit.metarange
        (info,) = read(repo.stores.ranges, tree)
    key = f"_graveler/{tree if kind == 'metarange' else info.id.hex()}"
    table = Path(repo.stores.uri(key).removeprefix("file://"))
    whole = table.read_bytes()
    table.write_bytes(whole[:-5] + b"wrong")
    ways = [
        lambda: graveler.open(lost.folder).repository("flights").expire_missing(missing=HOURS),
        lambda: lost.by_copy(missing=HOURS),
    ]
    for way in ways:
        with pytest.raises(CorruptionError, match=rf"{key}.*damaged.*delete it"):
            way()
    table.write_bytes(whole)
    repo = lost.by_copy()
    assert repo.ref(lost.second).get("a") == b"1"
    table.unlink()
    assert lost.second in repo.expire_missing(missing=HOURS).missing


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_a_dump_brings_no_swept_ref_into_a_live_repository(tmp_path, kind):
    """The second try made the ref, which had no tree."""
    with graveler.init(tmp_path / "lake") as lake:
        repo = lake.create_repository("flights")
        commit(repo, "main", "1", a="1")
        repo.create_branch("gone")
        head = commit(repo, "gone", "2", a="2")
        if kind == "tag":
            repo.tags.create("tag", "gone")
            repo.delete_branch("gone")
        repo.dump_refs(tmp_path / "dump")
        repo.tags.delete("tag") if kind == "tag" else repo.delete_branch("gone")
        for _ in range(2):
            repo.gc.run(grace=NOW, window=NOW)
        with pytest.raises(ExpiredError):
            repo.ref(head.id)
        for _ in range(2):
            with pytest.raises(ObjectNotFoundError, match=r"no ref was written.*--missing 1"):
                lake.restore_repository(tmp_path / "dump")
        lake.restore_repository(tmp_path / "dump", missing=1)
        assert [one.name for one in repo.branches()] == ["main"]
        assert repo.tags.list() == {}
        assert repo.fsck().sound
        repo.gc.run(grace=NOW, window=NOW)


def sweep_behind_a_backup(folder, drop):
    """Drop work and sweep its files; then restore the key-value store from before."""
    store, backup = folder / "lake" / "kv.sqlite3", folder / "backup"
    shutil.copyfile(store, backup)
    with graveler.open(folder / "lake") as lake:
        repo = lake.repository("flights")
        drop(repo)
        commit(repo, "main", "later", a="later")
        for _ in range(2):
            repo.gc.run(grace=NOW, window=NOW)
    shutil.copyfile(backup, store)


def test_a_run_whose_files_are_swept_starts_again(tmp_path, caplog):
    """The cache had its tables, so that main got a file without bytes."""
    with graveler.init(tmp_path / "lake") as lake:
        repo = lake.create_repository("flights")
        commit(repo, "main", "1", a="1")
        run = repo.runs.open("hour")
        run.put("r", b"swept")
        run.commit("r")
    sweep_behind_a_backup(tmp_path, lambda repo: repo.runs.abandon("hour"))
    with graveler.open(tmp_path / "lake") as lake:
        repo = lake.accept("flights", missing=1)
        with repo.run("hour") as run:
            run.put("s", b"good")
        assert "the last commit of its branch is expired" in caplog.text
        assert [entry.path for entry in repo.ref("main").entries()] == ["a", "s"]
        check_sound(repo)


def test_a_branch_with_a_swept_head_takes_no_commit(tmp_path):
    """The cache had its tables: a merge of such a commit brought missing files to main."""
    with graveler.init(tmp_path / "lake") as lake:
        repo = lake.create_repository("flights")
        commit(repo, "main", "1", a="1")
        commit(repo, "dev", "2", gone="2")
    sweep_behind_a_backup(tmp_path, lambda repo: repo.delete_branch("dev"))
    with graveler.open(tmp_path / "lake") as lake:
        repo = lake.accept("flights", missing=1)
        commit(repo, "main", "4", a="4")
        dev = repo.branch("dev")
        dev.put("x", b"x")
        for work in (
            lambda: dev.commit("x"),
            lambda: dev.commit("x", paths=["x"]),
            lambda: repo.merge("main", into="dev"),
        ):
            with pytest.raises(ExpiredError):
                work()
        dev.reset("main")
        commit(repo, "dev", "x", x="x")
        repo.merge("dev", into="main")
        assert [entry.path for entry in repo.ref("main").entries()] == ["a", "x"]
