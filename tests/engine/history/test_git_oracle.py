"""Merges of random histories compared with git: criss-crosses, ladders, reverts, deletions.

Git merges several merge bases in the order of their dates. Where they conflict, it takes the
content of their own base. So git's result may depend on the order or on a conflict. Our rules:

- A path with a conflict in git has a conflict.
- A path that is merged has the result of git, for any dates.
- A path is merged if git merges it to one result for all dates, without a conflict between
  bases.

A model of git gives the results for other dates. The model is compared with git itself.
"""

from collections import Counter
from itertools import permutations
from random import Random
from typing import NamedTuple

import pytest

from graveler.committed.apply import apply
from graveler.committed.diff import diff
from graveler.committed.merge import RawConflict, merge, merge_changes
from graveler.committed.metarange import EMPTY_METARANGE, scan
from graveler.committed.splitting import Splitting
from graveler.model import Commit, Entry
from graveler.repository.merges import find_bases
from graveler.values import decode_entry, encode_entry, record_id
from tests.harness.git import Git
from tests.harness.worlds import ScriptedWorld

PATHS = [f"p{number}" for number in range(8)]
CRUMBS = Splitting(max_bytes=400, raggedness=3)
ORDERS = 30
EMPTY_FILE = "what git takes for the base of two files that were both added"


class History(NamedTuple):
    parents: dict[str, tuple[str, ...]]
    files: dict[str, dict[str, str]]


class Drawing:
    """A history under construction."""

    def __init__(self, seed):
        self.dice = Random(seed)
        self.values = "ABCD"[: self.dice.choice([2, 3, 4])]
        self.history = History({}, {})
        self.add((), ["A"] * len(PATHS))

    def add(self, parents, contents):
        name = str(len(self.history.parents))
        self.history.parents[name] = tuple(parents)
        told = zip(PATHS, contents, strict=True)
        self.history.files[name] = {path: text for path, text in told if text}
        return name

    def merge(self, parents, *, calm):
        """Add a commit. Each path has the content of a parent, or sometimes another one."""
        contents = []
        for path in PATHS:
            theirs = [self.history.files[parent].get(path, "") for parent in parents]
            wild = self.dice.random() > calm
            contents.append(self.dice.choice(["", *self.values] if wild else theirs))
        return self.add(parents, contents)


def criss_cross(seed):
    """Return layers of two to four commits, each made from some commits of the layer before."""
    drawing = Drawing(seed)
    dice = drawing.dice
    layer = ["0"]
    for _ in range(dice.randint(2, 4)):
        names = list(drawing.history.parents)
        made = []
        for _ in range(dice.choice([2, 2, 3, 4])):
            pool = layer if dice.random() < 0.8 else names
            parents = dice.sample(pool, min(len(pool), dice.choice([1, 2, 2, 3])))
            made.append(drawing.merge(parents, calm=0.6))
        layer = made
    for _ in range(2):
        drawing.merge(dice.sample(layer, min(len(layer), dice.choice([2, 2, 3, 4]))), calm=0.7)
    return drawing.history


def rounds(seed):
    """Return three or four branches. In each round, each of them merges most of the others."""
    drawing = Drawing(seed)
    dice = drawing.dice
    layer = ["0"]
    for _ in range(dice.choice([2, 3])):
        count = dice.choice([3, 3, 4])
        several = [
            dice.sample(layer, max(len(layer) - dice.choice([0, 0, 1]), 1)) for _ in range(count)
        ]
        layer = [drawing.merge(parents, calm=0.6) for parents in several]
    for _ in range(3):
        drawing.merge(dice.sample(layer, len(layer)), calm=0.75)
    return drawing.history


def ladder(seed):
    """Return two lines that merge each other repeatedly. Sometimes an old value comes back."""
    drawing = Drawing(seed)
    dice = drawing.dice
    left, right = drawing.merge(["0"], calm=0.5), drawing.merge(["0"], calm=0.5)
    for _ in range(dice.randint(2, 6)):
        left, right = (
            drawing.merge([left, right], calm=0.8),
            drawing.merge([right, left], calm=0.8),
        )
        if dice.random() < 0.4:
            left = drawing.merge([left], calm=0.6)
    return drawing.history


def ancestors(history):
    found: dict[str, frozenset[str]] = {}
    for name, parents in history.parents.items():
        found[name] = frozenset({name}.union(*(found[parent] for parent in parents)))
    return found


class ModelOfGit:
    """Git's merge of one path, if the commits were made in a given order."""

    def __init__(self, history, above, path, order):
        self._values = {name: files.get(path) for name, files in history.files.items()}
        self._above = above
        self._order = order
        self.inner = False

    def merge(self, ours, theirs):
        """Return whether there is a conflict, and the merged value: None for a deletion."""
        base = self._base([ours], theirs)
        return three_way(base, self._values[ours], self._values[theirs])

    def _base(self, commits, other):
        common = self._above[other] & frozenset().union(*(self._above[one] for one in commits))
        best = [one for one in common if not any(one in self._above[two] for two in common - {one})]
        first, *rest = sorted(best, key=self._order.__getitem__) or [None]
        done, value = [first], self._values.get(first)
        for commit in rest:
            conflict, value = three_way(self._base(done, commit), value, self._values[commit])
            self.inner |= conflict
            done.append(commit)
        return value


