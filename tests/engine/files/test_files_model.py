"""Uploads, puts, downloads, commits and deletions in any order agree with a dict."""

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from graveler.errors import NoChangesError
from tests.harness.worlds import ScriptedWorld, tree

NAMES = st.lists(st.sampled_from(["a", "b", "a.x", "ä", "-", "z z"]), min_size=1, max_size=3).map(
    "/".join
)
TEXTS = st.sampled_from(["", "1", "2", "11", "22", "333"])
PREFIXES = st.sampled_from(["", "a", "in/deep/"])
THREADS = st.sampled_from([1, 3])


def free(name, files):
    """Return whether a disk can hold the file beside the existing ones."""
    taken = f"{name}/"
    return not any(other.startswith(taken) or name.startswith(f"{other}/") for other in files)


class Folders(RuleBasedStateMachine):
    """A branch, a local folder, and a dict for each."""

    @initialize()
    def begin(self):
        self.root = Path(tempfile.mkdtemp(prefix="graveler-model-"))
        self.branch = ScriptedWorld().repo(scripted=False).branch("main")
        self.staged: dict[str, str] = {}
        self.local: dict[str, str] = {}

    @rule(name=NAMES, text=TEXTS)
    def write(self, name, text):
        if not free(name, self.local.keys() - {name}):
            return
        file = self.root / name
        if file.is_dir():
            return  # an empty folder remains at the path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self.local[name] = text

    @rule(number=st.integers(0, 9))
    def remove(self, number):
        if number < len(self.local):
            name = sorted(self.local)[number]
            (self.root / name).unlink()
            del self.local[name]

    @rule(files=st.dictionaries(NAMES, TEXTS, max_size=5), threads=THREADS)
    def put_many(self, files, threads):
        items = {name: text.encode() for name, text in files.items()}
        done = self.branch.put_many(items, threads=threads)
        assert done.files == len(files)
        self.staged |= files

    @rule(prefix=PREFIXES, delete=st.booleans(), threads=THREADS)
    def upload(self, prefix, delete, threads):
        start = f"{prefix.rstrip('/')}/" if prefix else ""
        wanted = {start + name: text for name, text in self.local.items()}
        equal = sum(self.staged.get(name) == text for name, text in wanted.items())
        others = [name for name in self.staged if name.startswith(start) and name not in wanted]
        done = self.branch.upload(self.root, prefix, delete=delete, threads=threads)
        assert (done.files, done.skipped) == (len(wanted) - equal, equal)
        assert done.bytes == sum(
            len(text) for name, text in wanted.items() if self.staged.get(name) != text
        )
        assert done.deleted == len(others) * delete
        self.staged |= wanted
        for name in others if delete else ():
            del self.staged[name]

    @rule(prefix=PREFIXES, delete=st.booleans(), threads=THREADS)
    def download(self, prefix, delete, threads):
        start = f"{prefix.rstrip('/')}/" if prefix else ""
        wanted = {
            name.removeprefix(start): text
            for name, text in self.staged.items()
            if name.startswith(start)
        }
        if prefix and not wanted:
            return
        target = self.local.keys() | wanted.keys()
        if not all(free(name, target - {name}) for name in target):
            return
        for folder in [path for path in self.root.rglob("*") if path.is_dir()]:
            if not any(folder.iterdir()) and folder.relative_to(self.root).as_posix() in wanted:
                shutil.rmtree(folder)
        equal = sum(self.local.get(name) == text for name, text in wanted.items())
        others = self.local.keys() - wanted.keys()
        done = self.branch.download(prefix, self.root, delete=delete, threads=threads)
        assert (done.files, done.skipped) == (len(wanted) - equal, equal)
        assert done.deleted == len(others) * delete
        self.local = wanted if delete else self.local | wanted

    @rule()
    def commit(self):
        with suppress(NoChangesError):
            self.branch.commit("some")

    @rule(names=st.lists(NAMES, max_size=4))
    def get_many(self, names):
        got = self.branch.get_many(names, missing="skip", threads=3)
        found = [(entry.path, content.decode()) for entry, content in got]
        assert found == [(name, self.staged[name]) for name in names if name in self.staged]

    @invariant()
    def both_hold_what_the_dicts_hold(self):
        if not hasattr(self, "root"):
            return
        assert tree(self.branch) == self.staged
        files = [path for path in self.root.rglob("*") if path.is_file()]
        assert {
            path.relative_to(self.root).as_posix(): path.read_text() for path in files
        } == self.local

    def teardown(self):
        if hasattr(self, "root"):
            shutil.rmtree(self.root)


TestFolders = Folders.TestCase
TestFolders.settings = settings(
    deadline=None,
    max_examples=25,
    stateful_step_count=15,
    suppress_health_check=[HealthCheck.too_slow],
)
