"""Random writers, runs, reverts, ticks and releases over few paths agree with plain dictionaries."""

import contextlib
from random import Random

import pytest

from graveler.errors import NoChangesError
from graveler.ingest import HourState
from tests.harness.gc_lakes import collect
from tests.harness.worlds import ScriptedWorld, tree

PATHS = [f"input/2013/01/01/{hour:02}:00/{name}" for hour in (3, 4) for name in "ab"]
BODIES = ["1", "2", None]
GOOD = "input/good"


class Model:
    """The content of main and of the shelf, and of main when the branch last took it."""

    def __init__(self, policy):
        self.policy = policy
        self.main, self.taken, self.staged, self.shelf = {}, {}, {}, {}

    def tick(self):
        aside = set()
        for path, body in self.staged.items():
            theirs = self.main.get(path)
            conflicts = theirs != self.taken.get(path) and body != theirs
            if self.policy != "ingest" and (path in self.shelf or conflicts):
                aside.add(path)
                self.shelf[path] = body
            else:
                self.main[path] = body
        if aside:  # the shelf is made again on the present target
            self.shelf = {
                path: body for path, body in self.shelf.items() if body != self.main.get(path)
            }
        self.staged, self.taken = {}, dict(self.main)

    def release(self, strategy):
        if strategy == "source-wins":
            self.main.update(self.shelf)
            self.taken.update(self.shelf)  # a release is no change of others
        self.shelf = {}


def present(files):
    return {path: body for path, body in files.items() if body is not None}


def write(branch, path, body):
    if body is None:
        branch.delete(path)
    else:
        branch.put(path, body.encode())


def check(repo, ingestion, model, what):
    files = tree(repo.ref("main"))
    files.pop(GOOD, None)
    assert files == present(model.main), what
    shelves = [repo.branch(kept.name) for kept in ingestion.quarantined()]
    assert len(shelves) <= 1
    waiting = {
        change.path: None if change.after is None else shelf.get(change.path).decode()
        for shelf in shelves
        for change in repo.diff(repo.commit(shelf.name).parents[0], shelf.name)
    }
    assert waiting == model.shelf, what


@pytest.mark.parametrize("policy", ["hold", "quarantine", "target", "ingest"])
@pytest.mark.parametrize("seed", range(6))
def test_random_histories_of_conflicts(policy, seed):
    dice, world, model = Random(f"{policy} {seed}"), ScriptedWorld(), Model(policy)
    options = (
        {"on_refusal": policy} if policy in ("hold", "quarantine") else {"on_conflict": policy}
    )
    world.repo(scripted=False).ingestion(**options).branch.put(GOOD, b"0")
    for number in range(60):
        repo = world.repo(scripted=False)
        ingestion = repo.ingestion(**options)
        path, body = dice.choice(PATHS), dice.choice(BODIES)
        act = dice.choice(["put", "put", "others", "tick", "tick", "release", "collect"])
        if act == "put":
            write(ingestion.branch, path, body)
            model.staged[path] = body
        elif act == "others":
            write(repo.branch("main"), path, body)
            with contextlib.suppress(NoChangesError):
                repo.branch("main").commit("others")
            model.main[path] = body
        elif act == "tick":
            ingestion.branch.put(GOOD, b"%d" % number)
            tick = ingestion.tick(f"2013-01-02T{number % 24:02}:{number // 24:02}Z")
            model.tick()
            assert tree(repo.ref("main"))[GOOD] == str(number)  # nothing stops another file
            held = tick.state in (HourState.HELD, HourState.QUARANTINED)
            assert held == bool(tick.set_aside and policy != "target")
        elif act == "release":
            for kept in ingestion.quarantined():
                strategy = dice.choice(["source-wins", "dest-wins"])
                ingestion.release(kept.name, strategy=strategy)
                model.release(strategy)
        else:
            repo.gc.keep(count=1)
            collect(repo)
        check(repo, ingestion, model, (number, act))
    assert world.repo(scripted=False).fsck(objects="checksum").sound
