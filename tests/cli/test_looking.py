"""``status``, ``tree``, ``du``, the forms of ``diff`` and ``show``, totals, and limits on a terminal."""

import re
from datetime import timedelta

import pytest

from graveler import checks
from graveler.cli.output import age_text
from graveler.model import Entry
from graveler.testing.world import link_unseen

TREE = {"a.txt": 1, "in/05/x": 1024, "in/05/y": 1024, "in/06/deep/z": 3, "in.csv": 5}


@pytest.fixture
def main(repo):
    main = repo.branch("main")
    main.put_many((path, b"1" * size) for path, size in TREE.items())
    main.commit("files")
    return main


def test_status_shows_what_is_staged_and_what_may_come_next(cli, history, monkeypatch):
    monkeypatch.setenv("GRAVELER_COMMITTER", "ann")
    clean = cli("status", "--json").json
    assert (clean["branch"], clean["ahead"], clean["behind"], clean["next"]) == ("main", 0, 0, [])
    assert cli("status").out.splitlines()[2] == "staged  nothing"
    dev = history.branch("dev")
    dev.put_many((f"new/{number:02}", b"123") for number in range(12))
    dev.delete("readme.txt")
    history.branch("main").put("x", b"1")
    history.branch("main").commit("meanwhile", committer="bo")
    lines = [line.partition(" at ")[0] for line in cli("status", "dev", "-n", "2").out.splitlines()]
    head = history.commit("dev")
    assert lines == [
        "branch  dev, 1 ahead of main, 1 behind",
        f"head    {head.id[:12]}  {head.created:%Y-%m-%d %H:%M:%S}  {head.committer}  more",
        "staged  13 files: 12 added, 1 removed; +31 B",
        "        + new/00  3 B  by ann",
        "        + new/01  3 B  by ann",
        "        … 11 more: graveler diff dev",
        "next    graveler commit dev -m MESSAGE  (commits what is staged; --mine: only yours)",
        "        graveler diff dev  (lists all of it)",
        "        graveler merge main dev  (brings what is new on main)",
    ]
    said = cli("status", "dev", "--json").json
    assert said["staged"]["added"] == {"files": 12, "before": 0, "after": 36}
    assert {one["author"] for one in said["staged"]["files"]} == {"ann"}
    assert said["staged"]["removed"] == {"files": 1, "before": 5, "after": 0}
    assert (len(said["staged"]["files"]), said["head"]["id"]) == (10, head.id)
    dev.reset()
    assert cli("status", "dev", "--json").json["next"][0] == "graveler merge dev main --dry-run"


def test_status_shows_runs_gates_and_protection(cli, runs):
    runs.gates.require("ma*", checks.only_within("output/"))
    runs.gates.require("dev", checks.only_within("x/"))
    runs.protection.add("main", ["commit", "write"])
    said = cli("status", "--json").json
    assert [(run["key"], run["state"]) for run in said["runs"]] == [("hour 06", "PARKED")]
    assert [gate["check"] for gate in said["gates"]] == ["only_within"]
    assert said["protected_against"] == ["commit", "write"]
    assert said["next"] == ["graveler run show 'hour 06'"]
    lines = [line.split(None, 1) for line in cli("status").out.splitlines()]
    told = {words[0]: words[1] for words in lines}
    assert told["run"].startswith("parked  2")
    assert told["run"].endswith("was refused: rows: 0 rows, 9 landed")
    assert (told["gates"], told["rules"]) == ("only_within", "no commit, no write")


TREES = [
    (
        [],
        [
            "main:",
            "├── a.txt  1 B",
            "├── in.csv  5 B",
            "└── in/  3 files, 2.0 KiB",
            "    ├── 05/  2 files, 2.0 KiB",
            "    │   ├── x  1.0 KiB",
            "    │   └── y  1.0 KiB",
            "    └── 06/  1 file, 3 B",
            "        └── deep/  1 file, 3 B",
            "            └── z  3 B",
            "4 folders, 5 files, 2.0 KiB",
        ],
    ),
    (
        ["main:in", "-L", "1"],
        [
            "main:in/",
            "├── 05/  2 files, 2.0 KiB",
            "└── 06/  1 file, 3 B",
            "2 folders, 3 files, 2.0 KiB",
        ],
    ),
    (["main:in/05/x"], ["main:in/05/", "└── x  1.0 KiB", "1 file, 1.0 KiB"]),
    (
        ["main:in/**/[xz]", "-L", "2"],
        [
            "main:in/",
            "├── 05/  1 file, 1.0 KiB",
            "│   └── x  1.0 KiB",
            "└── 06/  1 file, 3 B",
            "    └── deep/  1 file, 3 B",
            "3 folders, 2 files, 1.0 KiB",
        ],
    ),
]


@pytest.mark.parametrize(("arguments", "lines"), TREES)
def test_a_tree_shows_folders_with_their_sums(cli, main, arguments, lines):
    assert cli("tree", *arguments).out.splitlines() == lines
    shown = cli("tree", *arguments, "--json").lines
    assert len(shown) == len(lines) - 1
    assert all(item["size"] == TREE[item["path"]] for item in shown if item["type"] == "file")


