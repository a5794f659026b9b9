"""A source that cannot be imported is refused by an error that names the file. Nothing changes."""

import json

import pytest

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
from tests.harness.lakefs import Obj, file_id
from tests.lakefs.trees import expected, held, imported


@pytest.fixture
def store(source):
    return open_store(source)


@pytest.fixture
def small(lakefs):
    """Write a repository of three commits; return their ids."""
    files = {f"in/{number}": lakefs.upload(str(number), b"%d" % number) for number in range(6)}
    root = lakefs.commit({}, message="root")
    first = lakefs.commit(files, [root], message="first")
    second = lakefs.commit({"b": files["in/0"]}, [first], message="second")
    lakefs.branches["main"] = second
    lakefs.dump()
    return root, first, second


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

    def run(kind, **options):
        options.setdefault("allow", [source])
        before = (
            list(repo.branches(hidden=True)),
            repo.tags.list(),
            list(repo.stores.refs.commits.list()),
        )
        with pytest.raises(GravelerError) as caught:
            repo.lake.import_lakefs(options.pop("root", source), "flights", **options)
        assert type(caught.value) is kind, caught.value
        after = (
            list(repo.branches(hidden=True)),
            repo.tags.list(),
            list(repo.stores.refs.commits.list()),
        )
        assert after == before
        return str(caught.value)

    return run


def test_a_namespace_without_a_dump_names_the_command(refused, source, lakefs):
    lakefs.commit({}, message="root")
    said = refused(ObjectNotFoundError)
    assert f"{source}/_lakefs/refs_manifest.json is missing" in said
    assert "lakectl refs-dump" in said


@pytest.mark.parametrize(
    "manifest",
    [b"", b"{", b"[]", b"{}", b'{"commits_meta_range_id":1}', b'{"commits_meta_range_id":"x"}',
     b'{"commits_meta_range_id":"","branches_meta_range_id":""}'],
)  # fmt: skip
def test_a_dump_that_is_cut_off_is_refused(refused, small, store, manifest):
    store.put("_lakefs/refs_manifest.json", manifest)
    assert "not a complete dump of refs" in refused(InvalidInputError)


def test_a_dump_can_be_given_as_a_file(repo, refused, small, store, source, tmp_path):
    file = tmp_path / "dump.json"
    file.write_bytes(store.get("_lakefs/refs_manifest.json"))
    store.delete("_lakefs/refs_manifest.json")
    assert "no such file" in refused(NotFoundError, refs=tmp_path / "nowhere")
    repo.lake.import_lakefs(source, "flights", allow=[source], refs=file)
    assert len(imported(repo)) == 3
    file.write_bytes(bytes(2 << 20))
    assert "no dump of refs has" in refused(InvalidInputError, refs=file)


def ranges_of(store, source, metarange):
    return namespace.Namespace(store).ranges(metarange, needed_by="a test")


@pytest.mark.parametrize("part", ["commits", "branches", "tags"])
def test_a_dump_that_lacks_a_metarange_names_it(refused, small, store, part):
    name = json.loads(store.get("_lakefs/refs_manifest.json"))[f"{part}_meta_range_id"]
    store.delete(f"_lakefs/{name}")
    said = refused(ObjectNotFoundError)
    assert f"{name} is missing" in said
    assert "refs_manifest.json needs it" in said


def test_a_missing_metarange_of_a_commit_names_both(refused, small, lakefs, store):
    name = lakefs.commits[small[1]]["metarange"]
    store.delete(f"_lakefs/{name}")
    said = refused(ObjectNotFoundError)
    assert f"_lakefs/{name} is missing, and commit {small[1]} needs it" in said


def test_a_missing_range_names_it_and_its_metarange(refused, small, lakefs, store, source):
    metarange = lakefs.commits[small[1]]["metarange"]
    name = ranges_of(store, source, metarange)[-1].id
    store.delete(f"_lakefs/{name}")
    said = refused(ObjectNotFoundError)
    assert f"_lakefs/{name} is missing, and metarange {metarange} needs it" in said


