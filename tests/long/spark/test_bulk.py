"""A bulk import by Spark gives the commit that one process gives."""

import os
from unittest.mock import Mock

import pytest
from pyspark.sql import functions as f

import graveler
from graveler import spark as gspark
from graveler.committed.splitting import Splitting
from graveler.errors import (
    InvalidInputError,
    NoChangesError,
    ObjectNotFoundError,
    PermissionDeniedError,
    SourceChangedError,
    StateError,
)
from graveler.spark.tasks import imports

SMALL = {
    "hash": Splitting("hash", max_bytes=4_000, raggedness=4, hard=4, number=7),
    "directory": Splitting("directory", max_bytes=4_000, raggedness=4, hard=4, number=2**63 - 1),
}
COLUMNS = "path string, address string, size long, etag string, mtime timestamp, content_type string, metadata map<string,string>"


def rows(count, start=0, etag="1"):
    return [
        (
            f"t{number % 3}/day={number % 17:02}/part-{number * 7919 % 10007:05}-é.parquet",
            f"s3://bucket/data/{number}.parquet",
            number,
            etag,
            None,
            "a/b" if number % 5 else None,
            {"n": str(number)} if number % 7 == 0 else None,
        )
        for number in range(start, start + count)
    ]


def frame(spark, values, partitions=3):
    return spark.createDataFrame(values, COLUMNS).repartition(partitions)


