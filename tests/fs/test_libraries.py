"""pandas, polars, pyarrow, DuckDB and Dask read any ref, and write Parquet on a run's branch."""

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from graveler.fs import GravelerFileSystem, close_lakes, storage_options, url

FRAME = pd.DataFrame({"hour": ["05:00", "05:00", "06:00"], "flight": [1, 2, 3]})
TOTALS = {"05:00": 3, "06:00": 3}


@pytest.fixture
def repo(folder_lake):
    return folder_lake.repository("flights")


@pytest.fixture
def published(repo):
    """A table of one file on main."""
    with repo.run("first") as run:
        FRAME.to_parquet(url(run, "table/part-0.parquet"), storage_options=storage_options(run))
    return {"lake": repo.stores.location}


def totals(frame):
    return {
        str(hour): int(total) for hour, total in zip(frame["hour"], frame["flight"], strict=True)
    }


def check(repo):
    """Check with pyarrow what a library has written, and that the run has published it."""
    files = [entry.path for entry in repo.ref("main").entries("out/")]
    assert {path.split("/")[1] for path in files} == {"hour=05:00", "hour=06:00"} or {
        path.split("/")[1] for path in files
    } == {"hour=05%3A00", "hour=06%3A00"}
    fs = GravelerFileSystem(repo.stores.location)
    table = ds.dataset("flights/main/out", filesystem=fs, partitioning="hive").to_table()
    found = table.to_pandas().groupby("hour", as_index=False, observed=True)["flight"].sum()
    assert totals(found) == TOTALS
    assert repo.runs.get("write").state == "PUBLISHED"


def test_pandas(repo, published):
    assert len(pd.read_parquet("grav://flights/main/table", storage_options=published)) == 3
    with repo.run("write") as run:
        options = storage_options(run)
        FRAME.to_parquet(url(run, "out"), partition_cols=["hour"], storage_options=options)
        FRAME.to_csv(url(run, "csv/all.csv"), index=False, storage_options=options)
    check(repo)
    read = pd.read_csv("grav://flights/main/csv/all.csv", storage_options=published)
    pd.testing.assert_frame_equal(read, FRAME)
    with pytest.raises(FileNotFoundError):
        pd.read_csv("grav://flights/main~1/csv/all.csv", storage_options=published)


def test_polars(repo, published):
    fs = GravelerFileSystem(**published)
    with fs.open("flights/main/table/part-0.parquet") as file:
        assert pl.read_parquet(file)["flight"].to_list() == [1, 2, 3]
    with repo.run("write") as run:
        writer = GravelerFileSystem(**storage_options(run))
        for (hour,), part in pl.from_pandas(FRAME).group_by("hour"):
            with writer.open(url(run, f"out/hour={hour}/part-0.parquet"), "wb") as file:
                part.drop("hour").write_parquet(file)
    check(repo)
    files = [fs.info(path)["address"] for path in fs.find("flights/main/table")]
    assert pl.scan_parquet(files).select(pl.col("flight").sum()).collect().item() == 6


def test_pyarrow(repo, published):
    fs = GravelerFileSystem(**published)
    assert pq.read_table("flights/main/table/part-0.parquet", filesystem=fs).num_rows == 3
    with repo.run("write") as run:
        ds.write_dataset(
            pa.Table.from_pandas(FRAME),
            f"flights/{run.branch}/out",
            format="parquet",
            partitioning=["hour"],
            partitioning_flavor="hive",
            filesystem=GravelerFileSystem(**storage_options(run)),
        )
    check(repo)
    one = ds.dataset("flights/main/out", filesystem=fs, partitioning="hive")
    assert one.count_rows(filter=ds.field("hour") == "06:00") == 1


def test_duckdb(repo, published):
    with repo.run("write") as run, duckdb.connect() as db:
        db.register_filesystem(GravelerFileSystem(**storage_options(run)))
        db.execute("CREATE TABLE frame AS SELECT * FROM FRAME")
        # without OVERWRITE_OR_IGNORE, DuckDB first lists the folder, which does not exist
        how = "FORMAT parquet, PARTITION_BY (hour), OVERWRITE_OR_IGNORE"
        db.execute(f"COPY frame TO '{url(run, 'out')}' ({how})")
    check(repo)
    with duckdb.connect() as db:
        db.register_filesystem(GravelerFileSystem(**published))
        found = db.execute(
            "SELECT hour, sum(flight) AS flight FROM "
            "read_parquet('grav://flights/main/out/*/*.parquet', hive_partitioning=true, "
            "hive_types={'hour': VARCHAR}) GROUP BY hour"
        ).df()
        assert totals(found) == TOTALS
        count = db.execute(
            "SELECT count(*) FROM 'grav://flights/main~1/table/*.parquet'"
        ).fetchone()
        assert count == (3,)


def test_dask(repo, published):
    import dask
    import dask.dataframe as dd

    with dask.config.set(scheduler="threads", num_workers=2):
        read = dd.read_parquet("grav://flights/main/table", storage_options=published)
        assert int(read["flight"].sum().compute()) == 6
        with repo.run("write") as run:
            dd.from_pandas(FRAME, npartitions=2).to_parquet(
                url(run, "out"), partition_on="hour", storage_options=storage_options(run)
            )
    check(repo)


@pytest.fixture(autouse=True)
def _closed():
    yield
    close_lakes()
