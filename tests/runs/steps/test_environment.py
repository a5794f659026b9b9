"""Steps of other processes: the variables that name a step, and stale variables."""

import os
import subprocess
import sys
from contextlib import suppress

import pytest

import graveler
from graveler.config import environment, program_environment
from graveler.errors import FencedError, InvalidInputError, RunStateError
from graveler.runs.steps.environment import StepEnvironment, StepHandle


@pytest.fixture
def lake(tmp_path):
    with graveler.init(tmp_path / "lake") as lake:
        lake.create_repository("flights")
        yield lake


@pytest.fixture
def repo(lake):
    return lake.repository("flights")


@pytest.fixture
def run(repo):
    return repo.runs.open("hour 05")


def paths(view):
    return [entry.path for entry in view.entries()]


def test_another_process_works_in_an_open_step(run):
    with run.step("load", try_number=2) as step:
        with graveler.attach(step.environment()) as work:
            assert (work.step, work.try_number) == ("load", 2)
            assert work.environment() == step.environment()
            work.put("out/a.csv", b"1")
            list(work.view("main").entries("input/"))
        with pytest.raises(SystemExit), graveler.attach(step.environment()) as work:
            work.view("main").exists("raw/a")
            sys.exit(0)
        assert step.exists("out/a.csv")
        assert not run.exists("out/a.csv")
    assert paths(run) == ["out/a.csv"]
    assert step.result.metadata["graveler.try"] == "2"
    assert [read.prefix for read in run.record.inputs] == ["input/", "out/", "raw/"]


ENDS = {0: ["a.csv"], None: ["a.csv"], 3: [], "": [], "exception": [], "nothing": ["a.csv"]}


@pytest.mark.parametrize("code", ENDS)
def test_an_attached_process_joins_its_step_unless_it_fails(run, code):
    variables = run.step_environment("load", try_number=3, metadata={"host": "h1"})
    with suppress(SystemExit, ZeroDivisionError), graveler.attach(variables) as step:
        step.put("a.csv", b"1")
        if code == "exception":
            _ = 1 / 0
        if code != "nothing":
            sys.exit(code)
    assert paths(run) == ENDS[code]
    assert (run.head.metadata.get("host") == "h1") == bool(ENDS[code])


@pytest.mark.parametrize("code", [0, 1])
def test_a_forked_child_leaves_the_step_to_its_parent(run, code):
    child = -1
    try:
        with graveler.attach(run.step_environment("load")) as step:
            child = os.fork()
            if not child:
                sys.exit(code)
            os.waitpid(child, 0)
            step.put("a.csv", b"1")
    finally:
        if not child:
            os._exit(0)
    assert paths(run) == ["a.csv"]


def test_a_sibling_step_is_opened_beside_the_open_one(run):
    with run.step("load") as step:
        with graveler.attach(step.environment(), step="check") as other:
            other.put("b.csv", b"1")
        with graveler.attach(step.environment(), step="load") as same:
            same.put("a.csv", b"1")
    assert paths(run) == ["a.csv", "b.csv"]


def test_the_environment_of_what_ended_is_stale(repo, run):
    first = run.step("load")
    variables = first.environment()
    with graveler.attach(variables) as work:
        second = run.step("load", try_number=2)
        with pytest.raises(FencedError):
            work.put("late.csv", b"1")
    with pytest.raises(FencedError, match="newer try"), graveler.attach(variables):
        pass
    variables = second.environment()
    second.join()
    ended = r"not open any more.*graveler run exec"
    with pytest.raises(FencedError, match=ended), graveler.attach(variables):
        pass
    opened, unopened = run.step("load").environment(), run.step_environment("check")
    repo.runs.open("hour 05")
    for variables in (opened, unopened):
        with pytest.raises(FencedError), graveler.attach(variables):
            pass
    assert paths(run) == []


