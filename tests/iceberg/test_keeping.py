"""What holds for files holds for tables: the check, copies, dumps of refs, and folders on disk."""

from pathlib import Path

import pytest

import graveler
from graveler.lake.shared import lend_lake
from tests.harness.iceberg import catalog_of, delays, entry_files, named_files, rows, with_table


def path_of(location):
    return Path(location.removeprefix("file://"))


@pytest.fixture
def main(repo):
    return catalog_of(repo.branch("main"))


@pytest.fixture
def table(main):
    made = with_table(main, 1)
    made.append(rows(2))
    return made


def kinds(table):
    """Return a file of each kind that a table has."""
    snapshot = table.current_snapshot()
    (manifest, *_) = snapshot.manifests(table.io)
    (task, *_) = table.scan().plan_files()
    return {
        "metadata": table.metadata_location,
        "log": table.metadata.metadata_log[0].metadata_file,
        "list": snapshot.manifest_list,
        "manifest": manifest.manifest_path,
        "data": task.file.file_path,
    }


@pytest.mark.parametrize("kind", ["metadata", "log", "list", "manifest", "data"])
@pytest.mark.parametrize("damage", ["missing", "shorter"])
def test_the_check_finds_damage_of_each_kind_of_file(repo, table, kind, damage):
    assert repo.fsck(objects="checksum").sound
    path = path_of(kinds(table)[kind])
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1])
    problems = repo.fsck().problems
    assert problems
    assert all(path.name in str(problem) for problem in problems)


def test_a_copy_of_a_table_is_a_table(repo, main, table):
    branch = repo.create_branch("dev")
    branch.copy("main", "db/flights/", "db/copy/")
    branch.commit("a table under another name")
    dev = catalog_of(branch)
    assert dev.list_tables("db") == [("db", "copy"), ("db", "flights")]
    dev.load_table("db.copy").append(rows(3))
    dev.load_table("db.flights").overwrite(rows(4))
    assert (delays(dev, "db.copy"), delays(dev), delays(main)) == ([1, 2, 3], [4], [1, 2])
    dev.drop_table("db.flights")
    main.drop_table("db.flights")
    repo.gc.keep("*", count=1)
    repo.gc.run(grace="0s", window="0s")
    assert delays(dev, "db.copy") == [1, 2, 3]
    assert entry_files(repo, "dev", "db/copy/") == named_files(dev.load_table("db.copy"))
    assert repo.fsck().sound


def test_tables_are_restored_from_a_dump_of_refs(lake, repo, table, tmp_path):
    repo.create_branch("dev")
    catalog_of(repo.branch("dev")).load_table("db.flights").append(rows(3))
    repo.tags.create("v1")
    repo.dump_refs(tmp_path / "dump")
    with graveler.init(tmp_path / "other") as other, lend_lake(other):
        again = other.restore_repository(tmp_path / "dump", storage=repo.storage, take_over=True)
        refs = {name: catalog_of(again.ref(name)) for name in ("main", "dev", "v1")}
        assert {name: delays(catalog) for name, catalog in refs.items()} == {
            "main": [1, 2],
            "dev": [1, 2, 3],
            "v1": [1, 2],
        }
        catalog_of(again.branch("main")).load_table("db.flights").append(rows(4))
        again.gc.keep("*", count=1)
        again.gc.run(grace="0s", window="0s")
        assert delays(catalog_of(again.branch("main"))) == [1, 2, 4]
        assert delays(refs["dev"]) == [1, 2, 3]
        assert again.fsck(objects="checksum").sound


def test_a_folder_on_disk_has_all_files_of_a_table(repo, table, tmp_path):
    view = repo.ref("main")
    view.download("db/flights/", tmp_path / "here")
    found = {path.name: path.read_bytes() for path in (tmp_path / "here").rglob("*.*")}
    assert found.pop("_table.json") == view.get("db/flights/_table.json")
    assert found == {path_of(each).name: path_of(each).read_bytes() for each in named_files(table)}


def test_an_undo_and_a_revert_bring_a_table_back(repo, main, table):
    table.overwrite(rows(9))
    repo.revert(repo.branch("main").head.id, "main")
    assert delays(main) == [1, 2]
    main.drop_table("db.flights")
    repo.undo("main")
    assert delays(main) == [1, 2]
    main.load_table("db.flights").append(rows(3))
    assert delays(main) == [1, 2, 3]
