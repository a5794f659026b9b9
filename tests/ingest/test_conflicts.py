"""Paths that the branch and others on the target change: they are set aside, and stop no other file."""

from dataclasses import replace

import pytest

from graveler.errors import InvalidInputError, MergeConflictError
from graveler.ingest import HourState, taking, unpublished
from graveler.ingest.taking import Taking
from graveler.refs.commits import id_of
from graveler.refs.mover import move
from graveler.repository.commits import sealing
from tests.harness.worlds import FAULTS, Points, ScriptedWorld, struck_worlds, tree
from tests.ingest.many_hours import play

FIVE = "2013-01-01T05:00Z"
SIX = "2013-01-01T06:00Z"
SEVEN = "2013-01-01T07:00Z"
P = "input/2013/01/01/05:00/p"
Q = "input/2013/01/01/05:00/q"
POLICIES = [
    {"on_refusal": "hold"},
    {"on_refusal": "quarantine"},
    {"on_conflict": "target"},
]


def run_of_others(repo, key="correction", **files):
    with repo.run(key) as run:
        for path, body in files.items():
            if body is None:
                run.delete({"p": P, "q": Q}.get(path, path))
            else:
                run.put({"p": P, "q": Q}.get(path, path), body.encode())


def published(repo):
    return {key: text for key, text in tree(repo.ref("main")).items() if key != "settled"}


def first_hour(repo, **options):
    ingestion = repo.ingestion(**options)
    ingestion.branch.put(P, b"1")
    assert ingestion.tick(FIVE).state is HourState.PUBLISHED
    return ingestion


def state_of(options):
    return {
        "hold": HourState.HELD,
        "quarantine": HourState.QUARANTINED,
    }.get(options.get("on_refusal"), HourState.PUBLISHED)


@pytest.mark.parametrize("options", POLICIES)
@pytest.mark.parametrize("meanwhile", ["nothing", "unrelated-revert", "many-commits", "release"])
def test_a_correction_on_the_target_is_not_overwritten(repo, monkeypatch, options, meanwhile):
    """The branch was brought up to the target, and the staged older version won."""
    ingestion = first_hour(repo, **options)
    ingestion.branch.put(P, b"2")
    ingestion.branch.put(Q, b"good")
    run_of_others(repo, p="3")
    if meanwhile == "unrelated-revert":
        run_of_others(repo, "unrelated", elsewhere="1")
        repo.revert(repo.commit("main").id, parent=1)
    elif meanwhile == "many-commits":
        monkeypatch.setattr(taking, "FAR", 20)
        repo.protection.remove("main")
        for number in range(30):
            repo.branch("main").put("other", b"%d" % number)
            repo.branch("main").commit("other")
    elif meanwhile == "release":
        other = repo.ingestion("other", gates=[lambda _: "no"], on_refusal="quarantine")
        other.branch.put("x", b"x")
        (name,) = other.tick(FIVE).quarantined
        other.release(name, gates=[])
    tick = ingestion.tick(SIX)
    assert published(repo)[P] == "3"
    assert published(repo)[Q] == "good"
    assert tick.state is state_of(options)
    assert tick.set_aside == (P,)
    (kept,) = ingestion.quarantined()
    assert repo.branch(kept.name).get(P) == b"2"


@pytest.mark.parametrize("options", POLICIES)
def test_a_committed_hour_that_waits_is_set_aside_path_by_path(repo, options):
    first_hour(repo)
    held = repo.ingestion(gates=[lambda _: "no"])
    held.branch.put(P, b"2")
    held.branch.put(Q, b"good")
    assert held.tick(SIX).state is HourState.HELD
    run_of_others(repo, p="3")
    ingestion = repo.ingestion(**options)
    ingestion.tick(SEVEN)
    assert published(repo) == {P: "3", Q: "good"}
    hour = ingestion.hour(SIX)
    assert hour.state is state_of(options)
    assert hour.set_aside == (P,)
    (kept,) = ingestion.quarantined()
    assert repo.branch(kept.name).get(P) == b"2"


