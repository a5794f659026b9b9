"""The table of states: every event in every state, through the real calls."""

from datetime import timedelta

import pytest

from graveler.errors import FencedError, GateFailedError, GravelerError, RunStateError
from graveler.gates import gate
from graveler.runs.state import TRANSITIONS, RunEvent, RunState, next_state
from tests.harness.operations.states import KEY, publishing, ready
from tests.harness.worlds import ScriptedWorld, outcome_of


@gate
def never(candidate):
    return "never"


def in_none(world):
    return None


def in_open(world):
    return ready(world.repo())


def in_parked(world):
    run = ready(world.repo())
    run.park("lunch")
    return run


def in_published(world):
    run = ready(world.repo())
    run.publish()
    return run


def in_reaped(world):
    run = ready(world.repo())
    run.abandon("never mind")
    return run


def in_rolled_back(world):
    run = in_published(world)
    world.repo().runs.rollback(KEY)
    return run


STATES = {
    "NONE": in_none,
    "OPEN": in_open,
    "PUBLISHING": lambda world: publishing(world, landed=False),
    "PUBLISHING, landed": lambda world: publishing(world, landed=True),
    "PARKED": in_parked,
    "PUBLISHED": in_published,
    "REAPED": in_reaped,
    "ROLLED_BACK": in_rolled_back,
}


def reap_after(length):
    def reap(repo, run):
        repo.runs.reap(dry_run=False, now=repo.stores.clock.now() + length)

    return reap


EVENTS = {
    "open": lambda repo, run: repo.runs.open(KEY),
    "publish": lambda repo, run: run.publish(),
    "refused": lambda repo, run: run.publish([never]),
    "park": lambda repo, run: run.park("why"),
    "abandon": lambda repo, run: repo.runs.abandon(KEY, reason="why"),
    "abandon own": lambda repo, run: run.abandon("why"),
    "close": lambda repo, run: run.close("why"),
    "renew": lambda repo, run: run.renew(),
    "step": lambda repo, run: run.step("work").discard(),
    "roll back": lambda repo, run: repo.runs.rollback(KEY),
    "reap in time": reap_after(timedelta(minutes=14)),
    "reap past the lease": reap_after(timedelta(minutes=21)),
    "reap past the time to live": reap_after(timedelta(days=15)),
}