@pytest.mark.parametrize("what", ["range", "metarange"])
def test_commits_whose_trees_lack_files_can_be_expired(repo, small, lakefs, store, source, what):
    metarange = lakefs.commits[small[1]]["metarange"]
    name = metarange if what == "metarange" else ranges_of(store, source, metarange)[0].id
    store.delete(f"_lakefs/{name}")
    done = repo.lake.import_lakefs(source, "flights", allow=[source], expire_missing=True)
    assert done.expired == 1
    assert [commit.message for commit in repo.log("main")] == ["second", "first", "root"]
    assert held(repo.ref("main")) == expected(source, lakefs.trees[small[2]])
    with pytest.raises(ExpiredError):
        repo.ref("main~1")


def test_the_tree_of_a_head_cannot_be_expired(refused, small, lakefs, store):
    store.delete(f"_lakefs/{lakefs.commits[small[2]]['metarange']}")
    said = refused(ObjectNotFoundError, expire_missing=True)
    assert "it is the head of branch 'main'" in said
    assert "--rename main=" in said


@pytest.mark.parametrize("what", ["range", "metarange", "dump"])
@pytest.mark.parametrize("damage", ["byte", "cut", "other file"])
def test_a_damaged_file_is_named(refused, small, lakefs, store, source, what, damage):
    metarange = lakefs.commits[small[1]]["metarange"]
    name = {
        "range": ranges_of(store, source, metarange)[0].id,
        "metarange": metarange,
        "dump": json.loads(store.get("_lakefs/refs_manifest.json"))["commits_meta_range_id"],
    }[what]
    data = bytearray(store.get(f"_lakefs/{name}"))
    if damage == "byte":
        data[20] ^= 1
    elif damage == "cut":
        del data[-1]
    else:
        other = [("z", Obj("z", 1, "z"))]
        records = [(path.encode(), b"\x00\x00") for path, _ in other]
        kind = "ranges" if what == "range" else "metaranges"
        data = bytearray(store.get(f"_lakefs/{lakefs.file(records, {'type': kind})}"))
    store.put(f"_lakefs/{name}", bytes(data))
    said = refused(CorruptionError)
    assert f"_lakefs/{name}" in said


def test_a_file_of_another_kind_is_refused(refused, small, lakefs, store):
    name = lakefs.commits[small[1]]["metarange"]
    data = store.get(f"_lakefs/{lakefs.file([(b'a', b'')], {'type': 'ranges'})}")
    store.put(f"_lakefs/{name}", data)
    assert "says that it holds 'ranges', not 'metaranges'" in refused(CorruptionError)


def test_a_file_that_is_too_large_is_not_read(refused, small, monkeypatch):
    monkeypatch.setattr(namespace, "FILE_BYTES", 100)
    assert "more than 100 bytes" in refused(CorruptionError)


def test_a_commit_that_is_not_what_its_id_says_is_refused(refused, small, lakefs):
    lakefs.commits[small[1]]["message"] = "forged"
    lakefs.dump()
    assert f"commit '{small[1]}' does not match its id" in refused(CorruptionError)


def test_a_dump_that_lacks_a_commit_is_refused(refused, small, lakefs):
    fields = lakefs.commits.pop(small[1])
    lakefs.dump()
    assert f"lacks commit {small[1]}, a parent of others" in refused(CorruptionError)
    lakefs.commits[small[1]] = fields
    del lakefs.commits[small[2]]
    lakefs.dump()
    assert f"lacks commit {small[2]} of branch 'main'" in refused(CorruptionError)


def test_a_dump_without_branches_is_refused(refused, lakefs):
    lakefs.dump()
    assert "it has no branch" in refused(CorruptionError)


