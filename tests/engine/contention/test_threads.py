"""A fault at every call of parallel threads: the repository is as before, or the work is done."""

import logging
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from threading import Event
from threading import enumerate as threads_alive

import pytest

from graveler.errors import (
    BackendUnavailableError,
    GravelerError,
    NoChangesError,
    OutcomeUnknownError,
)
from graveler.fsck.check import fsck
from graveler.repository.writes import uploads
from graveler.testing.faults import Action, Moment, ProcessDied, lost_reply, unavailable
from tests.harness.faults import CallPlace, Script, dies
from tests.harness.worlds import Points, ScriptedWorld, tree

_THREADS = 4
_NUMBERS = count()


@pytest.fixture(autouse=True)
def _quiet(caplog, monkeypatch):
    """Hide the log of failed clean-ups, and use small chunks."""
    caplog.set_level(logging.CRITICAL)
    monkeypatch.setattr(uploads, "_CHUNK", 4)


def hangs(call):
    """Fail after a delay, in which the other threads finish their work."""
    Event().wait(0.02)
    unavailable(call)


def is_write(call):
    return call in {"put", "put_if_absent", "delete_object"}


FAULTS: dict[str, tuple[Action, Moment, Callable[[str], bool]]] = {
    "hangs": (hangs, "before", lambda _: True),
    "lost-reply": (lost_reply, "after", is_write),
    "dies": (dies, "before", lambda _: True),
    "dies-after": (dies, "after", is_write),
}


def filled(repo):
    """Make a tree of many ranges, and a branch that differs from it in some of them."""
    main = repo.branch("main")
    main.put_many((f"{number:03}", b"0") for number in range(60))
    main.commit("base")
    dev = repo.create_branch("dev")
    dev.put_many((f"{number:03}", b"1") for number in range(0, 60, 7))
    dev.commit("dev")


def staged(repo):
    filled(repo)
    repo.branch("main").put_many((f"{number:03}", b"2") for number in range(3, 60, 5))


def put_many(repo):
    repo.branch("main").put_many([(f"new/{n}", b"%d" % n) for n in range(10)], threads=_THREADS)


def download(folder):
    def operate(repo):
        few = {"exclude": ["[1-9]*", "0[1-9]*"], "threads": _THREADS}
        repo.ref("main").download("", folder / f"{next(_NUMBERS)}", **few)

    return operate


OPERATIONS = {
    "merge": (filled, lambda repo: repo.merge("dev", "main")),
    "commit": (staged, lambda repo: repo.branch("main").commit("staged")),
    "put-many": (filled, put_many),
    "download": (filled, None),
}


def snapshot(world):
    repo = world.repo(scripted=False)
    seen = {record.name: tree(repo.ref(record.name)) for record in repo.branches(hidden=True)}
    return seen | {f"{name} staged": tree(repo.branch(name)) for name in list(seen)}


def at_rest(script):
    """Wait until no thread of a finished operation makes another call.

    An idle thread exists as long as an error whose frames hold its pool.
    """
    seen = -1
    while seen != len(script.calls) and any(
        thread.name.startswith("graveler-") for thread in threads_alive()
    ):
        seen = len(script.calls)
        Event().wait(0.02)


def struck(prepare, operate, fault):
    """Yield (world, place, raised error) for a fault at each place of a call in turn."""
    action, moment, differs = FAULTS[fault]

    def play(place):
        world = ScriptedWorld()
        prepare(world.repo(scripted=False))
        repo = world.repo(threads=_THREADS)
        failed = None
        if place is None:
            world.script.arm(0, action)
        else:
            world.script.arm_at(place, action, moment=moment)
        try:
            operate(repo)
        except (GravelerError, ProcessDied) as error:
            failed = error
        at_rest(world.script)
        return world, failed

    world, failed = play(None)
    assert failed is None
    places = sorted({place for place in world.script.places if differs(place.call)})
    for place in places[:: Points.step]:
        world, failed = play(place)
        assert world.script.struck == place.call, f"{place} was not met"
        world.script.disarm()
        yield world, place, failed


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_after_a_fault_in_a_thread_all_is_as_it_was_or_done(operation, fault, tmp_path):
    prepare, operate = OPERATIONS[operation]
    operate = operate or download(tmp_path)
    world = ScriptedWorld()
    prepare(world.repo(scripted=False))
    old = snapshot(world)
    operate(world.repo(scripted=False))
    new = snapshot(world)
    for world, place, failed in struck(prepare, operate, fault):
        what = f"{fault} at {place}: {failed!r}"
        assert isinstance(
            failed, BackendUnavailableError | OutcomeUnknownError | ProcessDied | None
        ), what
        if isinstance(failed, GravelerError):
            assert place.call in str(failed), what
        if operation == "put-many":  # some chunks are staged
            assert old["main"] == snapshot(world)["main"], what
        else:
            assert snapshot(world) in ([new] if failed is None else [old, new]), what
        repo = world.repo(scripted=False)
        assert fsck(repo.stores).sound, what
        with suppress(NoChangesError):
            operate(repo)
        assert snapshot(world) == new, what


def test_a_place_is_found_whichever_thread_comes_to_it():
    script = Script()
    script.arm_at(CallPlace("get_object", "b", 1), unavailable)
    for key in ("b", "a", "a"):
        with script.around("get_object", key):
            pass
    with pytest.raises(BackendUnavailableError), script.around("get_object", "b"):
        pass
    assert script.disarm() == "get_object"


def test_no_thread_has_an_effect_once_the_process_is_dead():
    script = Script()
    script.threads = True
    script.arm(1, dies)
    for _ in range(2):
        with pytest.raises(ProcessDied), script.around("put", "a"):
            raise AssertionError("the call was made")
    script.disarm()
    with script.around("put", "a"):
        pass
