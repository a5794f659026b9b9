"""A source that cannot be imported is refused by an error that names the file. Nothing changes."""

import json
from typing import Any

import pytest

from graveler import checks
from graveler.errors import (
    CorruptionError,
    ExpiredError,
    GravelerError,
    InvalidInputError,
    NotFoundError,
    ObjectNotFoundError,
    PermissionDeniedError,
    ProtectedBranchError,
)
from graveler.lakefs import namespace
from graveler.objects.registry import open_store
from tests.harness.lakefs import Obj
from tests.lakefs.trees import expected, held, imported

MANIFEST = "_lakefs/refs_manifest.json"


class Source:
    """A lakeFS repository of three commits, at the root of a storage namespace."""

    def __init__(self, root, lakefs):
        self.root, self.lakefs, self.store = root, lakefs, open_store(root)
        files = {f"in/{number}": lakefs.upload(str(number), b"%d" % number) for number in range(6)}
        self.ids = [lakefs.commit({}, message="root")]
        for message, tree in (("first", files), ("second", {"b": files["in/0"]})):
            self.ids.append(lakefs.commit(tree, [self.ids[-1]], message=message))
        lakefs.branches["main"] = self.ids[-1]
        lakefs.dump()

    def main(self, tree, **fields):
        """Replace the tree of main."""
        self.lakefs.branches["main"] = self.lakefs.commit(tree, **fields)
        self.lakefs.dump()
        return self.lakefs.branches["main"]

    def part(self, name):
        """Return the metarange of commits, branches or tags of the dump."""
        return json.loads(self.store.get(MANIFEST))[f"{name}_meta_range_id"]

    def metarange(self, number=1):
        return self.lakefs.commits[self.ids[number]]["metarange"]

    def range(self, at=0):
        ranges = namespace.Namespace(self.store).ranges(self.metarange(), needed_by="a test")
        return ranges[at].id

    def lose(self, name):
        self.store.delete(f"_lakefs/{name}")
        return f"_lakefs/{name} is missing"


@pytest.fixture
def small(lakefs, source):
    return Source(source, lakefs)


@pytest.fixture
def repo(world):
    """An existing repository with a history, as the target of imports."""
    with world.open() as lake:
        repo = lake.create_repository("flights", default_branch="ours")
        repo.branch("ours").put("a", b"a")
        repo.branch("ours").commit("ours")
        repo.lake = lake
        yield repo


@pytest.fixture
def refused(repo, source):
    """Imports, and returns the message of the error; asserts that the repository is unchanged."""

    def seen():
        branches, commits = repo.branches(hidden=True), repo.stores.refs.commits.list()
        return list(branches), repo.tags.list(), list(commits)

    def run(kind, **options):
        options.setdefault("allow", [source])
        before = seen()
        with pytest.raises(GravelerError) as caught:
            repo.lake.import_lakefs(options.pop("root", source), "flights", **options)
        assert type(caught.value) is kind, caught.value
        assert seen() == before
        return str(caught.value)

    return run


def test_a_namespace_without_a_dump_names_the_command(refused, source, lakefs):
    lakefs.commit({}, message="root")
    said = refused(ObjectNotFoundError)
    assert f"{source}/{MANIFEST} is missing" in said
    assert "lakectl refs-dump" in said


@pytest.mark.parametrize(
    "manifest",
    [b"", b"{", b"[]", b"{}", b'{"commits_meta_range_id":1}', b'{"commits_meta_range_id":"x"}',
     b'{"commits_meta_range_id":"","branches_meta_range_id":""}'],
)  # fmt: skip
def test_a_dump_that_is_cut_off_is_refused(refused, small, manifest):
    small.store.put(MANIFEST, manifest)
    assert "not a complete dump of refs" in refused(InvalidInputError)


def test_a_dump_can_be_given_as_a_file(repo, refused, small, tmp_path):
    file = tmp_path / "dump.json"
    file.write_bytes(small.store.get(MANIFEST))
    small.store.delete(MANIFEST)
    assert "no such file" in refused(NotFoundError, refs=tmp_path / "nowhere")
    repo.lake.import_lakefs(small.root, "flights", allow=[small.root], refs=file)
    assert len(imported(repo)) == 3
    file.write_bytes(bytes(2 << 20))
    assert "no dump of refs has" in refused(InvalidInputError, refs=file)


LOST: dict[str, Any] = {
    **{
        part: lambda small, part=part: small.lose(small.part(part)) + f", and {MANIFEST[8:]} needs"
        for part in ("commits", "branches", "tags")
    },
    "metarange": lambda small: (
        small.lose(small.metarange()) + f", and commit {small.ids[1]} needs it"
    ),
    "range": lambda small: (
        small.lose(small.range(-1)) + f", and metarange {small.metarange()} needs it"
    ),
}


@pytest.mark.parametrize("what", LOST)
def test_a_missing_file_is_named_with_what_needs_it(refused, small, what):
    needed = LOST[what](small)
    said = refused(ObjectNotFoundError)
    assert all(part in said for part in needed.split(", and "))


