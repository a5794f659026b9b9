"""A writer and a run that send a corrected file each hour: nothing else waits, and nothing grows.

::

    python -m tests.ingest.many_hours 1000
"""

import sys
import time
from datetime import UTC, datetime, timedelta

from graveler.testing.faults import unavailable
from tests.harness.worlds import ScriptedWorld, tree

START = datetime(2013, 1, 1, 6, tzinfo=UTC)
PATH = "input/2013/01/01/05:00/corrected"


def play(hours, policy="quarantine"):
    """Return, for each hour, the calls of its tick, the branches, and the commits that they hold."""
    world = ScriptedWorld()
    repo = world.repo(scripted=False)
    writer = repo.ingestion(on_refusal=policy).branch
    writer.put(PATH, b"first")
    repo.ingestion(on_refusal=policy).tick(START - timedelta(hours=1))
    rows = []
    for number in range(hours):
        with repo.run(f"correction {number}") as run:
            run.put(PATH, b"run %d" % number)
        writer.put(PATH, b"writer %d" % number)
        writer.put(f"input/{number:05}", b"good")
        world.script.arm(0, unavailable)
        ticked = world.repo().ingestion(on_refusal=policy)  # a new process with empty caches
        before = len(world.script.calls)
        tick = ticked.tick(START + timedelta(hours=number))
        calls = len(world.script.calls) - before
        assert tick.published is not None
        assert tick.set_aside == (PATH,)
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


def main(hours):
    begun = time.monotonic()
    rows = play(hours)
    calls = [row[0] for row in rows]
    sys.stdout.write(
        f"{hours} hours in {time.monotonic() - begun:.0f} s: {calls[10]} calls of the tick of hour 10, "
        f"{max(calls[-10:])} at most at the end; {rows[-1][1]} branches\n"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]))
