"""Tables of a lake on S3: clients have credentials of their own, the server uses those of the lake."""

import pytest

from graveler.config import LakeConfig
from graveler.lake.factory import connect
from graveler.server import Server
from tests.harness.iceberg import (
    TOKEN,
    catalog_of,
    delays,
    entry_files,
    named_files,
    rest_catalog,
    rows,
    with_table,
)


@pytest.fixture
def lake(tmp_path, s3_bucket, s3_options):
    config = LakeConfig(
        location=str(tmp_path),
        kv_uri=f"sqlite://{tmp_path / 'kv'}",
        storage_uri=f"s3://{s3_bucket}/a lake",
        storage_options=s3_options,
        cache_folder=tmp_path / "cache",
    )
    with connect(config) as opened:
        yield opened


@pytest.fixture
def credentials(s3_options, monkeypatch):
    # moto reads no bodies whose checksum follows them, as pyarrow sends them
    monkeypatch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
    return {
        "s3.endpoint": s3_options["endpoint_url"],
        "s3.region": s3_options["region"],
        "s3.access-key-id": s3_options["access_key"],
        "s3.secret-access-key": s3_options["secret_key"],
    }


def test_tables_on_s3_are_written_by_both_ways_in(lake, credentials):
    repo = lake.create_repository("flights")
    own = catalog_of(repo.branch("main"), **credentials)
    table = with_table(own, 1)
    assert table.location().startswith(f"{repo.storage}/tables/")
    with Server(lake, token=TOKEN) as server:
        with rest_catalog(server, "flights@main", **credentials) as client:
            client.load_table("db.flights").append(rows(2))
            client.load_table("db.flights").delete("delay = 1")
            assert delays(client) == delays(own) == [2]
    repo.create_branch("dev")
    dev = catalog_of(repo.branch("dev"), **credentials)
    dev.load_table("db.flights").append(rows(3))
    with_table(dev, 4, table="db.gone")
    dev.drop_table("db.gone")
    repo.gc.run(grace="0s", window="0s")
    assert (delays(own), delays(dev)) == ([2], [2, 3])
    assert entry_files(repo, "dev") == named_files(dev.load_table("db.flights"))
    assert repo.fsck().sound
