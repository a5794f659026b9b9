"""Clean-up in background threads."""

from threading import Event, Thread

import pytest

from graveler.base.background import Inline, OneThread
from graveler.base.parallel import Bounds, in_order
from graveler.errors import BackendUnavailableError
from tests.harness.programs import FORKS, output_of
from tests.harness.worlds import ScriptedWorld


@pytest.mark.parametrize("kind", [Inline, OneThread])
def test_handed_over_work_is_done_in_order_before_close_returns(kind):
    done: list[int] = []
    background = kind()
    for number in range(50):
        background.run(lambda number=number: done.append(number))
    background.close()
    assert done == list(range(50))
    background.close()
    background.run(lambda: done.append(50))
    background.close()
    assert done[-1] == 50


def fails():
    raise OSError("disk")


@pytest.mark.parametrize("kind", [Inline, OneThread])
def test_an_error_is_logged_and_stops_nothing(kind, caplog):
    done: list[str] = []
    background = kind()
    background.run(fails)
    background.run(lambda: done.append("next"))
    background.close()
    assert done == ["next"]
    assert "clean-up failed" in caplog.text


def test_nobody_waits_for_the_thread():
    go, done = Event(), Event()
    background = OneThread()

    def task() -> None:
        go.wait(10)
        done.set()

    background.run(task)
    assert not done.is_set()  # run returned before the task ended
    go.set()
    background.close()
    assert done.is_set()


def test_what_is_handed_over_as_the_program_ends_is_done_at_once():
    assert output_of("foundations.programs.work_at_exit") == "early\nlate\n"


@pytest.mark.parametrize("end", ["exit", "late-thread"])
def test_calls_with_threads_work_after_the_main_thread(end, tmp_path):
    assert output_of("foundations.programs.calls_at_the_end", end, tmp_path) == "done\n"


@pytest.fixture
def no_threads(monkeypatch):
    def refused(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", refused)


@pytest.mark.usefixtures("no_threads")
def test_a_call_without_a_free_thread_is_refused_by_name():
    with pytest.raises(BackendUnavailableError, match="fewer threads"):
        list(in_order(str, range(3), Bounds(2, 10, lambda _: 0)))


@pytest.mark.usefixtures("no_threads")
def test_a_run_is_published_without_a_free_thread():
    repo = ScriptedWorld().repo()
    with repo.run("hour 05") as run:
        run.put("a", b"1")
    assert repo.ref("main").get("a") == b"1"


def test_a_child_process_has_a_thread_of_its_own():
    assert output_of("foundations.programs.background_in_child", warnings=FORKS) == "done"
