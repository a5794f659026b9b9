"""A fault at every call of every operation: before it the old state, after it the new state.

The backend does not answer, its reply is lost (and with it the write, or not), or the process
dies. Then another process opens the lake, checks the repository, and repeats the operation.
Every public operation that changes anything is in a table of such a test, here or among the
tests of runs. The last test of this file checks that.
"""

import logging
from contextlib import suppress

import pytest

from graveler.errors import (
    AlreadyExistsError,
    GravelerError,
    NoChangesError,
    NotFoundError,
    RefNotFoundError,
)
from graveler.fsck.check import fsck
from graveler.gc.collector import GarbageCollector
from graveler.lake import Lake
from graveler.lake.drivers import Drivers
from graveler.lake.history import History
from graveler.lake.places import Protection, Tags
from graveler.lake.repository import Repository
from graveler.lake.upkeep import Upkeep
from graveler.model import Entry
from graveler.repository.branch import Branch
from graveler.repository.commits.packing import PACK_PAIR
from graveler.repository.commits.sealing import _seal
from graveler.repository.writer import BranchWriter
from graveler.runs.run import Run
from graveler.runs.runs import Runs
from graveler.runs.steps.step import Step
from graveler.testing.faults import ProcessDied
from tests.harness.operations import collection, rollback, runs, undo
from tests.harness.worlds import FAULTS, SMALL, ScriptedWorld, struck_worlds, tree


@pytest.fixture(autouse=True)
def _quiet(caplog):
    """Hide the log of failed clean-ups, which these tests do not check."""
    caplog.set_level(logging.CRITICAL)


def start(repo):
    """Make a history, staged writes of each kind, and a branch to merge."""
    main = repo.branch("main")
    for path in ("a", "b", "c", "d"):
        main.put(path, b"0")
    main.commit("base")
    dev = repo.create_branch("dev")
    dev.put("dev", b"d")
    dev.delete("d")
    dev.commit("dev")
    dev.put("dev-staged", b"s")
    main.put("a", b"1")
    main.put("new", b"1")
    main.delete("b")


def sealed(repo):
    """`start`, and a committer that died; then two paths are written again."""
    start(repo)
    _seal(repo.stores, "main", "")
    repo.branch("main").put("a", b"2")
    repo.branch("main").put("b", b"2")


def reset_to(repo):
    """`start`, and a commit that a hard reset drops."""
    start(repo)
    repo.tags.create("base")
    repo.branch("main").commit("main")
    repo.branch("main").put("c", b"staged")


def conflict(repo):
    """`start`, and both sides changed a path."""
    start(repo)
    repo.branch("dev").put("a", b"d")
    repo.branch("dev").commit("a")
    repo.branch("main").commit("a")


def picked(repo):
    """`start`, and main commits its staged writes, so that commits of both sides can be applied."""
    start(repo)
    repo.branch("main").commit("main")
    repo.tags.create("work")
    repo.branch("main").put("c", b"staged")
    repo.merge("dev", "main")
    repo.tags.create("merged")


def snapshot(repo):
    """Return what is visible of each branch: the committed files, and these with staged writes."""
    seen = {}
    for record in repo.branches(hidden=True):
        seen[record.name] = tree(repo.ref(record.name))
        seen[record.name, "staged"] = tree(repo.branch(record.name))
    seen["tags"] = {
        name: repo.commit(identifier).message for name, identifier in repo.tags.list().items()
    }
    seen["protected"] = repo.protection.list()
    return seen


def link_many(repo):
    entries = [Entry(f"x{number}", f"data/{number}", 1) for number in range(3)]
    repo.stores.objects.put("data/0", b"0")
    repo.stores.objects.put("data/1", b"1")
    repo.stores.objects.put("data/2", b"2")
    repo.branch("main").link_many(entries)


def link(repo):
    repo.stores.objects.put("data/0", b"0")
    repo.branch("main").link("x", address="data/0")


def make(repo):
    repo.lake.create_repository("trains", splitting=SMALL)


def both(main):
    """Return a strategy that stores a new object."""
    return lambda conflict: main.store(conflict.path, b"both")


OPERATIONS = {
    "put": (start, lambda repo: repo.branch("main").put("a", b"put")),
    "put-over-a-tombstone": (start, lambda repo: repo.branch("main").put("b", b"put")),
    "link-many": (start, link_many),
    "link": (start, link),
    "delete": (start, lambda repo: repo.branch("main").delete("c")),
    "delete-many": (start, lambda repo: repo.branch("main").delete_many(["a", "c", "new"])),
    "commit": (start, lambda repo: repo.branch("main").commit("c")),
    "commit-of-sealed": (sealed, lambda repo: repo.branch("main").commit("c")),
    "merge": (start, lambda repo: repo.merge("dev", "main")),
    "merge-of-a-conflict": (
        conflict,
        lambda repo: repo.merge("dev", "main", strategy=both(repo.branch("main"))),
    ),
    "revert": (picked, lambda repo: repo.revert("work")),
    "revert-of-a-merge": (picked, lambda repo: repo.revert("merged", parent=1)),
    "cherry-pick": (start, lambda repo: repo.cherry_pick("dev")),
    "reset-to": (reset_to, lambda repo: repo.branch("main").reset("base")),
    "reset": (start, lambda repo: repo.branch("main").reset()),
    "reset-of-sealed": (sealed, lambda repo: repo.branch("main").reset()),
    "create-branch": (start, lambda repo: repo.create_branch("more")),
    "delete-branch": (start, lambda repo: repo.delete_branch("dev")),
    "tag": (start, lambda repo: repo.tags.create("v1", "dev")),
    "delete-tag": (
        lambda repo: (start(repo), repo.tags.create("v1")),
        lambda repo: repo.tags.delete("v1"),
    ),
    "protect": (start, lambda repo: repo.protection.add("main")),
    "unprotect": (
        lambda repo: (start(repo), repo.protection.add("main")),
        lambda repo: repo.protection.remove("main"),
    ),
}

