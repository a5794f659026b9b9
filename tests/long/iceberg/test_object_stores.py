"""A lake on S3: each engine reads and writes the storage with the access that `RestCatalog` gives."""

import pytest

import graveler
from tests.harness.iceberg import delays

ROWS = "select hour, delay from {}.db.flights"


@pytest.fixture
def lake(tmp_path, s3_bucket, s3_settings, monkeypatch):
    # moto reads no bodies whose checksum follows them, as PyIceberg sends them
    monkeypatch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
    file = tmp_path / "graveler.toml"
    file.write_text(f'format = 1\n[storage]\nuri = "s3://{s3_bucket}/lake"\n[s3]\n{s3_settings}')
    with graveler.open(file) as opened:
        yield opened


def test_three_engines_write_one_table_on_s3(spark, duckdb, pyiceberg, repo, catalog):
    main = catalog(repo.branch("main"))
    for engine in (spark, duckdb):
        engine.use("main", main)
    spark.sql("create namespace main.db")
    spark.sql(
        "create table main.db.flights (hour string, delay bigint) using iceberg "
        "tblproperties ('format-version'='2', 'write.delete.mode'='merge-on-read')"
    )
    spark.sql("insert into main.db.flights values ('05', 1), ('05', 2)")
    dev = catalog(repo.create_branch("dev"))
    for engine in (spark, duckdb):
        engine.use("dev", dev)
    duckdb.sql("insert into dev.db.flights values ('06', 3), ('06', 4)")
    spark.sql("delete from dev.db.flights where delay = 1")
    client = pyiceberg(dev)
    with pytest.warns(UserWarning, match="falling back to copy-on-write"):
        client.load_table("db.flights").delete("delay = 3")
    duckdb.sql("delete from dev.db.flights where delay = 2")
    for engine in (spark, duckdb):
        assert engine.sql(ROWS.format("dev")) == [("06", 4)]
        assert engine.sql(ROWS.format("main")) == [("05", 1), ("05", 2)]
    assert delays(client) == [4]
    assert client.load_table("db.flights").location().startswith("s3://")
    assert repo.fsck().sound