def test_a_range_with_other_keys_than_stated_is_refused(refused, lakefs, monkeypatch):
    written = lakefs._range

    def forged(records):
        value = written(records)[1]
        return b"in/z", value.replace(b"in/0", b"in/a", 1)

    monkeypatch.setattr(lakefs, "_range", forged)
    tree = {"in/0": lakefs.upload("0", b"0")}
    head = lakefs.commit(tree)
    monkeypatch.undo()
    lakefs.branches["main"] = head
    lakefs.dump()
    assert "has keys from b'in/0' to b'in/0'" in refused(CorruptionError)


def test_ranges_that_overlap_are_refused(refused, lakefs, monkeypatch):
    def overlapping(records, extra=None):
        low = lakefs._range(records)
        high = (low[0] + b"~", low[1])
        return lakefs.file([low, high], {"type": "metaranges"})

    tree = {"in/0": lakefs.upload("0", b"0"), "in/1": lakefs.upload("1", b"1")}
    monkeypatch.setattr(lakefs, "metarange", overlapping)
    lakefs.branches["main"] = lakefs.commit(tree)
    monkeypatch.undo()
    lakefs.dump()
    assert "does not come after b'in/1'" in refused(CorruptionError)


def test_a_record_that_is_no_entry_is_named(refused, lakefs, monkeypatch):
    monkeypatch.setattr("tests.harness.lakefs.entry_record", lambda _: b"\x00\x02\xff")
    lakefs.branches["main"] = lakefs.commit({"a": Obj("a", 1, "")})
    monkeypatch.undo()
    lakefs.dump()
    said = refused(CorruptionError)
    assert "record b'a': Entry: no number at byte 0" in said


def test_files_outside_of_the_declared_places_are_refused(refused, lakefs, source):
    tree = {"a": Obj("s3://elsewhere/raw/a", 1, "", kind=2)}
    lakefs.branches["main"] = lakefs.commit(tree)
    name = lakefs.commits[lakefs.branches["main"]]["metarange"]
    lakefs.dump()
    assert f"--allow {source}" in refused(PermissionDeniedError, allow=[])
    said = refused(PermissionDeniedError)
    assert "'s3://elsewhere/raw/a' lies in no place" in said
    assert "--allow s3://elsewhere/raw" in said
    assert "'a': " in said
    assert name not in said  # the error is about the range


def test_no_repository_is_made_for_a_place_that_is_not_allowed(world, small, source):
    with world.open() as lake:
        with pytest.raises(PermissionDeniedError, match=f"--allow {source}"):
            lake.import_lakefs(source, "trains")
        assert lake.repositories() == []
        with pytest.raises(PermissionDeniedError, match=f"--allow {source}"):
            lake.import_lakefs(source, "trains", allow=["mem://another"])
        assert lake.repositories() == []


def test_a_namespace_in_the_repository_s_storage_is_refused(world, lakefs, source):
    lakefs.branches["main"] = lakefs.commit({"a": lakefs.upload("a", b"a")})
    lakefs.dump()
    above = source.rpartition("/")[0]
    with world.open() as lake:
        for storage in (source, above):
            with pytest.raises(InvalidInputError, match="own storage"):
                lake.import_lakefs(source, "flights", allow=[above], storage=storage)
        assert lake.repositories() == []
        lake.create_repository("flights", storage=source, adopt=True)
        with pytest.raises(InvalidInputError, match="own storage"):
            lake.import_lakefs(source, "flights", allow=[above])


def test_the_storage_of_another_repository_is_no_source(refused, repo, small, source):
    repo.lake.create_repository("trains", storage=source, adopt=True)
    assert "in the storage of repository 'trains'" in refused(InvalidInputError)


