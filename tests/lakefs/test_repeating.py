"""Imports that end early or are repeated, and sources that have grown."""

from contextlib import suppress
from datetime import timedelta

import pytest

from graveler.errors import AlreadyExistsError, ExpiredError, GravelerError
from graveler.fsck.check import fsck
from graveler.objects.registry import open_store
from tests.harness.lakefs import LakefsWriter
from tests.harness.worlds import FAULTS, Points, ScriptedWorld, struck_worlds
from tests.lakefs.trees import check_history, held, imported


def source_of(repo):
    return f"{repo.storage}-lakefs"


def write(repo):
    """Write a small history of lakeFS: two branches, a merge, a tag."""
    lakefs = LakefsWriter(open_store(source_of(repo)).put)
    files = {f"in/{number:02}": lakefs.upload(str(number), b"%d" % number) for number in range(9)}
    root = lakefs.commit({}, message="Repository created")
    first = lakefs.commit(files, [root], message="first")
    dev = lakefs.commit({**files, "dev": files["in/00"]}, [first], message="dev")
    merge = lakefs.commit(lakefs.trees[dev], [first, dev], message="merge")
    lakefs.branches.update(main=merge, dev=dev)
    lakefs.tags["v1"] = first
    lakefs.dump()
    return lakefs


def bring_in(repo):
    repo.lake.import_lakefs(source_of(repo), "trains", allow=[source_of(repo)])
    return repo.lake.repository("trains")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_repeated_import_completes_one_that_met_a_fault(fault):
    written = []
    worlds = struck_worlds(fault, lambda repo: written.append(write(repo)), bring_in)
    for world, what, failed in worlds:
        lakefs = written[-1]
        seen = world.repo(scripted=False)
        heads = {}
        if "trains" in seen.lake.repositories():
            trains = seen.lake.repository("trains")
            heads = {branch.name: trains.commit(branch.name) for branch in trains.branches()}
            known = imported(trains)
            for name, head in heads.items():  # each branch is complete or unchanged
                assert not head.parents or head == known[lakefs.branches[name]], what
            assert fsck(trains.stores).sound, what
        assert failed is not None or set(heads) == {"main", "dev"}, what
        trains = bring_in(world.repo(scripted=False))
        check_history(trains, source_of(seen), lakefs)
        assert fsck(trains.stores, objects="checksum").sound, what


def test_a_second_import_reads_what_is_new_and_moves_branches():
    world = ScriptedWorld()
    repo = world.repo(scripted=False)
    lakefs = write(repo)
    first = bring_in(repo)
    before = imported(first)
    head = lakefs.branches["main"]
    tree = {**lakefs.trees[head], "in/07": lakefs.upload("seven", b"seven")}
    lakefs.branches["main"] = lakefs.commit(tree, [head], message="new")
    lakefs.branches["fix"] = head
    lakefs.dump()
    done = repo.lake.import_lakefs(source_of(repo), "trains")  # its location is already allowed
    assert (done.new_commits, done.ranges, done.commits) == (1, 1, 5)
    trains = repo.lake.repository("trains")
    check_history(trains, source_of(repo), lakefs)
    assert before.items() <= imported(trains).items()
    assert [move.action for move in trains.moves("main")][:2] == ["import", "import"]


@pytest.mark.parametrize("how", ["commit", "reset in lakeFS", "tag"])
def test_refs_with_a_history_of_their_own_stay(how):
    world = ScriptedWorld()
    repo = world.repo(scripted=False)
    lakefs = write(repo)
    trains = bring_in(repo)
    if how == "commit":
        trains.branch("dev").put("mine", b"mine")
        trains.branch("dev").commit("mine")
        lakefs.branches["dev"] = lakefs.branches["main"]
    elif how == "tag":
        lakefs.tags["v1"] = lakefs.branches["main"]
    else:
        lakefs.branches["dev"] = lakefs.tags["v1"]
    head = lakefs.branches["main"]
    lakefs.branches["main"] = lakefs.commit({}, [head], message="more")
    lakefs.dump()
    before = (list(trains.branches()), trains.tags.list(), imported(trains))
    what = "tag 'v1'" if how == "tag" else "branch 'dev'"
    with pytest.raises(AlreadyExistsError, match=f"^{what}: at other commits"):
        bring_in(repo)
    assert (list(trains.branches()), trains.tags.list(), imported(trains)) == before
    done = repo.lake.import_lakefs(
        source_of(repo), "trains", rename={"v1": "v1b"} if how == "tag" else {"dev": "dev-2"}
    )
    assert done.commits == 5


def collect(repo, *, sweep=True):
    nothing = timedelta(0)
    mark = repo.gc.mark(grace=nothing, window=nothing)
    if sweep:
        repo.gc.sweep(mark.id)
    return mark


@pytest.mark.parametrize("sweep", [True, False])
def test_what_collection_removed_meanwhile_is_converted_again(sweep):
    world = ScriptedWorld()
    repo = world.repo(scripted=False)
    lakefs = write(repo)
    taken = repo.lake.create_repository("trains")
    taken.create_branch("dev").commit("mine", allow_empty=True)
    with pytest.raises(AlreadyExistsError):
        bring_in(repo)  # the trees exist, but no ref names them
    mark = collect(repo.lake.repository("trains"), sweep=sweep)
    repo.lake.repository("trains").delete_branch("dev")
    trains = bring_in(repo)
    if not sweep:
        trains.gc.sweep(mark.id)
    check_history(trains, source_of(repo), lakefs)
    assert fsck(trains.stores).sound


def test_a_branch_that_was_deleted_and_collected_comes_again():
    world = ScriptedWorld()
    repo = world.repo(scripted=False)
    lakefs = write(repo)
    trains = bring_in(repo)
    trains.create_branch("keep", "v1")
    trains.delete_branch("dev")
    trains.branch("main").reset(to="v1")
    dev = imported(trains)[lakefs.branches["dev"]]
    collect(trains)
    with pytest.raises(ExpiredError):
        held(trains.ref(dev.id))
    trains = bring_in(repo)
    check_history(trains, source_of(repo), lakefs)
    assert fsck(trains.stores).sound


def test_a_branch_that_moves_at_any_call_of_the_import_stays():
    """Another process commits on the default branch once, between any two calls of the import."""
    written = []

    def prepare(repo):
        written.append(write(repo))
        repo.lake.create_repository("trains")

    number = 1
    while True:
        world = ScriptedWorld()
        prepare(world.repo(scripted=False))
        other = world.repo(scripted=False).lake.repository("trains").branch("main")

        def quicker(_call, other=other):
            with suppress(GravelerError):
                other.put("mine", b"mine")
                other.commit("mine")

        world.script.arm(number, quicker)
        failed = None
        try:
            bring_in(world.repo())
        except AlreadyExistsError as error:
            failed = error
        if not world.script.disarm():
            break
        trains = world.repo(scripted=False).lake.repository("trains")
        log = [commit.message for commit in trains.log("main")]
        assert ("mine" in log) or failed is None
        if failed is not None:
            assert log[0] == "mine"
        number += Points.step
    assert number > 3
