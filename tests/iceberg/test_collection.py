"""Collection keeps every file that a table on any branch reaches, and takes the rest."""

from pathlib import Path

import pytest

from graveler.errors import InvalidInputError
from tests.harness.iceberg import catalog_of, delays, named_files, rows, with_table


@pytest.fixture
def main(repo):
    return catalog_of(repo.branch("main"))


def stored(repo):
    """Return the locations of all files of tables in the storage."""
    return {repo.stores.uri(info.key) for info in repo.stores.objects.list("tables/")}


def collect(repo):
    repo.gc.keep("*", days=0)
    return repo.gc.run(grace="0s", window="0s")


def test_files_of_three_branches_stay_and_others_go(repo, main):
    table = with_table(main, 1)
    table.append(rows(2))
    names = ("main", "dev", "late")
    for name in names[1:]:
        repo.create_branch(name)
    catalogs = {name: catalog_of(repo.branch(name)) for name in names}
    catalogs["dev"].load_table("db.flights").overwrite(rows(3))
    late = catalogs["late"].load_table("db.flights")
    late.append(rows(4))
    old = [each.snapshot_id for each in late.snapshots()[:-1]]
    late.maintenance.expire_snapshots().by_ids(old).commit()
    dead = table.transaction()
    dead.append(rows(5))  # its client dies
    gone = repo.create_branch("gone")
    catalog_of(gone).load_table("db.flights").append(rows(6))
    repo.delete_branch("gone")
    with_table(main, 7, table="db.dropped")
    main.drop_table("db.dropped")
    kept = set().union(*(named_files(catalogs[name].load_table("db.flights")) for name in names))
    history = {
        view.uri(entry)
        for name in names
        for commit in repo.log(name)
        for view in [repo.ref(commit.id)]
        for entry in view.entries("db/")
    }
    before = stored(repo)
    assert kept < before
    collect(repo)
    assert kept <= stored(repo) <= history
    assert before - stored(repo)
    assert repo.fsck().sound
    found = {name: delays(catalogs[name]) for name in names}
    assert found == {"main": [1, 2], "dev": [3], "late": [1, 2, 4]}


def test_a_commit_beside_a_sweep_keeps_its_files(repo, main):
    """The files were written before the mark, and are committed between the mark and the sweep."""
    table = with_table(main, 1)
    slow = table.transaction()
    slow.append(rows(2))
    mark = repo.gc.mark(grace="0s", window="0s")
    slow.commit_transaction()
    repo.gc.sweep(mark.id)
    assert delays(main) == [1, 2]
    assert repo.fsck().sound


def test_a_commit_after_a_sweep_is_refused(repo, main):
    table = with_table(main, 1)
    slow = table.transaction()
    slow.append(rows(2))
    collect(repo)
    head = repo.branch("main").head
    with pytest.raises(InvalidInputError, match="a file of the table is missing"):
        slow.commit_transaction()
    assert (repo.branch("main").head, delays(main)) == (head, [1])


def test_fsck_finds_a_lost_data_file(repo, main):
    with_table(main, 1)
    assert repo.fsck().sound
    data = next(entry for entry in repo.ref("main") if entry.path.endswith(".parquet"))
    Path(repo.ref("main").uri(data).removeprefix("file://")).unlink()
    (problem,) = repo.fsck().problems
    assert data.path in str(problem)
