"""The operations that write, over a socket."""

import errno
import os

import pytest

import graveler
from graveler.gates.checks import only_within

ACCESS = (403, "AccessControlException")
EXISTS = (403, "FileAlreadyExistsException")
PARENT = (403, "ParentNotDirectoryException")
MISSING = (404, "FileNotFoundException")
WORK = "/t/_temporary/0"


def paths(branch):
    return [entry.path for entry in branch.entries()]


def pieces(*each):
    return iter(each)


@pytest.mark.parametrize("body", [b"", b"hello", bytes(3_000_000)], ids=len)
def test_a_file_is_created_by_a_body_of_known_length(client, dev, body):
    assert client.create("/t/a", body).status == 201
    assert dev.get("t/a") == body
    assert client.kind("/t") == "DIRECTORY"


def test_a_file_is_created_by_chunks(client, dev):
    parts = [bytes([n]) * (n * 9_999) for n in range(1, 20)]
    assert client.create("/a", iter(parts)).status == 201
    assert dev.get("a") == b"".join(parts)
    assert client.create("/empty", iter(())).status == 201
    assert dev.get("empty") == b""


def test_a_body_with_the_first_request_is_taken(client, dev):
    assert client.ask("PUT", "/a", "CREATE", b"hello").status == 201
    assert dev.get("a") == b"hello"


def test_the_first_request_says_what_stands_in_the_way(client, dev):
    dev.put("t/a", b"x")
    for path, query, failure in (
        ("/t/a", {"overwrite": "false"}, EXISTS),
        ("/t", {}, EXISTS),
        ("/t/a/b", {}, PARENT),
        ("/t/a/b/c", {}, PARENT),
        ("/new/b", {"createparent": "false"}, MISSING),
        ("/t/b", {"createflag": "APPEND"}, (400, "UnsupportedOperationException")),
        ("/t/a", {"createflag": "CREATE"}, EXISTS),
    ):
        assert client.ask("PUT", path, "CREATE", **query).failure == failure
        assert client.ask("PUT", path, "CREATE", b"y", **query).failure == failure
    assert {path: dev.get(path) for path in paths(dev)} == {"t/a": b"x"}


def test_a_file_is_overwritten_unless_it_must_not_be(client, dev):
    dev.put("a", b"x")
    assert client.create("/a", b"y").failure == EXISTS
    assert client.create("/a", b"y", overwrite="true").status == 201
    assert dev.get("a") == b"y"
    assert client.create("/a", b"z", createflag="CREATE,OVERWRITE").status == 201
    assert client.create("/b", b"1", overwrite="false").status == 201
    assert client.create("/b", b"2", overwrite="false").failure == EXISTS
    assert [dev.get("a"), dev.get("b")] == [b"z", b"1"]


def test_a_file_is_not_emptied_before_an_append(client, dev):
    dev.put("a", b"x")
    first = client.ask("PUT", "/a", "CREATE", overwrite="true")
    client.headers["Content-Type"] = "application/octet-stream"
    got = client.follow(first, "PUT")  # then the client of fsspec appends, which is refused
    client.headers.clear()
    assert got.failure == (400, "UnsupportedOperationException")
    assert "delete it first" in got.message
    assert dev.get("a") == b"x"
    assert client.create("/a", b"", overwrite="true").status == 201
    assert dev.get("a") == b""


def test_a_full_disk_leaves_no_file(serve, tmp_path, monkeypatch):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        dev = lake.create_repository("flights").create_branch("dev")
        dev.put("a", b"old")
        client = serve(lake=lake)
        write = os.write

        def full(descriptor, data):
            if len(data) == 1 << 20:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return write(descriptor, data)

        monkeypatch.setattr(os, "write", full)
        got = client.create("/a", bytes(3 << 19), overwrite="true")
        assert got.failure == (507, "IOException")
        assert "free some space" in got.message
        monkeypatch.undo()
        assert dev.get("a") == b"old"
        assert len(list(dev.repository.objects.list("data/"))) == 1
        assert not [
            path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size > 1 << 19
        ]
        assert client.create("/a", bytes(3 << 19), overwrite="true").status == 201


