"""``graveler splitting simulate``: its output for people and for programs."""

SMALL = ("--files", 3, "--commits", 4)


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
