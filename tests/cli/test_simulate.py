"""``graveler splitting simulate``: its output for people and for programs."""

import pytest

SMALL = ("--files", 3, "--commits", 4)


def test_the_report_has_a_column_for_each_policy(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the command needs no lake
    said = cli("splitting", "simulate", "--pattern", "hourly", *SMALL)
    lines = said.out.splitlines()
    assert lines[0] == "hourly: 3 new files a commit, 4 commits, from an empty tree"
    assert lines[2].split() == ["lakefs", "hash", "directory"]
    rows = {line[:34].strip(): line[34:].split() for line in lines[3:-4]}
    assert rows["commits"] == ["4", "4", "4"]
    assert rows["ranges at the end"] == ["4", "2", "2"]
    assert "bytes that a merge reads" not in rows
    assert lines[-1] == "lakefs is lakeFS's rule with its defaults, for comparison."


def test_a_program_gets_an_object_for_each_policy(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    policies = ("--policy", "hash,max_bytes=2MiB,raggedness=100", "--policy", "directory")
    said = cli("splitting", "simulate", "--pattern", "branches", *SMALL, *policies, "--json")
    assert [line["policy"] for line in said.lines] == [
        "hash,max_bytes=2MiB,raggedness=100",
        "directory",
    ]
    for line in said.lines:
        assert line["history"] == "branches"
        assert line["commits"] == 4
        assert len(line["sizes"]) == 3
        assert line["merge"].keys() == {"ranges_read", "bytes_read", "bytes_shared"}


def test_a_listing_is_replayed_by_the_times_of_its_files(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "listing.csv"
    file.write_text("b,a,1,2021-04-26T02:00:00Z,x\nb,b,1,2021-04-26T03:00:00Z,x\n")
    said = cli("splitting", "simulate", "--listing", file)
    assert said.out.startswith("listing.csv: 2 files, 2 commits, from 0 files\n")
    said = cli("splitting", "simulate", "--listing", file, "--pattern", "updates")
    assert said.out.startswith(
        "updates of listing.csv: 20 files written again a commit, chosen at random, 48 commits, from 2 files"
    )
    file.write_text("b,b,1,2021-04-26T02:00:00Z,x\nb,a,1,2021-04-26T03:00:00Z,x\n")
    said = cli("splitting", "simulate", "--listing", file, "--json")
    assert (said.code, said.error["code"], said.out) == (1, "unsorted-keys", "")
    assert cli("splitting", "simulate", "--listing", file, "--sort").code == 0


def test_the_commits_of_a_branch_are_replayed(cli, history):
    said = cli("splitting", "simulate", "--branch", "main", "--json")
    assert [(line["policy"], line["commits"]) for line in said.lines] == [
        ("lakefs", 2),
        ("hash", 2),
        ("directory", 2),
        ("as it is set", 2),
    ]
    assert said.lines[0]["history"] == "main"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((), 2, "give one of --pattern, --listing and --branch"),
        (("--pattern", "hourly", "--branch", "main"), 2, "give one of"),
        (("--pattern", "daily"), 1, "pattern 'daily': give one of hourly, hourly-large"),
        (("--branch", "main", "--files", "3"), 2, "--files applies to a pattern only"),
        (("--branch", "none"), 1, "none"),
        (("--listing", "none.csv"), 1, "listing none.csv: No such file"),
        (("--listing", "x", "--every", "0"), 1, "give a length of time above 0"),
        (("--listing", "x", "--every", "1"), 2, "--every '1': give a number"),
        (("--pattern", "hourly", "--policy", "other"), 2, "give hash or directory"),
        (("--pattern", "hourly", "--policy", "hash,size=3"), 2, "no parameter 'size'"),
        (("--pattern", "hourly", "--policy", "hash,max_bytes"), 2, "give NAME=VALUE"),
        (
            ("--pattern", "hourly", "--policy", "hash,max_bytes=big"),
            2,
            "--policy max_bytes= 'big': give a whole number",
        ),
        (("--pattern", "hourly", "--policy", "hash,min_bytes=5MiB"), 2, "min_bytes 5242880"),
    ],
)
def test_what_makes_no_sense_is_refused(cli, folder, arguments, code, says):
    said = cli("splitting", "simulate", *arguments)
    assert said.code == code
    assert says in said.err
    assert said.out == ""
