"""Where a lake's settings put its data: URIs, file systems, S3."""

import logging
import unicodedata
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest

import graveler
from graveler.config import load_config
from graveler.errors import BackendUnavailableError, InvalidInputError, PermissionDeniedError
from graveler.kv.registry import open_kv
from graveler.objects.registry import open_store
from graveler.objects.s3_client import _CODES, s3_errors
from graveler.testing.clock import FakeClock, SequenceIds


def settings(folder, kv="sqlite://kv.sqlite3", storage="file://objects"):
    folder.mkdir()
    (folder / "graveler.toml").write_text(
        f'format = 1\n[kv]\nuri = "{kv}"\n[storage]\nuri = "{storage}"\n'
    )
    return folder


@pytest.mark.parametrize(
    ("table", "uri"),
    [
        ("storage", "objects"),
        ("storage", "s3:/bucket/p"),
        ("storage", "/data/lake"),
        ("kv", "postgresql:/ann:secret@db/lake"),
        ("kv", "host=db user=ann password=secret"),
        ("kv", "kv.sqlite3"),
    ],
)
def test_a_uri_without_a_scheme_is_refused(tmp_path, monkeypatch, table, uri):
    monkeypatch.chdir(tmp_path)
    lake = settings(tmp_path / "lake", **{table: uri})
    with pytest.raises(InvalidInputError, match=rf"\[{table}\] uri has no scheme") as refused:
        graveler.open(lake)
    assert "secret" not in str(refused.value)
    assert [file.name for file in tmp_path.iterdir()] == ["lake"]


@pytest.mark.parametrize("storage", ["s3:/bucket/p", "s3:bucket", "file:objects", "file:/objects"])
def test_a_storage_with_a_typo_is_no_folder(tmp_path, monkeypatch, storage):
    monkeypatch.chdir(tmp_path)
    with graveler.open(tmp_path / "lake", create=True) as lake:
        with pytest.raises(InvalidInputError, match="two slashes"):
            lake.create_repository("flights", storage=storage)
    assert [file.name for file in tmp_path.iterdir()] == ["lake"]


def test_a_storage_without_a_scheme_is_below_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with graveler.open(tmp_path / "lake", create=True) as lake:
        assert lake.create_repository("made", storage="./a:b").storage == f"file://{tmp_path}/a:b"


def mounted(monkeypatch, folder, kind):
    table = folder / "mounts"
    name = str(folder / "a b").replace(" ", r"\040")
    table.write_text(f"root / ext4 rw 0 0\nserver:/x {name} {kind} rw 0 0\n")
    monkeypatch.setattr("graveler.kv.drivers.sqlite._MOUNTS", table)
    (folder / "a b" / "lake").mkdir(parents=True)
    return f"sqlite://{folder}/a%20b/lake/kv.sqlite3"


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p", "lustre"])
def test_sqlite_on_a_network_is_refused_by_its_type(monkeypatch, tmp_path, kind):
    uri = mounted(monkeypatch, tmp_path, kind)
    with pytest.raises(InvalidInputError, match=rf"\({kind}\).*network=accept"):
        open_kv(uri)
    assert list((tmp_path / "a b" / "lake").iterdir()) == []
    open_kv(f"{uri}?network=accept").close()
    open_kv(f"sqlite://{tmp_path}/beside.sqlite3").close()


@pytest.mark.parametrize("kind", ["ext4", "xfs", "tmpfs", "overlay", "fuseblk", "fuse.gocryptfs"])
def test_sqlite_on_a_local_file_system_is_taken(monkeypatch, tmp_path, kind):
    open_kv(mounted(monkeypatch, tmp_path, kind)).close()


def folding(monkeypatch, fold):
    """Let file systems take names that fold together for one."""
    monkeypatch.setattr(
        Path, "exists", lambda path, real=Path.exists: real(path) or any(
            fold(other.name) == fold(path.name)
            for other in (path.parent.iterdir() if real(path.parent) else ())
        )
    )  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other", "fold"),
    [
        ("t/File.csv", "t/file.csv", str.casefold),
        ("T/a", "t/a", str.casefold),
        ("caf\u00e9", "cafe\u0301", lambda name: unicodedata.normalize("NFD", name)),
    ],
)
def test_names_that_fold_together_are_refused_first(tmp_path, monkeypatch, one, other, fold):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        main = lake.create_repository("flights").branch("main")
        for name in ("0", one, other):
            main.put(name, name.encode())
        assert main.download("", tmp_path / "all").files == 3
        folding(monkeypatch, fold)
        with pytest.raises(InvalidInputError, match="are one file in"):
            main.download("", tmp_path / "folded")
        assert not (tmp_path / "folded").is_dir()
        assert main.download("", tmp_path / "some", exclude=[other]).files == 2


