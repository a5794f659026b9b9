"""Random histories of runs on two branches: steps, retries, rollbacks, merges, reverts and picks of tables.

Each row has a file of its own, which the same writer writes and deletes. The rules of files are the model: after
every operation a branch has the rows of its files, and the entries of a table are the files that its metadata names.

``python -m tests.harness.iceberg_runs 40`` runs so many seeds.
"""

import sys
from collections import Counter
from contextlib import suppress
from random import Random
from tempfile import TemporaryDirectory

import graveler
from graveler.errors import MergeConflictError, NoChangesError, RunNotFoundError, RunStateError
from tests.harness.iceberg import catalog_of, entry_files, named_files, rows, with_table

TABLES = {"db.a": "db/a/", "db.n.b": "db/n/b/"}
BRANCHES = ["main", "dev"]
KEYS = ["r1", "r2", "r3"]
STEPS = ["s1", "s2"]
REFUSED = (MergeConflictError, NoChangesError, RunNotFoundError, RunStateError)
_ALWAYS = "user user open open open open step step step step step step two two failing undo park"
_ALWAYS += " publish publish publish publish rollback rollback merge merge"


def is_whole(commit):
    """Whether a commit has rows and their files: a publish, a merge, or the revert of one."""
    published = "graveler.published" in commit.metadata
    return published or len(commit.parents) == 2 or "Reverts commit" in commit.message


class _Killed(Exception):
    """What ends a failing step."""


