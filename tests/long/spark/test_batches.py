"""Jobs of tasks in a session without a limit for the size of Arrow batches."""

from datetime import timedelta

import pytest

import graveler.spark as gs
from graveler.committed.splitting import Splitting
from graveler.errors import InvalidInputError

LIMIT = "spark.sql.execution.arrow.maxRecordsPerBatch"


@pytest.fixture
def tables(lake, spark):
    """Two branches that differ in every path, with staged writes."""
    repo = lake.create_repository("batches", splitting=Splitting(raggedness=8))
    main, dev = repo.branch("main"), repo.create_branch("dev")
    for part, branch in enumerate((main, dev)):
        for number in range(part, 40, 2):
            branch.put(f"k{number:02}", b"1")
        branch.commit("words")
    main.put("staged", b"1")
    before = spark.conf.get(LIMIT)
    spark.conf.set(LIMIT, "0")
    yield gs.Tables(repo, spark)
    spark.conf.set(LIMIT, before)


def test_jobs_run_without_a_limit(tables, spark, tmp_path):
    repo = tables.repository
    (tmp_path / "files").mkdir()
    (tmp_path / "files/a").write_bytes(b"1")
    repo.links.allow(str(tmp_path / "files"))
    before = spark.conf.get(LIMIT)
    done = gs.commit(repo.branch("main"), "words", method="spark", spark=spark)
    assert sum(1 for _ in repo.ref(done).entries()) == 21
    new = repo.create_branch("new")
    made = gs.import_(
        new, f"{tmp_path}/files/", "in/", message="words", method="spark", spark=spark
    )
    assert made.files == 1
    assert not gs.fsck(repo, spark).problems
    zero = timedelta(0)
    collector = gs.collector(repo, spark, method="spark")
    alone = repo.gc.mark(grace=zero, dry_run=True)
    assert collector.mark(grace=zero, dry_run=True).condemned == alone.condemned
    assert spark.conf.get(LIMIT) == before


def test_frames_of_metadata_want_a_limit(tables, tmp_path):
    place = tmp_path / "out"
    for call in (
        lambda: tables.entries("main"),
        lambda: tables.commits("main"),
        lambda: tables.diff("main", "dev", method="spark"),
        lambda: tables.changes("main"),
        lambda: gs.export(tables.repository, "main", place, spark=tables.spark),
    ):
        with pytest.raises(InvalidInputError, match=rf"{LIMIT}=0: .*set it to 10000"):
            call()
    assert not place.exists()
