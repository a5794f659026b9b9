from graveler.errors import ErrorCode


def test_the_log_lists_commits_with_their_refs_the_newest_first(cli, history):
    lines = cli("log", "dev").out.splitlines()
    assert [line.split("  ")[2:] for line in lines] == [
        ["more", "(dev)"],
        ["first", "(main, tag v1)"],
        ["Repository created"],
    ]
    commits = cli("log", "dev", "--json").lines
    assert [commit["id"] for commit in commits] == [made.id for made in history.log("dev")]
    assert commits[0]["parents"] == [commits[1]["id"]]
    assert commits[1]["refs"] == ["main", "tag v1"]
    assert commits[1]["metadata"] == {"hour": "05"}
    assert commits[1]["committer"] == "ann"


def test_the_log_takes_a_limit_and_first_parents(cli, history):
    assert len(cli("log", "-n", "1").out.splitlines()) == 1
    assert cli("log", "-n", "0").out == ""
    history.merge("dev", into="main")
    history.branch("dev").put("c", b"")
    history.branch("dev").commit("later")
    history.merge("dev", into="main", message="second merge")
    messages = [line["message"] for line in cli("log", "--first-parent", "--json").lines]
    assert messages == ["second merge", "merge dev into main", "first", "Repository created"]
    assert len(cli("log").out.splitlines()) == 6


def test_a_commit_says_where_the_branch_is(cli, history):
    history.branch("dev").put("x", b"1")
    said = cli(
        "commit", "dev", "-m", "line\nsecond", "--meta", "k=v", "--committer", "bo", "--json"
    )
    head = history.commit("dev")
    assert (said.json["id"], said.json["by_other"]) == (head.id, False)
    assert (head.message, head.metadata, head.committer) == ("line\nsecond", {"k": "v"}, "bo")
    assert cli("commit", "dev", "--allow-empty", "-m", "empty").out.endswith(": empty\n")


def test_show_gives_the_changes_and_the_ranges(cli, history):
    shown = cli("show", "dev").out
    assert "ranges     1 written, 0 reused" in shown
    assert "+ input/06:00/b.csv  2 B" in shown
    commit = cli("show", "main", "--json").json
    assert commit["ranges"] == {"written": 1, "reused": 0}
    assert [change["path"] for change in commit["changes"]] == ["input/05:00/a.csv", "readme.txt"]
    root = cli("show", "main~1", "--json").json
    assert (root["parents"], root["changes"], root["ranges"]) == (
        [],
        [],
        {"written": 0, "reused": 0},
    )


def test_a_diff_of_two_refs_lists_what_differs(cli, history):
    dev = history.branch("dev")
    dev.put("readme.txt", b"goodbye")
    dev.delete("input/05:00/a.csv")
    dev.commit("changes")
    assert cli("diff", "main", "dev").out.splitlines() == [
        "- input/05:00/a.csv  4 B",
        "+ input/06:00/b.csv  2 B",
        "~ readme.txt  5 B → 7 B",
    ]
    changes = cli("diff", "main", "dev", "input/", "--json").lines
    assert [(change["kind"], change["path"]) for change in changes] == [
        ("removed", "input/05:00/a.csv"),
        ("added", "input/06:00/b.csv"),
    ]
    assert changes[0]["after"] is None
    assert changes[0]["before"]["size"] == 4


def test_a_merge_moves_the_branch_and_a_second_one_does_nothing(cli, history):
    said = cli("merge", "dev", "main", "-m", "all of dev", "--meta", "by=me", "--json")
    head = history.commit("main")
    assert said.json["commit"]["id"] == head.id
    assert (said.json["already"], head.message, head.metadata) == (
        False,
        "all of dev",
        {"by": "me"},
    )
    again = cli("merge", "dev", "main")
    assert (again.code, again.out) == (
        0,
        f"main already has all commits of dev: it is at {head.id[:12]}\n",
    )


def test_a_conflict_names_path_entries_commits_and_exits_with_3(cli, conflict):
    before = conflict.commit("main")
    said = cli("merge", "dev", "main", "--json")
    assert (said.code, said.out, said.error["code"]) == (3, "", ErrorCode.MERGE_CONFLICT)
    (found,) = said.error["conflicts"]
    assert found["path"] == "readme.txt"
    assert said.error["conflict_count"] == 1
    checksums = {found[side]["checksum"] for side in ("base", "source", "dest")}
    assert len(checksums) == 3
    assert found["bases_disagree"] is False
    changes = [found["source_change"], found["dest_change"]]
    heads = [conflict.commit(branch).id for branch in ("dev", "main")]
    assert changes == [{"commit": head, "run": ""} for head in heads]
    human = cli("merge", "dev", "main")
    assert human.code == 3
    for head in heads:
        assert head[:12] in human.err
    assert conflict.commit("main") == before


