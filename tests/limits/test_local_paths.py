"""Local paths that the system cannot hold, and settings that cannot be read, in named errors."""

import json
from pathlib import Path

import pytest

import graveler
from graveler.errors import InvalidInputError

LONG = "x" * 300


@pytest.fixture
def lake(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with graveler.init(tmp_path / "lake") as lake:
        repository = lake.create_repository("flights")
        repository.branch("main").put("a", b"1")
        repository.links.allow(str(tmp_path))
        yield lake


CALLS = {
    "init": lambda lake, path: graveler.init(path),
    "open": lambda lake, path: graveler.open(path),
    "create": lambda lake, path: graveler.open(path, create=True),
    "restore": lambda lake, path: lake.restore_repository(path),
    "storage": lambda lake, path: lake.create_repository("b", storage=path),
    "dump": lambda lake, path: lake.repository("flights").dump_refs(path),
    "restore refs": lambda lake, path: lake.repository("flights").restore_refs(path),
    "import": lambda lake, path: lake.repository("flights").branch("main").import_(path, ""),
    "upload": lambda lake, path: lake.repository("flights").branch("main").upload(path),
    "put": lambda lake, path: lake.repository("flights").branch("main").put("b", Path(path)),
    "download": lambda lake, path: lake.repository("flights").branch("main").download("", path),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("path", [LONG, "y/" * 3_000, f"~/{LONG}"])
def test_a_path_that_is_too_long_is_refused_by_name(lake, call, path):
    with pytest.raises(InvalidInputError):
        CALLS[call](lake, path)


def test_a_long_name_in_a_manifest_is_refused(lake, tmp_path):
    manifest = tmp_path / "manifest.json"
    listed = {"key": LONG, "size": 1, "MD5checksum": "0" * 32}
    about = {"sourceBucket": "b", "destinationBucket": "arn:aws:s3:::x", "fileFormat": "CSV"}
    schema = "Bucket, Key, Size, ETag"
    manifest.write_text(json.dumps({**about, "fileSchema": schema, "files": [listed]}))
    with pytest.raises(InvalidInputError, match="beside the manifest"):
        lake.repository("flights").branch("main").import_(manifest, "")


def test_a_file_with_a_long_name_is_not_downloaded(lake, tmp_path):
    main = lake.repository("flights").branch("main")
    main.put(LONG, b"1")
    with pytest.raises(InvalidInputError):
        main.download("", tmp_path / "here")


STORAGE = {"uri": "file:///tmp/x"}


@pytest.mark.parametrize(
    "settings",
    [
        "[" * 100_000,
        json.dumps({"kv": {"uri": "sqlite:///a\0b"}, "storage": STORAGE}),
        json.dumps({"kv": {"uri": "sqlite:///\ud800"}, "storage": STORAGE}),
        json.dumps({"kv": {"uri": f"sqlite:///{LONG}/kv"}, "storage": STORAGE}),
        json.dumps({"kv": {"uri": "mem://"}, "storage": {"uri": "file:///a\0b"}}),
        json.dumps({"kv": {"uri": "mem://"}, "storage": STORAGE, "cache": {"folder": f"/{LONG}"}}),
    ],
)
def test_settings_that_cannot_be_read_are_refused(settings, monkeypatch):
    monkeypatch.setenv("LAKE_SETTINGS", settings.replace("\0", "\\u0000"))
    with pytest.raises(InvalidInputError):
        graveler.open("env:LAKE_SETTINGS").create_repository("a")


def test_nested_settings_in_a_file_are_refused(tmp_path):
    (tmp_path / "graveler.toml").write_text("a = " + "[" * 100_000)
    with pytest.raises(InvalidInputError, match="is not TOML"):
        graveler.open(tmp_path)


def test_a_handle_with_a_broken_location_is_refused(lake, monkeypatch):
    handle = json.loads(lake.repository("flights").runs.open("k").handle.to_json())
    monkeypatch.setenv("GRAVELER_LAKE", lake.location)
    monkeypatch.setenv("GRAVELER_RUN", json.dumps({**handle, "location": "\0"}))
    with pytest.raises(InvalidInputError), graveler.attach():
        pass
