"""Verbs with a local path that the system cannot hold."""

import pytest

import graveler

LONG = "x" * 300


@pytest.fixture
def lake(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with graveler.init(tmp_path / "lake") as lake:
        lake.create_repository("flights").branch("main").put_many({"a": b"1", LONG: b"2"})
    return tmp_path / "lake"


@pytest.mark.parametrize(
    "verb",
    [
        ("refs", "dump", LONG),
        ("refs", "restore", LONG),
        ("get", "main:a", LONG),
        ("get", "-r", "main:", LONG),
        ("put", LONG, "main:a"),
        ("put", "-r", LONG, "main:a"),
        ("import", LONG, "main:a"),
        ("demo", LONG),
        ("init", LONG),
        ("--lake", LONG, "ls"),
        ("get", f"main:{LONG}", "."),
    ],
    ids=lambda verb: " ".join(verb).replace(LONG, "long"),
)
def test_a_verb_refuses_a_long_path_in_one_line(lake, cli, verb):
    said = cli(*verb) if "--lake" in verb else cli("--lake", lake, *verb)
    assert said.code in {1, 2}
    assert "too long" in said.err or "does not exist" in said.err
    assert "OSError" not in said.err