RULES = {
    "keep": (start, lambda repo: repo.gc.keep("main", days=7)),
    "forget": (
        lambda repo: (start(repo), repo.gc.keep("main", days=7)),
        lambda repo: repo.gc.forget("main"),
    ),
    "adopt": (
        lambda repo: (start(repo), repo.gc.adopt()),
        lambda repo: repo.gc.adopt(agree=True),
    ),
    "expire missing": (start, lambda repo: repo.expire_missing()),
    "expire branch": (start, lambda repo: repo.expire_branch("dev", "14d")),
}
"""Operations that set rules of garbage collection, or the end of a branch: they change no branch, tag or staged write."""

DONE = (NoChangesError, AlreadyExistsError, RefNotFoundError)
"""Errors of a repetition when the first try landed without an acknowledgement."""


def old_and_new(prepare, operate):
    world = ScriptedWorld()
    repo = world.repo(scripted=False)
    prepare(repo)
    old = snapshot(repo)
    operate(repo)
    return old, snapshot(repo)


def between(old, new, seen):
    """Return whether `seen` is, path by path, either as in `old` or as in `new`."""
    return set(seen) <= set(old) | set(new) and all(
        seen.get(path) in (old.get(path), new.get(path)) for path in set(old) | set(new)
    )


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_old_or_new_and_nothing_between(operation, fault):
    prepare, operate = OPERATIONS[operation]
    old, new = old_and_new(prepare, operate)
    assert old != new
    for world, what, failed in struck_worlds(fault, prepare, operate):
        seen = snapshot(world.repo())
        assert fsck(world.repo().stores).sound, what
        if operation in {"link-many", "delete-many"}:  # partly visible, but not acknowledged
            assert between(old["main", "staged"], new["main", "staged"], seen["main", "staged"])
        else:
            assert seen in (old, new), what
        if failed is None:
            assert seen == new, f"{what}: acknowledged, but not there"
            continue
        try:
            operate(world.repo())
        except DONE:
            assert seen == new, what
        assert snapshot(world.repo()) == new, f"{what}: repeated"


def upkeep(repo):
    """Pack the branches that the rule selects."""
    repo.packing.set(after=1)
    repo.maintain(reap=False, gc=False).check()


UNSEEN = {
    "maintain": upkeep,
    "pack": lambda repo: repo.pack(everything=True),
    "splitting": lambda repo: repo.splitting.set(policy="directory", max_bytes=300),
}
"""Operations without a visible change of a branch, tag or staged write."""


def cut_badly(repo):
    """`start`, and main has ranges that the policy would not cut there."""
    start(repo)
    for number in range(8):
        repo.branch("main").put(f"p/{number:02d}", b"0")
        repo.branch("main").commit(str(number))
    repo.splitting.set(max_bytes=1_000)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("operation", UNSEEN)
def test_what_changes_no_path_changes_none_under_faults(operation, fault):
    operate = UNSEEN[operation]
    old, new = old_and_new(cut_badly, operate)
    assert old == new
    for world, what, failed in struck_worlds(fault, cut_badly, operate):
        repo = world.repo()
        before = repo.commit("main")
        assert snapshot(repo) == old, what
        assert fsck(repo.stores, objects="checksum").sound, what
        operate(world.repo())
        assert snapshot(world.repo()) == old, f"{what}: repeated"
        again = world.repo()
        if operation == "splitting":
            assert again.splitting.show()["policy"] == "directory", what
            continue
        packs = [commit for commit in again.log() if PACK_PAIR in commit.metadata]
        assert len(packs) == 1, f"{what}: packed {len(packs)} times"
        assert failed is not None or packs == [before], what


@pytest.mark.parametrize("fault", FAULTS)
def test_a_repository_is_made_or_not(fault):
    for world, what, failed in struck_worlds(fault, start, make):
        fresh = world.lake()
        assert "trains" in fresh.repositories() or failed is not None, what
        made = fresh.create_repository("trains", exist_ok=True)
        made.branch("main").put("a", b"1")
        made.branch("main").commit("works")
        assert fresh.repositories() == ["flights", "trains"], what