@pytest.mark.parametrize(
    ("arguments", "sums"),
    [
        (
            [],
            [
                ("in/", 3, 2051),
                ("in/05/", 2, 2048),
                ("in/06/", 1, 3),
                ("in/06/deep/", 1, 3),
                ("", 5, 2057),
            ],
        ),
        (["-d", "1"], [("in/", 3, 2051), ("", 5, 2057)]),
        (["main:in/", "-d", "0"], [("in/", 3, 2051)]),
        (["main:**/x"], [("in/", 1, 1024), ("in/05/", 1, 1024), ("", 1, 1024)]),
    ],
)
def test_du_sums_folders(cli, main, arguments, sums):
    shown = cli("du", *arguments, "--json").lines
    assert [(line["path"], line["files"], line["size"]) for line in shown] == sums
    *_, last = cli("du", *arguments).out.splitlines()
    assert last.split()[-2:] == [str(sums[-1][1]), f"main:{sums[-1][0]}"]


def test_nothing_at_a_path_is_an_error_of_each_verb(cli, main):
    for verb in ("tree", "du", "head", "cat", "ls"):
        said = cli(verb, "main:nowhere")
        assert (said.code, "'nowhere' in 'main'" in said.err) == (1, True), verb
    assert cli("tree", "main@{1}:").out.splitlines() == ["main@{1}:", "0 files, 0 B"]


@pytest.fixture
def dev(main, repo):
    dev = repo.create_branch("dev")
    dev.put("in/05/x", b"1" * 2048)
    dev.put("in/07/new", b"12")
    dev.delete("a.txt")
    return dev


def test_a_diff_has_totals_folders_and_names(cli, dev):
    assert cli("diff", "dev", "--stat").out.splitlines() == [
        "added           1 file  2 B",
        "changed         1 file  1.0 KiB → 2.0 KiB",
        "removed         1 file  1 B",
        "3 files: 1 added, 1 changed, 1 removed; +1.0 KiB",
    ]
    stat = cli("diff", "main", "dev", "--stat", "--json").json
    assert stat["changed"] == {"files": 1, "before": 1024, "after": 2048}
    assert cli("diff", "main", "dev", "--folders").out.splitlines() == [
        "/  1 file: 1 removed; -1 B",
        "in/05/  1 file: 1 changed; +1.0 KiB",
        "in/07/  1 file: 1 added; +2 B",
        "3 files: 1 added, 1 changed, 1 removed; +1.0 KiB",
    ]
    folders = cli("diff", "dev", "--folders", "--json").lines
    assert [(one["path"], one["added"]["files"]) for one in folders][2] == ("in/07/", 1)
    assert cli("diff", "dev", "--name-only").out.split() == ["a.txt", "in/05/x", "in/07/new"]
    assert cli("diff", "dev", "--name-only", "--json").lines[0] == {"path": "a.txt"}
    assert cli("diff", "main", "main", "--stat").out == "no changes\n"
    assert cli("diff", "dev", "--stat", "--folders").code == 2
    dev.commit("all")
    assert cli("show", "dev", "--stat").out.splitlines()[-1].startswith("3 files: 1 added")
    shown = cli("show", "dev", "--stat", "--json").json
    assert (shown["stat"], "changes" in shown) == (stat, False)


@pytest.fixture
def many(repo):
    entries = (Entry(f"f/{number:04}", f"data/{number}", size=2) for number in range(1_200))
    link_unseen(repo.branch("main"), entries)
    return repo


def test_a_long_list_ends_with_its_total_on_a_terminal(cli, many, terminal):
    lines = cli("ls", "-r").out.splitlines()
    assert len(lines) == 1_002
    assert lines[-2:] == ["… 200 more: --limit 0 lists all", "1,200 files, 2.3 KiB"]
    assert len(cli("ls", "-r", "--limit", "0").out.splitlines()) == 1_201
    assert (
        cli("ls", "-r", "--limit", "2").out.splitlines()[2] == "… 1,198 more: --limit 0 lists all"
    )
    assert len(cli("ls", "-r", "--json").lines) == 1_200
    assert cli("diff", "main").out.splitlines()[-1] == "1,200 files: 1,200 added; +2.3 KiB"
    assert cli("tree").out.splitlines()[-2:] == [
        "… 201 more: --limit 0 lists all",
        "1 folder, 1,200 files, 2.3 KiB",
    ]
    assert len(cli("ls").out.splitlines()) == 1
    assert cli("rm", "main:f/*").out.splitlines()[-1] == "removed 1,200 files"


def test_a_pipe_gets_all_lines_without_a_total(cli, many):
    assert (
        len(cli("ls", "-r").out.splitlines()) == len(cli("diff", "main").out.splitlines()) == 1_200
    )
    assert len(cli("ls", "-r", "--limit", "3").out.splitlines()) == 3


def test_a_terminal_gets_the_age_and_the_author_of_commits(cli, history, terminal):
    first = cli("log", "main").out.splitlines()[0]
    told = re.sub(r"\d seconds? ago ", "N seconds ago", first).split(maxsplit=1)[1]
    assert told == "N seconds ago  ann         first  (main, tag v1)"
    assert re.search(r"  ann, \d seconds? ago$", cli("log", "v1", "--oneline").out.splitlines()[0])


@pytest.mark.parametrize(
    ("age", "text"),
    [
        (timedelta(seconds=1), "1 second ago"),
        (timedelta(seconds=89.9), "89 seconds ago"),
        (timedelta(seconds=90), "1 minute ago"),
        (timedelta(hours=3, minutes=59), "3 hours ago"),
        (timedelta(days=13), "13 days ago"),
        (timedelta(days=14), "2 weeks ago"),
        (timedelta(days=300), "10 months ago"),
        (timedelta(days=800), "2 years ago"),
        (timedelta(seconds=-1), "in the future"),
    ],
)
def test_an_age_is_told_in_one_unit(age, text):
    assert age_text(age.total_seconds()) == text
