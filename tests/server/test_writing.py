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
    assert client.rename("/t", "/t2", renameoptions="NONE").status == 200
    assert paths(dev) == ["a", "b", "t2/c"]


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
