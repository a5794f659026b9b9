"""Settings: which are read, which are refused, and when a folder becomes a lake."""

import os
import pwd
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

import graveler
from graveler.config import CONFIG_NAME, default_committer, load_config
from graveler.errors import BackendUnavailableError, InvalidInputError, NotFoundError
from graveler.lake.factory import init, write_default_config

WHOLE = """
format = 1
[kv]
uri = "postgresql://ada@host/lake"
[storage]
uri = "s3://bucket/lake"
[s3]
endpoint_url = "https://minio.example:9000"
path_style = "true"
[cache]
folder = "/var/cache/graveler"
max_bytes = 5
[splitting]
max_bytes = 1000
raggedness = 7
[limits]
no_progress_seconds = 2.5
encoding_processes = 0
"""


def written(folder, text):
    file = folder / "graveler.toml"
    file.write_text(text, "utf-8")
    return file


def test_every_setting_is_read(tmp_path):
    config = load_config(written(tmp_path, WHOLE))
    assert config.kv_uri == "postgresql://ada@host/lake"
    assert config.storage_uri == "s3://bucket/lake"
    assert config.storage_options["endpoint_url"] == "https://minio.example:9000"
    assert str(config.cache_folder) == "/var/cache/graveler"
    assert config.cache_max_bytes == 5
    assert config.splitting == {"max_bytes": 1000, "raggedness": 7}
    assert config.no_progress_s == 2.5
    assert config.location == str(tmp_path / "graveler.toml")


@pytest.mark.parametrize("value", ["true", '"true"'])
def test_a_switch_may_be_given_as_toml_has_it(tmp_path, value):
    text = WHOLE.replace('path_style = "true"', f"path_style = {value}")
    assert load_config(written(tmp_path, text)).storage_options["path_style"] == "true"


def test_paths_are_relative_to_the_file(tmp_path):
    write_default_config(tmp_path / "a lake")
    config = load_config(tmp_path / "a lake")
    assert config.kv_uri == f"sqlite://{tmp_path}/a%20lake/kv.sqlite3"
    assert config.storage_uri == f"file://{tmp_path}/a lake/objects"
    assert config.cache_folder == tmp_path / "a lake" / "cache"
    (tmp_path / "a lake").rename(tmp_path / "moved")
    assert load_config(tmp_path / "moved").storage_uri == f"file://{tmp_path}/moved/objects"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "format None"),
        ("format = 0", "format 0"),
        ("format = ", "not TOML"),
        ("\ufefformat = 1\n[kv", "not TOML"),
        (WHOLE + "[extra]", "known are"),
        (WHOLE + "min_byte = 1", "unknown"),
        ("kv = 1\n" + WHOLE.replace("[kv]\nuri", "uri"), "not known"),
        (WHOLE.replace("format = 1", "format = true"), "format True"),
        (WHOLE.replace("max_bytes = 5", 'max_bytes = "5"'), r"max_bytes.*a whole number from 0"),
        (WHOLE.replace("max_bytes = 5", "max_bytes = -1"), r"max_bytes.*a whole number from 0"),
        (WHOLE.replace('"s3://bucket/lake"', "5"), "give a text"),
        (WHOLE.replace('"/var/cache/graveler"', "5"), "wrong kind"),
        (WHOLE.replace("= 2.5", '= "30"'), "no_progress_seconds '30': give a number"),
        (WHOLE.replace("= 2.5", "= true"), "no_progress_seconds True: give a number"),
        (WHOLE.replace("//ada@", "//ada:${PASSWORD@"), r"\[kv\] uri: \$\{ has no \}"),
        (WHOLE.replace("raggedness = 7", "raggedness = [7]"), r"raggedness.*a whole number"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(tmp_path, text, reason):
    with pytest.raises(InvalidInputError, match=reason):
        load_config(written(tmp_path, text))


def test_a_lake_may_have_no_cache(tmp_path):
    file = written(tmp_path, WHOLE.replace('"/var/cache/graveler"', '""'))
    assert load_config(file).cache_folder is None


def test_what_is_no_file_of_settings_is_no_lake(tmp_path):
    (tmp_path / "graveler.toml").write_bytes(b"\xff\xfe\0")
    with pytest.raises(InvalidInputError, match="not TOML"):
        load_config(tmp_path)
    (tmp_path / "lake").write_text("format = 1")
    with pytest.raises(NotFoundError, match="no lake at"):
        load_config(tmp_path / "lake")
    (tmp_path / "graveler.toml").unlink()
    with pytest.raises(InvalidInputError, match="not empty and not a lake"):
        graveler.open(tmp_path, create=True)


def test_settings_that_cannot_be_read_now_are_a_failure_for_now(tmp_path):
    (tmp_path / CONFIG_NAME).mkdir()
    with pytest.raises(BackendUnavailableError, match=r"no lake at .* now"):
        load_config(tmp_path)


def test_a_lake_that_must_be_there_is_never_made(tmp_path):
    with pytest.raises(NotFoundError, match="graveler init"):
        graveler.open(tmp_path / "typo")
    with pytest.raises(NotFoundError, match="graveler init"):
        graveler.open(tmp_path)
    with pytest.raises(NotFoundError):
        graveler.open(tmp_path / "other.toml")
    assert list(tmp_path.iterdir()) == []
    graveler.open(tmp_path, create=True).close()
    graveler.open(tmp_path).close()


def test_a_folder_is_made_a_lake_once(tmp_path):
    init(tmp_path / "new", kv_uri="mem://", storage_uri="mem://x").close()
    with pytest.raises(InvalidInputError, match="already"):
        init(tmp_path / "new")
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="is a file"):
        init(tmp_path / "file")
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["graveler.toml"]


@pytest.mark.parametrize("uri", ['mem://a"b', "mem://a\\b", "mem://é", "mem://a\nb"])
def test_any_uri_is_written_as_it_is(tmp_path, uri):
    write_default_config(tmp_path, kv_uri=uri, storage_uri=uri)
    config = load_config(tmp_path)
    assert (config.kv_uri, config.storage_uri) == (uri, uri)


def test_all_who_open_a_new_folder_at_once_get_the_one_lake(tmp_path):
    for number in range(3):
        folder, barrier = tmp_path / str(number), Barrier(4)

        def process(who, folder=folder, barrier=barrier):
            barrier.wait()
            with graveler.open(folder, create=True) as lake:
                return lake.create_repository("flights", exist_ok=True).stores.uid

        with ThreadPoolExecutor(4) as pool:
            assert len(set(pool.map(process, range(4)))) == 1


def test_who_commits_is_from_the_environment_or_the_system(monkeypatch, tmp_path):
    names = ("LOGNAME", "USER", "GRAVELER_COMMITTER")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    assert default_committer() == pwd.getpwuid(os.geteuid()).pw_name
    with graveler.init(tmp_path / "lake") as lake:
        branch = lake.create_repository("flights").branch("main")
        assert branch.commit("a", allow_empty=True).committer == default_committer()
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: 987_654_321)
        assert default_committer() == ""
    for name in names:
        monkeypatch.setenv(name, name.lower())
        assert default_committer() == name.lower()
