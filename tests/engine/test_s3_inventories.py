"""Inventories and folders of S3: a manifest, and files without a header line."""

import gzip
import json
from hashlib import md5
from urllib.parse import quote_plus

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import graveler
from graveler.errors import CorruptionError, InvalidInputError, SourceChangedError
from graveler.objects.s3 import S3Store
from graveler.repository.imports import listing
from tests.harness.worlds import tree


@pytest.fixture
def bucket(tmp_path, s3_bucket, s3_client, s3_settings):
    """A lake that may link files below two prefixes of a bucket, and a client of the bucket."""
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake/graveler.toml").write_text(f"format = 1\n[s3]\n{s3_settings}")
    with graveler.open(tmp_path / "lake") as lake:
        repo = lake.create_repository("flights")
        for place in ("raw", "inventory"):
            repo.links.allow(f"s3://{s3_bucket}/{place}")
        yield repo.branch("main"), s3_client, s3_bucket


def put_inventory(client, bucket, kind, keys, *, digest=None, versions=False):
    """Put an inventory of keys as S3 writes it; return its URI, its manifest and its file."""
    table = []
    for key in keys:
        head = client.head_object(Bucket=bucket, Key=key)
        row = {
            "Bucket": bucket,
            "Key": quote_plus(key) if kind == "CSV" else key,
            "Size": head["ContentLength"],
            "LastModifiedDate": head["LastModified"],
            "ETag": head["ETag"].strip('"'),
        }
        if versions:
            row |= {"IsLatest": "true", "IsDeleteMarker": "false"}
            table.append({**row, "IsLatest": "false", "ETag": "0" * 32})
        table.append(row)
    if kind == "CSV":
        lines = [",".join(f'"{value}"' for value in row.values()) for row in table]
        body, schema = gzip.compress("\n".join(lines).encode()), ", ".join(table[0])
    else:
        names = {"LastModifiedDate": "last_modified_date", "ETag": "e_tag"}
        renamed = [{names.get(k, k.lower()): v for k, v in row.items()} for row in table]
        sink = pa.BufferOutputStream()
        writer = pq.write_table if kind == "Parquet" else orc.write_table
        writer(pa.Table.from_pylist(renamed), sink)
        body, schema = sink.getvalue().to_pybytes(), "message s3.inventory { … }"
    name = f"inventory/data/part.{'csv.gz' if kind == 'CSV' else kind.lower()}"
    client.put_object(Bucket=bucket, Key=name, Body=body)
    digest = digest or md5(body, usedforsecurity=False).hexdigest()
    manifest = {
        "sourceBucket": bucket,
        "destinationBucket": f"arn:aws:s3:::{bucket}",
        "version": "2016-11-30",
        "fileFormat": kind,
        "fileSchema": schema,
        "files": [{"key": name, "size": len(body), "MD5checksum": digest}],
    }
    key = "inventory/2013-01-01T00-00Z/manifest.json"
    client.put_object(Bucket=bucket, Key=key, Body=json.dumps(manifest).encode())
    return f"s3://{bucket}/{key}", manifest, body


KEYS = [f"raw/{name}" for name in ("05/a.csv", "05/b c+d.csv", "größe", "x/y/z")]


@pytest.mark.parametrize("kind", ["CSV", "Parquet", "ORC"])
def test_an_inventory_of_s3_is_imported(bucket, kind):
    """The inventory with versions, of which the latest are taken, is the one in CSV."""
    main, client, name = bucket
    for key in KEYS:
        client.put_object(Bucket=name, Key=key, Body=key.encode())
    uri, _, _ = put_inventory(client, name, kind, KEYS, versions=kind == "CSV")
    assert main.import_(uri, "in/", below=f"s3a://{name}/raw/").files == 4
    assert main.get("in/05/b c+d.csv") == b"raw/05/b c+d.csv"
    assert main.import_(uri, "all/", verify=True).files == 4
    assert main.get("all/raw/größe") == "raw/größe".encode()
    linked = main.link("l", address=f"s3://{name}/raw/x/y/z")
    assert main.stat("in/x/y/z").version == linked.version
    client.put_object(Bucket=name, Key=KEYS[0], Body=b"raw/05/X.csv")
    with pytest.raises(SourceChangedError):
        main.get("in/05/a.csv")
    with pytest.raises(SourceChangedError, match=r"row \d: .* is at etag:"):
        main.import_(uri, "in/", verify=True)


def test_a_file_with_another_md5_than_the_manifest_is_refused(bucket):
    main, client, name = bucket
    client.put_object(Bucket=name, Key=KEYS[0], Body=b"x")
    uri, _, _ = put_inventory(client, name, "CSV", KEYS[:1], digest="0" * 32)
    with pytest.raises(CorruptionError, match=r"part\.csv\.gz: its MD5 is"):
        main.import_(uri)
    wrong = [b"{}", b"[1]", b"no JSON", b'{"fileSchema": "", "fileFormat": "X", "files": []}']
    for manifest in wrong:
        client.put_object(Bucket=name, Key="inventory/manifest.json", Body=manifest)
        with pytest.raises(InvalidInputError, match=r"manifest\.json"):
            main.import_(f"s3://{name}/inventory/manifest.json")
    assert tree(main) == {}


def test_an_inventory_that_was_downloaded_is_read_from_disk(bucket, tmp_path):
    main, client, name = bucket
    client.put_object(Bucket=name, Key=KEYS[0], Body=b"x")
    _, manifest, body = put_inventory(client, name, "CSV", KEYS[:1])
    here = tmp_path / "2013-01-01T00-00Z" / "manifest.json"
    here.parent.mkdir()
    here.write_text(json.dumps(manifest))
    with pytest.raises(InvalidInputError, match=r"'part\.csv\.gz' beside the manifest"):
        main.import_(here)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "part.csv.gz").write_bytes(body)
    assert main.import_(here).files == 1


def test_a_bucket_is_listed_in_parallel_by_common_prefixes(bucket, monkeypatch):
    main, client, name = bucket
    monkeypatch.setattr(listing, "_PAGE", 2)
    keys = [f"raw/deep/{folder:02}/{number}" for folder in range(12) for number in range(3)]
    for key in [*keys, "raw/top", "raw/deep/file", "rawer/no"]:
        client.put_object(Bucket=name, Key=key, Body=key.encode())
    listed = []
    real = S3Store.list

    def noted(self, prefix="", **options):
        listed.append(prefix)
        return real(self, prefix, **options)

    monkeypatch.setattr(S3Store, "list", noted)
    done = main.import_(f"s3://{name}/raw", "in/")
    assert done.files == 38
    assert sorted(listed) == [f"deep/{folder:02}/" for folder in range(12)]
    assert {entry.path for entry in main.entries()} == {
        "in/" + key.removeprefix("raw/") for key in [*keys, "raw/top", "raw/deep/file"]
    }
    assert main.get("in/deep/03/1") == b"raw/deep/03/1"
