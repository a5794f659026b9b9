"""``graveler gc`` from rules to sweep: its output for people and for programs."""

import pytest


@pytest.fixture
def garbage(history):
    """A deleted branch, and a commit of main that a rule does not keep."""
    history.branch("main").put("readme.txt", b"hello again")
    history.branch("main").commit("second")
    history.tags.delete("v1")
    lost = history.commit("dev").id
    history.delete_branch("dev")
    return lost


def test_a_dry_run_says_what_would_go_and_leaves_it(cli, garbage, repo):
    objects = {info.key for info in repo.stores.objects.list("data/")}
    said = cli("gc", "run", "--dry-run", "--grace", "0")
    assert said.out.splitlines()[0] == "dry run: nothing is condemned, nothing deleted"
    found = cli("gc", "run", "--dry-run", "--grace", "0", "--json").json
    assert (found["id"], found["state"]) == (None, "dry-run")
    assert found["condemned"]["data"] == {"count": 1, "bytes": 2}
    assert found["condemned"]["commits"] == {"count": 1}
    assert found["bytes_condemned"] > 2
    assert cli("gc", "list").out == ""
    assert {info.key for info in repo.stores.objects.list("data/")} == objects


def test_from_mark_to_sweep(cli, garbage, repo):
    cli("gc", "keep", "main", "--count", "1")
    cli("gc", "mark", "--grace", "0", "--window", "2h")
    (mark,) = cli("gc", "list", "--json").lines
    assert (mark["state"], mark["window"], mark["grace"]) == ("condemned", "2h", "0s")
    assert mark["condemned"]["commits"] == {"count": 2}
    too_early = cli("gc", "sweep", mark["id"])
    assert (too_early.code, f"mark {mark['id']} may be swept from " in too_early.err) == (1, True)
    assert "would go" in cli("gc", "sweep", mark["id"], "--dry-run").out
    assert cli("gc", "undelete", mark["id"]).code == 0
    assert cli("gc", "list").out.splitlines()[0].split()[1] == "undeleted"
    (new,) = cli("gc", "run", "--grace", "0", "--window", "0", "--json").lines
    assert (new["state"], new["freed"]["commits"]) == ("swept", {"count": 2})
    assert new["bytes_freed"] == new["bytes_condemned"] > 0
    assert cli("gc", "show", new["id"], "--json").json == new
    assert "freed" in cli("gc", "show", new["id"]).out


def test_an_expired_commit_is_in_the_log_and_reported_when_read(cli, garbage):
    cli("gc", "keep", "main", "--count", "1")
    cli("gc", "run", "--grace", "0", "--window", "0")
    lines = cli("log").out.splitlines()
    assert [line.endswith("expired") for line in lines] == [False, True, False]
    assert [line["expired"] for line in cli("log", "--json").lines] == [False, True, False]
    gone = cli("log", "--json").lines[1]["id"]
    for ref in (gone, "main"):  # an expired commit, and a kept one for comparison
        said = cli("show", ref)
        assert said.code == 0
        assert f"ranges     commit {gone[:12]} expired: garbage collection" in said.out
        shown = cli("show", ref, "--json").json
        assert (shown["ranges"], shown["changes"]) == (None, None)
    sound = cli("fsck")
    assert sound.code == 0
    assert sound.out.endswith(", 1 expired\n")


def test_what_is_not_ours_is_named_and_left(cli, garbage, repo):
    repo.stores.objects.put("notes/todo.txt", b"mine")
    repo.stores.objects.put("_graveler/readme", b"mine")
    said = cli("gc", "run", "--grace", "0", "--window", "0")
    assert "unknown, left alone: _graveler/readme, notes/todo.txt" in said.out
    assert repo.stores.objects.get("notes/todo.txt") == b"mine"
    assert repo.stores.objects.get("_graveler/readme") == b"mine"


def test_rules_are_set_shown_and_taken_away(cli, folder):
    assert cli("gc", "rules").out == "all branches  everything\n"
    cli("gc", "keep", "--days", "30")
    said = cli("gc", "keep", "run-*", "--days", "7", "--count", "1")
    assert said.out.splitlines() == ["run-*       7 days or 1 commit", "all others  30 days"]
    assert cli("gc", "rules", "--json").json == {
        "default": {"days": 30.0, "count": None},
        "patterns": {"run-*": {"days": 7.0, "count": 1}},
    }
    assert cli("gc", "forget", "run-*").out == "all branches  30 days\n"
    assert cli("gc", "forget").out == "all branches  everything\n"
    assert cli("gc", "keep", "--everything").code == 0
