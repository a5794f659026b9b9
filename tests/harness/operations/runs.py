"""The life of a run."""

from datetime import timedelta

from graveler.gates import gate
from graveler.runs.record import RunHandle

KEY = "hourly 05"
OLD = {"settled": "0"}
NEW = {"settled": "0", "one": "one", "two": "two"}
DEAD = 3600
HANDLES: list[RunHandle] = []


@gate
def complete(candidate):
    return candidate.exists("two") or "two is missing"


def work(run, name, path=None):
    with run.step(name) as step:
        step.put(path or name, name.encode())


def base(repo):
    main = repo.branch("main")
    main.put("settled", b"0")
    main.commit("base")
    main.put("staged", b"acknowledged")


def opened(repo):
    base(repo)
    run = repo.runs.open(KEY)
    work(run, "one")
    HANDLES[:] = [run.handle]


def ready(repo):
    opened(repo)
    work(handle(repo), "two")


def parked(repo):
    ready(repo)
    handle(repo).park("lunch")


def done(repo):
    ready(repo)
    handle(repo).publish([complete])


def overdue(repo):
    """The run and three unfinished runs: one to park, one to settle, one to drop."""
    ready(repo)
    for name, terms in (("to park", {}), ("to drop", {"on_failure": "drop"})):
        other = repo.runs.open(name, **terms)
        other.put(name, b"1")
        other.commit(name)
    repo.runs.open("to give up", ttl=timedelta(minutes=1)).park()
    repo.stores.clock.sleep(DEAD)
    handle(repo).renew()


def handle(repo):
    return repo.runs.attach(HANDLES[0])


def whole(repo):
    with repo.run(KEY, gates=[complete]) as run:
        work(run, "one")
        run.put("two", b"two")


def orchestrated(repo):
    """Do what the tasks of an orchestrator do, each in a process of its own."""
    run = repo.runs.open_or_attach(KEY, owner="dag run")
    try:
        work(repo.runs.attach(run.handle), "one")
        work(repo.runs.open_or_attach(KEY, owner="dag run"), "two")
        run.publish()
    finally:
        run.close("the end")


def direct(repo):
    run = handle(repo)
    run.put("two", b"two")
    run.commit("two")


def late(repo):
    return repo.stores.clock.now() + timedelta(seconds=DEAD)


OPERATIONS = {
    "open": (base, lambda repo: repo.runs.open(KEY)),
    "open-again": (opened, lambda repo: repo.runs.open(KEY)),
    "open-parked": (parked, lambda repo: repo.runs.open(KEY)),
    "open-published": (done, lambda repo: repo.runs.open(KEY)),
    "attach": (base, lambda repo: repo.runs.open_or_attach(KEY, owner="dag")),
    "step": (opened, lambda repo: work(handle(repo), "two")),
    "step-again": (ready, lambda repo: work(handle(repo), "two")),
    "step-undone": (ready, lambda repo: handle(repo).undo_step("two")),
    "commit": (opened, direct),
    "judge": (ready, lambda repo: handle(repo).judge([complete])),
    "publish": (ready, lambda repo: handle(repo).publish([complete])),
    "refused": (opened, lambda repo: handle(repo).publish([complete])),
    "park": (ready, lambda repo: handle(repo).park("lunch")),
    "abandon": (ready, lambda repo: handle(repo).abandon("never mind")),
    "abandon-by-key": (ready, lambda repo: repo.runs.abandon(KEY, reason="never mind")),
    "park-by-key": (ready, lambda repo: repo.runs.park(KEY, reason="lunch")),
    "close": (ready, lambda repo: handle(repo).close("lunch")),
    "renew": (overdue, lambda repo: handle(repo).renew()),
    "open-beside-overdue": (overdue, lambda repo: repo.runs.open("another")),
    "reap-others": (overdue, lambda repo: repo.runs.reap(dry_run=False)),
    "reap": (ready, lambda repo: repo.runs.reap(dry_run=False, now=late(repo))),
    "whole": (base, whole),
    "orchestrated": (base, orchestrated),
}
