"""``run open``, ``exec`` and ``publish``: programs that work in a step of a run."""

import json
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from graveler.config import program_environment

GRAVELER = [sys.executable, "-m", "graveler"]


@pytest.fixture
def run(history):
    return history.runs.open("hour 05")


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    for name in ("GRAVELER_RUN", "GRAVELER_STEP"):
        monkeypatch.delenv(name, raising=False)


def written(run):
    return [entry.path for entry in run.entries("output/")]


def execute(*command, folder, **variables):
    """Run a real `graveler run exec`, and return its result."""
    return subprocess.run(
        [*GRAVELER, "run", "exec", *command],
        cwd=folder,
        env=program_environment(variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@contextmanager
def started(*command, folder):
    """Run a real `graveler run exec` during a block, which gets the process and its output."""
    process = subprocess.Popen(
        [*GRAVELER, "run", "exec", "--run", "hour 05", "--step", "load", *command],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout as output:
        yield process, output


def shell(script):
    return ["--", "sh", "-ec", script.replace("graveler", " ".join(GRAVELER))]


def test_the_exit_code_of_a_program_drops_its_step(run, folder):
    script = shell("echo 1 | graveler put - :output/a.csv; exit 7")
    done = execute("--run", "hour 05", "--step", "load", *script, folder=folder)
    assert (done.returncode, written(run)) == (7, [])
    assert "step load of run hour 05 is dropped: sh ended with exit code 7" in done.stderr


def test_a_stopped_command_stops_its_program(run, folder):
    script = shell("echo 1 | graveler put - :output/a.csv; echo ready; exec sleep 60")
    with started(*script, folder=folder) as (process, output):
        while output.readline() != "ready\n":
            pass
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
    assert written(run) == []


def test_a_killed_command_leaves_nothing_to_its_program(run, folder, tmp_path):
    go = tmp_path / "go"
    script = shell(f"echo 1; while [ ! -e {go} ]; do sleep 0.05; done; graveler ls")
    with started(*script, folder=folder) as (process, output):
        assert output.readline() == "1\n"
        process.kill()
        process.wait(30)
        again = execute("--run", "hour 05", "--step", "load", "--", "true", folder=folder)
        assert again.returncode == 0
        go.touch()
        assert "is not open any more" in output.read()


def test_a_program_in_a_step_reads_other_refs_as_inputs(run, folder):
    script = shell("graveler get main:input/05:00/a.csv | graveler put - :output/a.csv")
    assert not execute("--run", "hour 05", "--step", "x", *script, folder=folder).returncode
    assert [source.prefix for source in run.record.inputs] == ["input/05:00/"]


def test_a_step_is_not_opened_within_itself(cli, run, monkeypatch):
    with run.step("load") as step:
        for name, value in step.environment().items():
            monkeypatch.setenv(name, value)
        done = cli("run", "exec", "--", "true")
        assert (done.code, "works in step 'load' already" in done.err) == (2, True)
        assert cli("run", "exec", "--step", "other", "--", "true").code == 0


def test_a_verb_outside_of_a_step_does_not_guess_a_branch(cli, run, monkeypatch):
    monkeypatch.setenv("GRAVELER_RUN", run.handle.to_json())
    for verb in (("ls",), ("rm", ":readme.txt"), ("commit", "-m", "x"), ("log",)):
        done = cli(*verb)
        assert (done.code, "graveler run exec" in done.err) == (2, True), verb
    assert cli("ls", "main").code == 0
    assert cli("run", "show", "hour 05").code == 0


def test_verbs_in_a_step_never_touch_main(cli, history, run, monkeypatch):
    before = history.branch("main").head
    with run.step("load") as step:
        for name, value in step.environment().items():
            monkeypatch.setenv(name, value)
        assert cli("rm", ":readme.txt").code == 0
        assert cli("commit", "-m", "remove").code == 0
        assert "input/" in cli("ls").out
    assert history.branch("main").head == before
    assert not run.exists("readme.txt")


def test_a_stale_step_is_refused_by_every_verb(cli, run, monkeypatch):
    with run.step("load") as step:
        variables = step.environment()
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for verb in (("ls",), ("get", ":readme.txt"), ("rm", ":readme.txt"), ("commit", "-m", "x")):
        done = cli(*verb)
        assert (done.code, "is not open any more" in done.err) == (1, True), verb


def test_a_run_is_opened_and_published_by_commands(cli, history, folder):
    handle = cli("run", "open", "hour 06", "--meta", "source=bts").out.strip()
    assert json.loads(handle)["key"] == "hour 06"
    script = shell("echo 1 | graveler put - :output/a.csv")
    assert not execute("--step", "a", *script, folder=folder, GRAVELER_RUN=handle).returncode
    done = cli("run", "publish", "--run", "hour 06")
    assert (done.code, "is published into main" in done.out) == (0, True)
    assert history.branch("main").exists("output/a.csv")
    assert cli("run", "publish", "--run", handle, "--json").json["already"]


def test_a_lease_is_renewed_while_a_program_runs(history, folder):
    run = history.runs.open("hour 07", lease="2s")
    before = time.monotonic()
    done = execute("--run", "hour 07", "--step", "a", "--", "sleep", "3", folder=folder)
    assert time.monotonic() - before > 3
    assert done.returncode == 0
    assert run.record.lease_until > history.stores.clock.now()