@pytest.fixture
def store(s3_bucket, s3_options):
    store = open_store(f"s3://{s3_bucket}/p", s3_options, clock=FakeClock(), ids=SequenceIds())
    yield store
    store.close()


@pytest.mark.parametrize(
    ("operation", "field", "read"),
    [
        ("list_objects_v2", "NextContinuationToken", lambda store: list(store.list())),
        ("head_object", "ETag", lambda store: store.head("a")),
        ("head_object", "LastModified", lambda store: store.head("a")),
        ("head_object", "ContentLength", lambda store: store.head("a")),
    ],
)
def test_a_reply_without_a_field_is_named(store, operation, field, read):
    whole = {
        "Size": 1,
        "ContentLength": 1,
        "ETag": '"x"',
        "LastModified": datetime(2013, 1, 1, tzinfo=UTC),
    }
    part = {name: value for name, value in whole.items() if name != field}
    reply = {"Contents": [{"Key": "p/a", **part}], "IsTruncated": True, **part}
    setattr(store._client._client, operation, lambda **_: reply)
    with pytest.raises(BackendUnavailableError, match=f"has no {field}"):
        read(store)


@pytest.mark.parametrize(
    ("code", "way"),
    [
        ("RequestTimeTooSkewed", "clock"),
        ("ExpiredToken", "renew"),
        ("TokenRefreshRequired", "renew"),
        ("400", "renew"),
        ("SignatureDoesNotMatch", "secret_key"),
        ("InvalidAccessKeyId", "does not know the key"),
        ("AccessDenied", "s3:GetObject"),
    ],
)
def test_the_advice_follows_the_code(code, way):
    reply = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 403}}
    with pytest.raises(PermissionDeniedError, match=way), s3_errors("read x"):
        raise boto3.client("s3", region_name="x").exceptions.ClientError(reply, "GetObject")
    assert "ExpiredToken" in _CODES


def test_objects_are_encrypted_as_the_settings_say(tmp_path, s3_bucket, s3_options):
    options = {**s3_options, "sse": "aws:kms", "sse_kms_key_id": "key-1"}
    lake = settings(tmp_path / "lake", storage=f"s3://{s3_bucket}/p")
    with (lake / "graveler.toml").open("a") as file:
        file.write("[s3]\n" + "".join(f'{name} = "{value}"\n' for name, value in options.items()))
    store: Any = open_store(f"s3://{s3_bucket}/p", load_config(lake).storage_options)
    store.put("whole", b"1")
    store.put_if_absent("parts", bytes(65 << 20))
    for name in ("p/whole", "p/parts"):
        found = store._client._client.head_object(Bucket=s3_bucket, Key=name)
        assert (found["ServerSideEncryption"], found["SSEKMSKeyId"]) == ("aws:kms", "key-1")
    store.close()


@pytest.mark.parametrize("code", ["ExpiredToken", "TokenRefreshRequired", "400"])
def test_credentials_that_were_renewed_are_read(tmp_path, s3_bucket, s3_options, monkeypatch, code):
    given = {name: s3_options[name] for name in s3_options if "key" not in name}
    file = tmp_path / "credentials"
    file.write_text("[default]\naws_access_key_id = old\naws_secret_access_key = s\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    store: Any = open_store(f"s3://{s3_bucket}/p", {**given, "region": "us-east-1"})
    client = store._client._client

    def expired(**_):
        file.write_text("[default]\naws_access_key_id = new\naws_secret_access_key = s\n")
        reply = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 400}}
        raise client.exceptions.ClientError(reply, "PutObject")

    client.put_object = expired
    store.put("a", b"content")
    assert store.get("a") == b"content"
    assert store._client._client._request_signer._credentials.access_key == "new"
    store.close()


def test_a_versioned_bucket_is_warned_about_once(store, s3_bucket, caplog):
    store._client._client.put_bucket_versioning(
        Bucket=s3_bucket, VersioningConfiguration={"Status": "Enabled"}
    )
    for name in "ab":
        store.put(name, b"1")
        store.delete(name)
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "NoncurrentVersionExpiration" in warnings[0]