def three_way(base, one, other):
    if one == other or base == other:
        return False, one
    if base == one:
        return False, other
    return True, EMPTY_FILE if base is None else base


def orders(names, dice):
    """Return orders of the commits: all of them for few commits, some for many."""
    if len(names) <= 4:
        return [dict(zip(one, range(len(names)), strict=True)) for one in permutations(names)]
    return [
        dict(zip(dice.sample(names, len(names)), range(len(names)), strict=True))
        for _ in range(ORDERS)
    ]


class Engine:
    """The same history in graveler."""

    def __init__(self, repo, history, salt):
        self.stores = repo.stores
        self.commits: dict[str, Commit] = {}
        for name, parents in history.parents.items():
            self.commits[name] = self.stores.refs.commits.add(
                metarange=self.tree(history.files[name]),
                parents=tuple(self.commits[parent].id for parent in parents),
                message=f"{name} {salt}",
                committer="",
                created=self.stores.clock.now(),
                metadata={},
            )

    def tree(self, files):
        changes = []
        for path, text in sorted(files.items()):
            entry = Entry(path, f"data/{text}", len(text), f"sha256:{text * 8}", computed=True)
            value = encode_entry(entry)[1]
            changes.append((path.encode(), record_id(path.encode(), value), value))
        return apply(self.stores.ranges, EMPTY_METARANGE, changes, CRUMBS).metarange

    def merge(self, source, into):
        """Return the merged files and the paths in conflict, and check the changes."""
        ranges = self.stores.ranges
        ours, theirs = self.commits[into], self.commits[source]
        bases = find_bases(self.stores, theirs, ours)
        assert bases is not None
        sides = (bases, theirs.metarange, ours.metarange)
        merged = merge(ranges, *sides, splitting=CRUMBS)
        told = list(merge_changes(ranges, *sides))
        conflicts = [one for one in told if isinstance(one, RawConflict)]
        assert [one.key for one in merged.conflicts] == [one.key for one in conflicts]
        if not conflicts:
            assert told == list(diff(ranges, ours.metarange, merged.metarange))
        settled = merge(ranges, *sides, splitting=CRUMBS, strategy="dest-wins")
        files = {
            key.decode(): decode_entry(key, value).address.removeprefix("data/")
            for key, value in scan(ranges, settled.metarange)
        }
        paths = {one.key.decode() for one in conflicts}
        return {path: text for path, text in files.items() if path not in paths}, paths


@pytest.mark.parametrize("seeds", [range(30), range(30, 60)])
def test_a_merge_is_what_git_makes_of_it_and_never_a_guess(tmp_path, seeds):
    git = Git(tmp_path)
    with ScriptedWorld().lake() as lake:
        repo = lake.repository("flights")
        seen: Counter[str] = Counter()
        for seed in seeds:
            draw = (criss_cross, rounds, ladder)[seed % 3]
            judge(git, repo, draw(seed), Random(seed), seen)
    assert seen["clean"] > 200
    assert seen["conflict"] > 50
    assert min(seen["guess"], seen["order"], seen["three bases"]) > 3


def judge(git, repo, history, dice, seen):
    names = list(history.parents)
    above = ancestors(history)
    dates = dict(zip(dice.sample(names, len(names)), range(1, len(names) + 1), strict=True))
    ids = git.add(history.parents, dates, history.files)
    engines = [Engine(repo, history, salt) for salt in dice.sample(range(1000), 2)]
    pairs = [
        (ours, theirs)
        for ours, theirs in (dice.sample(names[-5:], 2) for _ in range(6))
        if ours not in above[theirs] and theirs not in above[ours]
    ]
    for (ours, theirs), told in zip(pairs, git.merge(ids, pairs), strict=True):
        files, conflicts = engines[0].merge(theirs, ours)
        assert engines[1].merge(theirs, ours) == (files, conflicts)
        assert engines[0].merge(ours, theirs) == (files, conflicts)
        seen["three bases"] += len(git.bases(ids, ours, theirs)) > 2
        for path in PATHS:
            as_dated = ModelOfGit(history, above, path, dates)
            conflict, value = as_dated.merge(ours, theirs)
            assert conflict == (path in told.conflicts)
            assert as_dated.inner == (path in told.inner)
            assert conflict or value == told.files.get(path)
            answers, guessed = {(conflict, value)}, as_dated.inner
            for order in orders(names, dice):
                model = ModelOfGit(history, above, path, order)
                answers.add(model.merge(ours, theirs))
                guessed |= model.inner
            check(path, answers, guessed, files, conflicts, seen)


def check(path, answers, guessed, files, conflicts, seen):
    if path not in conflicts:
        assert answers == {(False, files.get(path))}
        seen["clean"] += 1
    elif all(conflict for conflict, _ in answers):
        seen["conflict"] += 1
    elif len(answers) > 1:
        seen["order"] += 1
    else:
        assert guessed
        seen["guess"] += 1
