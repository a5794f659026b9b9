"""Runs in states that only a dying process leaves."""

from contextlib import suppress

from graveler.runs.lifecycle import settle_publish
from graveler.runs.state import RunState
from graveler.testing.faults import ProcessDied
from tests.harness.faults import dies

KEY = "hourly 05"


def ready(repo):
    run = repo.runs.open(KEY)
    with run.step("work") as step:
        step.put("a", b"1")
    return run


def publishing(world, *, landed):
    """A publisher that died before, or just after, its compare-and-set of the target."""
    run = ready(world.repo())
    main = world.repo().commit("main")
    for number in range(1, 100):
        world.script.arm(number, dies)
        with suppress(ProcessDied):
            world.repo().runs.attach(run.handle).publish()
        world.script.disarm()
        moved = world.repo().commit("main") != main
        if run.state is RunState.PUBLISHING and moved == landed:
            return run
        settle_publish(world.repo(scripted=False).runs._records, run.record)
    raise AssertionError("the publisher never died in that state")
