"""One history, replayed on every driver and with every splitting, has the same content.

The record of a history has the result of each step, also its error, and the visible content
between the steps. Ids of commits are compared if trees are cut in the same places. For that, files
get the same addresses, because ids depend on them too.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import cache
from itertools import count, permutations
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from graveler.base.background import Inline
from graveler.committed.splitting import Splitting
from graveler.config import LakeConfig
from graveler.errors import GravelerError, MergeConflictError
from graveler.lake.factory import connect
from graveler.model import Entry, Prefix
from graveler.repository.writes import staged as writes
from graveler.testing.clock import FakeClock, SequenceIds
from graveler.testing.world import link_unseen
from tests.harness.lakes import kv_uri, storage

SPLITTINGS = {
    "crumbs": Splitting(min_bytes=0, max_bytes=400, raggedness=2),
    "small": Splitting(min_bytes=200, max_bytes=2_000, raggedness=5),
    "whole": Splitting(),
}
SEEDS = (4, 7)
# Each key-value store, each object store, and each splitting on a local and on a remote store.
WORLDS = [
    ("mem", "s3", "small"),
    ("sqlite", "file", "crumbs"),
    ("rocksdb", "file", "small"),
    ("postgres", "s3", "crumbs"),
    ("postgres", "file", "whole"),
    ("mysql", "file", "small"),
    ("dynamodb", "mem", "crumbs"),
]
STEPS = 70
BRANCHES = ["main", "dev", "fix"]
PATHS = [f"{folder}{name}" for folder in ("", "a/", "a/b/", "c-", "ü/") for name in "pqrs"]
CONTENTS = ["1", "2", "3"]


class StillClock(FakeClock):
    """A clock that does not move within a step."""

    def now(self):
        return self._now

    def tick(self):
        super().now()

    def restart(self):
        self._now = FakeClock()._now


@cache
def history(seed):
    """Return the steps of a history. They are drawn blindly, so some of them are refused."""
    random = Random(seed)

    def one():
        return random.choice(BRANCHES)

    def writes():
        return {
            path: random.choice(CONTENTS) for path in random.sample(PATHS, random.randint(1, 6))
        }

    steps = {
        "put": lambda: (one(), random.choice(PATHS), random.choice(CONTENTS)),
        "link": lambda: (one(), writes()),
        "delete": lambda: (one(), random.sample(PATHS, random.randint(1, 3))),
        "commit": lambda: (one(),),
        "create": lambda: (one(), one()),
        "drop": lambda: (one(),),
        "merge": lambda: (one(), one(), random.choice([None, None, "source-wins", "dest-wins"])),
        "reset": lambda: (one(), random.choice([None, None, "v1", "main~1", one()])),
        "revert": lambda: (one(), one(), random.choice([None, 1])),
        "pick": lambda: (one(), one(), random.choice([None, 1])),
        "tag": lambda: (random.choice(["v1", "v2"]), one()),
        "untag": lambda: (random.choice(["v1", "v2"]),),
    }
    weights = {"put": 9, "link": 5, "delete": 4, "commit": 9, "create": 4, "merge": 6, "revert": 4}
    weights |= {"pick": 4, "tag": 3, "untag": 2}
    names = random.choices(list(steps), [weights.get(name, 1) for name in steps], k=STEPS)
    return [("create", ("dev", "main")), *((name, steps[name]()) for name in names)]


def link(repo, branch, writes):
    objects = repo.stores.objects
    infos = {content: objects.put(f"data/{content}", content.encode()) for content in CONTENTS}
    entries = [
        Entry(path, f"data/{content}", 1, infos[content].checksum, computed=True)
        for path, content in writes.items()
    ]
    link_unseen(repo.branch(branch), entries)  # a look-up would add the store's times


CALLS: dict[str, Callable[..., Any]] = {
    "put": lambda repo, branch, path, content: repo.branch(branch).put(path, content.encode()),
    "link": link,
    "delete": lambda repo, branch, paths: repo.branch(branch).delete_many(paths),
    "commit": lambda repo, branch: repo.branch(branch).commit(f"on {branch}").id,
    "create": lambda repo, name, source: repo.create_branch(name, source),
    "drop": lambda repo, name: repo.delete_branch(name),
    "merge": lambda repo, source, into, strategy: repo.merge(source, into, strategy=strategy),
    "reset": lambda repo, branch, to: repo.branch(branch).reset(to),
    "revert": lambda repo, commit, on, parent: repo.revert(commit, on, parent=parent),
    "pick": lambda repo, commit, onto, parent: repo.cherry_pick(commit, onto, parent=parent),
    "tag": lambda repo, name, ref: repo.tags.create(name, ref),
    "untag": lambda repo, name: repo.tags.delete(name),
}


def said(repo, name, given):
    """Take a step; return its result in a form that does not depend on the driver."""
    try:
        CALLS[name](repo, *given)
    except MergeConflictError as error:
        return "MergeConflictError", [conflict.path for conflict in error.conflicts]
    except GravelerError as error:
        return type(error).__name__, error.code
    return "done", None


def listed(view, prefix, *, delimiter="", after=""):
    return [
        item.path if isinstance(item, Prefix) else (item.path, item.size, item.checksum)
        for item in view.list(prefix, delimiter=delimiter, after=after)
    ]


def changes(found):
    return [
        (change.path, change.kind, change.before and change.before.checksum,
         change.after and change.after.checksum)
        for change in found
    ]  # fmt: skip


def seen(repo):
    """Return the visible content of a repository."""
    names = [record.name for record in repo.branches(hidden=True)]
    views = [repo.branch(name) for name in names] + [repo.ref(name) for name in names]
    views += [repo.ref(tag) for tag in repo.tags.list()]
    return {
        "names": (names, list(repo.tags.list())),
        "contents": [[(e.path, view.get(e.path)) for e in view.entries()] for view in views],
        "listings": [
            listed(view, prefix, delimiter=delimiter, after=after)
            for view in views
            for prefix in ("", "a", "a/", "ü/", "c-")
            for delimiter in ("", "/", "-")
            for after in ("", "a/b/q")
        ],
        "uncommitted": [changes(repo.branch(name).uncommitted()) for name in names],
        "diffs": [
            changes(repo.diff(left, right, prefix=prefix))
            for left, right in permutations(names, 2)
            for prefix in ("", "a/")
        ],
        "logs": [
            [(c.message.splitlines()[0], len(c.parents)) for c in repo.log(name)] for name in names
        ],
    }


def told(lake, clock, seed, splitting):
    """Replay a history in a new repository; return its record, and the ids of its commits."""
    clock.restart()
    repo = lake.create_repository(f"flights-{seed}", splitting=SPLITTINGS[splitting])
    record, ids, numbers = [], [], count(1)
    with patch.object(writes, "new_address", lambda _: f"data/file-{next(numbers)}"):
        for number, (name, given) in enumerate(history(seed), 1):
            clock.tick()
            record.append((name, given, said(repo, name, given)))
            if number % 24 == 0 or number > STEPS:
                record.append(seen(repo))
                ids.append({branch.name: branch.commit_id for branch in repo.branches()})
    return record, ids


@pytest.fixture(autouse=True)
def _one_clock(monkeypatch):
    """Let commits on S3 have the time of the machine, too, which is years behind here."""
    monkeypatch.setattr("graveler.base.clock._WRONG", timedelta(days=36_500))


def lake_at(config):
    clock = StillClock()
    opened = connect(config, clock=clock, ids=SequenceIds(), background=Inline())
    return opened, clock


@cache
def expected(seed, splitting):
    """Return the result of a history on the stores in memory."""
    config = LakeConfig("x", "mem://", f"mem://metamorphic-{seed}-{splitting}")
    lake, clock = lake_at(config)
    with lake:
        return told(lake, clock, seed, splitting)


def test_the_histories_are_worth_telling():
    rows = [row for seed in SEEDS for row in expected(seed, "small")[0] if isinstance(row, tuple)]
    outcomes = {(name, outcome) for name, _, (outcome, _) in rows}
    assert {name for name, outcome in outcomes if outcome == "done"} == set(CALLS)
    assert ("merge", "MergeConflictError") in outcomes
    assert len({outcome for _, outcome in outcomes}) > 5


@pytest.mark.parametrize(("kv", "objects", "splitting"), WORLDS)
def test_a_history_reads_the_same_everywhere(kv, objects, splitting, tmp_path, request):
    uri, options = storage(objects, tmp_path, request)
    config = LakeConfig(
        location=str(tmp_path),
        kv_uri=kv_uri(kv, tmp_path, request),
        storage_uri=uri,
        storage_options=options,
        cache_folder=tmp_path / "cache",
    )
    lake, clock = lake_at(config)
    with lake:
        for seed in SEEDS[: 1 if kv == "dynamodb" else None]:  # its server is slow
            record, ids = told(lake, clock, seed, splitting)
            first, _ = expected(seed, "whole")
            for here, there in zip(record, first, strict=True):
                assert here == there
            assert ids == expected(seed, splitting)[1]