@pytest.mark.parametrize("options", POLICIES)
@pytest.mark.parametrize("theirs", ["3", None])
def test_an_acknowledged_write_of_the_first_bytes_is_somewhere(repo, options, theirs):
    """The branch has equal bytes, and others changed or deleted the path on the target."""
    ingestion = first_hour(repo, **options)
    run_of_others(repo, p=theirs)
    ingestion.branch.put(P, b"1")
    tick = ingestion.tick(SIX)
    assert published(repo).get(P) == theirs
    state = HourState.EMPTY if "on_conflict" in options else state_of(options)
    assert (tick.state, tick.set_aside) == (state, (P,))
    (kept,) = ingestion.quarantined()
    assert repo.branch(kept.name).get(P) == b"1"


def test_with_ingest_the_write_of_the_branch_wins(repo):
    ingestion = first_hour(repo, on_conflict="ingest")
    run_of_others(repo, p="3")
    ingestion.branch.put(P, b"1")  # equal to what the branch has
    tick = ingestion.tick(SIX)
    assert (tick.state, tick.set_aside) == (HourState.PUBLISHED, ())
    assert published(repo) == {P: "1"}
    run_of_others(repo, "again", p="4")
    ingestion.branch.put(P, b"5")
    assert ingestion.tick(SEVEN).state is HourState.PUBLISHED
    assert published(repo) == {P: "5"}
    assert ingestion.quarantined() == ()


def test_a_write_that_equals_that_of_others_is_no_conflict(repo):
    ingestion = first_hour(repo)
    run_of_others(repo, p="3")
    ingestion.branch.put(P, b"3")
    tick = ingestion.tick(SIX)
    assert (tick.state, tick.set_aside) == (HourState.PUBLISHED, ())  # the branch brings it, too
    assert published(repo) == {P: "3"}
    assert ingestion.quarantined() == ()


@pytest.mark.parametrize("on_conflict", ["refuse", "target", "ingest"])
def test_equal_bytes_of_the_branch_stay_when_a_run_is_taken_back(repo, on_conflict):
    ingestion = first_hour(repo, on_conflict=on_conflict)
    run_of_others(repo, q="q")
    ingestion.branch.put(Q, b"q")
    ingestion.tick(SIX)
    repo.runs.rollback("correction")
    assert published(repo) == {P: "1", Q: "q"}
    ingestion.branch.put(Q, b"q")
    ingestion.tick(SEVEN)
    before = repo.commit("ingest")
    ingestion.branch.put(Q, b"q")
    assert ingestion.tick("2013-01-01T08:00Z").state is HourState.EMPTY
    assert repo.commit("ingest") == before


def test_a_write_after_the_branch_took_theirs_is_published(repo):
    ingestion = first_hour(repo)
    run_of_others(repo, p="3")
    ingestion.branch.put(Q, b"q")
    ingestion.tick(SIX)
    ingestion.branch.put(P, b"4")
    assert ingestion.tick(SEVEN).state is HourState.PUBLISHED
    assert published(repo) == {P: "4", Q: "q"}


@pytest.mark.parametrize("options", POLICIES)
def test_a_path_that_is_set_aside_takes_later_writes(repo, options):
    """A writer that sends the same bytes again does not win an hour later."""
    ingestion = first_hour(repo, **options)
    run_of_others(repo, p="3")
    ingestion.branch.put(P, b"1")
    ingestion.tick(SIX)
    ingestion.branch.put(P, b"2")
    tick = ingestion.tick(SEVEN)
    assert published(repo) == {P: "3"}
    assert tick.set_aside == (P,)
    (kept,) = ingestion.quarantined()
    assert repo.branch(kept.name).get(P) == b"2"
    ingestion.branch.put(P, b"3")  # as on the target: nothing waits any more
    ingestion.tick("2013-01-01T08:00Z")
    for hour in (SIX, SEVEN):
        assert ingestion.hour(hour).state is HourState.EMPTY
        assert ingestion.hour(hour).set_aside == ()


@pytest.mark.parametrize(("strategy", "text"), [("source-wins", "2"), ("dest-wins", "3")])
def test_a_path_that_was_set_aside_is_released_by_a_strategy(repo, strategy, text):
    ingestion = first_hour(repo)
    ingestion.branch.put(P, b"2")
    ingestion.branch.put(Q, b"q")
    run_of_others(repo, p="3")
    tick = ingestion.tick(SIX)
    assert tick.state is HourState.HELD
    assert P in tick.refused.reason
    (kept,) = ingestion.quarantined()
    with pytest.raises(MergeConflictError) as conflict:
        ingestion.release(kept.name)
    assert [one.path for one in conflict.value.conflicts] == [P]
    ingestion.release(kept.name, strategy=strategy)
    assert published(repo) == {P: text, Q: "q"}
    assert ingestion.quarantined() == ()
    assert ingestion.hour(SIX).state is HourState.PUBLISHED
    ingestion.branch.put(P, b"later")
    assert ingestion.tick(SEVEN).state is HourState.PUBLISHED
    assert published(repo)[P] == "later"