@pytest.mark.parametrize("path", ["folder/", "a//b", "a/../b", "./a", "/a", "a\0b", "\udcff"])
def test_odd_paths_are_refused_or_left_out(repo, refused, lakefs, source, path):
    tree = {path: Obj("x", 0, ""), "b": Obj("b", 1, "")}
    lakefs.branches["main"] = lakefs.commit(tree)
    lakefs.branches["only"] = lakefs.commit({path: Obj("x", 0, "")})
    lakefs.dump()
    assert "--skip-odd-paths" in refused(InvalidInputError)
    done = repo.lake.import_lakefs(source, "flights", skip_odd_paths=True)
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
def test_a_commit_that_holds_too_much_is_named(refused, lakefs, fields, reason):
    head = lakefs.branches["main"] = lakefs.commit({}, **fields)
    lakefs.dump()
    said = refused(InvalidInputError)
    assert f"commit {head} of lakeFS exceeds the limits of a commit" in said
    assert reason in said


def test_an_entry_that_holds_too_much_is_named(refused, lakefs):
    tree = {"in/a": Obj("x", 1, "", metadata={"k": "x" * 70_000})}
    lakefs.branches["main"] = lakefs.commit(tree)
    lakefs.dump()
    said = refused(InvalidInputError)
    assert "'in/a'" in said
    assert "65536 bytes" in said


@pytest.mark.parametrize("time", [(-(2**50), 0), (2**50, 0)])
def test_a_date_that_no_record_holds_becomes_the_nearest(repo, lakefs, source, time):
    lakefs.branches["main"] = lakefs.commit({}, time=time)
    lakefs.dump()
    repo.lake.import_lakefs(source, "flights", allow=[source])
    assert repo.commit("main").created.year in {1, 9800}


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_names_that_graveler_does_not_take_are_refused(refused, small, lakefs, kind):
    name = {"branch": "run-1", "tag": "v1+x"}[kind]
    (lakefs.branches if kind == "branch" else lakefs.tags)[name] = small[0]
    lakefs.dump()
    assert f"--rename {name}=NEW" in refused(InvalidInputError)
    assert "run-2" in refused(
        InvalidInputError, rename={name: "run-2" if kind == "branch" else "a/run-2"}
    )


def test_renames_that_contradict_are_refused(refused, small, lakefs):
    lakefs.branches["dev"] = small[0]
    lakefs.dump()
    assert "no branch or tag" in refused(InvalidInputError, rename={"missing": "x"})
    assert "another one" in refused(InvalidInputError, rename={"dev": "main"})


def test_a_new_repository_needs_to_know_its_default_branch(world, small, lakefs, source):
    lakefs.branches = {"a": small[0], "b": small[1]}
    lakefs.dump()
    with world.open() as lake:
        with pytest.raises(InvalidInputError, match=r"none of the branches \(a, b\) is main"):
            lake.import_lakefs(source, "flights", allow=[source])
        assert lake.repositories() == []
        lake.import_lakefs(source, "flights", allow=[source], default_branch="b")
        assert lake.repository("flights").commit("b").message == "first"


@pytest.mark.parametrize("rule", ["protection", "gates"])
def test_an_import_bypasses_no_rule(repo, refused, small, rule):
    if rule == "protection":
        repo.protection.add("main")
    else:
        from graveler import checks

        repo.gates.require("main", checks.row_count("out/", at_least=1))
    assert "branch 'main'" in refused(ProtectedBranchError)


def test_a_repository_of_a_server_is_no_source(refused):
    assert "storage namespace" in refused(InvalidInputError, root="lakefs://repo")


def test_arguments_are_checked(refused, small):
    assert "skip_odd_paths=1" in refused(InvalidInputError, skip_odd_paths=1)
    assert "rename=" in refused(InvalidInputError, rename=["a"])
    assert "allow" in refused(InvalidInputError, allow="mem://a")


def test_the_model_computes_ids_as_the_reader_does(lakefs):
    assert file_id([], {"type": "metaranges"}) == (
        "00fb7eff1a97c500eb3ca8d2ef5464131d6b6a5f9512e41eba97843522213b66"
    )
