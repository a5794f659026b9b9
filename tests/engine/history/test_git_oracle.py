"""Merges of random histories compared with git: criss-crosses, ladders, reverts, deletions.

Git merges several merge bases in the order of their dates. Where they conflict, it takes the
content of their own base. So git's result may depend on the order or on a conflict. Our rules:

- A path with a conflict in git has a conflict.
- A path that is merged has the result of git, for any dates.
- A path is merged if all orders of the merge bases give one result, by the model.
"""

from collections import Counter
from random import Random

from graveler.committed.apply import apply
from graveler.committed.diff import diff
from graveler.committed.merge import RawConflict, merge, merge_changes
from graveler.committed.metarange import EMPTY_METARANGE, scan
from graveler.committed.splitting import Splitting
from graveler.model import Commit, Entry
from graveler.repository.merges import find_bases
from graveler.values import decode_entry, encode_entry, record_id
from tests.harness.git import Git
from tests.harness.merge_model import MergeModel
from tests.harness.worlds import ScriptedWorld

PATHS = [f"p{number}" for number in range(8)]
CRUMBS = Splitting(max_bytes=400, raggedness=3)


class History(MergeModel):
    """A history under construction."""

    def __init__(self, seed):
        self.dice = Random(seed)
        self.values = "ABCD"[: self.dice.choice([2, 3, 4])]
        self.parents, self.trees = {}, {}
        self.add((), ["A"] * len(PATHS))

    def add(self, parents, contents):
        name = str(len(self.parents))
        self.parents[name] = tuple(parents)
        told = zip(PATHS, contents, strict=True)
        self.trees[name] = {path: text for path, text in told if text}
        return name

    def mix(self, parents, *, calm):
        """Add a commit. Each path has the content of a parent, or sometimes another one."""
        contents = []
        for path in PATHS:
            theirs = [self.trees[parent].get(path, "") for parent in parents]
            wild = self.dice.random() > calm
            contents.append(self.dice.choice(["", *self.values] if wild else theirs))
        return self.add(parents, contents)


def criss_cross(seed):
    """Return layers of two to four commits, each made from some commits of the layer before."""
    history = History(seed)
    dice = history.dice
    layer = ["0"]
    for _ in range(dice.randint(2, 4)):
        names = list(history.parents)
        made = []
        for _ in range(dice.choice([2, 2, 3, 4])):
            pool = layer if dice.random() < 0.8 else names
            parents = dice.sample(pool, min(len(pool), dice.choice([1, 2, 2, 3])))
            made.append(history.mix(parents, calm=0.6))
        layer = made
    for _ in range(2):
        history.mix(dice.sample(layer, min(len(layer), dice.choice([2, 2, 3, 4]))), calm=0.7)
    return history


def ladder(seed):
    """Return two lines that merge each other repeatedly. Sometimes an old value comes back."""
    history = History(seed)
    dice = history.dice
    left, right = history.mix(["0"], calm=0.5), history.mix(["0"], calm=0.5)
    for _ in range(dice.randint(2, 6)):
        left, right = history.mix([left, right], calm=0.8), history.mix([right, left], calm=0.8)
        if dice.random() < 0.4:
            left = history.mix([left], calm=0.6)
    return history


class Engine:
    """The same history in graveler."""

    def __init__(self, repo, history, salt):
        self.stores = repo.stores
        self.commits: dict[str, Commit] = {}
        for name, parents in history.parents.items():
            self.commits[name] = self.stores.refs.commits.add(
                metarange=self.tree(history.trees[name]),
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


def test_a_merge_is_what_git_makes_of_it_and_never_a_guess(tmp_path):
    git = Git(tmp_path)
    seen: Counter[str] = Counter()
    with ScriptedWorld().lake() as lake:
        repo = lake.repository("flights")
        for seed in range(30):
            draw = (criss_cross, criss_cross, ladder)[seed % 3]
            judge(git, repo, draw(seed), Random(seed), seen)
    assert seen["clean"] > 200
    assert seen["conflict"] > 50
    assert min(seen["guess"], seen["three bases"]) > 2


def judge(git, repo, history, dice, seen):
    names = list(history.parents)
    dates = dict(zip(dice.sample(names, len(names)), range(1, len(names) + 1), strict=True))
    ids = git.add(history.parents, dates, history.trees)
    engine = Engine(repo, history, dice.randrange(1000))
    pairs = [
        (ours, theirs)
        for ours, theirs in (dice.sample(names[-5:], 2) for _ in range(6))
        if ours not in history.ancestors(theirs) and theirs not in history.ancestors(ours)
    ]
    for (ours, theirs), told in zip(pairs, git.merge(ids, pairs), strict=True):
        files, conflicts = engine.merge(theirs, ours)
        assert engine.merge(ours, theirs) == (files, conflicts)
        expected, unsure = history.merged(theirs, ours, None)
        assert conflicts == set(unsure)
        assert files == {path: text for path, text in expected.items() if path not in conflicts}
        assert set(told.conflicts) <= conflicts
        for path in set(PATHS) - conflicts:
            assert files.get(path) == told.files.get(path)
        seen["clean"] += len(set(PATHS) - conflicts)
        seen["conflict"] += len(told.conflicts)
        seen["guess"] += len(conflicts - set(told.conflicts))
        seen["three bases"] += len(git.bases(ids, ours, theirs)) > 2
