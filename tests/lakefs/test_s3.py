"""A namespace in a bucket, with many threads and object versions."""

import pytest

import graveler
from graveler.errors import SourceChangedError
from graveler.objects.registry import open_store
from tests.harness.lakefs import LakefsWriter, Obj
from tests.lakefs.trees import check_history


@pytest.fixture
def lake(tmp_path, s3_settings):
    """A lake in a folder, with settings for the bucket."""
    with graveler.init(tmp_path / "lake"):
        pass
    with (tmp_path / "lake" / "graveler.toml").open("a") as file:
        file.write(f"\n[s3]\n{s3_settings}")
    with graveler.open(tmp_path / "lake") as lake:
        yield lake


def test_a_bucket_is_read_by_many_threads(lake, s3_bucket, s3_client, s3_options):
    source, client, name = f"s3://{s3_bucket}/ns", s3_client, s3_bucket
    store = open_store(source, s3_options)
    lakefs = LakefsWriter(store.put)
    head = lakefs.commit({}, message="Repository created")
    tree = {}
    for number in range(10):
        tree[f"in/{number:02}"] = lakefs.upload(f"{number}", b"%d" % number)
        head = lakefs.commit(dict(tree), [head], message=str(number))
    parts = client.create_multipart_upload(Bucket=name, Key="ns/data/gp/parts")
    part = client.upload_part(
        Bucket=name, Key="ns/data/gp/parts", UploadId=parts["UploadId"], PartNumber=1, Body=b"parts"
    )
    ended = client.complete_multipart_upload(
        Bucket=name,
        Key="ns/data/gp/parts",
        UploadId=parts["UploadId"],
        MultipartUpload={"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]},
    )
    etag = ended["ETag"].strip('"')
    raw = client.put_object(Bucket=name, Key="raw/a", Body=b"raw")["ETag"].strip('"')
    tree["parts"] = Obj("data/gp/parts", 5, etag)
    tree["raw"] = Obj(f"s3a://{name}/raw/a", 3, raw, kind=2)
    lakefs.branches["main"] = lakefs.commit(tree, [head], message="parts")
    lakefs.dump()
    lake.import_lakefs(source, "flights", allow=[source, f"s3://{name}/raw"])
    repo = lake.repository("flights")
    tree["raw"] = Obj(f"s3://{name}/raw/a", 3, raw, kind=2)  # addresses are stored in one form
    check_history(repo, source, lakefs)
    main = repo.branch("main")
    assert main.stat("parts").version == f'etag:"{etag}"'
    assert (main.stat("parts").checksum, main.stat("raw").checksum) == ("", "")
    assert (main.get("parts"), main.get("raw"), main.get("in/07")) == (b"parts", b"raw", b"7")
    client.put_object(Bucket=name, Key="raw/a", Body=b"war")
    with pytest.raises(SourceChangedError):
        main.get("raw")
    store.close()