def test_an_empty_folder_is_there_until_it_is_deleted(client, dev):
    assert client.mkdirs("/t/b/c").json == {"boolean": True}
    assert client.mkdirs("/t/b").json == {"boolean": True}
    assert client.names("/t/b") == ["c/"]
    assert client.names("/t/b/c") == []
    assert client.delete("/t/b").failure == (403, "PathIsNotEmptyDirectoryException")
    assert client.delete("/t/b/c").json == {"boolean": True}
    assert client.names("/t/b") == []
    assert not list(dev.uncommitted())


def test_a_folder_cannot_be_made_below_a_file_or_over_it(client, dev):
    dev.put("a", b"x")
    assert client.mkdirs("/a").failure == EXISTS
    assert client.mkdirs("/a/b/c").failure == PARENT
    assert client.create(f"{WORK}/a", b"").status == 201
    assert client.mkdirs(f"{WORK}/a/b").failure == PARENT


def test_an_empty_folder_is_forgotten_with_its_last_file(client, dev):
    client.mkdirs("/t")
    client.create("/t/a", b"x")
    dev.delete("t/a")
    assert client.kind("/t") == ""
    client.create("/t/a", b"x")
    client.delete("/t/a")
    assert client.kind("/t") == "DIRECTORY"


def test_a_file_is_renamed(client, dev):
    before = dev.put("a", b"x")
    client.mkdirs("/t")
    assert client.rename("/a", "/t/b").json == {"boolean": True}
    assert paths(dev) == ["t/b"]
    assert dev.stat("t/b").address == before.address


def test_a_folder_is_renamed_with_all_that_is_below(client, dev):
    for path in ("t/a", "t/b/c"):
        dev.put(path, b"x")
    dev.commit("files")
    client.mkdirs("/t/empty")
    assert client.rename("/t", "/u").json == {"boolean": True}
    assert paths(dev) == ["u/a", "u/b/c"]
    assert client.names("/u") == ["a", "b/", "empty/"]
    assert client.kind("/t") == ""


def test_a_rename_into_a_folder_keeps_the_name(client, dev):
    dev.put("a", b"x")
    dev.put("t/b", b"x")
    client.mkdirs("/u")
    assert client.rename("/a", "/u").json == {"boolean": True}
    assert client.rename("/t", "/u").json == {"boolean": True}
    assert client.rename("/u/a", "").json == {"boolean": True}
    assert paths(dev) == ["a", "u/t/b"]


def test_renames_that_are_refused_change_nothing(client, dev):
    for path in ("a", "b", "t/c", "u/t/d"):
        dev.put(path, b"x")
    for path, to in (
        ("/none", "/c"),
        ("/a", "/b"),
        ("/a", "/none/a"),
        ("/a", "/b/a"),
        ("/t", "/t/below"),
        ("/t", "/t"),
        ("/t", "/u"),
        ("/t", "/b"),
    ):
        assert client.rename(path, to).json == {"boolean": False}
    assert client.rename("/a", "/a").json == {"boolean": True}
    assert paths(dev) == ["a", "b", "t/c", "u/t/d"]


def test_a_rename_with_options_says_what_is_in_the_way(client, dev):
    for path in ("a", "b", "t/c"):
        dev.put(path, b"x")
    client.mkdirs("/empty")
    for path, to, options, failure in (
        ("/none", "/c", "NONE", MISSING),
        ("/a", "/a", "OVERWRITE", EXISTS),
        ("/a", "/b", "NONE", EXISTS),
        ("/a", "/none/a", "NONE", MISSING),
        ("/a", "/b/a", "NONE", PARENT),
        ("/t", "/t/below", "NONE", (403, "IOException")),
        ("/a", "/t", "OVERWRITE", (403, "IOException")),
        ("/empty", "/t", "OVERWRITE", (403, "IOException")),
    ):
        assert client.rename(path, to, renameoptions=options).failure == failure
    assert paths(dev) == ["a", "b", "t/c"]


