"""A path that exists comes before the pattern that it looks like; a file can be a folder, too."""

import duckdb
import fsspec
import pandas as pd
import pytest

from graveler.fs import GravelerFileSystem, close_lakes

ODD, PLAIN = "flights/dev/report[1].csv", "flights/dev/report1.csv"


def contents(view):
    return {entry.path: view.get(entry.path) for entry in view.entries()}


@pytest.fixture
def dev(repo):
    branch = repo.branch("dev")
    branch.put_many({"report[1].csv": b"odd", "report1.csv": b"plain"})
    return branch


@pytest.fixture
def folders(repo):
    branch = repo.branch("dev")
    branch.put_many({"in[1]/a": b"odd", "in[1]/sub/b": b"odd", "in1/a": b"plain"})
    return branch


def test_the_verbs_take_the_named_file(grav, dev, tmp_path):
    assert grav.cat(ODD) == b"odd"
    grav.get(ODD, str(tmp_path / "one.csv"))
    assert (tmp_path / "one.csv").read_bytes() == b"odd"
    grav.get(ODD, f"{tmp_path}/")
    assert (tmp_path / "report[1].csv").read_bytes() == b"odd"
    grav.copy(ODD, "flights/dev/copy.csv")
    grav.copy(ODD, "flights/dev/into/")
    grav.mv(ODD, "flights/dev/moved.csv")
    rest = {"copy.csv": b"odd", "into/report[1].csv": b"odd", "report1.csv": b"plain"}
    assert contents(dev) == {"moved.csv": b"odd"} | rest
    dev.put("report[1].csv", b"odd")
    grav.rm(ODD)
    assert contents(dev) == {"moved.csv": b"odd"} | rest
    assert grav.cat(ODD) == {PLAIN: b"plain"}  # now it is a pattern


def test_the_verbs_take_the_named_folder(grav, folders, tmp_path):
    grav.get("flights/dev/in[1]", str(tmp_path / "got"), recursive=True)
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")) == [
        "got",
        "got/a",
        "got/sub",
        "got/sub/b",
    ]
    assert grav.cat("flights/dev/in[1]/a") == b"odd"
    grav.cp("flights/dev/in[1]", "flights/dev/copy", recursive=True)
    grav.mv("flights/dev/in[1]", "flights/dev/copy", recursive=True)
    assert contents(folders) == {
        "copy/a": b"odd",
        "copy/sub/b": b"odd",
        "copy/in[1]/a": b"odd",
        "copy/in[1]/sub/b": b"odd",
        "in1/a": b"plain",
    }
    grav.rm("flights/dev/copy/in[1]", recursive=True)
    assert sorted(contents(folders)) == ["copy/a", "copy/sub/b", "in1/a"]


def test_local_files_are_taken_by_their_names(grav, repo, tmp_path):
    (tmp_path / "report[1].csv").write_bytes(b"odd")
    (tmp_path / "report1.csv").write_bytes(b"plain")
    grav.put(str(tmp_path / "report[1].csv"), "flights/dev/up.csv")
    grav.put(str(tmp_path / "report[1].csv"), "flights/dev/up/")
    assert contents(repo.branch("dev")) == {"up.csv": b"odd", "up/report[1].csv": b"odd"}
    (tmp_path / "in[1]").mkdir()
    (tmp_path / "in[1]" / "a").write_bytes(b"odd")
    grav.put(str(tmp_path / "in[1]"), "flights/dev/in", recursive=True)
    assert repo.branch("dev").get("in/a") == b"odd"


def test_libraries_that_ask_for_a_pattern_get_the_named_file(folder_lake):
    dev = folder_lake.repository("flights").branch("dev")
    dev.put_many({"report[1].csv": b"a\nodd\n", "report1.csv": b"a\nplain\n"})
    options = {"lake": folder_lake.location}
    with fsspec.open(f"grav://{ODD}", **options) as file:
        assert file.read() == b"a\nodd\n"
    assert pd.read_csv(f"grav://{ODD}", storage_options=options)["a"].tolist() == ["odd"]
    with duckdb.connect() as db:
        db.register_filesystem(GravelerFileSystem(**options))
        assert db.read_csv(f"grav://{ODD}").fetchall() == [("odd",)]
    close_lakes()


@pytest.fixture
def both(repo):
    branch = repo.branch("dev")
    branch.put_many({"x": b"file", "x/a": b"below", "d/y": b"file", "d/y/b": b"below"})
    return branch


def test_a_path_that_is_file_and_folder_is_taken_whole(grav, both, tmp_path):
    assert grav.find("flights/dev/x") == ["flights/dev/x", "flights/dev/x/a"]
    assert grav.find("flights/dev/d", maxdepth=2) == ["flights/dev/d/y", "flights/dev/d/y/b"]
    assert grav.du("flights/dev/x") == 9
    assert grav.cat("flights/dev/x", recursive=True) == {
        "flights/dev/x": b"file",
        "flights/dev/x/a": b"below",
    }
    grav.cp("flights/dev/d", "flights/dev/e", recursive=True)
    grav.mv("flights/dev/x", "flights/dev/z", recursive=True)
    assert sorted(contents(both)) == ["d/y", "d/y/b", "e/y", "e/y/b", "z", "z/a"]
    with pytest.raises(OSError, match=r"z"):  # a local disk cannot have both
        grav.get("flights/dev/z", str(tmp_path / "z"), recursive=True)
    for name in "dez":
        grav.rm(f"flights/dev/{name}", recursive=True)
    assert contents(both) == {}


def test_the_files_of_a_folder_are_returned_by_path(grav, folders):
    odd = {"flights/dev/in[1]/a": b"odd", "flights/dev/in[1]/sub/b": b"odd"}
    assert grav.cat("flights/dev/in[1]", recursive=True) == odd
    assert grav.cat(["flights/dev/in[1]/"], recursive=True) == odd
    assert grav.cat("flights/dev/in1", recursive=True) == {"flights/dev/in1/a": b"plain"}
    assert grav.cat("flights/dev", recursive=True).keys() == {*odd, "flights/dev/in1/a"}
    assert grav.cat("flights/dev/in1/a", recursive=True) == b"plain"
    with pytest.raises(FileNotFoundError):
        grav.cat("flights/dev/none", recursive=True)
    with pytest.raises(IsADirectoryError):
        grav.cat("flights/dev/in1")


def test_a_listing_is_limited_by_a_prefix(grav, repo):
    repo.branch("dev").put_many({"in/a1": b"", "in/a2/b": b"", "in/c": b"", "a3": b""})
    assert grav.find("flights/dev/in", prefix="a") == ["flights/dev/in/a1", "flights/dev/in/a2/b"]
    assert grav.find("flights/dev", prefix="a") == ["flights/dev/a3"]
    assert grav.find("flights/dev/in", prefix="a", maxdepth=1) == ["flights/dev/in/a1"]
    assert grav.find("flights/dev/in", prefix="z") == []


@pytest.mark.parametrize("value", [5, True, "text", [1, 2], None])
def test_only_bytes_are_written(grav, value):
    with pytest.raises(TypeError):
        grav.pipe_file(ODD, value)
    with pytest.raises(TypeError):
        grav.pipe(ODD, value)
    assert not grav.exists(ODD)
