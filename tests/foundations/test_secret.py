"""Secrets come from the environment or a command, and never appear in a repr or a message."""

import logging
import pickle
import sys
import traceback

import pytest

import graveler
from graveler.config import CONFIG_NAME, LakeConfig, load_config
from graveler.errors import BackendUnavailableError, GravelerError, InvalidInputError
from graveler.kv.registry import open_kv
from graveler.objects.registry import open_store

SECRET = "s3cret"


def settings(folder, kv='"sqlite://kv"', s3=""):
    (folder / CONFIG_NAME).write_text(f"format = 1\n[kv]\nuri = {kv}\n[s3]\n{s3}", "utf-8")
    return folder


@pytest.fixture
def variables(monkeypatch):
    monkeypatch.setenv("PART", "p@ss/w?rd")
    monkeypatch.setenv("WHOLE", "postgresql://ann:p%40ss@db/lake")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.delenv("UNSET", raising=False)


@pytest.mark.usefixtures("variables")
@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("postgresql://ann:${PART}@db/lake", "postgresql://ann:p%40ss%2Fw%3Frd@db/lake"),
        ("${WHOLE}", "postgresql://ann:p%40ss@db/lake"),
        ("postgresql://db/lake?options=${PART}", "postgresql://db/lake?options=p@ss/w?rd"),
        ("postgresql://db/$${PART}", "postgresql://db/${PART}"),
        ("postgresql://db/$PART", "postgresql://db/$PART"),
    ],
)
def test_the_environment_fills_a_uri_in(tmp_path, text, uri):
    assert load_config(settings(tmp_path, f'"{text}"')).kv_uri == uri


@pytest.mark.usefixtures("variables")
def test_the_environment_fills_keys_in(tmp_path):
    config = load_config(settings(tmp_path, s3='secret_key = "${PART}"\npath_style = true\n'))
    assert config.storage_options == {"secret_key": "p@ss/w?rd", "path_style": "true"}


@pytest.mark.usefixtures("variables")
@pytest.mark.parametrize("name", ["UNSET", "EMPTY", "", "a-b"])
def test_a_variable_that_is_not_set_is_named(tmp_path, name):
    with pytest.raises(InvalidInputError, match=rf"\[kv\] uri: the variable '{name}' is not set"):
        load_config(settings(tmp_path, f'"postgresql://u:${{{name}}}@h/d"'))


def prints(text, code=0):
    program = f"import sys; print({text!r}, end=''); sys.exit({code})"
    return [sys.executable, "-c", program]


@pytest.mark.parametrize("words", [True, False])
def test_a_command_prints_a_uri(tmp_path, words):
    printer = tmp_path / "printer"
    printer.write_text(f"#!/bin/sh\necho postgresql://u:{SECRET}@h/d\n")
    printer.chmod(0o755)
    command = f'["{printer}"]' if words else f'"{printer} -x"'
    config = load_config(settings(tmp_path, f"{{command = {command}}}"))
    assert config.kv_uri == f"postgresql://u:{SECRET}@h/d"


@pytest.mark.parametrize(
    ("command", "kind", "reason"),
    [
        (["/nowhere/printer"], BackendUnavailableError, "FileNotFoundError"),
        (prints(SECRET, code=3), BackendUnavailableError, "ended with code 3"),
        (prints(""), BackendUnavailableError, "printed nothing"),
        ([], InvalidInputError, "a command line, or a list"),
        ([1], InvalidInputError, "a command line, or a list"),
    ],
)
def test_a_failing_command_is_named_without_its_output(tmp_path, command, kind, reason):
    with pytest.raises(kind, match=rf"\[kv\] uri.*{reason}") as error:
        load_config(settings(tmp_path, f"{{command = {command!r}}}"))
    assert SECRET not in str(error.value)


def test_settings_show_no_secret():
    config = LakeConfig(
        "/lake",
        f"postgresql://ann:{SECRET}@db/lake?sslpassword={SECRET}",
        "s3://bucket/a",
        {"secret_key": SECRET, "session_token": SECRET},
    )
    for text in (repr(config), str(config), f"{config}"):
        assert SECRET not in text
        assert "postgresql://***@db/lake" in text
    assert pickle.loads(pickle.dumps(config)) == config


KV_URIS = (
    f"postgres://ann:{SECRET}@db/lake",
    f"postgresql:/ann:{SECRET}@db/lake",
    f"postgresql:ann:{SECRET}@db/lake",
    f"postgresql//ann:{SECRET}@db/lake",
    f"postgresql://ann:{SECRET}@db:port/lake",
    f"postgresql://ann:{SECRET}@127.0.0.1:1/lake",
    f"postgresql://ann:{SECRET}@127.0.0.1:1/lake?passwrd={SECRET}x",
    f"mysql://ann:{SECRET}@127.0.0.1:1/lake",
    f"mysql://ann:{SECRET}@db:port/lake",
    f"mysql://ann:{SECRET}@db",
    f"dynamodb://{SECRET}@table",
    f"dynamodb://table?region=x&endpoint=http://ann:{SECRET}@127.0.0.1:1",
)


@pytest.mark.parametrize("uri", KV_URIS)
def test_a_key_value_uri_that_fails_is_shown_without_its_secret(uri, caplog):
    with caplog.at_level(logging.DEBUG), pytest.raises(GravelerError) as error:
        open_kv(uri, no_progress_s=1.0)
    shown = "".join(
        line
        for line in traceback.format_exception(error.value)
        if not line.lstrip().startswith("File ")
    )
    assert SECRET not in shown
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    ("uri", "options"),
    [
        (f"s4://key:{SECRET}@bucket/a", {}),
        (f"s3://key:{SECRET}@bucket/a", {}),
        (f"s3:/key:{SECRET}@bucket/a", {}),
        ("s3://bucket/a", {"endpoint_url": f"http://ann:{SECRET}@127.0.0.1:1"}),
    ],
)
def test_a_storage_uri_that_fails_is_shown_without_its_secret(uri, options, tmp_path):
    with pytest.raises(GravelerError) as error:
        open_store(uri, options)
    assert SECRET not in "".join(traceback.format_exception(error.value))
    if not options:
        with pytest.raises(GravelerError) as error:
            graveler.init(tmp_path / "lake", storage_uri=uri)
        assert SECRET not in str(error.value)


@pytest.mark.parametrize("scheme", ["sqlite", "rocksdb"])
def test_a_store_of_files_takes_no_options(scheme, tmp_path):
    with pytest.raises(InvalidInputError, match="takes no options"):
        open_kv(f"{scheme}://{tmp_path}/kv?mode=ro")
    assert list(tmp_path.iterdir()) == []
