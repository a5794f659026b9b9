"""Settings that another user can change, handles of other lakes, and text with control characters."""

import json
import os
import subprocess
import sys

import pytest

import graveler
from graveler.cli.failure import report
from graveler.errors import GateFailedError, InvalidInputError

HOSTILE = "a\x1b]0;title\x07\x1b[2Kb"
SHOWN = r"a\x1b]0;title\x07\x1b[2Kb"


@pytest.fixture
def below(folder, monkeypatch):
    """A folder below the lake, in which the command line runs."""
    (folder / "work").mkdir()
    monkeypatch.chdir(folder / "work")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder.parent / "config"))
    return folder


def owned_by(file, uid, monkeypatch):
    """Let another user own a file, also where the tests run without root."""
    stat = type(file).stat

    def changed(path, **options):
        status = stat(path, **options)
        if path != file:
            return status
        return os.stat_result((*status[:4], uid, *status[5:10]))

    monkeypatch.setattr(type(file), "stat", changed)
    monkeypatch.setattr(type(file), "lstat", lambda path: changed(path, follow_symlinks=False))


def test_found_settings_of_another_user_are_refused(cli, below, monkeypatch):
    assert cli("branch", "list").code == 0
    owned_by(below / "graveler.toml", 4711, monkeypatch)
    refused = cli("branch", "list")
    assert refused.code == 1
    assert "user id 4711 owns it" in refused.err
    assert f"--lake {below}" in refused.err
    assert cli("branch", "list", "--lake", str(below)).code == 0
    monkeypatch.setenv("GRAVELER_LAKE", str(below))
    assert cli("branch", "list").code == 0


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_found_settings_that_others_may_write_are_refused(cli, below, mode):
    (below / "graveler.toml").chmod(mode)
    assert "other users may write it" in cli("branch", "list").err


def test_found_settings_in_a_folder_of_another_user_are_refused(cli, below, monkeypatch):
    owned_by(below, 4711, monkeypatch)
    assert "user id 4711 owns it or its folder" in cli("branch", "list").err


@pytest.mark.parametrize(("mode", "code"), [(0o707, 1), (0o1707, 0), (0o2770, 0)])
def test_a_folder_in_which_all_may_rename_is_refused(cli, below, mode, code):
    below.chmod(mode)
    assert cli("branch", "list").code == code


def test_the_users_own_configuration_trusts_a_lake(cli, below, monkeypatch):
    (below / "graveler.toml").chmod(0o622)
    own = below.parent / "config" / "graveler" / "config.toml"
    own.parent.mkdir(parents=True)
    own.write_text(f"trusted = [{json.dumps(str(below))}]\n")
    own.chmod(0o644)
    assert cli("branch", "list").code == 0
    own.chmod(0o666)
    assert "other users may write it" in cli("branch", "list").err


@pytest.fixture
def handle(tmp_path):
    """The handle of a run of another lake."""
    with graveler.open(tmp_path / "other", create=True) as lake:
        return lake.create_repository("flights").runs.open("hour").handle.to_json()


def test_a_handle_of_another_lake_is_refused(cli, folder, handle, monkeypatch):
    monkeypatch.setenv("GRAVELER_RUN", handle)
    monkeypatch.setenv("GRAVELER_STEP", "s")
    for options in (["--lake", str(folder)], []):
        refused = cli("branch", "list", *options)
        assert refused.code == 1 if options else refused.code == 0
        assert ("is of the lake" in refused.err) == bool(options)
    monkeypatch.setenv("GRAVELER_LAKE", str(folder))
    assert "is of the lake" in cli("branch", "list").err
    with pytest.raises(InvalidInputError, match="is of the lake"):
        with graveler.attach():
            pass


def test_a_handle_with_another_spelling_is_taken(cli, tmp_path, handle, monkeypatch):
    (tmp_path / "same").symlink_to(tmp_path / "other")
    monkeypatch.setenv("GRAVELER_RUN", handle)
    monkeypatch.setenv("GRAVELER_LAKE", str(tmp_path / "same"))
    assert cli("branch", "list").code == 0


def hostile_gate(candidate):
    return HOSTILE


def test_no_control_character_is_written(cli, repo, monkeypatch):
    main = repo.branch("main")
    main.put("a", b"1", metadata={HOSTILE: HOSTILE}, content_type="text/csv")
    main.put("t.csv", f"{HOSTILE}\n{HOSTILE}\n".encode())
    main.commit("m", metadata={HOSTILE: HOSTILE}, committer=HOSTILE)
    gate = graveler.Gate(HOSTILE, hostile_gate)
    with pytest.raises(GateFailedError), repo.run(HOSTILE, gates=[gate]) as run:
        run.put("b", b"2")
    colored = "graveler.cli.output._wants_color"
    said = ""
    for colors in (False, True):
        monkeypatch.setattr(colored, lambda _, colors=colors: colors)
        for verb in (
            ["stat", "main:a"], ["show", "main"], ["log"], ["gates", "list"],
            ["gates", "show", HOSTILE], ["run", "list"], ["run", "show", HOSTILE],
            ["run", "publish", HOSTILE], ["why", "main:a"], ["branch", "show", HOSTILE],
            ["status"], ["log", "--graph", "--oneline"], ["head", "main:t.csv"],
            ["run", "exec", "--run", HOSTILE, "--step", "s", "--", HOSTILE],
        ):  # fmt: skip
            shown = cli(*verb)
            text = shown.out + shown.err
            assert "\x1b]" not in text, verb
            assert "\x1b[2K" not in text, verb
            assert "\x07" not in text, verb
            said += text
    assert SHOWN in said
    assert "\x1b[" in said


def test_no_control_character_is_written_by_a_warning(folder, repo):
    run = repo.runs.open(HOSTILE)
    run.put("b", b"2")
    run.commit("first")
    run.close("failed")
    repo.branch("main").put("a", b"1")
    repo.branch("main").commit("main moves")
    program = [sys.executable, "-m", "graveler", "run", "open", HOSTILE]
    err = subprocess.run(program, cwd=folder, capture_output=True, text=True, check=True).stderr
    assert f"run {SHOWN}: attempt 2 resumes" in err
    assert err.count("\n") == 1
    assert "\x1b" not in err


def test_no_control_character_is_written_by_a_trace(capsys):
    report(InvalidInputError(HOSTILE), as_json=False, debug=True)
    err = capsys.readouterr().err
    assert f"InvalidInputError: {SHOWN}\n" in err
    assert "\x1b" not in err