@pytest.mark.parametrize("fault", FAULTS)
def test_no_fault_makes_a_commit_twice_or_out_of_order(fault):
    """Each write and commit is repeated until it is acknowledged, with a fault at each call."""

    def work(repo):
        for value in ("1", "2", "3"):
            persist(lambda value=value: repo.branch("main").put("p", value.encode()))
            persist(lambda value=value: repo.branch("main").commit(value))

    for world, what, failed in struck_worlds(fault, lambda _: None, work):
        assert failed is None
        repo = world.repo()
        messages = [commit.message for commit in repo.log()]
        assert messages == ["3", "2", "1", "Repository created"], what
        values = [repo.ref(f"main~{back}").get("p") for back in range(3)]
        assert values == [b"3", b"2", b"1"], what


def persist(work):
    while True:
        try:
            return work()
        except NoChangesError:  # the lost call has landed
            return None
        except (GravelerError, ProcessDied):
            continue


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("operation", RULES)
def test_rules_of_collection_are_kept_and_touch_nothing_else(operation, fault):
    prepare, operate = RULES[operation]
    old, new = old_and_new(prepare, operate)
    assert old == new
    done = ScriptedWorld().repo()
    prepare(done)
    operate(done)
    rules = done.gc.rules
    for world, what, _ in struck_worlds(fault, prepare, operate):
        repo = world.repo()
        assert snapshot(repo) == old, what
        assert fsck(repo.stores, objects="checksum").sound, what
        with suppress(NotFoundError):  # the operation removed the rule
            operate(world.repo())
        assert snapshot(world.repo()) == old, f"{what}: repeated"
        assert repo.gc.rules == rules, f"{what}: repeated"


PARTS = {Lake: (Drivers,), Repository: (History, Upkeep), Branch: (BranchWriter,)}
"""Classes that share the methods of a public class among several modules."""

LOOKS = {
    kind: set(names.split())
    for kind, names in {
        "GarbageCollector": "get marks reading",
        "Lake": "check_kv close has repositories repository",
        "Repository": "branch branches check_kv commit diff dump_refs graph log moves fsck"
        " preview_merge ref stats view why",
        "Tags": "list moves",
        "Protection": "list",
        "Branch": "has_below new_address uncommitted",
        "Runs": "attach branch get handle_of hours list on_targets open_step outlines plan_rollback publishes"
        " readers states",
        "Run": "joined_steps last_joins lost_steps step_environment",
        "Step": "environment exported",
    }.items()
}
"""Public methods that change nothing, and so have no old and new state."""

ELSEWHERE = {
    ("GarbageCollector", "run"),  # a mark and several sweeps
    ("Lake", "import_lakefs"),  # tests.lakefs.test_repeating
    ("Lake", "delete_repository"),  # tests.engine.storage.test_making
    ("Lake", "undelete_repository"),
    ("Lake", "accept"),  # needs lasting stores: tests.engine.storage.test_forgetful_kv
    ("Lake", "restore_repository"),  # writes many refs in turn: tests.engine.branches.test_dump
    ("Repository", "restore_refs"),
    ("Branch", "commit_changes"),  # tests.fs.test_transaction
    ("Branch", "store"),
    ("Branch", "put_many"),  # not atomic: tests.engine.files.test_files_faults
    ("Branch", "upload"),
    ("Branch", "copy"),  # tests.engine.test_copying
    ("Branch", "move"),
    ("Branch", "import_"),  # tests.engine.test_importing
    ("Repository", "ingestion"),  # tests.ingest.test_ingest_faults
    ("Runs", "working"),  # opens a step as `step` does: tests.runs.steps.test_environment
}
"""Public methods whose faults have separate tests."""


def test_every_operation_of_the_public_face_has_met_these_faults(monkeypatch):
    called = set()

    def noted(name, method):
        def call(*given, **named):
            called.add(name)
            return method(*given, **named)

        return call

    public = set()
    for kind in (Lake, Repository, Tags, Protection, Branch, Runs, Run, Step, GarbageCollector):
        for part in (kind, *PARTS.get(kind, ())):
            for name, method in list(vars(part).items()):
                if not name.startswith("_") and callable(method):
                    public.add((kind.__name__, name))
                    monkeypatch.setattr(part, name, noted((kind.__name__, name), method))
    changing = public - {(kind, name) for kind, names in LOOKS.items() for name in names}
    met = set()
    tables = [*OPERATIONS.values(), *RULES.values(), (start, make)]
    tables += [*runs.OPERATIONS.values(), *undo.OPERATIONS.values()]
    tables += [(cut_badly, operate) for operate in UNSEEN.values()]
    tables += [(rollback.done, rollback.take_back)]
    tables += [(collection.start, collection.mark), (collection.marked, collection.sweep)]
    tables += [(collection.marked, collection.undelete)]
    for prepare, operate in tables:
        repo = ScriptedWorld().repo(scripted=False)
        prepare(repo)
        called.clear()
        with suppress(GravelerError):  # one operation is a run that its gate refuses
            operate(repo)
        met |= called
    assert sorted(changing - met - ELSEWHERE) == []
    assert {(kind, name) for kind, names in LOOKS.items() for name in names} <= public