@pytest.mark.parametrize("strategy", ["source-wins", "dest-wins"])
@pytest.mark.parametrize("theirs", ["3", None])
def test_a_deletion_is_set_aside_and_released(repo, strategy, theirs):
    ingestion = first_hour(repo)
    ingestion.branch.delete(P)
    run_of_others(repo, p="3")
    ingestion.tick(SIX)
    assert published(repo) == {P: "3"}
    (kept,) = ingestion.quarantined()
    with pytest.raises(MergeConflictError):
        ingestion.release(kept.name)
    run_of_others(repo, "later", p=theirs or "4", q="q")
    ingestion.release(kept.name, strategy=strategy)
    kept_text = {P: theirs or "4"} if strategy == "dest-wins" else {}
    assert published(repo) == {**kept_text, Q: "q"}


def test_a_tick_names_at_most_a_hundred_conflicting_paths(repo):
    ingestion = repo.ingestion()
    paths = [f"input/{number:03}" for number in range(120)]
    for body in (b"1", b"3"):
        for path in paths:
            ingestion.branch.put(path, body)
        if body == b"1":
            ingestion.tick(FIVE)
            run_of_others(repo, **dict.fromkeys(paths, "2"))
    assert ingestion.tick(SIX).set_aside == tuple(paths[:100])
    (kept,) = ingestion.quarantined()
    assert repo.branch(kept.name).get(paths[-1]) == b"3"


def test_a_conflict_that_is_given_up_ends(repo):
    ingestion = first_hour(repo)
    run_of_others(repo, p="3")
    ingestion.branch.put(P, b"1")
    assert ingestion.tick(SIX).state is HourState.HELD
    (kept,) = ingestion.quarantined()
    repo.delete_branch(kept.name)
    assert ingestion.hour(SIX).state is HourState.EMPTY
    ingestion.branch.put(P, b"2")
    assert ingestion.tick(SEVEN).state is HourState.PUBLISHED
    assert published(repo) == {P: "2"}


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_tick_that_is_struck_loses_no_conflicting_write(fault, waits, monkeypatch):
    monkeypatch.setattr(Points, "step", min(Points.step, 5))

    def prepare(repo):
        ingestion = first_hour(repo)
        if waits:
            ingestion.branch.put(P, b"1b")
            repo.ingestion(gates=[lambda _: "no"]).tick("2013-01-01T05:30Z")
        run_of_others(repo, p="3")
        ingestion.branch.put(P, b"1" if not waits else b"2")
        ingestion.branch.put(Q, b"q")

    for world, what, _ in struck_worlds(fault, prepare, lambda repo: repo.ingestion().tick(SIX)):
        repo = world.repo(scripted=False)
        ingestion = repo.ingestion()
        ingestion.tick(SIX)
        ingestion.tick(SEVEN)
        assert published(repo) == {P: "3", Q: "q"}, what
        shelves = [repo.branch(kept.name) for kept in ingestion.quarantined()]
        found = {shelf.get(P) for shelf in shelves if shelf.exists(P)} - {b"3"}
        assert found == {b"2" if waits else b"1"}, what
        states = {ingestion.hour(SIX).state, ingestion.hour(SEVEN).state}
        assert HourState.HELD in states, what


def test_a_conflict_between_commit_and_publish_is_set_aside(repo, monkeypatch):
    ingestion = first_hour(repo)
    ingestion.branch.put(P, b"2")
    ingestion.branch.put(Q, b"q")
    commit = sealing.commit

    def correct_then(*given, **options):
        monkeypatch.undo()
        made = commit(*given, **options)
        run_of_others(repo, p="3")
        return made

    monkeypatch.setattr(sealing, "commit", correct_then)
    tick = ingestion.tick(SIX)
    assert published(repo) == {P: "3", Q: "q"}
    assert (tick.state, tick.set_aside) == (HourState.HELD, (P,))
    assert tick.published is not None


