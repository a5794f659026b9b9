"""A lake without a settings file: an environment variable holds its settings as JSON."""

import json
import subprocess
import sys

import pytest

import graveler
from graveler.config import lake_environment, load_config
from graveler.errors import InvalidInputError, NotFoundError
from graveler.fs import GravelerFileSystem

SECRET = "s3cret"


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Set the variable of a lake; return a function that sets other settings."""

    def put(tables):
        text = tables if isinstance(tables, str) else json.dumps(tables)
        monkeypatch.setenv("PROD_LAKE", text)

    put(
        {
            "kv": {"uri": f"sqlite://{tmp_path}/kv.sqlite3"},
            "storage": {"uri": f"file://{tmp_path}/objects"},
        }
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    return put


@pytest.mark.usefixtures("settings")
def test_a_lake_is_opened_by_its_variable(tmp_path):
    with graveler.open("env:PROD_LAKE") as lake:
        assert lake.location == "env:PROD_LAKE"
        branch = lake.create_repository("flights").branch("main")
        branch.put("a", b"1")
        branch.commit("a")
    assert (tmp_path / "kv.sqlite3").exists()
    assert (tmp_path / "caches/graveler/ranges").is_dir()
    files = GravelerFileSystem("env:PROD_LAKE", skip_instance_cache=True)
    assert files.cat("grav://flights/main/a") == b"1"


@pytest.mark.usefixtures("settings")
def test_another_program_opens_it_by_what_the_location_needs():
    with graveler.open("env:PROD_LAKE") as lake:
        lake.create_repository("flights")
    command = [
        sys.executable,
        "-c",
        "from graveler.cli.main import main; main()",
        "repo",
        "list",
        "--json",
    ]
    environment = {"PYTHONPATH": ":".join(sys.path), **lake_environment("env:PROD_LAKE")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert "flights" in done.stdout, done.stderr


def test_every_setting_of_a_file_may_be_in_the_variable(settings):
    settings(
        {
            "kv": {"uri": "postgresql://ann@db/lake"},
            "storage": {"uri": "s3://bucket/lake"},
            "s3": {"region": "eu-central-1", "session_token": SECRET},
            "cache": {"folder": "/var/cache/lake", "max_bytes": 5},
            "limits": {"no_progress_seconds": 3},
        }
    )
    config = load_config("env:PROD_LAKE")
    assert config.storage_options == {"region": "eu-central-1", "session_token": SECRET}
    assert (str(config.cache_folder), config.cache_max_bytes) == ("/var/cache/lake", 5)
    assert SECRET not in repr(config)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (SECRET, "no JSON object"),
        (f'["{SECRET}"]', "no JSON object"),
        ({"kv": {"uri": "sqlite://kv"}, "storage": {"uri": f"s3://{SECRET}"}}, "'kv'"),
        ({"kv": SECRET, "storage": {"uri": "s3://bucket"}}, "'kv'"),
        ({"kv": {"uri": f"mysql://u:{SECRET}@h/d"}}, "'storage'"),
        (
            {
                "kv": {"uri": f"mysql://u:{SECRET}@h/d"},
                "storage": {"uri": "s3://bucket"},
                "cache": {"folder": "near"},
            },
            "'cache'",
        ),
        ({"kv": {"uri": "mem://"}, "storage": {"uri": "mem://x"}, "extra": {}}, "known are"),
    ],
)
def test_wrong_settings_are_refused_without_showing_them(settings, text, reason):
    settings(text)
    with pytest.raises(InvalidInputError, match=reason) as error:
        load_config("env:PROD_LAKE")
    assert SECRET not in str(error.value)
    assert "PROD_LAKE" in str(error.value)


@pytest.mark.parametrize("location", ["env:", "env:UNSET_LAKE"])
def test_a_variable_that_is_not_set_is_no_lake(location):
    with pytest.raises(NotFoundError, match="is not set"):
        graveler.open(location)


def test_init_makes_no_folder_of_a_variable(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError, match=r"\./env:PROD_LAKE"):
        graveler.init("env:PROD_LAKE")
    assert list(tmp_path.iterdir()) == []