NAMED = {"GRAVELER_RUN": "hour 05"}
WRONG = {
    "GRAVELER_RUN is not set": {},
    "set GRAVELER_LAKE": NAMED,
    "not a run handle": {"GRAVELER_RUN": "{"},
    "not a step handle": {**NAMED, "GRAVELER_STEP": '{"name": 5}'},
    "GRAVELER_STEP": {**NAMED, "GRAVELER_LAKE": "LAKE"},
    r"PARKED.*graveler run open": {**NAMED, "GRAVELER_LAKE": "LAKE", "GRAVELER_STEP": "a"},
}


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_environment_names_the_variable_or_the_way_out(run, lake, message):
    if "PARKED" in message:
        run.park("lunch")
    variables = {
        name: value.replace("LAKE", lake.location) for name, value in WRONG[message].items()
    }
    with pytest.raises((InvalidInputError, RunStateError), match=message):
        graveler.attach(variables).__enter__()


@pytest.mark.parametrize("names", ["given", "set"])
def test_names_in_the_environment_are_enough(run, lake, monkeypatch, names):
    given = {"GRAVELER_LAKE": lake.location, "GRAVELER_RUN": "hour 05"}
    if names == "set":
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("GRAVELER_STEP", raising=False)
    with graveler.attach(given if names == "given" else None, step="load") as step:
        step.put("a.csv", b"1")
    assert paths(run) == ["a.csv"]


@pytest.mark.parametrize("name", ["load", "a b/c", "Größe", "x" * 300])
def test_any_name_of_a_step_survives_the_environment(run, name):
    handle = StepHandle(name, 7, {"a": "ü"}, "f")
    assert StepHandle.from_text(handle.to_json()) == handle
    given = StepEnvironment.of(run.step_environment(name))
    assert given.step is not None
    assert (given.step.name, given.run) == (name, run.handle)


def test_files_of_the_open_step_have_an_address(run, lake, monkeypatch):
    fsspec = pytest.importorskip("fsspec")
    with run.step("load") as step:
        for name, value in step.environment().items():
            monkeypatch.setenv(name, value)
        url = step.environment()["GRAVELER_URL"]
        with fsspec.open(f"{url}/out/a.csv", "wb") as file:
            file.write(b"1")
        with fsspec.open(f"{url}/out/a.csv") as file:
            assert file.read() == b"1"
    assert paths(run) == ["out/a.csv"]
    with pytest.raises(PermissionError, match="not open any more"):
        fsspec.open(f"{url}/out/b.csv", "wb").open()
    graveler.fs.close_lakes()


PROGRAM = """
import os, fsspec
fs, url = fsspec.filesystem("grav"), os.environ["GRAVELER_URL"]
print(fs.cat_file(f"{url}/input/a.csv").decode())
print(fs.cat_file("grav://flights/main/fares/2013/a.csv").decode())
print(sorted(fs.find("grav://flights/scratch/days")))
print(fs.exists("grav://flights/v1/none/a.csv"))
fs.pipe_file("grav://flights/scratch/own/a.csv", b"staged")
print(fs.cat_file("grav://flights/scratch/own/a.csv").decode())
os._exit(0)  # without what Python does at its end, as a forked worker leaves
"""


def test_reads_of_a_program_by_addresses_are_inputs(repo):
    main = repo.branch("main")
    for path in ("input/a.csv", "fares/2013/a.csv", "days/1.csv"):
        main.put(path, b"1")
    head = main.commit("files").id
    repo.tags.create("v1", "main")
    scratch = repo.create_branch("scratch")
    scratch.put("days/2.csv", b"2")
    run = repo.runs.open("hour 06")
    with run.step("load") as step:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=program_environment(step.environment()),
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    listed = "['flights/scratch/days/1.csv', 'flights/scratch/days/2.csv']"
    assert done.stdout.splitlines() == ["1", "1", listed, "False", "staged"]
    inputs = {read.prefix: read.commit for read in run.record.inputs}
    expected = ("input/", "fares/2013/", "days", "none/", "own/")
    assert inputs == dict.fromkeys(expected, head)


def test_variables_are_exported_for_a_block(run, monkeypatch):
    monkeypatch.setenv("GRAVELER_REPO", "elsewhere")
    monkeypatch.delenv("GRAVELER_STEP", raising=False)
    with pytest.raises(ValueError, match="stop"), run.step("load") as step, step.exported():
        assert environment("GRAVELER_REPO") == "flights"
        with graveler.attach() as attached:
            attached.put("a.csv", b"1")
        raise ValueError("stop")
    assert environment("GRAVELER_REPO") == "elsewhere"
    assert environment("GRAVELER_STEP", "none") == "none"
    assert paths(run) == []