class History:
    """A repository with two tables, and what happens to it by the seed.

    Attributes:
        log: What happened, for a seed that differs.
        seen: How often an operation was done, or refused.
    """

    def __init__(self, folder, seed):
        self.random, self.rows, self.log = Random(seed), 0, []
        self.seen: Counter[str] = Counter()
        self.deletes = seed % 2 == 0  # a second pick returns a deleted file, and no row
        self.operations = f"{_ALWAYS} {'' if self.deletes else 'revert pick'}".split()
        self.repo = graveler.init(f"{folder}/lake").create_repository("flights")
        self.runs: dict[str, graveler.Run] = {}
        self.checked: dict[str, str] = {}
        main = self.repo.branch("main")
        for table in TABLES:
            with_table(catalog_of(main), table=table)
            self.write(main, table)
        main.commit("start")
        self.repo.create_branch("dev", source="main")

    def happen(self):
        """Do one thing, and compare all that can be read."""
        before = self.heads()
        name = self.random.choice(self.operations)
        self.log.append(name)
        try:
            getattr(self, name)()
            self.seen[name] += 1
        except REFUSED as error:
            self.log.append(f"  refused: {error}")
            self.seen[f"{name}: {type(error).__name__}"] += 1
            assert self.heads() == before, "refused, but something moved"
        for ref in (*map(self.repo.branch, BRANCHES), *self.runs.values()):
            if self.checked.get(ref.name) != ref.head.id:
                self.check(ref)
                self.checked[ref.name] = ref.head.id

    def check(self, ref):
        """Compare the tables of a branch with its files."""
        view = self.repo.ref(ref.name)
        for name, place in TABLES.items():
            table = catalog_of(ref).load_table(name)
            found = sorted(table.scan().to_arrow()["delay"].to_pylist())
            assert found == sorted(self.numbers(view, name)), f"rows of {name} on {ref.name}"
            exact = entry_files(self.repo, ref.name, place) == named_files(table)
            assert exact, f"entries of {name} on {ref.name}"

    def heads(self):
        """Return the heads of the two branches."""
        return [self.repo.branch(name).head.id for name in BRANCHES]

    def numbers(self, view, table):
        """Return the rows of a table for which there are files."""
        return [int(entry.path.rpartition("/")[2]) for entry in view.entries(f"rows/{table}/")]

    def write(self, branch, table):
        """Append some rows."""
        new = [self.rows + at for at in range(self.random.randint(1, 3))]
        self.rows += len(new)
        hour = str(self.random.randint(1, 3))
        catalog_of(branch).load_table(table).append(rows(*new, hour=hour))
        for number in new:
            branch.put(f"rows/{table}/{number}", str(number).encode())
        self.log.append(f"  {branch.name} {table} + {new}")

    def work(self, branch):
        """Append to one table or both, or delete a row."""
        for table in self.random.sample([*TABLES], self.random.choice([1, 1, 2])):
            known = self.numbers(branch, table)
            if not (self.deletes and known and self.random.random() < 0.25):
                self.write(branch, table)
                continue
            number = self.random.choice(known)
            catalog_of(branch).load_table(table).delete(f"delay = {number}")
            branch.delete(f"rows/{table}/{number}")
            self.log.append(f"  {branch.name} {table} - {number}")

    def user(self):
        """A user's commit."""
        branch = self.repo.branch(self.random.choice(BRANCHES))
        self.work(branch)
        branch.commit("by hand")

    def open(self):
        """Open a run, which resumes what it parked. A run keeps its target."""
        at = self.random.randrange(len(KEYS))
        if KEYS[at] not in self.runs:
            self.runs[KEYS[at]] = self.repo.runs.open(KEYS[at], into=BRANCHES[at % 2])
            self.log.append(f"  {KEYS[at]}")

    def any_run(self):
        """Return an open run; open one if there is none."""
        while not self.runs:
            self.open()
        key = self.random.choice(sorted(self.runs))
        self.log.append(f"  {key}")
        return self.runs[key]

    def step(self):
        """A step, which may have run before and may do nothing now."""
        with self.any_run().step(self.random.choice(STEPS)) as step:
            self.check(step)
            if self.random.random() < 0.8:
                self.work(step)

    def two(self):
        """Two steps append at once. If both deleted a row, the undo of one would bring it back."""
        run = self.any_run()
        steps = [run.step(name) for name in STEPS]
        for act in (lambda step: self.write(step, "db.a"), lambda step: step.join()):
            for step in self.random.sample(steps, 2):
                act(step)

    def failing(self):
        """A step that fails after its work."""
        with suppress(_Killed), self.any_run().step(self.random.choice(STEPS)) as step:
            self.work(step)
            raise _Killed

    def undo(self):
        """A step is withdrawn."""
        self.any_run().undo_step(self.random.choice(STEPS))

    def park(self):
        """An attempt ends."""
        self.runs.pop(self.any_run().key).park("later")

    def publish(self):
        """A run is published."""
        self.runs.pop(self.any_run().key).publish()

    def rollback(self):
        """A publish is rolled back."""
        key = self.random.choice(KEYS)
        self.log.append(f"  {key}")
        self.repo.runs.rollback(key)

    def two_branches(self):
        """Return the two branches, in any order."""
        source, dest = self.random.sample(BRANCHES, 2)
        self.log.append(f"  {source} -> {dest}")
        return source, dest

    def merge(self):
        """One branch is merged into the other."""
        source, dest = self.two_branches()
        self.repo.merge(source, into=dest)

    def revert(self):
        """A publish, a rollback, a merge or a revert is reverted where it landed."""
        branch = self.random.choice(BRANCHES)
        commit, parent = self.landed(branch)
        self.repo.revert(commit, on=branch, **parent)

    def pick(self):
        """The same is picked onto the other branch."""
        source, dest = self.two_branches()
        commit, parent = self.landed(source)
        self.repo.cherry_pick(commit, onto=dest, **parent)

    def landed(self, branch):
        """Return one of the last commits of whole work on a branch, and the parent that counts if it has two."""
        log = [one for one in self.repo.log(branch, limit=8, first_parent=True) if is_whole(one)]
        if not log:
            raise NoChangesError("nothing has landed")
        found = self.random.choice(log)
        self.log.append(f"  {found.id[:8]} {found.message} on {branch}")
        return found, {"parent": 1} if len(found.parents) == 2 else {}


def check_seed(seed, count):
    """Let so many things happen; return what did. An error has a note of all that happened before."""
    with TemporaryDirectory() as folder:
        history = History(folder, seed)
        try:
            for _ in range(count):
                history.happen()
        except Exception as error:
            error.add_note("\n".join([f"seed {seed}", *history.log]))
            raise
        assert history.repo.fsck().sound
        return history.seen


if __name__ == "__main__":
    total: Counter[str] = Counter()
    for number in range(int(sys.argv[1])):
        total += check_seed(number, 60)
    sys.stdout.write(f"{dict(total)}\n")