def test_a_dry_run_shows_what_a_merge_does_and_exits_alike(cli, conflict):
    before = conflict.commit("main")
    said = cli("merge", "dev", "main", "--dry-run", "--json")
    assert said.code == 3
    (found,) = said.lines
    assert (found["conflict_count"], found["already"]) == (1, False)
    assert [one["path"] for one in found["conflicts"]] == ["readme.txt"]
    human = cli("merge", "dev", "main", "--dry-run")
    assert human.code == 3
    assert "1 in conflict; nothing was merged" in human.out
    assert "readme.txt" in human.out
    settled = cli("merge", "dev", "main", "--dry-run", "--strategy", "source-wins", "--json")
    assert settled.code == 0
    assert [settled.lines[0][kind] for kind in ("added", "changed", "removed")] == [1, 1, 0]
    assert conflict.commit("main") == before


def test_a_diff_of_branches_includes_what_is_staged(cli, history, monkeypatch):
    monkeypatch.setenv("GRAVELER_COMMITTER", "ann")
    main = history.branch("main")
    main.put("input/new", b"1")
    main.put("readme.txt", b"hello")
    main.delete("input/05:00/a.csv")
    signs = {"input/new": "added", "input/05:00/a.csv": "removed"}
    found = cli("diff", "main@", "main", "--json").lines
    assert {one["path"]: one["kind"] for one in found} == signs
    assert [one["path"] for one in found] == ["input/05:00/a.csv", "input/new"]
    back = cli("diff", "main", "main@", "input/n", "--json").lines
    assert {one["path"]: one["kind"] for one in back} == {"input/new": "removed"}
    lines = [line.split(" at ") for line in cli("diff", "main").out.splitlines()]
    assert [line[0] for line in lines] == [
        "- input/05:00/a.csv  4 B  by ann",
        "+ input/new  1 B  by ann",
    ]
    assert {one["author"] for one in cli("diff", "main", "--json").lines} == {"ann"}


def test_strategies_by_pattern_are_tried_in_their_order(cli, conflict):
    rules = ("--strategy", "*.txt=source-wins", "--strategy", "dest-wins")
    assert cli("merge", "dev", "main", "--strategy", "*.txt=conflict", *rules).code == 3
    assert cli("merge", "dev", "main", *rules).code == 0
    assert conflict.ref("main").get("readme.txt") == b"1"


def test_the_log_of_a_path_has_the_commits_that_changed_it(cli, history):
    history.merge("dev", into="main")
    history.branch("main").put("readme.txt", b"new")
    history.branch("main").commit("readme")
    assert [line["message"] for line in cli("log", "main", "readme.txt", "--json").lines] == [
        *("readme", "first")
    ]
    for below in (("input/06:00/",), ("--prefix", "input/06"), ("--", "input/06:00/b.csv")):
        assert [line["message"] for line in cli("log", "main", "--json", *below).lines] == ["more"]
    by_first = cli("log", "main", "input/", "--first-parent", "-n", "1", "--json").json
    assert by_first["message"] == "merge dev into main"


def test_the_log_is_chosen_by_metadata_run_author_and_time(cli, history):
    made = history.branch("main")
    made.put("x", b"x")
    commit = made.commit("chosen", metadata={"source": "bts"}, committer="ann")

    def shown(*options):
        return [line["message"] for line in cli("log", *options, "--json").lines]

    assert shown("--meta", "source=bts", "--author", "ann") == ["chosen"]
    assert shown("--since", commit.created.isoformat()) == ["chosen"]
    assert shown("--run", "none") == []
    assert "chosen" not in shown("--until", commit.created.isoformat())


def test_a_commit_of_some_paths_leaves_the_rest_staged(cli, history):
    dev = history.branch("dev")
    for path in ("t/1", "t/2", "x.json", "y"):
        dev.put(path, b"new")
    assert cli("commit", "dev:t/", ":*.json", "-m", "some").code == 0
    assert [change.path for change in dev.uncommitted()] == ["y"]


def test_show_of_a_merge_is_against_what_the_branch_was(cli, history):
    history.branch("main").put("other", b"")
    history.branch("main").commit("beside")
    history.merge("dev", into="main")
    commit = cli("show", "main", "--json").json
    assert [change["path"] for change in commit["changes"]] == ["input/06:00/b.csv"]
    assert len(commit["parents"]) == 2


def test_a_conflict_of_whole_tables_says_so(cli, history):
    for branch in ("dev", "main"):
        history.branch(branch).put("t/_delta_log/0.json", branch.encode())
        history.branch(branch).commit("a version")
    said = cli("merge", "dev", "main")
    assert said.code == 3
    assert "t/_delta_log  a table that both sides changed: take one side of it" in said.err
