"""The table of states: every event in every state, through the real calls."""

from datetime import timedelta
from itertools import product

import pytest

from graveler.errors import GravelerError, RunStateError
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

# state -> event -> the next state, and the error; the other events change and raise nothing
TABLE = {
    "NONE": {},
    "OPEN": {
        "publish": "PUBLISHED",
        "refused": "PARKED GateFailedError",
        **dict.fromkeys(("park", "close"), "PARKED"),
        "abandon": "REAPED",
        "roll back": "OPEN RunStateError",
        **dict.fromkeys(("reap past the lease", "reap past the time to live"), "PARKED"),
    },
    "PUBLISHING": {
        "publish": "PUBLISHED",
        "refused": "PARKED GateFailedError",
        **dict.fromkeys(("park", "close"), "PARKED"),
        "abandon": "REAPED",
        "step": "PUBLISHING FencedError",
        "roll back": "OPEN RunStateError",
        **dict.fromkeys(("reap past the lease", "reap past the time to live"), "PARKED"),
    },
    "PUBLISHING, landed": {
        **dict.fromkeys(("publish", "refused", "park", "close"), "PUBLISHED"),
        "abandon": "PUBLISHED RunStateError",
        "step": "PUBLISHING FencedError",
        "roll back": "ROLLED_BACK",
        **dict.fromkeys(("reap past the lease", "reap past the time to live"), "PUBLISHED"),
    },
    "PARKED": {
        **dict.fromkeys(("publish", "refused", "roll back"), "PARKED RunStateError"),
        "abandon": "REAPED",
        **dict.fromkeys(("renew", "step"), "PARKED FencedError"),
        "reap past the time to live": "REAPED",
    },
    "PUBLISHED": {
        "abandon": "PUBLISHED RunStateError",
        "step": "PUBLISHED FencedError",
        "roll back": "ROLLED_BACK",
    },
    "REAPED": {
        **dict.fromkeys(("publish", "refused", "park", "renew", "step"), "REAPED FencedError"),
        "roll back": "REAPED RunStateError",
    },
    "ROLLED_BACK": {
        **dict.fromkeys(("publish", "refused", "abandon"), "ROLLED_BACK RunStateError"),
        "step": "ROLLED_BACK FencedError",
    },
}
CASES = [
    (state, event)
    for state, row in TABLE.items()
    for event in EVENTS
    if state != "NONE" or event == "open"
]


@pytest.mark.parametrize(("state", "event"), CASES)
def test_what_happens_is_what_the_table_says(state, event):
    here = state.partition(",")[0]
    cell = "OPEN" if event == "open" else TABLE[state].get(event.removesuffix(" own"), here)
    after, _, error = cell.partition(" ")
    had = state in ("PUBLISHED", "PUBLISHING, landed")
    world = ScriptedWorld()
    run = STATES[state](world)
    repo = world.repo()
    main = repo.commit("main")
    if run is not None:
        assert run.state == here
        run = repo.runs.attach(run.handle)
    outcome = outcome_of(lambda repo: EVENTS[event](repo, run), repo)
    assert (type(outcome).__name__ if isinstance(outcome, GravelerError) else "") == error, outcome
    record = repo.runs.get(KEY)
    attempt = 2 if event == "open" and run is not None else 1
    assert (record.state, record.attempt) == (after, attempt)
    landed = (had or after == "PUBLISHED") and after != "ROLLED_BACK"
    assert repo.ref("main").exists("a") == landed
    if event == "roll back" and after == "ROLLED_BACK" != state:
        assert repo.commit("main").parents == (main.id,)
        assert record.rollback == repo.commit("main").id
    elif had or after != "PUBLISHED":
        assert repo.commit("main") == main  # nothing moved, or nothing moved a second time
    hidden = [there.name for there in repo.branches(hidden=True) if there.hidden]
    assert hidden == ([record.branch] if record.live else [])
    parked_first = event == "reap past the time to live" and after == "PARKED"
    if error or event in ("open", "refused") or parked_first:
        return
    before = record, repo.commit("main")
    repo = world.repo()
    again = outcome_of(lambda repo: EVENTS[event](repo, run), repo)
    assert not isinstance(again, GravelerError)
    if event != "renew":  # orchestrators repeat calls
        assert (repo.runs.get(KEY), repo.commit("main")) == before


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


def test_what_is_not_in_the_table_is_refused_with_the_way_out():
    ended = (RunState.PUBLISHED, RunState.ROLLED_BACK, RunState.REAPED)
    for state, event in product(RunState, RunEvent):
        if (state, event) not in TRANSITIONS:
            with pytest.raises(RunStateError, match=r"repo\.runs\.open"):
                next_state(KEY, state, event)
            continue
        after = TRANSITIONS[state, event]
        assert next_state(KEY, state, event) is after
        rolled_back = (state, event) == (RunState.PUBLISHED, RunEvent.ROLLED_BACK)
        assert state not in ended or event is RunEvent.OPENED or after is state or rolled_back