@pytest.mark.parametrize("policy", ["hold", "quarantine"])
def test_a_conflict_that_another_tick_settles_stops_no_file(repo, monkeypatch, policy):
    """The other tick took the target just before, and this one quarantined the whole hour."""
    ingestion = first_hour(repo, on_refusal=policy)
    ingestion.branch.put(P, b"2")
    ingestion.branch.put(Q, b"q")
    commit = sealing.commit

    def correct_then(*given, **options):
        monkeypatch.setattr(sealing, "commit", commit)
        monkeypatch.setattr(sealing, "commit", commit)
        made = commit(*given, **options)
        run_of_others(repo, p="3")
        return made

    def another_first(self):
        monkeypatch.undo()
        assert self.take()
        return self.take()

    monkeypatch.setattr(sealing, "commit", correct_then)
    monkeypatch.setattr(Taking, "take", another_first)
    tick = ingestion.tick(SIX)
    assert published(repo) == {P: "3", Q: "q"}
    assert tick.set_aside == (P,)
    assert len(list(ingestion.quarantined())) == 1


@pytest.mark.parametrize("policy", ["hold", "quarantine"])
def test_conflicts_of_many_hours_use_one_branch(policy):
    """A writer sends a corrected file each hour, and so does a run."""
    rows = play(50, policy)
    assert {branches for _, branches in rows} == {3}
    calls = [calls for calls, _ in rows]
    assert max(calls[40:]) <= calls[5] + 8, calls


@pytest.mark.parametrize("published_first", [False, True])
def test_a_tick_does_not_bring_back_what_an_undo_dropped(repo, published_first):
    """The branch has taken a publish of others that the target then lost."""
    ingestion = first_hour(repo)
    before = repo.commit("main").id
    run_of_others(repo, elsewhere="bad")
    bad = repo.commit("main").id
    ingestion.branch.put(Q, b"q")
    gates = [] if published_first else [lambda _: "no"]
    tick = repo.ingestion(gates=gates).tick(SIX)
    assert (tick.state is HourState.PUBLISHED) == published_first
    repo.protection.remove("main")
    repo.branch("main").reset(before)
    ingestion.branch.put(P, b"7")
    assert ingestion.tick(SEVEN).state is HourState.PUBLISHED
    assert published(repo) == {P: "7", Q: "q"}
    assert bad not in {one.id for one in repo.log("main")}
    assert ingestion.hour(SIX).state is HourState.PUBLISHED
    assert ingestion.tick(SIX).state is HourState.PUBLISHED
    assert ingestion.hour(FIVE).state is HourState.PUBLISHED


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
    for count in (5, 2_000):
        world = ScriptedWorld()
        repo = world.repo(scripted=False)
        first_hour(repo).branch.put(Q, b"q")
        others(repo, count)
        ingestion = world.repo().ingestion()  # a new process with empty caches
        before = len(world.script.calls)
        assert ingestion.tick(SIX).state is HourState.PUBLISHED
        calls.append(len(world.script.calls) - before)
        assert published(repo) == {P: "1", Q: "q"}
    assert calls[1] <= calls[0] + 5, calls


@pytest.mark.parametrize("back", [True, False])
def test_a_publish_that_was_undone_is_in_no_long_history(repo, monkeypatch, back):
    monkeypatch.setattr(unpublished, "FAR", 20)
    before = repo.commit("main").id
    ingestion = first_hour(repo)
    there = repo.commit("main").id
    ingestion.branch.put(Q, b"q")
    repo.protection.remove("main")
    repo.branch("main").reset(before)
    if back:
        repo.branch("main").reset(there)
    others(repo, 30)
    assert ingestion.hour(FIVE).state is (HourState.PUBLISHED if back else HourState.COMMITTED)
    assert ingestion.tick(SIX).state is HourState.PUBLISHED
    assert published(repo) == {P: "1", Q: "q"}
    assert ingestion.hour(FIVE).state is HourState.PUBLISHED


def test_an_unknown_policy_is_refused(repo):
    with pytest.raises(InvalidInputError, match="on_conflict='mine'"):
        repo.ingestion(on_conflict="mine")
