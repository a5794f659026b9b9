"""Steps of other processes: the variables that name them, and those that are stale."""

import pytest

import graveler
from graveler.errors import FencedError, InvalidInputError, RunStateError
from graveler.runs import StepEnvironment, StepHandle


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


def test_another_process_writes_in_an_open_step(run):
    with run.step("load", try_number=2) as step:
        with graveler.attach(step.environment()) as work:
            assert (work.step, work.try_number) == ("load", 2)
            work.put("a.csv", b"1")
        assert paths(step) == ["a.csv"]
        assert paths(run) == []
    assert paths(run) == ["a.csv"]
    assert step.result.metadata["graveler.try"] == "2"


def test_an_environment_is_handed_on(run):
    with run.step("load") as step, graveler.attach(step.environment()) as work:
        assert work.environment() == step.environment()


def test_an_attached_process_opens_its_step(run):
    variables = run.step_environment("load", try_number=3, metadata={"host": "h1"})
    with graveler.attach(variables) as step:
        step.put("a.csv", b"1")
    assert run.head.metadata["host"] == "h1"
    assert paths(run) == ["a.csv"]


def test_an_exception_drops_the_step_that_was_attached(run):
    with pytest.raises(ZeroDivisionError), graveler.attach(run.step_environment("load")) as step:
        step.put("a.csv", b"1")
        _ = 1 / 0
    assert paths(run) == []


def test_a_retry_replaces_what_an_attached_step_wrote(run):
    for path in ("a.csv", "b.csv"):
        with graveler.attach(run.step_environment("load")) as step:
            step.put(path, b"1")
    assert paths(run) == ["b.csv"]


def test_names_in_the_environment_are_enough(run, lake, monkeypatch):
    monkeypatch.setenv("GRAVELER_LAKE", lake.location)
    monkeypatch.setenv("GRAVELER_RUN", "hour 05")
    monkeypatch.delenv("GRAVELER_STEP", raising=False)
    with graveler.attach(step="load") as step:
        step.put("a.csv", b"1")
    assert paths(run) == ["a.csv"]


def test_what_an_attached_process_reads_is_an_input(repo, run):
    with run.step("load") as step, graveler.attach(step.environment()) as work:
        list(work.view("main").entries("input/"))
    assert [source.prefix for source in run.record.inputs] == ["input/"]


def test_a_sibling_step_is_opened_beside_the_open_one(run):
    with run.step("load") as step:
        with graveler.attach(step.environment(), step="check") as other:
            other.put("b.csv", b"1")
        with graveler.attach(step.environment(), step="load") as same:
            same.put("a.csv", b"1")
    assert paths(run) == ["a.csv", "b.csv"]


def test_the_environment_of_an_ended_step_is_stale(run):
    with run.step("load") as step:
        variables = step.environment()
    with (
        pytest.raises(FencedError, match=r"not open any more.*graveler run exec"),
        graveler.attach(variables),
    ):
        pass


def test_the_environment_of_a_replaced_try_is_stale(run):
    first = run.step("load")
    with graveler.attach(first.environment()) as work:
        second = run.step("load", try_number=2)
        with pytest.raises(FencedError):
            work.put("late.csv", b"1")
    with pytest.raises(FencedError, match="newer try"), graveler.attach(first.environment()):
        pass
    second.join()
    assert paths(run) == []


def test_the_environment_of_an_earlier_attempt_is_stale(repo, run):
    opened, unopened = run.step("load").environment(), run.step_environment("check")
    repo.runs.open("hour 05")
    for variables in (opened, unopened):
        with pytest.raises(FencedError), graveler.attach(variables):
            pass


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "GRAVELER_RUN is not set"),
        ({"GRAVELER_RUN": "hour 05"}, "set GRAVELER_LAKE"),
        ({"GRAVELER_RUN": "{"}, "not a run handle"),
        ({"GRAVELER_RUN": "hour 05", "GRAVELER_STEP": '{"name": 5}'}, "not a step handle"),
    ],
)
def test_a_wrong_environment_names_the_variable(run, variables, message):
    with pytest.raises(InvalidInputError, match=message), graveler.attach(variables):
        pass


def test_a_run_without_a_step_names_the_variable(run, lake):
    variables = {"GRAVELER_LAKE": lake.location, "GRAVELER_RUN": "hour 05"}
    with pytest.raises(InvalidInputError, match="GRAVELER_STEP"), graveler.attach(variables):
        pass


def test_the_key_of_a_parked_run_names_the_way_out(run, lake):
    run.park("lunch")
    variables = {"GRAVELER_LAKE": lake.location, "GRAVELER_RUN": "hour 05", "GRAVELER_STEP": "a"}
    with (
        pytest.raises(RunStateError, match=r"PARKED.*graveler run open"),
        graveler.attach(variables),
    ):
        pass


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
