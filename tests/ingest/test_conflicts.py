"""Paths that the branch and others on the target change: they are set aside, and stop no other file.

The tables tell histories; `tests.ingest.histories` explains their words.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from graveler.ingest import HourState, taking, unpublished
from graveler.ingest.taking import Taking
from graveler.refs.commits import id_of
from graveler.refs.mover import move
from graveler.repository.commits import sealing
from graveler.testing.faults import unavailable
from tests.harness.worlds import FAULTS, ScriptedWorld, struck_worlds, tree
from tests.ingest.histories import FIVE, SIX, Ingesting

FIRST = "in p=1; tick 5 PUBLISHED; "
POLICIES = {"hold": "HELD", "quarantine": "QUARANTINED", "target": "PUBLISHED"}
"""The policies, and the state of an hour of which a path is set aside."""


def told(policy, text):
    """Return a history under a policy; ``STATE`` is the state of an hour with a conflict."""
    gates = "gates none; " if "gates" not in text else ""
    return f"as {policy}; {gates}{FIRST}{text}".replace("STATE", POLICIES[policy]).replace(
        "POLICY", policy
    )


MEANWHILE = {
    "nothing": "",
    "an unrelated revert": "it: B e=1; revert it; ",
    "many commits": "".join(f"user o={number}; " for number in range(6)),
}
ASIDE = {
    f"a correction with {name}": f"in p=2 q=good; A p=3; {text}tick 6 STATE p; has p=3 q=good; "
    "shelf p=2"
    for name, text in MEANWHILE.items()
}
ASIDE |= {
    "a committed hour that waits": "as hold; gates no; in p=2 q=good; tick 6 HELD; A p=3; "
    "gates none; as POLICY; tick 7; main p=3 q=good; hour 6 STATE p; shelf p=2",
    "a path again": "A p=3; in p=1; tick 6; in p=2; tick 7 ? p; main p=3; shelf p=2; in p=3; tick 8; "
    "hour 6 EMPTY; hour 7 EMPTY",
}
FIRST_BYTES = {"changed": ("A p=3", "p=3"), "deleted": ("A -p", "")}


@pytest.mark.parametrize("text", ASIDE.values(), ids=ASIDE)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_correction_on_the_target_is_not_overwritten(history, monkeypatch, policy, text):
    monkeypatch.setattr(taking, "FAR", 5)
    history.play(told(policy, text))


def test_a_release_of_another_ingestion_hides_no_conflict(history):
    history.play(told("hold", "in p=2 q=good; A p=3"))
    other = history.repo.ingestion("other", gates=[lambda _: "no"], on_refusal="quarantine")
    other.branch.put("x", b"x")
    (name,) = other.tick(FIVE).quarantined
    other.release(name, gates=[])
    history.play("tick 6 HELD p; main p=3 q=good x=x; shelf p=2")
    refused = history.last.refused
    assert refused.gates == ()
    assert "p was also changed by others on main" in refused.reason


@pytest.mark.parametrize(("act", "left"), FIRST_BYTES.values(), ids=FIRST_BYTES)
@pytest.mark.parametrize("policy", POLICIES)
def test_an_acknowledged_write_of_the_first_bytes_is_somewhere(history, policy, act, left):
    """The branch has equal bytes, and others changed or deleted the path on the target."""
    state = "EMPTY" if policy == "target" else "STATE"
    history.play(told(policy, f"{act}; in p=1; tick 6 {state} p; main {left}; shelf p=1"))


@pytest.mark.parametrize("policy", ["refuse", "target", "ingest"])
def test_equal_bytes_of_the_branch_stay_when_a_run_is_taken_back(history, policy):
    history.play(f"as {policy}; {FIRST} A q=q; in q=q; tick 6; rollback A; main p=1 q=q; in q=q")
    history.play("tick 7; in q=q; tick 8 EMPTY")
    assert history.last.commit is None


RELEASED = {
    f"{what}, {strategy}": f"{FIRST}{text.format(strategy)}; main {left[strategy]}"
    for what, text, left in (
        (
            "a change",
            "in p=2 q=q; A p=3; tick 6 HELD p; release ! MergeConflictError 'p'; release {}; "
            "shelves; hour 6 PUBLISHED",
            {"source-wins": "p=2 q=q", "dest-wins": "p=3 q=q"},
        ),
        (
            "a deletion",
            "in -p; A p=3; tick 6; main p=3; release ! MergeConflictError; B p=4 q=q; release {}",
            {"source-wins": "q=q", "dest-wins": "p=4 q=q"},
        ),
        (
            "a deletion over equal bytes",
            "in -p; A p=3; tick 6; release ! MergeConflictError; B p=3 q=q; release {}",
            {"source-wins": "q=q", "dest-wins": "p=3 q=q"},
        ),
    )
    for strategy in left
}
ENDED = {
    "after a release": "in p=2; A p=3; tick 6; release dest-wins; in p=l; tick 7 PUBLISHED; main p=l",
    "by equal bytes": "A p=3; in p=3; tick 6 PUBLISHED; main p=3; shelves",
    "by taking theirs": "A p=3; in q=q; tick 6; in p=4; tick 7 PUBLISHED; main p=4 q=q",
    "by giving up": "A p=3; in p=1; tick 6 HELD p; give-up; hour 6 EMPTY; in p=2; "
    "tick 7 PUBLISHED; main p=2",
    "as the branch wins": "as ingest; A p=3; in p=1; tick 6 PUBLISHED; main p=1; B p=4; in p=5; "
    "tick 7 PUBLISHED; main p=5; shelves",
}


@pytest.mark.parametrize("text", RELEASED.values(), ids=RELEASED)
def test_a_path_that_was_set_aside_is_released_by_a_strategy(history, text):
    history.play(text)


@pytest.mark.parametrize("text", ENDED.values(), ids=ENDED)
def test_there_is_no_conflict_or_it_ends(history, text):
    history.play(FIRST + text)


def test_a_tick_names_at_most_a_hundred_conflicting_paths(history):
    paths = [f"{number:03}" for number in range(120)]
    ours, theirs, later = (" ".join(f"{path}={text}" for path in paths) for text in "123")
    history.play(f"in {ours}; tick 5; A {theirs}; in {later}; tick 6 ? {' '.join(paths[:100])}")
    history.play("shelf 119=3")


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_tick_that_is_struck_loses_no_conflicting_write(fault, waits):
    def prepare(repo):
        history = Ingesting(repo)
        held = "in p=1b; gates no; tick 5:30; " if waits else ""
        history.play(f"{FIRST}{held}A p=3; in p={'2' if waits else '1'} q=q")

    for world, what, _ in struck_worlds(fault, prepare, lambda repo: repo.ingestion().tick(SIX)):
        repo = world.repo(scripted=False)
        Ingesting(repo).play("gates none; tick 6; tick 7; main p=3 q=q")
        ingestion = repo.ingestion()
        shelves = [repo.branch(kept.name) for kept in ingestion.quarantined()]
        found = {shelf.get("p") for shelf in shelves if shelf.exists("p")} - {b"3"}
        assert found == {b"2" if waits else b"1"}, what
        states = {ingestion.hour(f"2013-01-01T0{at}:00Z").state for at in (6, 7)}
        assert HourState.HELD in states, what


def correct_after_the_commit(history, monkeypatch):
    """Let a run correct p between the commit of a tick and its publish."""
    commit = sealing.commit

    def correct_then(*given, **options):
        monkeypatch.setattr(sealing, "commit", commit)
        made = commit(*given, **options)
        history.play("A p=3")
        return made

    monkeypatch.setattr(sealing, "commit", correct_then)


def test_a_conflict_between_commit_and_publish_is_set_aside(history, monkeypatch):
    history.play(f"{FIRST}in p=2 q=q")
    correct_after_the_commit(history, monkeypatch)
    history.play("tick 6 HELD p; main p=3 q=q")
    assert history.ingestion.hour(SIX).published is not None


@pytest.mark.parametrize("policy", ["hold", "quarantine"])
def test_a_conflict_that_another_tick_settles_stops_no_file(history, monkeypatch, policy):
    """The other tick took the target just before, and this one quarantined the whole hour."""
    history.play(f"as {policy}; {FIRST}in p=2 q=q")
    take = Taking.take

    def another_first(self):
        monkeypatch.setattr(Taking, "take", take)
        assert self.take()
        return self.take()

    correct_after_the_commit(history, monkeypatch)
    monkeypatch.setattr(Taking, "take", another_first)
    history.play("tick 6 ? p; main p=3 q=q")
    assert len(list(history.ingestion.quarantined())) == 1


PATH = "input/2013/01/01/05:00/corrected"


def play_hours(hours, policy):
    """Return the calls of the tick of each hour, and the branches after it."""
    world = ScriptedWorld()
    repo = world.repo(scripted=False)
    writer = repo.ingestion(on_refusal=policy).branch
    writer.put(PATH, b"first")
    repo.ingestion(on_refusal=policy).tick(FIVE)
    start, rows = datetime(2013, 1, 1, 6, tzinfo=UTC), []
    for number in range(hours):
        with repo.run(f"correction {number}") as run:
            run.put(PATH, b"run %d" % number)
        writer.put(PATH, b"writer %d" % number)
        writer.put(f"input/{number:05}", b"good")
        world.script.arm(0, unavailable)
        ticked = world.repo().ingestion(on_refusal=policy)  # a new process with empty caches
        before = len(world.script.calls)
        tick = ticked.tick(start + timedelta(hours=number))
        assert (tick.published is not None, tick.set_aside) == (True, (PATH,))
        calls = len(world.script.calls) - before
        rows.append((calls, len(list(repo.branches(hidden=True)))))
    files = tree(repo.ref("main"))
    assert files[PATH] == f"run {hours - 1}"
    assert sum(path.startswith("input/0") for path in files) == hours
    (kept,) = repo.ingestion().quarantined()
    shelf = repo.branch(kept.name)
    assert shelf.get(PATH) == b"writer %d" % (hours - 1)
    assert repo.commit(shelf.name).parents[0] in {one.id for one in repo.log("main", limit=9)}
    assert len(kept.hours) <= 24
    return rows


@pytest.mark.parametrize("policy", ["hold", "quarantine"])
def test_conflicts_of_many_hours_use_one_branch(policy):
    """A writer sends a corrected file each hour, and so does a run."""
    rows = play_hours(28, policy)
    assert {branches for _, branches in rows} == {3}
    calls = [calls for calls, _ in rows]
    assert max(calls[20:]) <= calls[5] + 8, calls


def others(repo, count):
    """Put commits of others on main, each a publish of a run that changed nothing."""
    last, plain = repo.commit("main"), {"graveler.published": "1"}
    made = []
    for number in range(count):
        run = replace(last, parents=(last.id,), generation=last.generation + 1, metadata={})
        run = replace(run, message=f"run {number}", id="")
        run = replace(run, id=id_of(run))
        last = replace(run, parents=(last.id, run.id), generation=run.generation + 1, id="")
        last = replace(last, metadata=plain)
        last = replace(last, id=id_of(last))
        made += [run, last]
    refs = repo.stores.refs
    refs.commits.add_all(made)
    move(refs, "main", lambda now: replace(now, commit_id=last.id), action="publish")


def test_a_tick_above_many_commits_makes_as_many_calls():
    """It read all commits that others made on the target since the previous tick."""
    calls = []
    for count in (5, 500):
        world = ScriptedWorld()
        repo = world.repo(scripted=False)
        Ingesting(repo).play(f"{FIRST}in q=q")
        others(repo, count)
        ingestion = world.repo().ingestion()  # a new process with empty caches
        before = len(world.script.calls)
        assert ingestion.tick(SIX).state is HourState.PUBLISHED
        calls.append(len(world.script.calls) - before)
        assert tree(repo.ref("main")) == {"p": "1", "q": "q"}
    assert calls[1] <= calls[0] + 5, calls


@pytest.mark.parametrize("back", [True, False])
def test_a_publish_that_was_undone_is_in_no_long_history(history, monkeypatch, back):
    monkeypatch.setattr(unpublished, "FAR", 20)
    history.play(f"mark before; {FIRST}mark there; in q=q; reset before")
    if back:
        history.play("reset there")
    others(history.repo, 30)
    history.play(f"hour 5 {'PUBLISHED' if back else 'COMMITTED'}; tick 6 PUBLISHED; main p=1 q=q")
    history.play("hour 5 PUBLISHED")
