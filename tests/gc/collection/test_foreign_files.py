"""Collection deletes only what graveler made, whatever else lies in the storage."""

import json
import os
import shutil
import stat
import time
from datetime import timedelta
from pathlib import Path

import pytest

import graveler
from graveler.base.records import encode_json
from graveler.errors import InvalidInputError, StateError
from graveler.gc.marks import Kind
from graveler.gc.rules import ADOPTION
from graveler.repository.witness.marker import MARKER, read_marker
from tests.harness.gc_lakes import as_of_0_2, check_sound, collect, commit, counts, keys

NOW = timedelta(0)
HEX = "0123456789abcdef" * 2
FOREIGN = [
    "data/customers.csv",
    f"data/{HEX}.parquet",
    f"data/{HEX}/part-0",
    "data/s0000000000000000/file",
    f"data/s0000000000000000/{HEX}.csv",
    "data/year=2013/part-0.parquet",
    "data/o/x",
    "tables/customers.csv",
    f"tables/s0000000000000000/{HEX}/data/0.parquet",
    "top",
]


@pytest.fixture
def lake(tmp_path):
    with graveler.init(tmp_path / "lake") as lake:
        yield lake


@pytest.fixture
def repo(lake):
    return lake.create_repository("flights")


def folder(repo):
    return repo.storage.removeprefix("file://")


def drop(repo):
    """Commit files on a branch, and delete the branch."""
    commit(repo, "dev", **{"a.csv": "1", "b": "2"})
    repo.delete_branch("dev")


@pytest.fixture
def old(lake, repo):
    """A repository that version 0.2 made, with a file that is needed and one that is not."""
    as_of_0_2(repo)
    repo = graveler.open(lake.location).repository("flights")
    for number, path in enumerate(("kept.csv", "dropped.csv")):
        repo.stores.objects.put(f"data/{number:032x}.csv", path.encode())
        branch = repo.create_branch("main" if path == "kept.csv" else "dev", exist_ok=True)
        branch.link(path, address=f"data/{number:032x}.csv")
        branch.commit(path)
    repo.delete_branch("dev")
    return repo


STRANGE = {
    "loop": lambda path: path.symlink_to(path.name),
    "broken": lambda path: path.symlink_to("/nowhere"),
    "above": lambda path: path.symlink_to(path.parent),
    "long": lambda path: path.symlink_to("x" * 300),
    "fifo": os.mkfifo,
    "socket": lambda path: os.mknod(path, stat.S_IFSOCK | 0o600),
    "folder": os.mkdir,
}
"""Foreign files that are no regular files, and how each is made."""


def test_strange_files_of_others_stay_and_stop_nothing(repo):
    drop(repo)
    own = keys(repo, "data/")
    folders = [Path(folder(repo), "data"), Path(folder(repo), "data", repo.stores.storage_id)]
    places = [place / kind for place in folders for kind in STRANGE]
    for place in places:
        STRANGE[place.name](place)
    assert collect(repo).freed[Kind.DATA].count == 2
    check_sound(repo)
    assert not own & keys(repo, "data/")
    assert all(map(os.path.lexists, places))


ODD = [
    "notes.txt",
    f"{HEX}.a.b.c",
    f"{HEX}.CSV",
    f"{HEX}.{'x' * 24}",
    f"{HEX}a",
    f"{HEX}/lake/flights/_graveler/{HEX * 2}",
    f"{HEX}/lake/flights/data/{HEX}.csv",
    f"{HEX}/lake/flights/data/s0000000000000000/{HEX}.csv",
]
"""Names below the folder of graveler's own files that graveler does not give."""

ODD_OF_GC = ["_graveler/gc/notes.txt", "_graveler/gc/u/m/notes.txt", f"_graveler/{HEX}"]


def purge(repo):
    with graveler.open(repo.stores.location) as lake:
        lake.delete_repository("flights", purge=True)


@pytest.mark.parametrize("end", [collect, purge])
def test_files_of_others_stay(repo, end):
    drop(repo)
    own = keys(repo, "data/")
    places = [f"{place}/{repo.stores.storage_id}/" for place in ("data", "tables")]
    others = {*FOREIGN, *ODD_OF_GC, *(place + name for name in ODD for place in places)}
    for key in others:
        repo.stores.objects.put(key, b"of others")
    mark = end(repo)
    there = {info.key for info in repo.stores.objects.list()}
    assert others <= there
    assert not own & there
    if mark is not None:
        assert mark.unknown == len(others)
        assert len(others.intersection(mark.unknown_keys)) == len(mark.unknown_keys) == 20
        assert mark.freed[Kind.DATA].count == len(own) == 2
        check_sound(repo)


@pytest.mark.parametrize("place", ["data", "tables"])
def test_files_that_graveler_named_go(repo, place):
    for number, end in enumerate(["", ".csv", ".tar.gz", "..b", ".x1.", "/part-0", "/data/0.csv"]):
        repo.stores.objects.put(f"{place}/{repo.stores.storage_id}/{number:032x}{end}", b"garbage")
    assert collect(repo).freed[Kind.DATA].count == 7


