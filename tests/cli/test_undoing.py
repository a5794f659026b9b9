"""``revert``, ``cherry-pick``, ``reflog`` and ``undo``."""

from unittest.mock import patch

import pytest

from graveler.cli.arguments import Address


@pytest.fixture
def bad(history):
    """A commit on main that the tests undo."""
    history.branch("main").put("bad.csv", b"x")
    history.branch("main").commit("bad")
    return history


def test_a_commit_is_taken_back(cli, bad):
    said = cli("revert", "main", "--json").json
    assert said["id"] == bad.commit("main").id
    assert said["metadata"] == {"graveler.revert": bad.commit("main~1").id}
    assert not bad.ref("main").exists("bad.csv")
    assert cli("revert", "main~1", "--allow-empty", "-m", "again", "--meta", "a=b").code == 0
    assert bad.commit("main").message == "again"
    assert bad.commit("main").metadata["a"] == "b"


def test_a_commit_is_done_again_on_another_branch(cli, bad):
    said = cli("cherry-pick", "main", "dev")
    assert said.out == f"picked main: dev is at {bad.commit('dev').id[:12]}\n"
    assert bad.commit("dev").message == "bad"
    shown = cli("cherry-pick", "dev~1", "-m", "theirs", "--json").json  # onto the default branch
    assert (shown["id"], shown["message"]) == (bad.commit("main").id, "theirs")


def test_a_pick_has_a_strategy(cli, conflict):
    assert cli("cherry-pick", "dev", "main").code == 3
    assert cli("cherry-pick", "dev", "main", "--strategy", "source-wins").code == 0
    assert conflict.ref("main").get("readme.txt") == b"1"


def test_a_merge_is_not_guessed_about(cli, bad):
    bad.create_branch("other")
    bad.merge("dev", into="main")
    assert "which parent" in cli("revert", "main", "other").err
    assert cli("revert", "main", "other", "--parent", "1", "--allow-empty").code == 0


def test_the_reflog_shows_where_a_branch_was(cli, bad, monkeypatch):
    monkeypatch.setenv("GRAVELER_COMMITTER", "ann\x1b[2K")
    bad.branch("main").reset(to="main~1")
    first, second, *_ = lines = cli("reflog", "main").out.splitlines()
    there, back = bad.commit("main~0").id[:12], bad.commit("main@{1}").id[:12]
    assert first.startswith(there)
    assert first.endswith(f"  main@{{0}}: reset from {back}, by ann\\x1b[2K")
    assert second.startswith(back)
    assert lines[-1].split("main@{3}: ")[1].startswith("create from (nothing)")
    shapes = cli("reflog", "main", "--json").lines
    assert [shape["action"] for shape in shapes] == ["reset", "commit", "commit", "create"]
    assert shapes[0]["after"] == shapes[1]["before"] == bad.commit("main").id
    assert shapes[0]["at"].endswith("+00:00")
    assert len(cli("reflog", "main", "-n", "2").out.splitlines()) == 2


def test_the_reflog_of_all_has_tags_and_deleted_branches(cli, runs):
    runs.delete_branch("dev")
    lines = cli("reflog").out.splitlines()
    assert lines[0].startswith("(nothing)     ")
    assert "dev@{0}: delete from" in lines[0]
    assert any("tag v1: create" in line for line in lines)
    assert not any("run-hour" in line for line in lines)
    assert any("run-hour" in line for line in cli("reflog", "--all").out.splitlines())


def test_an_undo_puts_a_branch_back(cli, bad):
    before, head = bad.commit("main~1").id, bad.commit("main").id
    assert cli("undo", "main").out.splitlines() == [
        f"main is at {before[:12]} again",
        "main@{1} keeps what was undone: `graveler diff main main@{1}` lists it, "
        "`graveler undo main` brings it back, `graveler undo main --to 3` goes further back",
    ]
    assert not bad.ref("main").exists("bad.csv")
    assert cli("cat", "main@{1}:bad.csv").raw == b"x"
    assert cli("undo", "main", "--json").json == {
        "name": "main",
        "commit": head,
        "undone": before,
        "staged": 0,
    }
    assert cli("undo", "main", "--to", "2").code == 0
    assert bad.commit("main").id == head


