"""A write through the filesystem: a closed file is staged, an unclosed file does not exist."""

import pytest

from graveler.fs import GravelerFileSystem, storage_options, url
from graveler.model import Entry


def contents(view):
    return {entry.path: view.get(entry.path) for entry in view.entries()}


def test_what_is_written_is_staged_and_read_at_once(grav, repo):
    with grav.open("grav://flights/dev/input/05:00/a.txt", "w") as file:
        file.write("one")
        assert not grav.exists("flights/dev/input/05:00/a.txt")
    grav.pipe({"flights/dev/b": b"two", "flights/dev/c": bytearray(b"three")})
    assert contents(repo.branch("dev")) == {
        "input/05:00/a.txt": b"one",
        "b": b"two",
        "c": b"three",
    }
    assert contents(repo.ref("dev")) == {}
    commit = grav.commit("flights/dev", "by hand", metadata={"source": "test"})
    assert commit.metadata["source"] == "test"
    assert grav.cat("flights/dev@/b") == b"two"


def test_a_large_file_goes_through_a_file_on_disk(grav, repo):
    with grav.open("flights/dev/large", "wb", block_size=1 << 20) as file:
        for number in range(20):
            file.write(bytes([number]) * (1 << 20))
    assert grav.size("flights/dev/large") == 20 << 20
    assert grav.cat_file("flights/dev/large", -1) == b"\x13"


def test_a_file_that_is_never_closed_is_not_kept_and_says_so(grav):
    def forgetful():
        grav.open("flights/dev/lost", "wb").write(b"lost")

    with pytest.warns(ResourceWarning, match="lost was never closed"):
        forgetful()
    assert not grav.exists("flights/dev/lost")


def test_a_run_is_written_by_its_handle_until_a_newer_attempt(lake, repo):
    run = repo.runs.open("hour 05")
    fs = GravelerFileSystem(run=run.handle.to_json())
    fs.pipe(url(run, "a"), b"one")
    with fs.transaction:
        fs.pipe(url(run, "b"), b"two")
    assert run.head.metadata["graveler.run"] == "hour 05"
    run.commit_staged()
    assert contents(repo.ref(run.branch)) == {"a": b"one", "b": b"two"}
    repo.runs.open("hour 05")
    with pytest.raises(PermissionError, match="is at attempt 2, opened since"), fs.transaction:
        fs.rm(url(run, "a"))


def test_a_step_is_written_by_the_options_it_gives(lake, repo):
    with repo.run("hour 05") as run, run.step("load") as step:
        assert url(step) == f"grav://flights/{step.name}"
        fs = GravelerFileSystem(**storage_options(step))
        fs.pipe(url(step, "table/a"), b"one")
        assert not fs.exists(url(run, "table/a"))
    assert contents(repo.ref("main")) == {"table/a": b"one"}
    with pytest.raises(PermissionError, match="the run was published"):
        fs.pipe(url(step, "table/a"), b"zombie")
    assert storage_options(repo.branch("dev")) == {"lake": lake.location}


def test_names_are_given_without_copying_bytes(grav, repo):
    grav.pipe({"flights/dev/in/a": b"one", "flights/dev/in/sub/b": b"two"})
    before = grav.info("flights/dev/in/a")["address"]
    grav.cp("flights/dev/in/", "flights/dev/out", recursive=True)
    assert grav.info("flights/dev/out/a")["address"] == before
    grav.mv("flights/dev/in", "flights/dev/moved", recursive=True)
    assert grav.find("flights/dev") == [
        "flights/dev/moved/a",
        "flights/dev/moved/sub/b",
        "flights/dev/out/a",
        "flights/dev/out/sub/b",
    ]
    grav.cp("flights/dev/out/a", "flights/main/a")
    assert grav.info("flights/main/a")["address"] == before
    grav.mv("flights/dev/out/a", "flights/dev/out/a")
    assert grav.cat("flights/dev/out/a") == b"one"
    with pytest.raises(FileNotFoundError):
        grav.mv("flights/dev/nowhere", "flights/dev/out/x")


@pytest.mark.parametrize(
    ("source", "dest", "recursive", "after"),
    [
        ("in", "in/deep", True, ["in/deep/a", "in/deep/sub/b"]),
        ("in/sub", "in", True, ["in/a", "in/sub/b"]),
        ("in/a", "in/", False, ["in/a", "in/sub/b"]),
        ("in/*", "in/", True, ["in/a", "in/sub/b"]),
    ],
)
def test_what_is_moved_onto_itself_or_below_itself_is_not_lost(
    grav, repo, source, dest, recursive, after
):
    dev = repo.branch("dev")
    dev.put("in/a", b"1")
    dev.put("in/sub/b", b"2")
    grav.mv(f"flights/dev/{source}", f"flights/dev/{dest}", recursive=recursive)
    assert [entry.path for entry in dev.entries("in/")] == after
    assert [dev.get(path) for path in after] == [b"1", b"2"]


