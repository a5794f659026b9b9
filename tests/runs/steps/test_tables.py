"""A table is read alike by every library, from local files and through the view alone."""

import sys
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import graveler
from graveler.errors import CorruptionError, GravelerError, InvalidInputError, ReadOnlyError
from graveler.frames import reader
from tests.harness.read_tables import CASES, parquet

EAGER = [pd.DataFrame, pl.DataFrame, pa.Table]
LAZY = [pl.LazyFrame, duckdb.DuckDBPyRelation, ds.Scanner, pa.RecordBatchReader]


def arrow(frame):
    """Return a frame as an Arrow table."""
    if isinstance(frame, pd.DataFrame):
        return pa.Table.from_pandas(frame, preserve_index=False)
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    for method in ("to_arrow", "to_arrow_table", "to_table", "read_all"):
        if hasattr(frame, method):
            return getattr(frame, method)()
    return frame


@pytest.fixture
def disk(tmp_path):
    """A repository whose files are local."""
    with graveler.init(tmp_path / "lake") as lake:
        yield lake.create_repository("flights")


@pytest.fixture
def main(disk):
    return disk.branch("main")


@pytest.fixture(params=["local", "in memory"])
def branch(request, repo):
    if request.param == "local":
        return request.getfixturevalue("main")
    return repo.create_branch("dev", source="main")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_table_is_read_alike_by_every_library(branch, case):
    branch.put_many({f"t/{name}": body for name, body in case.files.items()})
    table = branch.table("t/")
    for kind in (*EAGER, *LAZY):
        for read in (branch.read, branch.scan) if kind in LAZY else (branch.read,):
            if isinstance(case.rows, str):
                with pytest.raises(GravelerError, match=case.rows):
                    arrow(read("t/", kind, **case.terms))
            else:
                found = arrow(read("t/", kind, **case.terms))
                assert found.to_pylist() == case.rows, kind
                assert found.equals(arrow(table.read(kind, verify=True, **case.terms))), kind


def test_the_rows_of_a_scan_are_counted_without_nan(branch):
    branch.put("t/a.parquet", parquet(f=[1.0, float("nan")]))
    for where in ([("f", ">", 0)], {"f": 1.0}, [("f", "!=", 1.0)]):
        assert branch.scan("t/", "pyarrow", where=where).count_rows() == 1, where


@pytest.mark.parametrize("missing", range(3))
def test_a_read_without_a_type_starts_no_spark(disk, main, monkeypatch, missing):
    # other tests in this process may have a session
    monkeypatch.setattr("graveler.frames.spark.session._active", lambda: None)
    main.put("t/a.csv", b"n\n1\n")
    for kind in EAGER[:missing]:
        monkeypatch.setitem(sys.modules, kind.__module__.partition(".")[0], None)
    frames = [main.read("t/"), main.table("t/").read(), reader.read(main, "t/", columns=["n"])]
    assert [type(frame) for frame in frames] == [EAGER[missing]] * 3
    published = []
    gate = graveler.gate(lambda candidate: published.append(candidate.new_rows("t/")))
    with disk.run("hour", gates=[gate]) as run:
        run.put("t/a.csv", b"n\n2\n")
    assert [type(frame) for frame in published] == [EAGER[missing]]


@pytest.mark.parametrize("terms", [{}, {"columns": ["x"]}, {"where": {"x": 2}}])
def test_duckdb_refuses_columns_that_it_takes_for_one(branch, terms):
    branch.put_many({"t/a.parquet": parquet(X=[1]), "t/b.parquet": parquet(x=[2])})
    with pytest.raises(InvalidInputError, match="DuckDB takes the columns 'X' and 'x' for one"):
        branch.read("t/", "duckdb", **terms)


ROWS: dict[str, Any] = {
    "n": [1, None],
    "s": ['é,"x"\ny', ""],
    "t": [datetime(2013, 1, 1, 5, 30), None],  # noqa: DTZ001
}
FRAMES = [
    pd.DataFrame({**ROWS, "n": pd.array([1, None], "Int64")}),
    pl.DataFrame(ROWS),
    pl.LazyFrame(ROWS),
    pa.table(ROWS),
    pa.table(ROWS).to_reader,
    lambda: ds.dataset(pa.table(ROWS)).scanner(),
    lambda: duckdb.from_arrow(pa.table(ROWS)),
]


@pytest.mark.parametrize(
    "suffix", ["parquet", "csv", "jsonl", "ndjson", "json", "arrow", "feather"]
)
def test_every_frame_is_written_in_every_format(main, suffix):
    rows = ROWS | {"s": [ROWS["s"][0], None if suffix == "csv" else ""]}
    for number, frame in enumerate(FRAMES):
        made = frame() if callable(frame) else frame
        (entry,) = main.write(made, f"{number}/a.{suffix}")
        (again,) = main.table(f"{number}/").files
        assert entry == again
        found = main.read(f"{number}/", "pyarrow").to_pylist()
        assert found == pa.table(rows).to_pylist(), type(made)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "arrow", "parquet"])