def test_a_name_that_is_no_key_is_no_obstacle(repo):
    drop(repo)
    for name in (b"odd\xffname", b"back\\slash", b"line\nbreak", b"x" * 200):
        for place in (b"", b"data/", b"_graveler/"):
            Path(os.fsdecode(os.fsencode(folder(repo)) + b"/" + place + name)).touch()
    mark = collect(repo)
    assert (mark.unknown, mark.freed[Kind.DATA].count) == (12, 2)
    assert [mark.id for mark in repo.gc.marks()] == [mark.id]  # its record can be read again


def test_tables_without_a_marker_are_not_adopted(lake, repo, tmp_path):
    commit(repo, "main", a="1")
    commit(repo, "main", a="2")
    repo.dump_refs(tmp_path / "dump")
    copy = tmp_path / "copy"
    shutil.copytree(folder(repo), copy)
    (copy / MARKER).unlink()
    with pytest.raises(InvalidInputError, match=r"_graveler/.*refs restore"):
        lake.create_repository("second", storage=copy, adopt=True)
    assert lake.repositories() == ["flights"]
    with graveler.init(tmp_path / "other") as other:
        restored = other.restore_repository(tmp_path / "dump", storage=copy)
        assert check_sound(restored)["main"] == {"a": "2"}


def test_files_of_version_0_2_are_read_and_collected(old):
    assert old.ref("main").get("kept.csv") == b"kept.csv"
    assert counts(collect(old).freed)["data"] == 1
    assert keys(old, "data/") == {f"data/{0:032x}.csv"}
    entry = old.branch("main").put("new", b"new")
    assert entry.address.startswith(f"data/{old.stores.storage_id}/")
    assert old.stores.storage_id == f"o{old.stores.uid[-16:]}"


def test_old_addresses_beside_other_files_go_once_adopted(old):
    old.stores.objects.put("data/customers.csv", b"of others")
    assert Kind.DATA not in counts(collect(old).freed)
    with pytest.raises(StateError, match="gc adopt"):
        old.gc.adopt(agree=True)
    listed = old.gc.adopt()
    assert listed.keys == (f"data/{1:032x}.csv",)
    old.stores.objects.put(f"data/{HEX}", b"after the list")
    assert old.gc.adopt(agree=True).keys == ()
    assert collect(old).unknown_keys == ("data/customers.csv", f"data/{HEX}")
    assert keys(old, "data/") == {"data/customers.csv", f"data/{HEX}", f"data/{0:032x}.csv"}


@pytest.mark.parametrize("later", [0, 1])
def test_a_file_as_young_as_the_list_is_not_adopted(old, later):
    old.stores.objects.put("data/customers.csv", b"of others")
    key = f"data/{HEX}"
    expected = (f"data/{1:032x}.csv",)
    assert old.gc.adopt().keys == expected
    old.stores.objects.put(key, b"put after the list, in the same second")
    second = 1000 * (old.stores.refs.settings.get(ADOPTION).listed + later)
    os.utime(f"{folder(old)}/{key}", ns=(second, second))
    old.gc.adopt(agree=True)
    collect(old)
    assert key in keys(old)
    future = time.time_ns() + 10**12
    os.utime(f"{folder(old)}/{key}", ns=(future, future))
    assert old.gc.adopt().keys == ()


def test_a_mark_of_version_0_2_deletes_no_file(old):
    old.stores.objects.put("data/customers.csv", b"of others")
    (mark,) = old.gc.run(grace=NOW)
    old.stores.objects.put(
        f"_graveler/gc/{old.stores.uid}/{mark.id}/data-000000", b'[["data/customers.csv",9]]'
    )
    key = b"mark/" + mark.id.encode()
    partition = f"gc:{old.stores.uid}"
    fields = json.loads(old.stores.kv.get(partition, key).value)
    del fields["own"]
    fields |= {"window": 0, "pages": {**fields["pages"], "data": 1}}
    old.stores.kv.set(partition, key, encode_json(fields))
    swept = old.gc.sweep(mark.id)
    assert (swept.state, swept.spared[Kind.DATA].count) == ("swept", 1)
    assert "data/customers.csv" in keys(old)


def test_the_storage_id_is_kept_by_restores_and_take_overs(lake, repo, tmp_path):
    commit(repo, "main", a="1")
    drop(repo)
    repo.dump_refs(tmp_path / "dump")
    kept, storage = repo.stores.storage_id, repo.storage
    lake.close()
    with graveler.init(
        tmp_path / "second", storage_uri=f"file://{tmp_path}/lake/objects"
    ) as second:
        restored = second.restore_repository(tmp_path / "dump", take_over=True)
        assert (restored.stores.storage_id, restored.storage) == (kept, storage)
        marker = read_marker(restored.stores.objects)
        assert marker
        assert marker.owner.storage_id == kept
        assert counts(collect(restored).freed)["data"] == 2
    Path(folder(repo), MARKER).unlink()
    with graveler.init(tmp_path / "third") as third:
        moved = third.restore_repository(tmp_path / "dump", storage=storage)
        assert moved.stores.storage_id == kept
    with graveler.init(tmp_path / "fourth") as fourth:
        taken = fourth.create_repository("taken", storage=storage, take_over=True)
        assert taken.stores.storage_id == kept
