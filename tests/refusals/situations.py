"""The situations in which calls are refused: each prepares a scene."""

import json
from datetime import timedelta
from unittest.mock import patch

import graveler
from graveler.base.read_only import judging
from graveler.fs import GravelerFileSystem
from graveler.lake.shared import lend_lake
from graveler.refs.settings import ACTIONS
from tests.refusals.scene import Scene

AT_ONCE = timedelta(0)


@graveler.gate("rows")
def no_rows(candidate):
    """Refuse every candidate."""
    return f"0 rows, {sum(1 for _ in candidate.entries())} files"


def plain(scene: Scene) -> None:
    """Nothing is special: the call itself is wrong."""


def protected(scene: Scene) -> None:
    """The branch main is protected against every action."""
    scene.repo.protection.add("main", ACTIONS)
    scene.enter(_open(scene))


def gated(scene: Scene) -> None:
    """The branch main requires a gate that refuses, and has a staged write."""
    scene.repo.branch("main").put("m", b"m of main")
    scene.repo.gates.require("main", no_rows)
    scene.enter(_open(scene))


def conflicting(scene: Scene) -> None:
    """The branches dev and main, and a run, have changed the same file in different ways."""
    scene.enter(_open(scene, a=b"a of run"))
    scene.names["ours"] = scene.commit("dev", "fourth", a=b"a of dev").id
    scene.commit("main", "fifth", a=b"a again")


def unfinished(scene: Scene) -> None:
    """The process has dropped a file of dev that was not closed, and has staged another one."""
    scene.repo.branch("dev").put("e", b"e of dev")

    def drop() -> None:
        with lend_lake(scene.lake):
            fs = GravelerFileSystem(scene.lake.location, skip_instance_cache=True)
            file = fs.open("flights/dev/half", "wb")
        file.write(b"half a f")
        scene.heal = file.discard

    scene.strike = drop


def missing_repository(scene: Scene) -> None:
    """The repository of the face does not exist."""
    scene.name = "nowhere"


def two_repositories(scene: Scene) -> None:
    """The lake has another repository, with a run."""
    other = scene.lake.create_repository("trains")
    scene.handle = other.runs.open("hour").handle.to_json()


def running(scene: Scene) -> None:
    """A run has a commit and is open."""
    scene.enter(_open(scene))


def staging(scene: Scene) -> None:
    """A run has a staged write."""
    run = _open(scene)
    run.put("s", b"s of run")
    scene.enter(run)


def superseded(scene: Scene) -> None:
    """The face works in an attempt of a run, and a newer attempt is open."""
    scene.enter(_open(scene))
    scene.repo.runs.open("hour")


def parked(scene: Scene) -> None:
    """The face works in an attempt that is parked."""
    run = _open(scene)
    scene.enter(run)
    run.park("the host goes away")


def abandoned(scene: Scene) -> None:
    """The face works in an attempt that is abandoned."""
    run = _open(scene)
    scene.enter(run)
    run.abandon("wrong input")


def published(scene: Scene) -> None:
    """The face works in an attempt that is published."""
    run = _open(scene)
    scene.enter(run)
    run.publish()


def rolled_back_by_reset(scene: Scene) -> None:
    """The target has lost what a run published."""
    published(scene)
    scene.repo.branch("main").reset("main~1")


def owned(scene: Scene) -> None:
    """A run has an owner, whose attempt is over."""
    run = scene.repo.runs.open_or_attach("hour", owner="dag-1")
    scene.enter(run)
    scene.repo.runs.open("hour")


def expired(scene: Scene) -> None:
    """A commit's tree was collected, because no ref reaches it."""
    _lose(scene)
    scene.repo.gc.run(grace=AT_ONCE, window=AT_ONCE)


def condemned(scene: Scene) -> None:
    """A commit is condemned by garbage collection, and still readable."""
    _lose(scene)
    scene.repo.gc.mark(grace=AT_ONCE)


def damaged_file(scene: Scene) -> None:
    """The bytes of the file a are others than those that were stored."""
    objects = scene.repo.stores.objects
    key = scene.repo.ref("main").stat("a").address
    objects.put(key, b"A OF MAIN")


def damaged_tree(scene: Scene) -> None:
    """The table of main's tree is missing from the storage."""
    stores = scene.repo.stores
    key = stores.ranges.key(bytes.fromhex(scene.repo.commit("main").metarange))
    before = stores.objects.get(key)
    scene.strike = lambda: stores.objects.delete(key)
    scene.heal = lambda: stores.objects.put(key, before)


def newer_format(scene: Scene) -> None:
    """A newer graveler has written the record of the branch main."""
    kv, partition, key = scene.repo.stores.kv, f"refs:{scene.repo.stores.uid}", b"branch/main"
    stored = kv.get(partition, key)
    assert stored is not None
    before = stored.value
    newer = json.dumps({**json.loads(before), "format": 99}).encode()
    scene.strike = lambda: kv.set(partition, key, newer)

    def heal() -> None:
        left = kv.get(partition, key)
        assert left is not None
        assert left.value == newer
        kv.set(partition, key, before)

    scene.heal = heal


def unreachable(scene: Scene) -> None:
    """No store answers the process of the face."""
    scene.enter(_open(scene))
    process = scene.process
    assert process is not None
    scene.strike = lambda: setattr(process, "down", True)
    scene.heal = lambda: setattr(process, "down", False)


def judged(scene: Scene) -> None:
    """The process can only read: a gate judges in it, or it serves the lake to be read."""
    scene.repo.branch("dev").put("e", b"e of dev")
    scene.enter(_open(scene))
    scene.writable = False
    scene.around = lambda: judging("rows")


def moved(scene: Scene) -> None:
    """Another process moves the branch main whenever the process of the face would."""
    scene.enter(_open(scene))
    process = scene.process
    assert process is not None
    numbers = iter(range(1_000_000))

    def move() -> None:
        scene.repo.branch("main").commit(f"move {next(numbers)}", allow_empty=True)

    def heal() -> None:
        process.meanwhile = None
        assert scene.repo.commit("main").message.startswith("move ")

    scene.strike = lambda: setattr(process, "meanwhile", move)
    scene.heal = heal
    scene.around = lambda: patch("graveler.base.retries._RACES", 5)


def _lose(scene: Scene) -> None:
    """Make a commit that no ref reaches."""
    scene.repo.create_branch("lost")
    lost = scene.commit("lost", "lost", x=b"x of lost")
    scene.names |= {"lost": lost.id, "short": lost.id[:12]}
    scene.repo.delete_branch("lost")


def _open(scene: Scene, **files: bytes) -> graveler.Run:
    """Open a run that has a commit."""
    run = scene.repo.runs.open("hour")
    for path, body in (files or {"r": b"r of run"}).items():
        run.put(path, body)
    run.commit("work")
    return run