@pytest.mark.parametrize("values", [[1, None, 3], [True, None], [None, 2.5], [None, None]])
def test_a_row_of_nulls_is_written_in_every_format(main, suffix, values):
    main.write(pa.table({"n": values}), f"t/a.{suffix}")
    assert main.read("t/", "pyarrow")["n"].to_pylist() == values


def test_a_table_shows_itself_without_its_rows(disk, main):
    main.write(pl.DataFrame({"n": [1, 2]}), "t/day=1/")
    main.write(pl.DataFrame({"n": [3], "s": ["x"]}), "t/day=2/")
    table = main.table("t/")
    assert repr(table) == "<Table 't/' of main>"
    assert (table.columns, table.rows, len(table.files)) == (
        {"n": "int64", "s": "large_string", "day": "int64"},
        3,
        2,
    )
    assert table.scan("duckdb").aggregate("max(n)").fetchall() == [(3,)]
    table.write(pl.DataFrame({"n": [4]}), mode="overwrite")
    assert table.read(pl.DataFrame)["n"].to_list() == [4]
    main.commit("a table")
    with pytest.raises(ReadOnlyError, match="can only be read: write to a branch"):
        disk.ref("main").table("t/").write(pl.DataFrame({"n": [5]}))


def test_lazy_frames_and_columns_read_a_part_of_the_bytes(repo, monkeypatch):
    branch = repo.create_branch("dev", source="main")
    rows = pa.table({"n": range(100_000), "s": [f"{n:050}" for n in range(100_000)]})
    with pq.ParquetWriter(sink := BytesIO(), rows.schema) as writer:
        for start in range(0, 100_000, 10_000):
            writer.write_table(rows.slice(start, 10_000))
    size = branch.put("t/a.parquet", sink.getvalue()).size
    read, lengths = type(branch).read_range, []

    def counted(view, entry, start, length):
        lengths.append(length)
        return read(view, entry, start, length)

    monkeypatch.setattr(type(branch), "read_range", counted)
    wanted = {"columns": ["n"], "where": [("n", ">=", 95_000)]}
    for kind in (*EAGER, *LAZY):
        lengths.clear()
        assert len(arrow(branch.read("t/", kind, **wanted))) == 5_000
        assert 0 < sum(lengths) < size / 4, kind
    lengths.clear()
    lazy = branch.scan("t/", "polars").filter(pl.col("n") >= 95_000).select("n")
    assert len(lazy.collect()) == 5_000
    assert sum(lengths) < size / 4


def test_linked_files_on_s3_are_scanned_and_verified(tmp_path, s3_bucket, s3_client, s3_settings):
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": range(1000), "s": ["x"] * 1000}), file, row_group_size=100)
    s3_client.put_object(Bucket=s3_bucket, Key="links/a", Body=file.read_bytes())
    (tmp_path / "lake").mkdir()
    settings = f'format = 1\n[links."s3://{s3_bucket}/links"]\n{s3_settings}'
    (tmp_path / "lake" / "graveler.toml").write_text(settings)
    with graveler.open(tmp_path / "lake", create=True) as lake:
        repo = lake.create_repository("flights")
        repo.links.allow(f"s3://{s3_bucket}/links")
        main = repo.branch("main")
        address = f"s3://{s3_bucket}/links/a"
        main.link("t/a.parquet", address=address)
        lazy = [main.scan("t/", kind, where=[("n", ">=", 990)], columns=["n"]) for kind in LAZY]
        for frame in lazy:
            assert len(arrow(frame)) == 10
        late = [kind for kind in LAZY if kind is not pa.RecordBatchReader]  # which reads ahead
        lazy = [main.scan("t/", kind, columns=["n"]) for kind in late]
        pq.write_table(pa.table({"n": range(1, 1001), "s": ["x"] * 1000}), file, row_group_size=100)
        s3_client.put_object(Bucket=s3_bucket, Key="links/a", Body=file.read_bytes())
        for frame in lazy:
            with pytest.raises(Exception, match="which was changed since"):
                arrow(frame)


def test_files_that_differ_from_their_entries_are_refused(main):
    (entry,) = main.write(pl.DataFrame({"n": range(10_000)}), "t/a.parquet")
    main.put("t/a.parquet", main.get(entry), metadata={"graveler.rows": "9999"})
    for read in (main.read, main.scan):
        with pytest.raises(CorruptionError, match="footer has 10000 rows, and its entry has 9999"):
            read("t/", pl.LazyFrame)
    main.put("t/a.parquet", main.get(entry), replace=True)
    damaged = Path(main.uri(main.stat("t/a.parquet")).removeprefix("file://"))
    content = bytearray(damaged.read_bytes())
    content[100] ^= 1
    damaged.chmod(0o600)
    damaged.write_bytes(content)
    for kind in (*EAGER, *LAZY):
        with pytest.raises(CorruptionError, match="sha256"):
            main.read("t/", kind, verify=True, columns=["n"])
    with pytest.raises(CorruptionError, match="sha256"):
        main.read("t/", "pandas")
    damaged.write_bytes(content[:-20])
    for kind in (*EAGER, *LAZY):
        with pytest.raises(CorruptionError, match="bytes"):
            main.read("t/", kind, columns=["n"])