def test_a_rename_with_overwrite_replaces(client, dev):
    dev.put("a", b"1")
    dev.put("b", b"2")
    dev.put("t/c", b"3")
    client.mkdirs("/u")
    assert client.rename("/a", "/b", renameoptions="OVERWRITE").status == 200
    assert client.rename("/t", "/u", renameoptions="OVERWRITE").status == 200
    assert {path: dev.get(path) for path in paths(dev)} == {"b": b"1", "u/c": b"3"}


def test_one_move_more_than_fit_asks_for_a_commit(client, dev):
    """The client repeated it, because the error said that the store is slow."""
    dev.put("t/a", b"x")
    dev.put("t/b", b"x")
    dev.commit("first")
    for number in range(62):
        dev.copy("dev", "t/", f"copy-{number}/")
    got = client.rename("/t", "/u")
    assert got.failure == (403, "IOException")
    assert "commit or discard what is staged" in got.message
    dev.commit("all")
    assert client.rename("/t", "/u").json == {"boolean": True}


def test_files_are_moved_within_one_branch(client, dev, repo):
    dev.put("a", b"x")
    client.root = ""
    got = client.rename("/flights/dev/a", "/flights/main/a")
    assert got.failure == (400, "UnsupportedOperationException")
    assert "`graveler cp`" in got.message


def test_files_and_folders_are_deleted(client, dev):
    for path in ("a", "t/b", "t/c/d"):
        dev.put(path, b"x")
    dev.commit("files")
    assert client.delete("/t").failure == (403, "PathIsNotEmptyDirectoryException")
    assert client.delete("/t", recursive=True).json == {"boolean": True}
    assert client.delete("/a").json == {"boolean": True}
    assert client.delete("/a").json == {"boolean": False}
    assert paths(dev) == []


def test_a_branch_is_neither_deleted_nor_moved(client, dev):
    dev.put("a", b"x")
    assert client.delete("", recursive=True).failure == ACCESS
    assert client.rename("", "/b").failure == ACCESS
    assert client.rename("/a", "", renameoptions="OVERWRITE").failure == ACCESS
    assert paths(dev) == ["a"]


def test_owners_rights_and_times_are_accepted(client, dev):
    dev.put("a", b"x")
    for op, query in (
        ("SETPERMISSION", {"permission": "600"}),
        ("SETOWNER", {"owner": "ann"}),
        ("SETTIMES", {"modificationtime": "1"}),
    ):
        assert (client.ask("PUT", "/a", op, **query).status) == 200
        assert client.ask("PUT", "/none", op, **query).failure == MISSING
    assert client.ask("PUT", "/a", "SETREPLICATION", replication=3).json == {"boolean": True}


@pytest.mark.parametrize(
    ("method", "op"),
    [
        ("POST", "APPEND"),
        ("POST", "CONCAT"),
        ("POST", "TRUNCATE"),
        ("PUT", "CREATESYMLINK"),
        ("GET", "GETFILECHECKSUM"),
    ],
)
def test_what_a_lake_cannot_do_is_said(client, dev, method, op):
    dev.put("a", b"x")
    got = client.ask(method, "/a", op)
    assert got.failure == (400, "UnsupportedOperationException")
    assert op in got.message


def test_working_files_are_not_staged(client, dev):
    client.mkdirs(WORK)
    assert client.create(f"{WORK}/attempt/p=1/part", b"x").status == 201
    assert client.open(f"{WORK}/attempt/p=1/part").body == b"x"
    assert client.names(f"{WORK}/attempt") == ["p=1/"]
    assert client.get("/t", "GETCONTENTSUMMARY").json["ContentSummary"]["length"] == 1
    assert not list(dev.uncommitted())