def inventory(tmp_path, values):
    """Write the rows as an inventory for an import by one process; return its file."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    names = [column.split()[0] for column in COLUMNS.split(", ")]
    columns = dict(zip(names, map(list, zip(*values, strict=True)), strict=True))
    kinds = {"metadata": pa.map_(pa.string(), pa.string()), "mtime": pa.timestamp("us", "UTC")}
    arrays = {
        name: pa.array(
            [list(v.items()) if isinstance(v, dict) else v for v in column], kinds.get(name)
        )
        for name, column in columns.items()
    }
    file = tmp_path / "inventory.parquet"
    pq.write_table(pa.table(arrays), file)
    return str(file)


@pytest.fixture(params=sorted(SMALL))
def repo(tmp_path, request):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        repo = lake.create_repository("bulk", splitting=SMALL[request.param])
        repo.links.allow("s3://bucket/data")
        yield repo


def by_one_process(repo, tmp_path, values, to="", *, replace=False):
    """Return the result and the tree of an import by one process onto the head of main."""
    branch = repo.create_branch("alone", source="main")
    done = branch.import_(inventory(tmp_path, values), to, replace=replace)
    return done, branch.commit("alone").metarange


def test_an_empty_branch_gets_the_tree_of_one_process(spark, repo, tmp_path):
    values = rows(2_000)
    done, tree = by_one_process(repo, tmp_path, values, "lake/")
    main = repo.branch("main")
    result = gspark.import_frame(
        main, frame(spark, values, 5), "lake/", message="bulk", slice_rows=150
    )
    assert main.head.metarange == tree
    assert (result.files, result.size, result.removed) == (done.files, done.size, 0)
    assert (result.commit, main.head.message) == (main.head.id, "bulk")


@pytest.mark.parametrize("replace", [False, True])
def test_a_tree_is_changed_as_one_process_changes_it(spark, repo, tmp_path, replace):
    main = repo.branch("main")
    for start in (0, 500):  # the second commit leaves fragments
        main.import_(inventory(tmp_path, rows(900, start)), "lake/")
        main.put(f"lake.{start}", b"1")
        main.commit("before")
    values = rows(900, 700) + rows(300, 1_600, etag="2")
    done, tree = by_one_process(repo, tmp_path, values, "lake/", replace=replace)
    result = gspark.import_frame(
        main, frame(spark, values), "lake/", message="bulk", replace=replace, slice_rows=150
    )
    assert main.head.metarange == tree
    assert result.removed == done.removed == (700 if replace else 0)
    with pytest.raises(NoChangesError):
        gspark.import_frame(main, frame(spark, values), "lake/", message="again", replace=replace)


@pytest.mark.parametrize("repo", ["hash"], indirect=True)
def test_what_cannot_be_imported_is_named_and_moves_nothing(spark, repo):
    main = repo.branch("main")
    before = main.head
    twice = [*rows(50), (*rows(1, 7)[0][:1], "s3://bucket/data/x", 1, "1", None, None, None)]
    told = [
        (frame(spark, twice), "path '.*' is in two rows, of addresses 's3://bucket/data/"),
        (frame(spark, rows(5)).drop("etag", "mtime"), "no column etag"),
        (frame(spark, rows(5)).drop("path"), "no column path"),
        (frame(spark, rows(5)).selectExpr("*", "etag as E_Tag"), "columns 'etag' and 'E_Tag'"),
    ]
    for wrong, message in told:
        with pytest.raises(InvalidInputError, match=message):
            gspark.import_frame(main, wrong, message="bulk")
    with pytest.raises(InvalidInputError, match="give a folder, as in 'lake/'"):
        gspark.import_frame(main, frame(spark, rows(5)), "lake", message="bulk")
    with pytest.raises(ObjectNotFoundError, match="names no files"):
        gspark.import_frame(main, frame(spark, rows(5)).limit(0), message="bulk")
    repo.links.disallow("s3://bucket/data")
    with pytest.raises(PermissionDeniedError, match="lies in no place"):
        gspark.import_frame(main, frame(spark, rows(5)), message="bulk")
    assert main.head == before


@pytest.mark.parametrize("repo", ["directory"], indirect=True)
def test_a_source_is_imported_alike_by_tasks_and_by_one_process(spark, repo, tmp_path):
    landing = tmp_path / "landing"
    for number in range(60):
        file = landing / f"t{number % 3}/day={number % 5}/{number}.csv"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(str(number))
    (landing / "top.csv").write_text("1")
    repo.links.allow(str(landing))
    for source in (landing, inventory(tmp_path, rows(400))):
        trees = set()
        for method in ("process", "spark"):
            branch = repo.create_branch(f"{method}-{len(str(source))}")
            done = gspark.import_(
                branch, source, "in/", message="m", method=method, spark=spark, slice_rows=50
            )
            trees.add((branch.head.metarange, done.files, done.size))
            assert done.commit == branch.head.id
        assert len(trees) == 1
    (tmp_path / "wrong.csv").write_text("path,address,size,etag\na,s3://bucket/data/a,1_0,e\n")
    with pytest.raises(InvalidInputError, match=r"wrong\.csv, row 1: size '1_0'"):
        main = repo.branch("main")
        gspark.import_(main, tmp_path / "wrong.csv", message="m", method="spark", spark=spark)


@pytest.mark.parametrize("repo", ["hash"], indirect=True)
def test_only_a_large_source_needs_spark(repo, tmp_path, monkeypatch):
    main = repo.branch("main")
    source, session = inventory(tmp_path, rows(40)), Mock()
    with pytest.raises(InvalidInputError, match="method"):
        gspark.import_(main, source, message="m", method="hadoop")
    assert gspark.import_(main, source, message="m", spark=session).files == 40
    assert session.mock_calls == []
    main.put("staged", b"1")
    with pytest.raises(StateError, match="staged write of 'staged'"):
        gspark.import_(main, source, message="m")
    monkeypatch.setattr(imports, "LARGE", 100)
    session.range.side_effect = RuntimeError("Spark is asked")
    with pytest.raises(RuntimeError, match="Spark is asked"):
        gspark.import_(repo.create_branch("new"), source, message="m", spark=session)


@pytest.mark.parametrize("repo", ["hash"], indirect=True)
def test_a_frame_that_changes_between_the_looks_is_refused(spark, repo):
    drawn = f.udf(lambda: os.urandom(1)[0] < 128, "boolean").asNondeterministic()
    other = frame(spark, rows(300)).where(drawn())
    with pytest.raises(SourceChangedError, match="at the second"):
        gspark.import_frame(repo.branch("main"), other, message="bulk", slice_rows=60)
    assert list(repo.branch("main").entries()) == []
