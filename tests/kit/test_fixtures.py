"""The plugin's fixtures: a real repository, a clock that tests move, and faults at a call."""

import subprocess
import sys

import pytest

import graveler
from graveler.errors import BackendUnavailableError
from graveler.testing.faults import ProcessDied


def test_each_test_has_one_of_its_own(graveler_repo, graveler_clock):
    assert not graveler_repo.ref("main").exists("a")
    assert graveler_clock.now().year == 2026


def test_leases_and_times_to_live_run_out_by_the_clock(graveler_repo, graveler_clock):
    run = graveler_repo.runs.open("hour 05")
    run.put("a", b"one")
    assert graveler_repo.runs.reap(dry_run=False) == []
    graveler_clock.advance(hours=1)
    (reaped,) = graveler_repo.runs.reap(dry_run=False)
    assert (reaped.key, str(reaped.to_state)) == ("hour 05", "PARKED")
    graveler_clock.advance(days=15)
    graveler_repo.runs.reap(dry_run=False)
    assert [record.name for record in graveler_repo.branches(hidden=True)] == ["main"]


def test_a_store_does_not_answer_once(graveler_repo, graveler_faults):
    main = graveler_repo.branch("main")
    with graveler_faults.unavailable(1, of="put"), pytest.raises(BackendUnavailableError):
        main.put("a", b"one")
    main.put("a", b"one")
    with graveler_faults.lost_reply(1, of="set_if"):
        main.commit("a")  # it reads back its own write
    assert graveler_repo.ref("main").get("a") == b"one"


def test_a_process_that_died_has_no_effect_any_more(
    graveler_repo, graveler_faults, graveler_reopen
):
    with graveler_faults.dies(1, moment="after", of="set_if"):
        try:
            with graveler_repo.run("hour 05") as run:
                run.put("a", b"one")
        finally:
            with pytest.raises(ProcessDied):
                graveler_repo.branch("main").put("note", b"dying words")
    repo = graveler_reopen()
    assert repo.runs.get("hour 05").attempt == 1
    with repo.run("hour 05") as run:
        assert run.attempt == 2
        run.put("a", b"two")
    assert [entry.path for entry in repo.branch("main").entries()] == ["a"]


def test_a_fault_that_never_comes_fails_the_test(graveler_repo, graveler_faults):
    with (
        pytest.raises(AssertionError, match="less than 999 calls kv"),
        graveler_faults.unavailable(999, of="kv"),
    ):
        graveler_repo.branch("main").exists("a")
    assert str(graveler_faults.calls[-1]).startswith("call ")
    assert "test_fixtures.py" in graveler_faults.calls[-1].where


def test_addresses_lead_to_the_tests_lake(graveler_fs, graveler_repo):
    graveler_fs.pipe("grav://test/main/a", b"one")
    assert graveler_repo.branch("main").get("a") == b"one"


def test_a_repository_on_disk_is_there_for_other_processes(graveler_disk_repo):
    graveler_disk_repo.branch("main").put("a", b"one")
    location = graveler_disk_repo.stores.location
    with graveler.open(location) as lake:
        assert lake.repository("test").branch("main").get("a") == b"one"


@pytest.fixture
def project(tmp_path):
    """A user's project with one test file and no configuration."""
    (tmp_path / "test_it.py").write_text(
        "def test_it(graveler_repo):\n    assert graveler_repo.name\n"
    )

    def run(*arguments):
        program = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        return subprocess.run([*program, *arguments], cwd=tmp_path, capture_output=True, text=True)

    return run


def test_pytest_loads_the_plugin_and_unloads_it_on_request(project):
    done = project()
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    done = project("-p", "no:graveler")
    assert "fixture 'graveler_repo' not found" in done.stdout
