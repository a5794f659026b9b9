"""Writes, moves, deletions and transactions in any order agree with a dictionary."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from graveler.fs import GravelerFileSystem
from graveler.lake.shared import lend_lake
from graveler.testing import World

NAMES = st.sampled_from(["a", "in/a", "in/05:00/b", "out/a"])
FOLDERS = st.sampled_from(["in", "in/05:00", "out", "new", "in/deeper"])
BYTES = st.binary(max_size=3)


def below(files, folder):
    return {path: data for path, data in files.items() if path.startswith(f"{folder}/")}


class Files(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        world = World()
        self.lake = world.open()
        self.lending = lend_lake(self.lake)
        self.lending.__enter__()
        self.repo = self.lake.create_repository("flights")
        self.fs = GravelerFileSystem(self.lake.location, skip_instance_cache=True)
        self.other = GravelerFileSystem(self.lake.location, skip_instance_cache=True)
        self.there: dict[str, bytes] = {}
        self.committed: dict[str, bytes] = {}
        self.inside: dict[str, bytes] | None = None
        self.touched: set[str] = set()

    @property
    def files(self):
        return self.there if self.inside is None else self.inside

    def touch(self, *paths):
        self.touched.update(paths)

    @rule(files=st.dictionaries(NAMES, BYTES, min_size=1, max_size=4))
    def write(self, files):
        self.fs.pipe({f"flights/main/{name}": data for name, data in files.items()})
        self.files.update(files)
        self.touch(*files)

    @rule(name=NAMES, data=BYTES)
    def append(self, name, data):
        with self.fs.open(f"flights/main/{name}", "ab") as file:
            file.write(data)
        self.files[name] = self.files.get(name, b"") + data
        self.touch(name)

    @rule(name=NAMES)
    def delete(self, name):
        if name in self.files:
            self.fs.rm(f"flights/main/{name}")
            del self.files[name]
            self.touch(name)

    @rule(name=NAMES, to=NAMES)
    def rename(self, name, to):
        if name in self.files and name != to:
            self.fs.mv(f"flights/main/{name}", f"flights/main/{to}")
            self.files[to] = self.files.pop(name)
            self.touch(name, to)

    @rule(folder=FOLDERS, to=FOLDERS)
    def move_folder(self, folder, to):
        moved = below(self.files, folder)
        if not moved or f"{to}/".startswith(f"{folder}/") or f"{folder}/".startswith(f"{to}/"):
            return
        self.fs.mv(f"flights/main/{folder}/", f"flights/main/{to}/", recursive=True)
        for path, data in moved.items():
            del self.files[path]
            self.files[to + path.removeprefix(folder)] = data
            self.touch(path, to + path.removeprefix(folder))

    @precondition(lambda self: self.inside is None)
    @rule()
    def commit(self):
        if self.there != self.committed:
            self.fs.commit("flights/main", "staged")
            self.committed = dict(self.there)

    @precondition(lambda self: self.inside is None)
    @rule()
    def begin(self):
        self.fs.start_transaction()
        self.inside, self.touched = dict(self.there), set()

    @precondition(lambda self: self.inside is not None and self.touched)
    @rule(keep=st.sampled_from([True, True, False]))
    def end(self, keep):
        assert self.inside is not None
        self.fs.transaction.complete(commit=keep)
        if keep:
            for path in self.touched:
                for files in (self.there, self.committed):
                    if path in self.inside:
                        files[path] = self.inside[path]
                    else:
                        files.pop(path, None)
        self.inside = None

    @invariant()
    def each_sees_what_is_his(self):
        assert self.contents(self.fs, "main") == self.files
        assert self.contents(self.other, "main") == self.there
        assert self.contents(self.other, "main@") == self.committed

    @staticmethod
    def contents(fs, ref):
        root = f"flights/{ref}"
        return {path.removeprefix(f"{root}/"): fs.cat(path) for path in fs.find(root)}

    def teardown(self):
        self.lending.__exit__(None, None, None)
        self.lake.close()


Files.TestCase.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
test_files_are_as_a_dictionary_says = Files.TestCase
