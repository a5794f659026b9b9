"""Operations in any order have the effect that they have on folders and files in HDFS."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from graveler.server import Server
from graveler.server.webhdfs.memory import is_working
from graveler.testing import World
from tests.harness.webhdfs import WebHdfs

TOKEN = "grav-of-the-tests"
PATHS = st.sampled_from(
    [
        "a",
        "t",
        "t/a",
        "t/b",
        "t/b/c",
        "u",
        "u/b",
        "t/_temporary",
        "t/_temporary/0/a",
        "_temporary/x",
    ]
)
THERE = st.runner().flatmap(lambda it: st.sampled_from(sorted(it.model.tree()) or ["a"]))
BYTES = st.binary(min_size=1, max_size=3)
REFUSED = "refused"


def parent(path):
    return path.rpartition("/")[0]


def below(paths, folder):
    return [path for path in paths if path.startswith(f"{folder}/")]


class Model:
    """Files, and folders that remain when they are empty."""

    def __init__(self):
        self.files = {}
        self.folders = {""}

    def above(self, path):
        while path := parent(path):
            yield path

    def make(self, path):
        if path in self.files or any(each in self.files for each in self.above(path)):
            return REFUSED
        self.folders.update([path, *self.above(path)])
        return True

    def create(self, path, data, overwrite):
        if path in self.folders or any(each in self.files for each in self.above(path)):
            return REFUSED
        if path in self.files and not overwrite:
            return REFUSED
        self.folders.update(self.above(path))
        self.files[path] = data
        return True

    def delete(self, path, recursive):
        if path in self.files:
            del self.files[path]
            return True
        if path not in self.folders:
            return False
        files, folders = below(self.files, path), below(self.folders, path)
        if (files or folders) and not recursive:
            return REFUSED
        for each in files:
            del self.files[each]
        self.folders.difference_update([path, *folders])
        return True

    def there(self, path):
        return path in self.files or path in self.folders

    def rename(self, path, to):
        if to in self.folders:
            to = f"{to}/{path.rpartition('/')[2]}" if to else path.rpartition("/")[2]
        if path in self.files and to == path:
            return True
        if not self.there(path) or f"{to}/".startswith(f"{path}/"):
            return False
        if self.there(to) or parent(to) not in self.folders:
            return False
        return self.move(path, to)

    def replace(self, path, to, overwrite):
        if not self.there(path) or to == path or to.startswith(f"{path}/"):
            return REFUSED
        if parent(to) not in self.folders:
            return REFUSED
        if self.there(to):
            if not overwrite or (path in self.files) != (to in self.files):
                return REFUSED
            if below([*self.files, *self.folders], to):
                return REFUSED
        return self.move(path, to)

    def move(self, path, to):
        moved = [path] if path in self.files else below(self.files, path)
        if is_working(to) and any(not is_working(each) for each in moved):
            return REFUSED
        self.files.update({to + each[len(path) :]: self.files.pop(each) for each in moved})
        if path in self.folders:
            folders = [path, *below(self.folders, path)]
            self.folders.difference_update(folders)
            self.folders.update(to + each[len(path) :] for each in folders)
        return True

    def tree(self):
        return {path: "DIRECTORY" for path in self.folders if path} | self.files


class Hdfs(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.lake = World().open()
        self.branch = self.lake.create_repository("flights").create_branch("dev")
        self.gateway = Server(self.lake, token=TOKEN)
        self.client = WebHdfs(self.gateway.address, TOKEN, "/flights/dev")
        self.model = Model()

    def same(self, reply, expected):
        if expected is REFUSED:
            assert reply.status in {400, 403, 404}
            assert reply.message
        else:
            assert reply.status in {200, 201}
            if reply.body:
                assert reply.json == {"boolean": expected}

    @rule(path=PATHS)
    def make(self, path):
        self.same(self.client.mkdirs(f"/{path}"), self.model.make(path))

    @rule(path=PATHS, data=BYTES, overwrite=st.booleans())
    def create(self, path, data, overwrite):
        reply = self.client.create(f"/{path}", data, overwrite=str(overwrite).lower())
        self.same(reply, self.model.create(path, data, overwrite))

    @rule(path=THERE, recursive=st.booleans())
    def delete(self, path, recursive):
        reply = self.client.delete(f"/{path}", recursive=recursive)
        self.same(reply, self.model.delete(path, recursive))

    @rule(path=THERE, to=st.one_of(PATHS, THERE, st.just("")))
    def rename(self, path, to):
        self.same(self.client.rename(f"/{path}", f"/{to}"), self.model.rename(path, to))

    @rule(path=st.one_of(THERE, PATHS), to=st.one_of(PATHS, THERE), overwrite=st.booleans())
    def replace(self, path, to, overwrite):
        options = "OVERWRITE" if overwrite else "NONE"
        reply = self.client.rename(f"/{path}", f"/{to}", renameoptions=options)
        self.same(reply, self.model.replace(path, to, overwrite))

    @rule()
    def commit(self):
        if list(self.branch.uncommitted()):
            self.client.ask("PUT", "", "COMMIT", message="m")

    @invariant()
    def the_tree_is_the_same(self):
        seen: dict[str, bytes | str] = {}
        folders = [""]
        while folders:
            folder = folders.pop()
            for name in self.client.names(folder):
                path = f"{folder}/{name}".strip("/")
                if name.endswith("/"):
                    seen[path] = "DIRECTORY"
                    folders.append(f"/{path}")
                else:
                    seen[path] = self.client.open(f"/{path}").body
        assert seen == self.model.tree()

    @invariant()
    def the_branch_has_what_is_no_work(self):
        staged = {entry.path: self.branch.get(entry) for entry in self.branch.entries()}
        assert staged == {
            path: data for path, data in self.model.files.items() if not is_working(path)
        }

    def teardown(self):
        self.client.close()
        self.gateway.close(seconds=10)
        self.lake.close()


Hdfs.TestCase.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)
test_the_gateway_is_as_a_tree_of_folders = Hdfs.TestCase
