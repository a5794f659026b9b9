"""Maintenance by Spark on three branches: what it rewrites and expires is never lost elsewhere."""

import re
from contextlib import suppress

import pytest

from graveler.errors import ExpiredError
from tests.harness.iceberg import catalog_of, entry_files, named_files
from tests.harness.iceberg_engines import EngineError

NAMES = ("main", "dev", "late")
INSERT = "insert into {}.db.flights values ({}, {})"
DELETE = "delete from {}.db.flights where delay = {}"
ROWS = "select hour, delay from {}.db.flights"


@pytest.fixture
def branches(spark, repo, catalog):
    """Three branches that share snapshots, each with rows and deletes of its own."""
    spark.use("main", catalog(repo.branch("main")))
    spark.sql("create namespace main.db")
    spark.sql(
        "create table main.db.flights (hour int, delay bigint) using iceberg partitioned by (hour) "
        "tblproperties ('format-version'='2', 'write.delete.mode'='merge-on-read')"
    )
    for hour in range(2):
        for delay in (1, 2, 3):
            spark.sql(INSERT.format("main", hour, delay))
    for name in NAMES[1:]:
        spark.use(name, catalog(repo.create_branch(name)))
    for number, name in enumerate(NAMES):
        for hour in range(2):
            spark.sql(INSERT.format(name, hour, 10 + number))
        spark.sql(DELETE.format(name, number + 1))
    return lambda: {name: spark.sql(ROWS.format(name)) for name in NAMES}


def stored(repo):
    return {repo.stores.uri(info.key) for info in repo.stores.objects.list("tables/")}


def spelled(files):
    """Return locations as graveler writes them; Hadoop has one slash."""
    return {re.sub("^file:/+", "file:///", each) for each in files}


def reached(repo, name):
    """Return the files that the metadata of a branch names, as PyIceberg reads it."""
    return spelled(named_files(catalog_of(repo.branch(name)).load_table("db.flights")))


def kept_history(repo):
    """Return the files of all commits that a collection has kept: heads and merge bases."""
    found = set()
    for name in NAMES:
        for commit in repo.log(name):
            with suppress(ExpiredError):
                found |= spelled(entry_files(repo, commit.id))
    return found


@pytest.mark.parametrize(
    "statement",
    [
        "call {}.system.expire_snapshots(table => 'db.flights', retain_last => 1, "
        "older_than => timestamp '2100-01-01 00:00:00')",
        "call {}.system.remove_orphan_files(table => 'db.flights')",
        "drop table {}.db.flights purge",
        "alter table {}.db.flights set tblproperties ('gc.enabled'='true')",
    ],
)
def test_what_would_delete_files_of_other_branches_is_refused(spark, repo, branches, statement):
    before, rows = stored(repo), branches()
    for name in NAMES:
        with pytest.raises(EngineError, match=r"GC is disabled|gc\.enabled=true: it is false"):
            spark.sql(statement.format(name))
    assert (stored(repo), branches()) == (before, rows)


def test_rewrites_keep_what_other_branches_need(spark, repo, branches):
    orphan = f"tables/{repo.stores.storage_id}/{'0' * 32}/data/x.parquet"
    repo.stores.objects.put(orphan, b"of a client that died")
    rows, before = branches(), stored(repo)
    for name in NAMES:
        table = "table => 'db.flights', options => map('rewrite-all', 'true')"
        (rewritten,) = spark.sql(f"call {name}.system.rewrite_data_files({table})")
        assert rewritten[0] > 0
        spark.sql(f"call {name}.system.rewrite_position_delete_files({table})")
        spark.sql(f"call {name}.system.rewrite_manifests(table => 'db.flights')")
    assert branches() == rows
    assert before < stored(repo)
    left = {name: reached(repo, name) for name in NAMES}
    for name in NAMES:
        table = catalog_of(repo.branch(name)).load_table("db.flights")
        old = [each.snapshot_id for each in table.snapshots()[:-1]]
        table.maintenance.expire_snapshots().by_ids(old).commit()
        assert reached(repo, name) < left[name] | {table.metadata_location}
    gone = repo.create_branch("gone")
    catalog_of(gone).drop_table("db.flights")
    repo.delete_branch("gone")
    before = stored(repo)
    repo.gc.keep("*", days=0)
    repo.gc.run(grace="0s", window="0s")
    heads = set().union(*(spelled(entry_files(repo, name)) for name in NAMES))
    assert heads == set().union(*(reached(repo, name) for name in NAMES))
    assert stored(repo) == kept_history(repo) >= heads
    assert len(stored(repo)) < len(before)
    assert branches() == rows
    assert repo.fsck().sound
