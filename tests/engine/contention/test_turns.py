"""When an operation that moves a branch takes its turn."""

from contextvars import Context
from datetime import timedelta

import pytest

from graveler.gates import gate
from graveler.refs.refs import Refs
from graveler.testing import World
from tests.harness.threads import raced


@pytest.fixture
def events(monkeypatch):
    seen = []
    turn = Refs.turn

    def noted(refs, branch):
        seen.append("turn")
        return turn(refs, branch)

    monkeypatch.setattr(Refs, "turn", noted)
    return seen


class Merger:
    """Merges with a conflict. Its resolver is called when the candidate is built."""

    def __init__(self, world, events):
        self.repo = world.open().create_repository("repo")
        self.other = world.open().repository("repo")
        self.events = events
        self._commit("begin")

    def merge(self, name, *, races):
        self.repo.create_branch(name, source="main").put("k", name.encode())
        self.repo.branch(name).commit(name)
        self._commit(name)
        self.events.clear()
        left = [f"{name} beside"] * races

        def resolve(_conflict):
            self.events.append("build")
            if left:
                self._commit(left.pop())
            return "source-wins"

        self.repo.merge(name, into="main", strategy=resolve)
        return list(self.events)

    def _commit(self, name):
        before = len(self.events)
        main = self.other.branch("main")
        main.put("k", b"main: " + name.encode())
        main.commit(name)
        del self.events[before:]  # those of the other process


def test_a_turn_is_taken_after_a_race_and_at_once_soon_after(events):
    world = World()
    merger = Merger(world, events)
    assert merger.merge("one", races=0) == ["build"]
    assert merger.merge("two", races=1) == ["build", "turn", "build"]
    assert merger.merge("three", races=0) == ["turn", "build"]
    assert merger.merge("four", races=1) == ["turn", "build", "build"]
    world.clock.advance(timedelta(seconds=11))
    assert merger.merge("five", races=0) == ["build"]


def test_a_turn_is_taken_while_another_process_moves_the_branch(events):
    merger = Merger(World(), events)
    assert merger.merge("one", races=0) == ["build"]
    assert merger.merge("two", races=0) == ["build"]  # it finds the commit of the other process
    assert merger.merge("three", races=0) == ["turn", "build"]


def test_a_process_alone_takes_no_turn(events):
    repo = World().open().create_repository("repo")
    main = repo.branch("main")
    for number in range(20):
        main.put("k", b"%d" % number)
        main.commit("alone")
        repo.create_branch(f"b{number}", source="main").put("k", b"b")
        repo.branch(f"b{number}").commit("beside")
        repo.merge(f"b{number}", into="main")
    assert events == []


@pytest.mark.parametrize(("second", "judgements"), [("second", 1), ("out/b", 2)])
def test_a_publisher_that_others_pass_lands(monkeypatch, second, judgements):
    """Others commit while the gate judges, and again before the turn is taken."""
    world = World()
    repo = world.open().create_repository("repo")
    other = world.open().repository("repo").branch("main")
    judged, left, turn = [], ["first", second], Refs.turn

    def beside():
        if left:
            other.put(left[0], b"1")
            other.commit(left.pop(0))

    def late(refs, branch):
        beside()
        return turn(refs, branch)

    @gate(prefix="out/")
    def counted(candidate):
        judged.append(candidate)
        Context().run(beside)  # as another process: a gate writes nothing
        return True

    monkeypatch.setattr(Refs, "turn", late)
    with repo.run("hour", gates=[counted]) as run:
        run.put("out/a", b"1")
    assert (len(judged), left) == (judgements, [])
    paths = {entry.path for entry in repo.ref("main").entries()}
    assert paths == {"first", second, "out/a"}


def test_threads_note_moves_of_many_branches_at_once():
    refs = World().open().create_repository("repo").stores.refs

    def note(thread):
        for number in range(20_000):
            refs.moved_to(f"{thread}-{number}", "commit")

    raced(note)