# (state, event) -> the next state, the error or None, the attempt, whether main has the work
TABLE = {
    ("NONE", "open"): ("OPEN", None, 1, False),
    ("OPEN", "open"): ("OPEN", None, 2, False),
    ("OPEN", "publish"): ("PUBLISHED", None, 1, True),
    ("OPEN", "refused"): ("PARKED", GateFailedError, 1, False),
    ("OPEN", "park"): ("PARKED", None, 1, False),
    ("OPEN", "abandon"): ("REAPED", None, 1, False),
    ("OPEN", "abandon own"): ("REAPED", None, 1, False),
    ("OPEN", "close"): ("PARKED", None, 1, False),
    ("OPEN", "renew"): ("OPEN", None, 1, False),
    ("OPEN", "step"): ("OPEN", None, 1, False),
    ("OPEN", "roll back"): ("OPEN", RunStateError, 1, False),
    ("OPEN", "reap in time"): ("OPEN", None, 1, False),
    ("OPEN", "reap past the lease"): ("PARKED", None, 1, False),
    ("OPEN", "reap past the time to live"): ("PARKED", None, 1, False),
    ("PUBLISHING", "open"): ("OPEN", None, 2, False),
    ("PUBLISHING", "publish"): ("PUBLISHED", None, 1, True),
    ("PUBLISHING", "refused"): ("PARKED", GateFailedError, 1, False),
    ("PUBLISHING", "park"): ("PARKED", None, 1, False),
    ("PUBLISHING", "abandon"): ("REAPED", None, 1, False),
    ("PUBLISHING", "abandon own"): ("REAPED", None, 1, False),
    ("PUBLISHING", "close"): ("PARKED", None, 1, False),
    ("PUBLISHING", "renew"): ("PUBLISHING", None, 1, False),
    ("PUBLISHING", "step"): ("PUBLISHING", FencedError, 1, False),
    ("PUBLISHING", "roll back"): ("OPEN", RunStateError, 1, False),
    ("PUBLISHING", "reap in time"): ("PUBLISHING", None, 1, False),
    ("PUBLISHING", "reap past the lease"): ("PARKED", None, 1, False),
    ("PUBLISHING", "reap past the time to live"): ("PARKED", None, 1, False),
    ("PUBLISHING, landed", "open"): ("OPEN", None, 2, True),
    ("PUBLISHING, landed", "publish"): ("PUBLISHED", None, 1, True),
    ("PUBLISHING, landed", "refused"): ("PUBLISHED", None, 1, True),
    ("PUBLISHING, landed", "park"): ("PUBLISHED", None, 1, True),
    ("PUBLISHING, landed", "abandon"): ("PUBLISHED", RunStateError, 1, True),
    ("PUBLISHING, landed", "abandon own"): ("PUBLISHED", RunStateError, 1, True),
    ("PUBLISHING, landed", "close"): ("PUBLISHED", None, 1, True),
    ("PUBLISHING, landed", "renew"): ("PUBLISHING", None, 1, True),
    ("PUBLISHING, landed", "step"): ("PUBLISHING", FencedError, 1, True),
    ("PUBLISHING, landed", "roll back"): ("ROLLED_BACK", None, 1, False),
    ("PUBLISHING, landed", "reap in time"): ("PUBLISHING", None, 1, True),
    ("PUBLISHING, landed", "reap past the lease"): ("PUBLISHED", None, 1, True),
    ("PUBLISHING, landed", "reap past the time to live"): ("PUBLISHED", None, 1, True),
    ("PARKED", "open"): ("OPEN", None, 2, False),
    ("PARKED", "publish"): ("PARKED", RunStateError, 1, False),
    ("PARKED", "refused"): ("PARKED", RunStateError, 1, False),
    ("PARKED", "park"): ("PARKED", None, 1, False),
    ("PARKED", "abandon"): ("REAPED", None, 1, False),
    ("PARKED", "abandon own"): ("REAPED", None, 1, False),
    ("PARKED", "close"): ("PARKED", None, 1, False),
    ("PARKED", "renew"): ("PARKED", FencedError, 1, False),
    ("PARKED", "step"): ("PARKED", FencedError, 1, False),
    ("PARKED", "roll back"): ("PARKED", RunStateError, 1, False),
    ("PARKED", "reap in time"): ("PARKED", None, 1, False),
    ("PARKED", "reap past the lease"): ("PARKED", None, 1, False),
    ("PARKED", "reap past the time to live"): ("REAPED", None, 1, False),
    ("PUBLISHED", "open"): ("OPEN", None, 2, True),
    ("PUBLISHED", "publish"): ("PUBLISHED", None, 1, True),
    ("PUBLISHED", "refused"): ("PUBLISHED", None, 1, True),
    ("PUBLISHED", "park"): ("PUBLISHED", None, 1, True),
    ("PUBLISHED", "abandon"): ("PUBLISHED", RunStateError, 1, True),
    ("PUBLISHED", "abandon own"): ("PUBLISHED", RunStateError, 1, True),
    ("PUBLISHED", "close"): ("PUBLISHED", None, 1, True),
    ("PUBLISHED", "renew"): ("PUBLISHED", None, 1, True),
    ("PUBLISHED", "step"): ("PUBLISHED", FencedError, 1, True),
    ("PUBLISHED", "roll back"): ("ROLLED_BACK", None, 1, False),
    ("PUBLISHED", "reap in time"): ("PUBLISHED", None, 1, True),
    ("PUBLISHED", "reap past the lease"): ("PUBLISHED", None, 1, True),
    ("PUBLISHED", "reap past the time to live"): ("PUBLISHED", None, 1, True),
    ("REAPED", "open"): ("OPEN", None, 2, False),
    ("REAPED", "publish"): ("REAPED", FencedError, 1, False),
    ("REAPED", "refused"): ("REAPED", FencedError, 1, False),
    ("REAPED", "park"): ("REAPED", FencedError, 1, False),
    ("REAPED", "abandon"): ("REAPED", None, 1, False),
    ("REAPED", "abandon own"): ("REAPED", None, 1, False),
    ("REAPED", "close"): ("REAPED", None, 1, False),
    ("REAPED", "renew"): ("REAPED", FencedError, 1, False),
    ("REAPED", "step"): ("REAPED", FencedError, 1, False),
    ("REAPED", "roll back"): ("REAPED", RunStateError, 1, False),
    ("REAPED", "reap in time"): ("REAPED", None, 1, False),
    ("REAPED", "reap past the lease"): ("REAPED", None, 1, False),
    ("REAPED", "reap past the time to live"): ("REAPED", None, 1, False),
    ("ROLLED_BACK", "open"): ("OPEN", None, 2, False),
    ("ROLLED_BACK", "publish"): ("ROLLED_BACK", RunStateError, 1, False),
    ("ROLLED_BACK", "refused"): ("ROLLED_BACK", RunStateError, 1, False),
    ("ROLLED_BACK", "park"): ("ROLLED_BACK", None, 1, False),
    ("ROLLED_BACK", "abandon"): ("ROLLED_BACK", RunStateError, 1, False),
    ("ROLLED_BACK", "abandon own"): ("ROLLED_BACK", RunStateError, 1, False),
    ("ROLLED_BACK", "close"): ("ROLLED_BACK", None, 1, False),
    ("ROLLED_BACK", "renew"): ("ROLLED_BACK", None, 1, False),
    ("ROLLED_BACK", "step"): ("ROLLED_BACK", FencedError, 1, False),
    ("ROLLED_BACK", "roll back"): ("ROLLED_BACK", None, 1, False),
    ("ROLLED_BACK", "reap in time"): ("ROLLED_BACK", None, 1, False),
    ("ROLLED_BACK", "reap past the lease"): ("ROLLED_BACK", None, 1, False),
    ("ROLLED_BACK", "reap past the time to live"): ("ROLLED_BACK", None, 1, False),
}