def test_working_files_are_staged_when_they_get_their_place(client, dev):
    for name in ("p=1/a", "p=1/b", "p=2/c"):
        client.create(f"{WORK}/attempt/{name}", name.encode())
    assert client.rename(f"{WORK}/attempt", f"{WORK}/task").json == {"boolean": True}
    assert paths(dev) == []
    assert client.rename(f"{WORK}/task/p=1", "/t/p=1").json == {"boolean": True}
    client.mkdirs("/t/p=2")
    assert client.rename(f"{WORK}/task/p=2/c", "/t/p=2").json == {"boolean": True}
    assert client.delete("/t/_temporary", recursive=True).json == {"boolean": True}
    assert {path: dev.get(path) for path in paths(dev)} == {
        "t/p=1/a": b"p=1/a",
        "t/p=1/b": b"p=1/b",
        "t/p=2/c": b"p=2/c",
    }


def test_working_files_that_are_deleted_were_never_there(client, dev):
    client.create("/t/_temporary/a", b"x")
    assert client.delete("/t/_temporary", recursive=True).json == {"boolean": True}
    assert client.names("") == ["t/"]
    assert client.names("/t") == []
    assert not list(dev.uncommitted())


def test_files_of_the_branch_do_not_become_working_files(client, dev):
    dev.put("a", b"x")
    dev.put("t/b", b"x")
    client.mkdirs("/_temporary")
    for path in ("/a", "/t"):
        got = client.rename(path, "/_temporary/x")
        assert got.failure == (400, "UnsupportedOperationException")
    assert paths(dev) == ["a", "t/b"]
    client.mkdirs("/empty")
    assert client.rename("/empty", "/_temporary/x").json == {"boolean": True}


@pytest.mark.parametrize(
    ("method", "op", "query"),
    [
        ("PUT", "CREATE", {}),
        ("PUT", "MKDIRS", {}),
        ("PUT", "RENAME", {"destination": "/flights/v1/b"}),
        ("PUT", "RENAME", {"destination": "/flights/v1/b", "renameoptions": "NONE"}),
        ("DELETE", "DELETE", {}),
        ("PUT", "COMMIT", {"message": "m"}),
    ],
)
def test_only_branches_are_written(serve, repo, dev, method, op, query):
    dev.put("a", b"x")
    repo.tags.create("v1", dev.commit("1"))
    client = serve()
    client.root = "/flights/v1"
    got = client.ask(method, "/a", op, **query)
    assert got.failure == ACCESS
    assert got.message == (
        "/flights/v1/a cannot be written: only branches can, as /repository/branch/path; "
        "make one with `graveler branch create NAME`"
    )
    client.root = ""
    assert client.mkdirs("/new").failure == (404, "FileNotFoundException")
    assert client.mkdirs("/").failure == ACCESS
    assert client.mkdirs("/flights").failure == ACCESS


def test_a_gateway_may_only_read(serve, dev):
    dev.put("a", b"x")
    client = serve(read_only=True)
    assert client.open("/a").body == b"x"
    for got in (
        client.create("/b", b""),
        client.ask("PUT", "/b", "CREATE", b"y"),
        client.mkdirs("/t"),
        client.rename("/a", "/b"),
        client.delete("/a"),
        client.ask("PUT", "", "COMMIT", message="m"),
        client.get("/a", "CHECKACCESS", fsaction="rw-"),
    ):
        assert got.failure == ACCESS
    assert client.get("/a", "CHECKACCESS", fsaction="r--").status == 200
    assert "--read-only" in client.mkdirs("/t").message
    assert client.get("/a", "GETFILESTATUS").json["FileStatus"]["permission"] == "444"


def test_a_protected_branch_is_not_written(client, repo, dev):
    dev.put("a", b"x")
    repo.protection.add("dev")
    for got in (client.create("/b", b"y"), client.mkdirs("/t"), client.delete("/a")):
        assert got.failure == ACCESS
        assert "protected" in got.message


def test_the_branch_of_a_run_is_its_own(serve, repo):
    run = repo.runs.open("hourly")
    client = serve()
    client.root = f"/flights/{run.name}"
    got = client.create("/a", b"x")
    assert got.failure == ACCESS
    assert not list(run.uncommitted())