def test_a_thousand_files_move_in_a_few_calls(grav, repo, lake):
    for number in range(1000):
        repo.stores.objects.put(f"data/{number}", b"x")
    repo.branch("dev").link_many(
        Entry(f"in/{number % 10}/{number}", address=f"data/{number}", size=1)
        for number in range(1000)
    )
    with grav.transaction as transaction:
        grav.mv("flights/dev/in", "flights/dev/out", recursive=True)
    assert transaction.commits["flights/dev"].message == "write 2000 files (in/0/0, …)"
    calls = []
    kv = repo.stores.kv
    get = kv.get
    kv.get = lambda *key: (calls.append(key), get(*key))[1]  # type: ignore[func-returns-value]
    grav.mv("flights/dev/out", "flights/dev/back", recursive=True)
    assert len(grav.find("flights/dev/back")) == 1000
    assert len(calls) < 60
    assert grav.ls("flights/dev", detail=False) == ["flights/dev/back"]


def test_into_another_repository_bytes_are_copied(grav, repo, lake):
    other = lake.create_repository("weather")
    grav.pipe("flights/dev/a", b"one")
    grav.cp("flights/dev/a", "weather/main/a")
    assert grav.cat("weather/main/a") == b"one"
    assert grav.info("weather/main/a")["address"].startswith(other.storage)


def test_deleting(grav):
    grav.pipe({f"flights/dev/{name}": b"" for name in ("a", "b", "in/c", "in/d")})
    grav.rm("flights/dev/a")
    grav.rm_file("flights/dev/b")
    for missing in ("flights/dev/a", "flights/dev/nowhere"):
        with pytest.raises(FileNotFoundError):
            grav.rm(missing)
    for refused in (grav.rm, grav.open):
        with pytest.raises(IsADirectoryError):
            refused("flights/dev/in")
    with pytest.raises(IsADirectoryError):
        grav.touch("flights/dev")
    with pytest.raises(OSError, match="only branches can be written"):  # before bytes are stored
        grav.open("flights/dev~0/a", "wb")
    with pytest.raises(OSError, match="not empty"):
        grav.rmdir("flights/dev/in")
    grav.rm("flights/dev/in", recursive=True)
    grav.rmdir("flights/dev/in")
    assert grav.find("flights/dev") == []


@pytest.mark.parametrize(
    "path", ["flights", "grav://flights/", "", "flights/*", "*/dev", ["flights/dev/a", "flights"]]
)
def test_nothing_is_deleted_in_several_branches_at_once(grav, repo, path):
    repo.protection.add("main")
    grav.pipe({"flights/dev/a": b"", "flights/dev/in/b": b""})
    for delete in (grav.rm, lambda *given, **how: grav.mv(*given, "flights/dev/to", **how)):
        with pytest.raises(PermissionError, match="one branch at a time"):
            delete(path, recursive=True)
    assert grav.find("flights/dev") == ["flights/dev/a", "flights/dev/in/b"]


def test_a_pattern_finds_what_to_delete_within_one_branch(grav):
    grav.pipe({"flights/dev/a": b"", "flights/dev/b": b"", "flights/main/a": b""})
    with pytest.raises(PermissionError, match="one branch at a time"):
        grav.rm("flights/*/a")
    grav.rm("flights/dev/*")
    assert grav.find("flights/dev") == []
    assert grav.find("flights/main") == ["flights/main/a"]


def test_a_branch_is_emptied_as_a_bucket_is(grav, repo):
    dev = repo.branch("dev")
    dev.put("in/a", b"one")
    dev.commit("base")
    with pytest.raises(IsADirectoryError):
        grav.rm("flights/dev")
    grav.rm("flights/dev", recursive=True)
    assert grav.find("flights/dev") == []
    assert contents(repo.ref("dev")) == {"in/a": b"one"}


def test_appending_rewrites_the_file_and_loses_no_write(grav, repo):
    with grav.open("flights/dev/log", "ab") as file:
        file.write(b"one\n")
    with grav.open("flights/dev/log", "a") as file:
        file.write("two\n")
    assert grav.cat("flights/dev/log") == b"one\ntwo\n"
    file = grav.open("flights/dev/log", "ab")
    assert file.tell() == file.details["size"] == 8
    file.write(b"three\n")
    grav.pipe("flights/dev/log", b"other\n")
    with pytest.raises(BlockingIOError, match="another writer changed"):
        file.close()
    assert grav.cat("flights/dev/log") == b"other\n"


def test_exclusive_creation_looks_again_at_the_end(grav):
    file = grav.open("flights/dev/a", "xb")
    file.write(b"mine")
    grav.pipe("flights/dev/a", b"theirs")
    with pytest.raises(FileExistsError):
        file.close()
    assert grav.cat("flights/dev/a") == b"theirs"
    with pytest.raises(NotImplementedError):  # fsspec's own error for a mode that it does not know
        grav.open("flights/dev/a", "r+b")


def test_folders_need_no_making(grav):
    grav.makedirs("flights/dev/input/05:00", exist_ok=True)
    grav.mkdir("flights/dev/input/05:00")
    assert not grav.exists("flights/dev/input")
    grav.pipe("flights/dev/a", b"")
    with pytest.raises(FileExistsError):
        grav.makedirs("flights/dev/a", exist_ok=True)


def test_touching_makes_a_file_or_says_that_it_is_new(grav):
    grav.touch("flights/dev/a")
    assert grav.cat("flights/dev/a") == b""
    grav.pipe("flights/dev/a", b"one")
    before = grav.modified("flights/dev/a")
    grav.touch("flights/dev/a", truncate=False)
    assert grav.cat("flights/dev/a") == b"one"
    assert grav.modified("flights/dev/a") > before
