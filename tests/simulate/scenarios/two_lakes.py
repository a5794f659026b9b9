"""Two hosts with separate caches on one lake, with garbage collections, compared with plain dicts.

A seed draws the operations of a history. One of two lakes runs each operation. Both lakes use the
same key-value store and the same storage. A lake keeps its memory and its disk cache until it is
opened again on the same disk. There are few distinct contents, so that collected content is written
again. Every read is compared with the dicts. At the end fresh lakes read everything byte for byte.

Runs write paths of their own. Where users and runs write the same paths, claims decide beside contents,
which plain dicts cannot say: ``tests/model`` judges those histories.
"""

import tempfile
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from random import Random

from graveler.base.background import Inline
from graveler.config import LakeConfig
from graveler.errors import (
    ConflictError,
    ExpiredError,
    MergeConflictError,
    NoChangesError,
    NotFoundError,
)
from graveler.fsck.check import fsck
from graveler.kv.drivers.memory import MemoryKVStore
from graveler.lake.lake import Lake
from graveler.testing.clock import FakeClock, SequenceIds
from tests.harness.merge_model import MergeModel
from tests.harness.worlds import SMALL

OPERATIONS = 200
BRANCHES = ("main", "dev", "fix", "try")
PATHS = tuple(f"{folder}{name}" for folder in ("", "a/", "b/c/") for name in "pqrst")
RUN_PATHS = tuple(f"runs/{name}" for name in "pqrst")
CONTENTS = ("1", "2", "3")
GRACE, WINDOW = timedelta(hours=6), timedelta(days=1)
_numbers = count(1)


