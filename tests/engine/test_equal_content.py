"""Equal content at different addresses is no difference, and each branch keeps its own bytes."""

import os
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256

import pytest

from graveler.errors import NoChangesError
from graveler.model import Entry
from graveler.values import write_start
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


def test_an_upload_of_equal_content_leaves_the_heads_entry(repo):
    put(repo, "main")
    before = repo.ref("main").stat("a.csv")
    with pytest.raises(NoChangesError, match="equals the head"):
        put(repo, "main")
    repo.branch("main").put("a.csv", BYTES)
    assert list(repo.branch("main").uncommitted()) == []
    put(repo, "main", "b.csv")
    assert repo.ref("main").stat("a.csv") == before


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


@pytest.fixture
def damaged(repo):
    """A file on main whose stored bytes are damaged."""
    put(repo, "main")
    repo.stores.objects.put(address(repo, "main"), b"DAMAGED\n")
    return repo


def test_a_replacement_repairs_a_damaged_file(damaged):
    main = damaged.branch("main")
    main.put("a.csv", BYTES, replace=True)
    (change,) = main.uncommitted()
    assert (change.path, change.kind.value) == ("a.csv", "changed")
    again = damaged.lake.repository("flights")  # as another process commits it
    again.branch("main").put("b.csv", BYTES)
    again.branch("main").commit("both")
    assert again.ref("main").get("a.csv") == BYTES
    assert diff(again, "main~1", "main") == [
        ("added", "b.csv")
    ]  # the intended content is as it was


@pytest.mark.parametrize("moved", [False, True], ids=["main stands", "main moves"])
def test_a_replacement_on_a_branch_is_merged(damaged, moved):
    dev = damaged.create_branch("dev")
    dev.put("a.csv", BYTES, replace=True)
    dev.commit("repaired")
    if moved:
        put(damaged, "main", "a-neighbour.csv")
    damaged.merge("dev", into="main")
    assert damaged.ref("main").get("a.csv") == BYTES
    assert address(damaged, "main") == address(damaged, "dev")


def test_a_run_and_a_step_that_runs_again_repair_too(damaged):
    with damaged.run("repair", into="main") as run:
        run.put("a.csv", BYTES, replace=True)
    assert damaged.ref("main").get("a.csv") == BYTES
    damaged.stores.objects.put(address(damaged, "main"), b"DAMAGED\n")
    with damaged.run("hour", into="main") as run:
        for _ in range(2):
            with run.step("ingest") as step:
                step.put("a.csv", BYTES, replace=True)
    assert damaged.ref("main").get("a.csv") == BYTES


def test_linking_one_address_twice_gives_one_record(repo, tmp_path):
    """The time of a link is the one that its store reports."""

    def staged():
        record = repo.stores.refs.branches.get("main")
        write = repo.stores.staging.get([record.staging_token], b"a")
        return write[write_start(write) :]

    there = tmp_path / "there.csv"
    there.write_bytes(BYTES)
    os.utime(there, (1_357_016_400, 1_357_016_400))
    main = repo.branch("main")
    entry = main.link("a", address=f"file://{there}")
    once = staged()
    for given in ({}, {"size": len(BYTES)}):
        repo.stores.clock.sleep(3_600)
        main.link("a", address=f"file://{there}", **given)
        assert staged() == once
    assert entry.mtime == datetime(2013, 1, 1, 5, tzinfo=UTC)
    assert (entry.version.partition(" ")[0], entry.computed) == ("mtime:1357016400000000", False)
    main.link_many([Entry("b", f"file://{there}", len(BYTES))])
    assert main.stat("b") == replace(entry, path="b")


@pytest.mark.parametrize("door", ["link_many", "commit_changes"])
def test_a_checksum_of_other_bytes_does_not_make_content_equal(repo, door):
    main = repo.branch("main")
    for number in range(2):
        main.put("a", b"%d" % number)
        main.commit("a")
        old, other = main.stat("a"), main.store("b", b"b")
        wrong = [
            replace(old, address=other.address),
            Entry("a", other.address, old.size, old.checksum, computed=True),
        ][number]
        if door == "link_many":
            main.link_many([wrong])
            main.commit("b")
        else:
            main.commit_changes([wrong], message="b")
        now = repo.branch("main").stat("a")
        assert (now.address, now.computed) == (other.address, False)


def test_a_copy_of_an_entry_keeps_its_computed_checksum(repo):
    main = repo.branch("main")
    stored = main.store("a", b"aaaa")
    main.link_many([stored])
    for entry in (main.stat("a"), next(main.list()), stored):
        main.link_many([replace(entry, path="b")])
        assert main.stat("b").computed
        assert main.stat("b") == replace(main.stat("a"), path="b")
        main.delete("b")
