"""Verbs that keep a lake whole: repositories, foreign files, lost files, groups, literal paths."""

from pathlib import Path

from tests.harness.gc_lakes import as_of_0_2


def local(repo, address):
    return Path(repo.stores.uri(address).removeprefix("file://"))


def test_files_of_version_0_2_are_listed_and_adopted(cli, repo):
    as_of_0_2(repo)
    file = local(repo, f"data/{1:032x}.csv")
    local(repo, "data").mkdir(exist_ok=True)
    file.write_bytes(b"old")
    local(repo, "data/of_others.csv").write_bytes(b"other")
    assert "gc adopt" in cli("gc", "adopt", "--agree").err
    listed = cli("gc", "adopt").out
    assert listed.splitlines()[0] == f"data/{1:032x}.csv"
    assert "1 files, 3 B: `graveler gc adopt --agree`" in listed
    assert cli("gc", "adopt", "--agree").out == "the listed files are adopted\n"
    assert cli("gc", "run", "--grace", "0", "--window", "0").code == 0
    assert not file.exists()
    assert cli("gc", "adopt", "--json").json == {"agreed": False, "bytes": 0, "keys": []}


def test_a_storage_that_holds_something_is_adopted(cli, folder, tmp_path):
    storage = tmp_path / "storage"
    storage.mkdir()
    (storage / "notes.txt").write_bytes(b"of others")
    create = ("repo", "create", "trains", "--storage", storage)
    assert "--adopt" in cli(*create).err
    assert cli(*create, "--adopt", "--json").json["storage"] == f"file://{storage}"


def test_a_repository_is_deleted_taken_back_and_purged(cli, history):
    storage = Path(history.storage.removeprefix("file://"))
    assert "`graveler repo undelete flights`" in cli("repo", "delete", "flights").out
    assert cli("repo", "list").out == ""
    assert cli("repo", "undelete", "flights").out == "flights is back\n"
    assert cli("ls", "-r", "main").code == 0
    assert cli("repo", "delete", "flights", "--purge", "--json").json == {
        "repository": "flights",
        "purged": True,
    }
    assert cli("repo", "undelete", "flights").code == 1
    left = [file for part in ("data", "_graveler") for file in (storage / part).rglob("*.*")]
    assert left == []


def test_commits_with_lost_files_expire(cli, history):
    main = history.branch("main")
    main.put("c", b"lost")
    main.commit("has a lost file")
    main.delete("c")
    main.commit("is whole")
    local(history, history.ref("main~1").stat("c").address).unlink()
    assert cli("fsck").code == 1
    assert "`--missing 1`" in cli("fsck", "--expire-missing").err
    assert cli("fsck", "--expire-missing", "--missing", "1").code == 0
    assert "expired" in cli("ls", "main~1").err
    assert cli("ls", "main").code == 0


def test_a_changed_link_is_accepted(cli, repo, tmp_path):
    file = tmp_path / "raw.csv"
    file.write_bytes(b"raw")
    repo.links.allow(str(tmp_path))
    repo.branch("main").link("raw", address=str(file))
    file.chmod(0o640)
    assert f"graveler links accept file://{file}" in cli("get", "main:raw").err
    assert cli("links", "accept", file).out == f"accepted file://{file} as it is\n"
    assert cli("get", "main:raw").raw == b"raw"


def test_a_lake_is_shared_with_the_group_of_its_folder(cli, tmp_path):
    shared = tmp_path / "shared"
    assert cli("init", shared, "--group").code == 0
    assert "group = true" in (shared / "graveler.toml").read_text()
    assert (shared / "kv.sqlite3").stat().st_mode & 0o060 == 0o060
