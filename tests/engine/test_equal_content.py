"""Equal content at different addresses is no difference, and each branch keeps its own bytes."""

import os
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256

import pytest

from graveler.errors import NoChangesError
from graveler.model import Entry
from graveler.testing.world import link_unseen
from tests.harness.worlds import ScriptedWorld

BYTES = b"delay,2\n"


@pytest.fixture
def repo(tmp_path):
    repo = ScriptedWorld().repo(scripted=False)
    repo.links.allow(str(tmp_path))
    return repo


def address(repo, ref, path="a.csv"):
    return repo.ref(ref).stat(path).address


def put(repo, branch, path="a.csv", body=BYTES, **options):
    target = repo.create_branch(branch, exist_ok=True)
    target.put(path, body, **options)
    return target.commit(f"{path} on {branch}")


def diff(repo, left, right):
    return [(change.kind.value, change.path) for change in repo.diff(left, right)]


def test_a_declared_checksum_takes_no_address_away(repo, tmp_path):
    home = tmp_path / "home.csv"
    home.write_bytes(BYTES)
    dev = repo.create_branch("dev")
    dev.link(
        "a.csv",
        address=f"file://{home}",
        size=len(BYTES),
        checksum=f"sha256:{sha256(BYTES).hexdigest()}",
    )
    dev.commit("linked")
    put(repo, "main")
    assert address(repo, "dev") == f"file://{home}"
    assert address(repo, "main").startswith("data/")
    home.unlink()
    assert repo.ref("main").get("a.csv") == BYTES


def test_a_link_to_another_address_is_a_change_for_any_checksum(repo):
    main = repo.branch("main")
    for key in ("data/one", "data/two"):
        repo.stores.objects.put(key, b"1")
    main.link_many([Entry("a", "data/one", 1, "xxh32:00000000")])
    main.commit("one")
    main.link_many([Entry("a", "data/two", 1, "xxh32:00000000")])
    main.commit("two")
    assert address(repo, "main", "a") == "data/two"
    assert diff(repo, "main~1", "main") == [("changed", "a")]


def test_an_upload_of_equal_content_leaves_the_heads_entry(repo):
    put(repo, "main")
    before = repo.ref("main").stat("a.csv")
    main = repo.branch("main")
    main.put("a.csv", BYTES)
    assert list(main.uncommitted()) == []
    with pytest.raises(NoChangesError, match="equals the head"):
        main.commit("again")
    main.put("a.csv", BYTES)
    main.put("b.csv", BYTES)
    main.commit("and another")
    assert repo.ref("main").stat("a.csv") == before


@pytest.mark.parametrize("options", [{"metadata": {"k": "v"}}, {"content_type": "text/csv"}])
def test_another_type_or_metadata_is_a_change(repo, options):
    put(repo, "main")
    first = address(repo, "main")
    put(repo, "main", **options)
    assert address(repo, "main") != first
    assert diff(repo, "main~1", "main") == [("changed", "a.csv")]


def test_equal_content_on_two_branches_is_no_conflict(repo):
    put(repo, "main", "0.csv")
    repo.create_branch("dev")
    put(repo, "dev")
    put(repo, "main")
    put(repo, "dev", "only-dev.csv")
    own = address(repo, "main")
    assert own != address(repo, "dev")
    assert diff(repo, "main", "dev") == [("added", "only-dev.csv")]
    repo.merge("dev", into="main")
    assert address(repo, "main") == own
    assert diff(repo, "main~1", "main") == [("added", "only-dev.csv")]


def test_what_has_nothing_new_but_addresses_cannot_be_picked(repo):
    put(repo, "main")
    repo.create_branch("dev")
    put(repo, "dev", body=b"other")
    put(repo, "dev")
    with pytest.raises(NoChangesError, match="would change nothing"):
        repo.cherry_pick("dev", onto="main")


def damaged(repo):
    """Put a file on main and damage its stored bytes."""
    put(repo, "main")
    repo.stores.objects.put(address(repo, "main"), b"DAMAGED\n")


def test_a_replacement_repairs_a_damaged_file(repo):
    damaged(repo)
    main = repo.branch("main")
    main.put("a.csv", BYTES, replace=True)
    (change,) = main.uncommitted()
    assert (change.path, change.kind.value) == ("a.csv", "changed")
    main.commit("repaired")
    assert repo.ref("main").get("a.csv") == BYTES
    assert address(repo, "main") != address(repo, "main~1")
    assert diff(repo, "main~1", "main") == []  # the intended content is unchanged


def test_a_replacement_survives_commits_of_other_processes(repo):
    damaged(repo)
    repo.branch("main").put("a.csv", BYTES, replace=True)
    again = repo.lake.repository("flights")
    again.branch("main").put("b.csv", BYTES)
    again.branch("main").commit("both")
    assert again.ref("main").get("a.csv") == BYTES