@pytest.mark.parametrize("what", ["range", "metarange"])
def test_commits_whose_trees_lack_files_can_be_expired(repo, small, what):
    small.lose(getattr(small, what)())
    done = repo.lake.import_lakefs(small.root, "flights", allow=[small.root], expire_missing=True)
    assert done.expired == 1
    assert [commit.message for commit in repo.log("main")] == ["second", "first", "root"]
    assert held(repo.ref("main")) == expected(small.root, small.lakefs.trees[small.ids[2]])
    with pytest.raises(ExpiredError):
        repo.ref("main~1")


def test_the_tree_of_a_head_cannot_be_expired(refused, small):
    small.lose(small.metarange(2))
    said = refused(ObjectNotFoundError, expire_missing=True)
    assert "it is the head of branch 'main'" in said
    assert "--rename main=" in said


@pytest.mark.parametrize("what", ["range", "metarange", "dump"])
@pytest.mark.parametrize("damage", ["byte", "cut", "other file"])
def test_a_damaged_file_is_named(refused, small, what, damage):
    name = small.part("commits") if what == "dump" else getattr(small, what)()
    data = bytearray(small.store.get(f"_lakefs/{name}"))
    if damage == "byte":
        data[20] ^= 1
    elif damage == "cut":
        del data[-1]
    else:
        kind = "ranges" if what == "range" else "metaranges"
        other = small.lakefs.file([(b"z", b"\x00\x00")], {"type": kind})
        data = bytearray(small.store.get(f"_lakefs/{other}"))
    small.store.put(f"_lakefs/{name}", bytes(data))
    assert f"_lakefs/{name}" in refused(CorruptionError)


def other_kind(small, _):
    other = small.lakefs.file([(b"a", b"")], {"type": "ranges"})
    small.store.put(f"_lakefs/{small.metarange()}", small.store.get(f"_lakefs/{other}"))
    return "says that it holds 'ranges', not 'metaranges'"


def too_large(_small, monkeypatch):
    monkeypatch.setattr(namespace, "FILE_BYTES", 100)
    return "more than 100 bytes"


def forged_commit(small, _):
    small.lakefs.commits[small.ids[1]]["message"] = "forged"
    small.lakefs.dump()
    return f"commit '{small.ids[1]}' does not match its id"


def without_parent(small, _):
    del small.lakefs.commits[small.ids[1]]
    small.lakefs.dump()
    return f"lacks commit {small.ids[1]}, a parent of others"


def without_head(small, _):
    del small.lakefs.commits[small.ids[2]]
    small.lakefs.dump()
    return f"lacks commit {small.ids[2]} of branch 'main'"


def without_branches(small, _):
    small.lakefs.branches.clear()
    small.lakefs.dump()
    return "it has no branch"


def commit_with(small, monkeypatch, tree, name, method):
    """Replace the tree of main by one that another method of the writer makes."""
    with monkeypatch.context() as patch:
        patch.setattr(small.lakefs, name, method)
        small.lakefs.branches["main"] = small.lakefs.commit(tree)
    small.lakefs.dump()


def other_keys(small, monkeypatch):
    written = small.lakefs._range

    def forged(records):
        return b"in/z", written(records)[1].replace(b"in/0", b"in/a", 1)

    tree = {"in/0": small.lakefs.upload("0", b"0")}
    commit_with(small, monkeypatch, tree, "_range", forged)
    return "has keys from b'in/0' to b'in/0'"


def overlapping(small, monkeypatch):
    def metarange(records, extra=None):
        low = small.lakefs._range(records)
        return small.lakefs.file([low, (low[0] + b"~", low[1])], {"type": "metaranges"})

    tree = {f"in/{number}": small.lakefs.upload(str(number), b"0") for number in range(2)}
    commit_with(small, monkeypatch, tree, "metarange", metarange)
    return "does not come after b'in/1'"