class TwoLakes(MergeModel):
    """One history.

    Attributes:
        done: The operations so far, for the report of a failure.
    """

    def __init__(self, seed, folder):
        self.random = Random(seed)
        self.done = []
        self._kv, self._clock, self._ids = MemoryKVStore(), FakeClock(), SequenceIds(seed)
        self._storage = f"mem://two-lakes{next(_numbers)}"
        self._folder = Path(folder)
        self._lakes = [self._open("host0"), self._open("host1")]
        root = self._lakes[0].create_repository("flights", splitting=SMALL).commit("main")
        self.trees, self.parents = {root.id: {}}, {root.id: ()}
        self.heads = {"main": root.id}
        self.staged: dict[str, dict[str, str | None]] = {"main": {}}
        self.gone = []
        if self.random.random() < 0.5:
            self.repo().gc.keep(count=self.random.randint(1, 4))

    def _open(self, host):
        config = LakeConfig("x", "mem://", self._storage, cache_folder=self._folder / host)
        return Lake(config, self._kv, clock=self._clock, ids=self._ids, background=Inline())

    def repo(self):
        """The repository on one of the two hosts."""
        return self.random.choice(self._lakes).repository("flights")

    def branch(self):
        """An existing branch."""
        return self.random.choice(sorted(self.heads))

    def shown(self, branch):
        """The expected contents of the branch, with its staged writes."""
        laid = {**self.trees[self.heads[branch]], **self.staged[branch]}
        return {path: content for path, content in laid.items() if content is not None}

    def run(self, operations=OPERATIONS):
        """Run random operations, then the final comparison."""
        weights = {
            self.put: 8,
            self.delete: 2,
            self.copy: 3,
            self.commit: 7,
            self.reset: 1,
            self.create: 3,
            self.drop: 2,
            self.merge: 5,
            self.cross: 1,
            self.publish: 2,
            self.borrow: 2,
            self.read: 5,
            self.sleep: 3,
            self.mark: 2,
            self.collect: 3,
            self.reopen: 1,
        }
        for _ in range(operations):
            (operation,) = self.random.choices(list(weights), list(weights.values()))
            self.done.append(operation.__name__)
            operation()
        self.end()

    def put(self):
        branch, path = self.branch(), self.random.choice(PATHS)
        content = self.random.choice(CONTENTS)
        self.repo().branch(branch).put(path, content.encode())
        self.staged[branch][path] = content

    def delete(self):
        branch, path = self.branch(), self.random.choice(PATHS)
        self.repo().branch(branch).delete(path)
        self.staged[branch][path] = None

    def copy(self):
        """Link files of another branch, as a copy of a file by its address does."""
        source, branch = self.branch(), self.branch()
        shown = self.shown(source)
        for path in self.random.sample(sorted(shown), min(3, len(shown))):
            target = self.random.choice(PATHS)
            repo = self.repo()
            entry = repo.branch(source).stat(path)
            repo.branch(branch).link_many([replace(entry, path=target)])
            self.staged[branch][target] = shown[path]
            shown = self.shown(source)

    def borrow(self):
        """Link files of a deleted branch: the link is refused, or the file is kept."""
        if not self.gone:
            return
        commit, branch = self.random.choice(self.gone), self.branch()
        tree, target = self.trees[commit], self.random.choice(PATHS)
        if not tree:
            return
        path = self.random.choice(sorted(tree))
        repo = self.repo()
        with suppress(NotFoundError, ConflictError):
            entry = repo.ref(commit).stat(path)
            repo.branch(branch).link_many([replace(entry, path=target)])
            self.staged[branch][target] = tree[path]

    def commit(self):
        branch = self.branch()
        before, after = self.trees[self.heads[branch]], self.shown(branch)
        try:
            made = self.repo().branch(branch).commit(f"{len(self.trees)}")
        except NoChangesError:
            assert before == after
        else:
            # equal writes of what a run published are claims
            assert before != after or "graveler.claims" in made.metadata
            self.moved(branch, made, after)
        self.staged[branch] = {}

    def moved(self, branch, commit, tree):
        """Record the new head of a branch."""
        self.trees[commit.id], self.parents[commit.id] = tree, commit.parents
        self.heads[branch] = commit.id

    def reset(self):
        branch = self.branch()
        self.repo().branch(branch).reset()
        self.staged[branch] = {}

    def create(self):
        source, name = self.branch(), self.random.choice(BRANCHES)
        if name not in self.heads:
            self.repo().create_branch(name, source)
            self.heads[name], self.staged[name] = self.heads[source], {}

    def drop(self):
        name = self.branch()
        if name != "main":
            self.repo().delete_branch(name)
            self.gone.append(self.heads.pop(name))
            del self.staged[name]

    def merge(self):
        self._merge(self.branch(), self.branch())

    def cross(self):
        """Merge the old heads of two branches crosswise: their next merge has two bases."""
        left, right = self.branch(), self.branch()
        before = self.heads[left]
        self._merge(right, left)
        self._merge(before, right)

    def _merge(self, source, into):
        strategy = self.random.choice([None, "source-wins", "dest-wins"])
        ours, theirs = self.heads[into], self.heads.get(source, source)
        if source == into or theirs in self.ancestors(ours):
            return
        expected, conflicts = self.merged(theirs, ours, strategy)
        found, done = [], None
        try:
            done = self.repo().merge(source, into, strategy=strategy)
        except MergeConflictError as refused:
            found = [one.path for one in refused.conflicts]
        assert found == conflicts
        if done is not None:
            self.moved(into, done.commit, expected)

    def publish(self):
        """Publish a run that puts two files."""
        head = self.heads["main"]
        tree = dict(self.trees[head])
        with self.repo().run(f"run {len(self.trees)}") as run:
            for path in self.random.sample(RUN_PATHS, 2):
                content = self.random.choice(CONTENTS)
                run.put(path, content.encode())
                tree[path] = content
        repo, changed = self.repo(), tree != self.trees[head]
        now = repo.commit("main")
        # equal writes of what another run published are claims
        assert not changed or now.id != head
        if now.id != head:
            self.trees[now.parents[1]], self.parents[now.parents[1]] = tree, (head,)
            self.moved("main", now, tree)

    def read(self):
        branch = self.branch()
        assert content(self.repo().branch(branch)) == self.shown(branch)
        old = self.random.choice(sorted(self.trees))
        with suppress(ExpiredError):
            assert content(self.repo().ref(old)) == self.trees[old]

    def sleep(self):
        self._clock.sleep(self.random.choice([1, 3_600, 20_000, 100_000, 200_000]))

    def mark(self):
        self.repo().gc.mark(grace=GRACE, window=WINDOW)

    def collect(self):
        self.repo().gc.run(grace=GRACE, window=WINDOW)

    def reopen(self):
        host = self.random.randrange(2)
        self._lakes[host] = self._open(f"host{host}")

    def end(self):
        """Collect all garbage; then compare everything, also on hosts with empty caches."""
        for _ in range(2):
            self._clock.sleep(10 * 86_400)
            self.collect()
        fresh = [self._open("cold0"), self._open("cold1")]
        for lake in (*self._lakes, *fresh):
            repo = lake.repository("flights")
            assert {record.name for record in repo.branches()} == set(self.heads)
            for branch, head in self.heads.items():
                assert repo.commit(branch).id == head
                assert content(repo.branch(branch)) == self.shown(branch)
                assert content(repo.ref(branch)) == self.trees[head]
        problems = fsck(fresh[0].repository("flights").stores, objects="checksum").problems
        assert list(problems) == []


def content(view):
    """The contents of a view, read byte by byte."""
    return {entry.path: view.get(entry.path).decode() for entry in view.entries()}


def play(seed, operations=OPERATIONS):
    """Run the history of a seed; return what went wrong, or ""."""
    with tempfile.TemporaryDirectory(prefix="graveler-two-lakes-") as folder:
        history = None
        try:
            history = TwoLakes(seed, folder)
            history.run(operations)
        except Exception as error:  # noqa: BLE001 - the seed repeats every error
            done = [] if history is None else history.done
            return f"seed {seed}, operation {len(done)} ({done[-1:]}): {error!r}"
    return ""