def test_a_commit_answers_its_id(client, dev, repo):
    client.create("/t/a", b"x")
    client.create("/u/b", b"x")
    client.create("/t/_temporary/c", b"x")
    made = client.ask("PUT", "/t", "COMMIT", message="one table").json["Commit"]
    assert made == {"id": dev.head.id, "message": "one table", "branch": "dev"}
    assert [entry.path for entry in repo.ref("dev").entries()] == ["t/a"]
    client.ask("POST", "", "COMMIT", message="the rest")
    assert [entry.path for entry in repo.ref("dev").entries()] == ["t/a", "u/b"]


def test_a_commit_takes_a_folder_whose_name_is_a_pattern(client, repo):
    client.create("/t[1]*/a", b"x")
    client.create("/t1/a", b"x")
    client.ask("PUT", "/t[1]*", "COMMIT", message="one table")
    assert [entry.path for entry in repo.ref("dev").entries()] == ["t[1]*/a"]


def test_a_commit_of_nothing_is_refused(client):
    assert client.ask("PUT", "", "COMMIT", message="m").failure == (403, "IOException")
    assert client.ask("PUT", "", "COMMIT").failure == (400, "IllegalArgumentException")


def test_the_mark_of_success_is_never_stored(client, dev):
    assert client.create("/t/_SUCCESS", b"").status == 201
    assert client.kind("/t") == ""
    assert not list(dev.uncommitted())


def test_the_mark_of_success_commits_its_folder(serve, repo, dev):
    client = serve(commit_on_success=True)
    client.create("/u/b", b"x")
    client.create("/t/_temporary/0/a", b"x")
    client.rename("/t/_temporary/0/a", "/t/a")
    assert client.create("/t/_SUCCESS", b"").status == 201
    assert [entry.path for entry in repo.ref("dev").entries()] == ["t/a"]
    assert dev.head.message == "write t"
    assert client.create("/t/_SUCCESS", b"").status == 201  # an unchanged folder is no error
    assert client.create("/_SUCCESS", b"").status == 201
    assert [entry.path for entry in repo.ref("dev").entries()] == ["t/a", "u/b"]


def test_overwritten_partitions_are_committed_in_their_place(serve, repo, dev):
    dev.put("t/p=1/old", b"x")
    dev.put("t/p=2/kept", b"x")
    dev.commit("first")
    client = serve(commit_on_success=True)
    work = "/t/.spark-staging-1"
    client.create(f"{work}/p=1/new", b"y")
    assert client.create(f"{work}/_SUCCESS", b"").status == 201
    assert dev.head.message == "first"
    client.delete("/t/p=1", recursive=True)
    client.rename(f"{work}/p=1", "/t/p=1")
    assert client.delete(work, recursive=True).status == 200
    assert dev.head.message == "write t"
    assert [entry.path for entry in repo.ref("dev").entries()] == ["t/p=1/new", "t/p=2/kept"]


def test_half_of_the_partitions_is_not_committed(serve, dev):
    dev.put("t/p=1/old", b"x")
    dev.commit("first")
    client = serve(commit_on_success=True)
    work = "/t/.spark-staging-1"
    for name in ("p=1/new", "p=2/new"):
        client.create(f"{work}/{name}", b"y")
    client.create(f"{work}/_SUCCESS", b"")
    client.delete("/t/p=1", recursive=True)
    client.rename(f"{work}/p=1", "/t/p=1")
    client.delete(work, recursive=True)
    assert dev.head.message == "first"


def test_a_job_that_did_not_succeed_is_not_committed(serve, dev):
    client = serve(commit_on_success=True)
    client.create("/t/a", b"x")
    client.mkdirs("/t/.spark-staging-1")
    client.delete("/t/.spark-staging-1", recursive=True)
    assert dev.head.message == "Repository created"


def test_a_gate_that_refuses_fails_the_job(serve, repo, dev):
    repo.gates.require("dev", only_within("reports/"))
    client = serve(commit_on_success=True)
    client.create("/t/a", b"x")
    got = client.create("/t/_SUCCESS", b"")
    assert got.failure == (403, "IOException")
    assert "only_within" in got.message
    assert dev.head.message == "Repository created"