def test_the_table_is_complete():
    without_a_run = {("NONE", event) for event in EVENTS if event != "open"}
    assert set(TABLE) == {(state, event) for state in STATES for event in EVENTS} - without_a_run


@pytest.mark.parametrize(("state", "event"), TABLE)
def test_what_happens_is_what_the_table_says(state, event):
    after, error, attempt, landed = TABLE[state, event]
    world = ScriptedWorld()
    run = STATES[state](world)
    repo = world.repo()
    main = repo.commit("main")
    if run is not None:
        assert run.state == state.partition(",")[0]
        run = repo.runs.attach(run.handle)
    outcome = outcome_of(lambda repo: EVENTS[event](repo, run), repo)
    assert (type(outcome) if isinstance(outcome, GravelerError) else None) is error, outcome
    record = repo.runs.get(KEY)
    assert (record.state, record.attempt) == (after, attempt)
    assert repo.ref("main").exists("a") == landed
    taken_back = event == "roll back" and after == "ROLLED_BACK" and state != after
    if taken_back:
        assert repo.commit("main").parents == (main.id,)
        assert record.rollback == repo.commit("main").id
    elif state in ("PUBLISHED", "PUBLISHING, landed") or after != "PUBLISHED":
        assert repo.commit("main") == main  # nothing moved, or nothing moved a second time
    hidden = [there.name for there in repo.branches(hidden=True) if there.hidden]
    assert hidden == ([record.branch] if record.live else [])


def test_what_happens_again_changes_nothing_more():
    """Orchestrators repeat calls: every pair of the table, and then the same event again."""
    later = "reap past the time to live"  # first parks the run, then reaps it
    for (state, event), (then, error, _, _) in TABLE.items():
        if event in ("open", "refused") or error is not None or (event, then) == (later, "PARKED"):
            continue
        world = ScriptedWorld()
        run = world.repo().runs.attach(STATES[state](world).handle)
        EVENTS[event](world.repo(), run)
        before = world.repo().runs.get(KEY), world.repo().commit("main")
        again = outcome_of(lambda repo: EVENTS[event](repo, run), world.repo())  # noqa: B023
        assert not isinstance(again, GravelerError), (state, event)
        after = world.repo().runs.get(KEY), world.repo().commit("main")
        if event != "renew":
            assert after == before, (state, event)


def test_an_open_after_the_end_starts_from_the_target():
    for state, make in STATES.items():
        world = ScriptedWorld()
        make(world)
        main = world.repo().branch("main")
        main.put("moved", b"1")
        main.commit("moved")
        run = world.repo().runs.open(KEY)
        resumed = state in ("OPEN", "PUBLISHING", "PARKED")
        assert run.record.resumed == resumed, state
        assert run.exists("moved") == (not resumed), state
        assert run.exists("a") == (state not in ("NONE", "REAPED", "ROLLED_BACK")), state


@pytest.mark.parametrize("state", RunState)
@pytest.mark.parametrize("event", RunEvent)
def test_what_is_not_in_the_table_is_refused_with_the_way_out(state, event):
    if (state, event) in TRANSITIONS:
        assert next_state(KEY, state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(RunStateError, match=r"repo\.runs\.open"):
            next_state(KEY, state, event)


def test_a_run_that_ended_is_never_left_but_by_opening_it_again():
    for (state, event), after in TRANSITIONS.items():
        if state in (RunState.PUBLISHED, RunState.ROLLED_BACK, RunState.REAPED):
            rolled_back = event is RunEvent.ROLLED_BACK and state is RunState.PUBLISHED
            assert event is RunEvent.OPENED or after is state or rolled_back
