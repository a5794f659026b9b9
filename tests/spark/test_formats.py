"""Formats of whole tables are refused, and the error names an alternative."""

from typing import Any

import pytest

from graveler.errors import InvalidInputError
from graveler.frames.spark.writer import write
from graveler.reads.partitions import check_format, table_entries


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("delta", "webhdfs://.*4.1.1 and io.delta:delta-spark_4.1_2.13:4.1.0"),
        ("DELTA", "through the gateway"),
        ("iceberg", "full addresses of its files.*as Parquet"),
        ("hudi", "none was tried"),
    ],
)
def test_a_format_of_whole_tables_is_refused_with_a_way(name, way):
    with pytest.raises(InvalidInputError, match=f"'orders': format '{name}'.*{way}"):
        check_format("orders", name)


@pytest.mark.parametrize("name", ["parquet", "csv", "json", "orc", "text"])
def test_a_format_of_files_is_taken(name):
    check_format("orders", name)


def test_the_files_of_a_delta_table_are_not_the_table(graveler_repo):
    branch = graveler_repo.branch("main")
    branch.put("in/orders/_delta_log/0.json", b"{}")
    branch.put("in/orders/part-0.parquet", b"rows")
    branch.put("in/days/_SUCCESS", b"")
    branch.put("in/days/part-0.parquet", b"rows")
    assert [name for name, _ in table_entries(branch, "in/days", nested=True)] == ["part-0.parquet"]
    for path in ("in/orders", "in/"):
        with pytest.raises(InvalidInputError, match="'in/orders/' is a Delta table"):
            table_entries(branch, path, nested=True)


def test_nothing_is_written_into_a_delta_table(graveler_repo):
    branch = graveler_repo.branch("main")
    branch.put("in/orders/_delta_log/0.json", b"{}")
    branch.commit("a table")
    frame: Any = type("DataFrame", (), {"__module__": "pyspark.sql.classic"})()
    modes: tuple[Any, ...] = ("append", "overwrite", "ignore")
    for mode in modes:
        with pytest.raises(InvalidInputError, match="'in/orders/' is a Delta table"):
            write(branch, frame, "in/orders", mode=mode)