def test_an_undo_says_how_to_go_further_back(cli, bad):
    commits = [bad.commit(ref).id for ref in ("main", "main~1", "main~2")]
    for further in (3, 4, 5):  # back, forth, back
        first, said = cli("undo", "main").out.splitlines()
        assert first.endswith("again: an undo was undone") == (further > 3)
        assert said.endswith(f"`graveler undo main --to {further}` goes further back")
        assert bad.commit(f"main@{{{further}}}").id == commits[2]
    assert cli("undo", "main", "--to", "5").out.splitlines()[1].endswith("brings it back")
    assert bad.commit("main").id == commits[2]


def test_a_place_in_the_log_is_a_ref(cli, bad):
    assert cli("show", "main@{1}", "--json").json["id"] == bad.commit("main~1").id
    time = next(bad.moves("main")).at.isoformat()
    assert cli("get", f"main@{{{time}}}:bad.csv").raw == b"x"


@pytest.mark.parametrize(
    ("text", "ref", "path"),
    [
        ("main:a:b", "main", "a:b"),
        (":a", "", "a"),
        ("main", "main", ""),
        ("", "", ""),
        ("main:", "main", ""),
        ("main@{2013-01-01T05:00Z}:a:b", "main@{2013-01-01T05:00Z}", "a:b"),
        ("main@{1}~2:a", "main@{1}~2", "a"),
        ("main@{2013-01-01T05:00Z}", "main@{2013-01-01T05:00Z}", ""),
        ("main:a@{x:y}\nb", "main", "a@{x:y}\nb"),
        ("main@{1:a", "main@{1", "a"),
    ],
)
def test_an_address_is_cut_behind_its_ref(text, ref, path):
    assert Address.parse(text) == (ref, path)


def test_what_others_staged_is_dropped_after_a_question(cli, history, monkeypatch):
    dev = history.branch("dev")
    monkeypatch.setenv("GRAVELER_COMMITTER", "bob")
    dev.put("b/1", b"1")
    monkeypatch.setenv("GRAVELER_COMMITTER", "ann")
    dev.put("a/1", b"1")
    said = cli("branch", "reset", "dev:**", "--json")
    assert (said.code, said.error["code"]) == (1, "staged-by-others")
    assert "2 staged files, also of bob (1): give" in cli("branch", "reset", "dev").err
    with patch("typer.testing._NamedTextIOWrapper.isatty", lambda _: True):
        assert cli("branch", "reset", "dev", stdin="n\n").code == 1
        said = cli("branch", "reset", "dev:b/", stdin="y\n")
        assert "also of bob (1); drop them? [y/N]" in said.err
    assert said.out.endswith("dropped 1 staged file on dev; `graveler undo dev` undoes it\n")
    assert "reset from" in cli("reflog", "dev", "-n", "1").out
    assert ", dropped 1 staged file, by ann" in cli("reflog", "dev", "-n", "1").out
    said = cli("undo", "dev", "--json").json
    assert (said["undone"], said["staged"]) == (None, 1)  # no commit was undone
    assert cli("commit", "dev", "--mine", "-m", "mine", "--json").json["others"] == {}
    assert [one["author"] for one in cli("diff", "dev", "--json").lines] == ["bob"]
    assert cli("branch", "reset", ":a", "dev:b", "dev").code == 2
    assert cli("branch", "reset", "dev:b/*", ":x/", "--yes", "--json").json["discarded"] == 1


def test_a_commit_says_whose_files_it_takes(cli, history, monkeypatch):
    dev = history.branch("dev")
    for who, path in [("bob", "b/1"), ("bob", "b/2"), ("cy", "c/1"), ("ann", "a/1")]:
        monkeypatch.setenv("GRAVELER_COMMITTER", who)
        dev.put(path, b"1")
    said = cli("commit", "dev:b/2", "-m", "one", "--json").json
    assert said["others"] == {"bob": 1}
    assert cli("commit", "dev", "-m", "all").out.splitlines()[1:] == [
        "among them 2 files of others: bob (1), cy (1); `--mine` commits only yours"
    ]
    dev.put("a/2", b"1")
    assert len(cli("commit", "dev", "-m", "mine").out.splitlines()) == 1
