"""Spark reads the rows of the plain model from every table that a case of merging gives."""

import tempfile
from pathlib import Path

import pytest

from graveler.iceberg import GravelerCatalog
from tests.harness.iceberg_cases import CASES, merged_cases
from tests.harness.iceberg_lines import Line

READ = "select * from main.db.{}"


@pytest.fixture
def main(repo):
    repo.links.allow(tempfile.gettempdir())
    main = GravelerCatalog.of(repo.branch("main"))
    main.create_namespace("db")
    return main


@pytest.mark.parametrize(("version", "partitioned", "others", "here", "row"), CASES)
def test_spark_reads_the_rows_of_the_model(
    spark, repo, main, catalog, version, partitioned, others, here, row
):
    spark.use("main", catalog(repo.branch("main")))
    read = 0
    for there, merged in merged_cases(version, partitioned, others, here):
        if not isinstance(merged, Line):
            continue
        file = Path(merged.metadata.location, "metadata", f"{here}-{there}.metadata.json")
        file.write_text(merged.metadata.model_dump_json(), "utf-8")
        main.register_table(f"db.{here}_{there}", str(file))
        ids = [field.field_id for field in merged.metadata.schema().fields]
        found = spark.sql(READ.format(f"{here}_{there}"))
        known = (zip(ids, values, strict=True) for values in found)
        assert sorted(
            tuple(sorted((i, v) for i, v in pairs if v is not None)) for pairs in known
        ) == (sorted(merged.rows)), there
        read += 1
    assert read == row.count(".")