@pytest.mark.parametrize("moved", [False, True], ids=["main stands", "main moves"])
def test_a_replacement_on_a_branch_is_merged(repo, moved):
    damaged(repo)
    dev = repo.create_branch("dev")
    dev.put("a.csv", BYTES, replace=True)
    dev.commit("repaired")
    if moved:
        put(repo, "main", "a-neighbour.csv")
    repo.merge("dev", into="main")
    assert repo.ref("main").get("a.csv") == BYTES
    assert address(repo, "main") == address(repo, "dev")


def test_a_run_repairs_too(repo):
    damaged(repo)
    with repo.run("repair", into="main") as run:
        run.put("a.csv", BYTES, replace=True)
    assert repo.ref("main").get("a.csv") == BYTES


def test_a_step_repairs_too_also_when_it_runs_again(repo):
    with repo.run("hour", into="main") as run, run.step("ingest") as step:
        step.put("a.csv", BYTES)
    repo.stores.objects.put(address(repo, "main"), b"DAMAGED\n")
    with repo.run("hour", into="main") as run:
        for _ in range(2):
            with run.step("ingest") as step:
                step.put("a.csv", BYTES, replace=True)
    assert repo.ref("main").get("a.csv") == BYTES


def test_a_step_that_writes_the_same_again_leaves_every_entry(repo):
    with repo.run("hour", into="main") as run:
        for _ in range(2):
            with run.step("ingest") as step:
                step.put("a.csv", BYTES)
                step.put("b.csv", b"b")
    before = {entry.path: entry for entry in repo.ref("main").entries()}
    head = repo.ref("main").commit
    with repo.run("hour", into="main") as run, run.step("ingest") as step:
        step.put("a.csv", BYTES)
        step.put("b.csv", b"b")
    assert {entry.path: entry for entry in repo.ref("main").entries()} == before
    assert diff(repo, head.id, "main") == []


def staged(repo, path):
    record = repo.stores.refs.branches.get("main")
    return repo.stores.staging.get([record.staging_token], path.encode())


def test_linking_one_address_twice_gives_one_record(repo, tmp_path):
    there = tmp_path / "there.csv"
    there.write_bytes(BYTES)
    main = repo.branch("main")
    for given in ({}, {"size": len(BYTES)}):
        main.link("a", address=f"file://{there}", **given)
        once = staged(repo, "a")
        repo.stores.clock.sleep(3_600)
        main.link("a", address=f"file://{there}", **given)
        assert staged(repo, "a") == once


def test_the_time_of_a_link_is_the_one_that_its_store_reports(repo, tmp_path):
    there = tmp_path / "there.csv"
    there.write_bytes(BYTES)
    os.utime(there, (1_357_016_400, 1_357_016_400))
    main = repo.branch("main")
    entry = main.link("a", address=f"file://{there}")
    assert entry.mtime == datetime(2013, 1, 1, 5, tzinfo=UTC)
    assert (entry.version.partition(" ")[0], entry.computed) == ("mtime:1357016400000000", False)
    main.link_many([Entry("b", f"file://{there}", len(BYTES))])
    assert main.stat("b") == replace(entry, path="b")


def test_equal_trees_have_equal_ids_for_any_linker_and_time(repo):
    entries = [Entry(f"p{number}", f"data/{number}", 1) for number in range(9)]
    trees = set()
    for name in ("one", "other"):
        branch = repo.create_branch(name, source="main")
        link_unseen(branch, entries)
        trees.add(branch.commit(name).metarange)
        repo.stores.clock.sleep(3_600)
    assert len(trees) == 1


@pytest.mark.parametrize("door", ["link_many", "commit_changes"])
@pytest.mark.parametrize("made", ["from an entry", "by hand"])
def test_a_checksum_of_other_bytes_does_not_make_content_equal(repo, door, made):
    main = repo.branch("main")
    main.put("a", b"aaaa")
    main.commit("a")
    old, other = main.stat("a"), main.store("b", b"bbbb")
    wrong = replace(old, address=other.address)
    if made == "by hand":
        wrong = Entry("a", other.address, old.size, old.checksum, computed=True)
    if door == "link_many":
        main.link_many([wrong])
        main.commit("b")
    else:
        main.commit_changes([wrong], message="b")
    now = repo.branch("main").stat("a")
    assert (now.address, now.computed) == (other.address, False)


@pytest.mark.parametrize("read", ["stat", "list", "store"])
def test_a_copy_of_an_entry_keeps_its_computed_checksum(repo, read):
    main = repo.branch("main")
    stored = main.store("a", b"aaaa")
    main.link_many([stored])
    entry = {
        "stat": lambda: main.stat("a"),
        "list": lambda: next(main.list()),
        "store": lambda: stored,
    }[read]()
    main.link_many([replace(entry, path="b")])
    assert main.stat("b").computed
    assert main.stat("b") == replace(main.stat("a"), path="b")