def no_entry(small, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("tests.harness.lakefs.entry_record", lambda _: b"\x00\x02\xff")
        small.main({"a": Obj("a", 1, "")})
    return "record b'a': Entry: no number at byte 0"


FORGED = (
    other_kind, too_large, forged_commit, without_parent, without_head, without_branches,
    other_keys, overlapping, no_entry,
)  # fmt: skip


@pytest.mark.parametrize("forge", FORGED)
def test_a_source_that_contradicts_itself_is_refused(refused, small, monkeypatch, forge):
    said = forge(small, monkeypatch)
    assert said in refused(CorruptionError)


def test_files_outside_of_the_declared_places_are_refused(refused, small):
    small.main({"a": Obj("s3://elsewhere/raw/a", 1, "", kind=2)})
    assert f"--allow {small.root}" in refused(PermissionDeniedError, allow=[])
    said = refused(PermissionDeniedError)
    assert "'s3://elsewhere/raw/a' lies in no place" in said
    assert "--allow s3://elsewhere/raw" in said
    assert "'a': " in said


@pytest.mark.parametrize("allow", [[], ["mem://another"]])
def test_no_repository_is_made_for_a_place_that_is_not_allowed(world, small, allow):
    with world.open() as lake:
        with pytest.raises(PermissionDeniedError, match=f"--allow {small.root}"):
            lake.import_lakefs(small.root, "trains", allow=allow)
        assert lake.repositories() == []


def test_the_storage_of_a_repository_is_no_source(world, small):
    above = small.root.rpartition("/")[0]
    with world.open() as lake:
        for storage in (small.root, above):
            with pytest.raises(InvalidInputError, match="own storage"):
                lake.import_lakefs(small.root, "flights", allow=[above], storage=storage)
        assert lake.repositories() == []
        lake.create_repository("flights", storage=small.root, adopt=True)
        for name, said in (("flights", "own storage"), ("trains", "of repository 'flights'")):
            with pytest.raises(InvalidInputError, match=said):
                lake.import_lakefs(small.root, name, allow=[above])


@pytest.mark.parametrize("path", ["folder/", "a//b", "a/../b", "./a", "/a", "a\0b", "\udcff"])
def test_odd_paths_are_refused_or_left_out(repo, refused, small, path):
    small.lakefs.branches["only"] = small.lakefs.commit({path: Obj("x", 0, "")})
    small.main({path: Obj("x", 0, ""), "b": Obj("b", 1, "")})
    assert "--skip-odd-paths" in refused(InvalidInputError)
    done = repo.lake.import_lakefs(small.root, "flights", skip_odd_paths=True)
    assert done.skipped >= 1
    assert [entry.path for entry in repo.ref("main").entries()] == ["b"]
    assert list(repo.ref("only").entries()) == []


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"message": "x" * 70_000}, "message"),
        ({"committer": "x" * 2_000}, "committer"),
        ({"metadata": {"k": "x" * 70_000}}, "metadata"),
        ({"metadata": {str(number): "" for number in range(1_000)}}, "metadata of 1001 pairs"),
    ],
)
def test_a_commit_that_holds_too_much_is_named(refused, small, fields, reason):
    head = small.main({}, **fields)
    said = refused(InvalidInputError)
    assert f"commit {head} of lakeFS exceeds the limits of a commit" in said
    assert reason in said


def test_an_entry_that_holds_too_much_is_named(refused, small):
    small.main({"in/a": Obj("x", 1, "", metadata={"k": "x" * 70_000})})
    said = refused(InvalidInputError)
    assert "'in/a'" in said
    assert "65536 bytes" in said


@pytest.mark.parametrize("time", [(-(2**50), 0), (2**50, 0)])
def test_a_date_that_no_record_holds_becomes_the_nearest(repo, small, time):
    small.main({}, time=time)
    repo.lake.import_lakefs(small.root, "flights", allow=[small.root])
    assert repo.commit("main").created.year in {1, 9800}


@pytest.mark.parametrize(("kind", "name"), [("branches", "run-1"), ("tags", "v1+x")])
def test_names_that_graveler_does_not_take_are_refused(refused, small, kind, name):
    getattr(small.lakefs, kind)[name] = small.ids[0]
    small.lakefs.dump()
    assert f"--rename {name}=NEW" in refused(InvalidInputError)
    assert "run-2" in refused(InvalidInputError, rename={"main": "run-2", name: "x"})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rename": {"missing": "x"}}, "no branch or tag"),
        ({"rename": {"dev": "main"}}, "another one"),
        ({"rename": ["a"]}, "rename="),
        ({"skip_odd_paths": 1}, "skip_odd_paths=1"),
        ({"allow": "mem://a"}, "allow"),
        ({"root": "lakefs://repo"}, "storage namespace"),
    ],
    ids=["missing", "another", "list", "number", "text", "server"],
)
def test_arguments_are_checked(refused, small, options, said):
    small.lakefs.branches["dev"] = small.ids[0]
    small.lakefs.dump()
    assert said in refused(InvalidInputError, **options)


def test_a_new_repository_needs_to_know_its_default_branch(world, small):
    small.lakefs.branches = {"a": small.ids[0], "b": small.ids[1]}
    small.lakefs.dump()
    with world.open() as lake:
        with pytest.raises(InvalidInputError, match=r"none of the branches \(a, b\) is main"):
            lake.import_lakefs(small.root, "flights", allow=[small.root])
        assert lake.repositories() == []
        lake.import_lakefs(small.root, "flights", allow=[small.root], default_branch="b")
        assert lake.repository("flights").commit("b").message == "first"


@pytest.mark.parametrize("rule", ["protection", "gates"])
def test_an_import_bypasses_no_rule(repo, refused, small, rule):
    if rule == "protection":
        repo.protection.add("main")
    else:
        repo.gates.require("main", checks.row_count("out/", at_least=1))
    assert "branch 'main'" in refused(ProtectedBranchError)
