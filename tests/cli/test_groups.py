"""The groups init, repo, branch, tag and run."""

import pytest

import graveler


def test_init_takes_a_repository_and_data_that_exists(cli, tmp_path):
    (tmp_path / "raw/a").mkdir(parents=True)
    (tmp_path / "raw/a/x.csv").write_bytes(b"1")
    said = cli("init", tmp_path / "l", "-R", "flights", "--import", tmp_path / "raw")
    assert said.out.splitlines()[1:] == [
        "made repository flights",
        "imported 1 file (1 B) to main",
    ]
    assert cli("-C", tmp_path / "l", "get", "main:a/x.csv").out == "1"
    said = cli("init", tmp_path / "m", "--import", tmp_path / "raw")
    assert (said.code, "-R flights" in said.err, (tmp_path / "m").exists()) == (2, True, False)


def test_init_asks_the_object_store_at_its_endpoint(
    cli, tmp_path, monkeypatch, s3_bucket, s3_options
):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_options["access_key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_options["secret_key"])
    given = ["--storage", f"s3://{s3_bucket}/lake", "--region", "eu-central-1"]
    place = tmp_path / "l"
    assert cli("init", place, *given, "--endpoint", s3_options["endpoint_url"]).code == 0
    assert f'endpoint_url = "{s3_options["endpoint_url"]}"' in (place / "graveler.toml").read_text()
    given[1] = "s3://no-such-bucket/lake"
    said = cli("init", tmp_path / "m", *given, "--endpoint", s3_options["endpoint_url"])
    assert (said.code, "no-such-bucket" in said.err) == (1, True)
    assert not (tmp_path / "m/graveler.toml").exists()


def test_a_lake_is_made_and_a_second_time_refused(cli, tmp_path):
    said = cli("init", tmp_path / "new", "--json")
    assert said.json == {
        "lake": str(tmp_path / "new"),
        "kv": "sqlite://kv.sqlite3",
        "storage": "file://objects",
    }
    said = cli("init", tmp_path / "new")
    assert said.code == 1
    assert "is a lake already" in said.err


def test_a_lake_is_made_with_other_stores(cli, tmp_path):
    storage = f"file://{tmp_path}/elsewhere"
    assert cli("init", tmp_path / "l", "--kv", "rocksdb://kv", "--storage", storage).code == 0
    assert cli("-C", tmp_path / "l", "repo", "create", "abc", "--json").json == {
        "name": "abc",
        "storage": f"{storage}/abc",
        "default_branch": "main",
    }
    assert (tmp_path / "l" / "kv").is_dir()


def test_repositories_are_made_listed_and_shown(cli, runs):
    assert cli("repo", "create", "weather", "--storage", "mem://weather").code == 0
    assert cli("repo", "create", "weather", "--exist-ok").code == 0
    assert cli("repo", "list").out == "flights\nweather\n"
    shown = cli("repo", "show", "flights", "--json").json
    assert shown["branches"] == ["dev", "main"]
    assert shown["hidden_branches"] == 1
    assert shown["tags"] == ["v1"]
    assert shown["runs"] == {"PARKED": 1, "PUBLISHED": 1}
    text = cli("repo", "show", "-R", "flights").out
    assert "dev, main and 1 of runs" in text
    assert "1 PARKED, 1 PUBLISHED" in text


def test_branches_are_made_listed_and_deleted(cli, history):
    assert cli("branch", "create", "old", "main~1").code == 0
    assert history.commit("old") == history.commit("main~1")
    assert cli("branch", "create", "old", "--exist-ok").code == 0
    lines = cli("branch", "list").out.splitlines()
    assert [line.split()[1] for line in lines] == ["dev", "main", "old"]
    page = cli("branch", "list", "--after", "dev", "-n", "1").out.splitlines()
    assert page == lines[1:2]
    assert cli("branch", "delete", "old", "--json").json == {"deleted": "old"}
    assert cli("branch", "create", "quiet", "--hidden").code == 0
    assert cli("branch", "list").out.splitlines() == [lines[0], lines[1]]
    assert "quiet" in cli("branch", "list", "-a").out


def test_branches_of_runs_are_listed_only_when_asked_for(cli, runs):
    assert len(cli("branch", "list", "--json").lines) == 2
    hidden = [line for line in cli("branch", "list", "--all", "--json").lines if line["hidden"]]
    assert [(line["name"][:11], line["attempt"]) for line in hidden] == [("run-hour-06", 1)]


def test_a_branch_is_protected_against_what_is_said(cli, history):
    said = cli("branch", "protect", "ma*", "--json").json
    assert said == {
        "protected": ["ma*"],
        "against": {"ma*": ["write", "commit", "reset", "delete"]},
    }
    assert "(protected)" in cli("branch", "list").out
    assert cli("branch", "unprotect", "ma*").out == "protected: (none)\n"
    said = cli("branch", "protect", "dev", "--against", "merge", "--against", "delete")
    assert said.out == "protected: dev against merge, delete\n"
    dev, main = cli("branch", "list", "--json").lines
    assert (dev["protected"], dev["against"]) == (True, ["merge", "delete"])
    assert (main["protected"], main["against"]) == (False, [])


def test_a_hard_reset_puts_the_branch_elsewhere(cli, history):
    history.branch("dev").put("x", b"1")
    said = cli("branch", "reset", "dev", "--hard", "dev~1", "--json").json
    assert said == {"name": "dev", "discarded": 1, "commit": history.commit("main").id}
    at = history.commit("main~1").id[:12]
    said = cli("branch", "reset", "dev", "--hard", "main~1")
    assert said.out == f"nothing is staged on dev, now at {at}\n"
    assert cli("branch", "reset", "dev").out == "nothing is staged on dev\n"
    assert cli("branch", "reset", "dev:no/").out == "nothing is staged on dev at no/\n"
    history.branch("dev").put("x", b"1")
    assert cli("branch", "reset", "dev").out == (
        "dropped 1 staged file on dev; `graveler undo dev` undoes it\n"
    )


def test_tags_are_made_listed_and_deleted(cli, history):
    assert cli("tag", "create", "v2", "dev").code == 0
    assert cli("tag", "list", "--json").lines == [
        {"name": name, "commit": history.commit(ref).id}
        for name, ref in (("v1", "main"), ("v2", "dev"))
    ]
    assert [line.split()[1] for line in cli("tag", "list").out.splitlines()] == ["v1", "v2"]
    assert cli("tag", "delete", "v1").code == 0
    named = history.commit("main").id
    assert cli("tag", "undelete", "v1", "--json").json == {"name": "v1", "commit": named}


def test_runs_are_listed_with_state_and_reason(cli, runs):
    lines = cli("run", "list").out.splitlines()
    assert [line.split()[0] for line in lines] == ["PARKED", "PUBLISHED"]
    assert f"hour 06  on {runs.runs.get('hour 06').branch}: " in lines[0]
    assert "0 rows, 9 landed" in lines[0]
    assert "  hour 05  main has " in lines[1]
    assert cli("run", "list", "--limit", "1").out.splitlines() == lines[:1]
    assert cli("run", "list", "-n", "1", "--after", "hour 06").out.splitlines() == lines[1:]
    (parked,) = cli("run", "list", "--state", "parked", "--json").lines
    assert (parked["key"], parked["state"], parked["attempt"]) == ("hour 06", "PARKED", 1)
    assert "fence" not in parked


def test_a_run_is_shown_with_what_its_gates_said(cli, runs):
    shown = cli("run", "show", "hour 06").out
    for line in ("gate       rows: error: 0 rows, 9 landed", "hour       06", "refused", "by rows"):
        assert line in shown
    assert shown.count("0 rows, 9 landed") == 1
    (refusal,) = cli("run", "show", "hour 06", "--json").json["refusals"]
    assert refusal["gates"] == ["rows"]
    run = cli("run", "show", "hour 05", "--json").json
    assert (run["state"], run["into"]) == ("PUBLISHED", "main")
    assert run["commit"] == runs.commit("main").id
    assert [verdict["passed"] for verdict in run["verdicts"]] == [True]


def test_a_run_that_is_given_up_loses_its_branch(cli, runs):
    said = cli("run", "abandon", "hour 06", "--reason", "no more", "--json")
    assert (said.json["state"], said.json["reason"]) == ("REAPED", "no more")
    assert len(list(runs.branches(hidden=True))) == 2


@pytest.mark.parametrize(
    "how", [["-C", "{}"], ["--lake", "{}"], ["--lake", "{}/graveler.toml"], None, "env"]
)
def test_the_lake_comes_from_option_environment_or_folder(cli, folder, tmp_path, monkeypatch, how):
    (folder / "deep" / "down").mkdir(parents=True)
    monkeypatch.chdir(tmp_path if how else folder / "deep" / "down")
    if how == "env":
        monkeypatch.setenv("GRAVELER_LAKE", str(folder))
    options = [part.format(folder) for part in how] if isinstance(how, list) else []
    assert cli("repo", "list", *options).out == "flights\n"
    assert cli(*options, "repo", "list").out == "flights\n"


def test_an_option_behind_the_verb_wins_over_the_same_before_it(cli, folder, tmp_path):
    said = cli("-C", tmp_path / "nowhere", "--json", "repo", "list", "-C", folder)
    assert [line["name"] for line in said.lines] == ["flights"]
    assert cli("-C", folder, "repo", "list", "-C", tmp_path / "nowhere").code == 1


def test_a_missing_lake_is_an_error_with_a_remedy_and_not_made(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GRAVELER_LAKE", raising=False)
    said = cli("log")
    assert said.code == 1
    assert "graveler init" in said.err
    assert cli("log", "-C", tmp_path / "nowhere").code == 1
    assert list(tmp_path.iterdir()) == []


def test_of_several_repositories_one_has_to_be_named(cli, folder, monkeypatch):
    with graveler.open(folder, create=True) as lake:
        lake.create_repository("weather")
    said = cli("log")
    assert said.code == 2
    assert "flights, weather" in said.err
    assert cli("log", "--repo", "weather").code == 0
    assert cli("-R", "weather", "log").code == 0
    monkeypatch.setenv("GRAVELER_REPO", "weather")
    assert cli("log").code == 0
    assert cli("log", "-R", "nothing").code == 1


def test_a_lake_without_a_repository_says_how_to_make_one(cli, tmp_path):
    cli("init", tmp_path / "l")
    said = cli("log", "-C", tmp_path / "l")
    assert said.code == 1
    assert "graveler repo create" in said.err


@pytest.mark.parametrize("given", [["-R", "r"], ["-R", "flights", "--import", "nowhere"]])
def test_init_with_wrong_arguments_makes_no_lake(cli, tmp_path, given):
    assert cli("init", tmp_path / "l", *given).code != 0
    assert not (tmp_path / "l").exists()
