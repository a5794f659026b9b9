"""Threads, processes and other machines: an instance belongs to one of them, the lake to all."""

import multiprocessing
import os
import pickle
import warnings
from concurrent.futures import ProcessPoolExecutor

import pytest
from fsspec import AbstractFileSystem, filesystem

from graveler.fs import GravelerFileSystem, close_lakes, storage_options
from graveler.lake.shared import lake_at


@pytest.fixture
def fs(folder_lake):
    made = GravelerFileSystem(folder_lake.location)
    made.pipe("flights/dev/a", b"one")
    return made


def read(fs):
    return os.getpid(), fs.cat("flights/dev/a")


def write(fs, name):
    fs.pipe(f"flights/dev/{name}", name.encode())


def test_equal_options_give_one_instance_and_all_one_lake(fs, folder_lake):
    assert GravelerFileSystem(folder_lake.location) is fs
    other = GravelerFileSystem(folder_lake.location, skip_instance_cache=True)
    assert other is not fs
    assert other == fs
    assert other.fsid == f"grav+{folder_lake.location}"
    assert lake_at(fs.location) is lake_at(other.location)


def test_a_filesystem_and_an_open_file_travel(fs, folder_lake, monkeypatch):
    monkeypatch.setenv("GRAVELER_LAKE", folder_lake.location)
    by_environment = GravelerFileSystem()
    monkeypatch.delenv("GRAVELER_LAKE")
    again = pickle.loads(pickle.dumps(by_environment))
    assert again.cat("flights/dev/a") == b"one"
    assert AbstractFileSystem.from_json(fs.to_json()).cat("flights/dev/a") == b"one"
    with fs.open("flights/dev/a") as file:
        file.seek(1)
        with pickle.loads(pickle.dumps(file)) as copied:
            assert copied.read() == b"ne"


def test_the_rights_of_a_run_travel_along(folder_lake):
    run = folder_lake.repository("flights").runs.open("hour 05")
    fs = pickle.loads(pickle.dumps(GravelerFileSystem(**storage_options(run))))
    fs.pipe(f"flights/{run.branch}/a", b"one")
    assert run.get("a") == b"one"


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_process_works_on_with_what_it_was_given(fs, method):
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
        process, content = pool.submit(read, fs).result()
        assert (process != os.getpid(), content) == (True, b"one")
        pool.submit(write, fs, "b").result()
    assert fs.cat("flights/dev/b") == b"b"


def test_after_closing_the_next_use_opens_the_lake_again(fs):
    close_lakes()
    close_lakes()
    assert fs.cat("flights/dev/a") == b"one"


def test_a_path_of_universal_pathlib(fs, folder_lake):
    from upath import UPath

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        root = UPath("grav://flights/dev/", lake=folder_lake.location)
        hour = root / "input" / "2013" / "05:00"
        (hour / "part-0.csv").write_text("one\n")
    assert (hour / "part-0.csv").read_text() == "one\n"
    assert [str(path) for path in hour.iterdir()] == [
        "grav://flights/dev/input/2013/05:00/part-0.csv"
    ]
    assert [path.name for path in root.rglob("*.csv")] == ["part-0.csv"]
    assert hour.is_dir()
    assert hour.parent.name == "2013"
    assert (hour / "part-0.csv").stat().st_size == 4
    assert (hour / "part-0.csv").exists()
    assert not (hour / "nothing").exists()
    (hour / "part-0.csv").rename("grav://flights/dev/input/moved.csv")
    assert (root / "input/moved.csv").read_bytes() == b"one\n"
    (root / "input/moved.csv").unlink()
    assert not (root / "input").exists()
    old = UPath("grav://flights/dev@{0}/a", lake=folder_lake.location)
    assert not old.exists()
    filesystem("grav", lake=folder_lake.location).commit("flights/dev", "a")
    assert old.read_bytes() == b"one"
