"""A check that reads the candidate's tables with every library."""

import duckdb
import polars as pl

LIBRARIES = ("pandas", "polars", "pyarrow", "duckdb")
OF_FORKS = ("pandas", "pyarrow")  # the others hang in a fork of a process that has used them
PATHS = ["t/_SUCCESS", "t/day=1/a.parquet", "t/day=2/b.parquet"]


def _numbers(frame):
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, duckdb.DuckDBPyRelation):
        frame = frame.to_arrow_table()
    column = (frame.to_table() if hasattr(frame, "to_table") else frame)["n"]
    return sorted(map(int, column.to_pylist() if hasattr(column, "to_pylist") else column))


def reads_tables(candidate, libraries=LIBRARIES):
    """Compare the rows that are new with all, and with those before."""
    assert [entry.path for entry in candidate.changed_files("t/")] == PATHS
    for library in libraries:
        assert _numbers(candidate.new_rows("t/", library)) == [3, 4, 5], library
        five = {"day": 2, "n": 5}
        assert _numbers(candidate.new_rows("t", library, where=five)) == [5], library
        below = [("n", "<", 5)]
        assert _numbers(candidate.read("t/", library, where=below)) == [0, 3, 4], library
        assert _numbers(candidate.before.read("t/", library)) == [0, 1, 2], library
        if library != "pandas":
            found = candidate.scan("t/", library, columns=["n"])
            assert _numbers(found) == [0, 3, 4, 5], library
    assert candidate.table("t/").rows == 4


def reads_new_rows(candidate):
    """Read only the rows that are new, for a gate of the changes."""
    assert _numbers(candidate.new_rows("t/", "polars")) == [3, 4, 5]


def reads_in_a_fork(candidate):
    """Read as a check without an importable name."""
    reads_tables(candidate, OF_FORKS)


def of_no_rows(candidate):
    """Ask for rows where none are new."""
    candidate.new_rows("u/", "pandas")


def reads_all(candidate):
    """Read all rows."""
    candidate.read("t/", "pandas")
