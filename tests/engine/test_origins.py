"""Entries name the branch or commit that they were read from; refused work is not linked."""

import copy as copying
import inspect
import pickle
import re
from dataclasses import replace

import pytest

import graveler
from graveler import gates
from graveler.errors import GateFailedError, RunStateError
from graveler.fs import GravelerFileSystem, close_lakes
from graveler.gc.collector import GarbageCollector
from graveler.ingest import Ingestion
from graveler.lake import places
from graveler.lake.gates import Gates
from graveler.model import Entry
from graveler.runs.run import Run
from graveler.runs.runs import Runs
from graveler.runs.steps.environment import OpenStep
from graveler.runs.steps.step import Step
from graveler.spark.tables import Tables
from tests.harness.worlds import tree


@pytest.fixture
def repo(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        yield lake.create_repository("flights")
        close_lakes()


@pytest.fixture
def refused(repo):
    """A parked run whose gate refused it: a committed and a staged file."""
    repo.branch("main").put("kept", b"main")
    repo.branch("main").commit("first")
    run = repo.runs.open("05")
    run.put("out/a", b"bad")
    run.commit_staged()
    with pytest.raises(GateFailedError):
        run.publish(gates.Gate("no", lambda _: "bad"))
    return repo.branch(run.branch)


@pytest.fixture
def open_run(repo):
    """An open run with a staged file."""
    run = repo.runs.open("06")
    run.put("out/a", b"unjudged")
    return run


def refuse(repo, entries):
    for entry in entries:
        with pytest.raises(RunStateError):
            repo.branch("main").link_many([entry])
        with pytest.raises(RunStateError):
            repo.branch("main").commit_changes([entry], message="c")
    assert list(repo.branch("main").uncommitted()) == []


def entries_of(view):
    """Return the entry of a file as each public read returns it."""
    path = "out/a"
    yield view.stat(path)
    yield from view.stat_many([path])
    yield view.stat_many([path])[0]
    yield from view.entries("out/")
    yield from view.list("out/", delimiter="/")
    yield from view.list("out/")
    yield from (entry for entry, _ in view.get_many([path]))
    yield replace(view.stat(path), path="elsewhere")
    yield pickle.loads(pickle.dumps(view.stat(path)))
    yield copying.deepcopy(view.stat(path))


def test_every_read_names_the_origin_outside_the_identity(repo, refused):
    ref = repo.ref(refused.name)
    for view, origin in ((refused, refused.name), (ref, ref.commit.id)):
        found = list(entries_of(view))
        assert {entry.origin for entry in found} == {origin}
        assert found[0] == replace(found[0], origin="")
        assert "origin" not in repr(found[0])
        refuse(repo, found)
    changes = [*repo.diff("main", refused), *repo.diff(refused, "main")]
    assert [change.path for change in changes] == ["out/a", "out/a"]
    refuse(repo, [changes[0].after, changes[1].before])


def test_staged_files_of_a_run_are_refused(repo, open_run):
    for view in (open_run, repo.branch(open_run.branch)):
        refuse(repo, [view.stat("out/a")])
        for taker in (repo.branch("main"), repo.runs.open("07")):
            with pytest.raises(RunStateError, match="not published"):
                taker.copy(view, "out/", "out/")
    refuse(repo, [change.after for change in open_run.uncommitted()])


def test_a_run_takes_its_own_work_and_all_take_published_work(repo, open_run):
    entry = open_run.stat("out/a")
    open_run.copy(open_run, "out/a", "out/b")
    open_run.link_many([replace(entry, path="out/c")])
    with open_run.step("load") as step:
        step.put("d", b"")
        step.link_many([replace(entry, path="out/d")])
    open_run.commit_staged()
    open_run.publish()
    main = repo.branch("main")
    assert sorted(tree(main)) == ["d", "out/a", "out/b", "out/c", "out/d"]
    main.copy("main~0", "out/", "copy/")
    dev = repo.create_branch("dev", "main")
    dev.link_many([replace(main.stat("out/a"), path="linked")])
    kept = dev.stat("linked")
    repo.delete_branch("dev")
    main.link_many([kept])
    with pytest.raises(RunStateError, match="not published"):  # it may be of a lost attempt
        main.link_many([entry])
    main.link_many([Entry("made", kept.address, kept.size)])


def test_entries_of_deleted_branches_and_reports_are_refused(repo, refused):
    """Those that put, store, why and the preview of a conflict return."""
    seen = repo.create_branch("seen", refused)
    found = [seen.stat("out/a"), repo.why("out/a", refused.head.id).entry]
    with pytest.raises(ValueError, match="failed"), repo.run("07") as run, run.step("one") as step:
        found += [step.put("kept", b"bad"), step.store("out/b", b"bad")]
        raise ValueError("failed")
    other = repo.create_branch("other", "main")
    other.put("out/a", b"other")
    other.commit("other")
    found.append(repo.preview_merge("other", "seen").conflicts[0].dest)
    repo.delete_branch("seen")
    refuse(repo, found)


def test_entries_that_a_gate_kept_are_refused(repo, open_run):
    stolen = []
    open_run.commit_staged()

    def steal(candidate):
        stolen.extend([candidate.stat("out/a"), *candidate.entries()])
        stolen.extend(change.after for change in candidate.changes())
        return "bad"

    with pytest.raises(GateFailedError):
        open_run.publish(gates.Gate("thief", steal))
    assert len(stolen) == 3
    refuse(repo, stolen)


def test_a_resolver_of_a_merge_gives_no_refused_entry(repo, refused):
    dev = repo.create_branch("dev", "main")
    dev.put("kept", b"dev")
    dev.commit("dev")
    repo.branch("main").put("kept", b"main 2")
    repo.branch("main").commit("main")
    entry = replace(refused.stat("out/a"), path="kept")
    with pytest.raises(RunStateError, match="not published"):
        repo.merge("dev", into="main", strategy=lambda _: entry)


@pytest.mark.parametrize("transaction", [False, True])
@pytest.mark.parametrize("source", ["branch", "candidate"])
def test_the_filesystem_copies_no_refused_work(repo, refused, source, transaction):
    fs = GravelerFileSystem(repo.stores.location)
    (judgement,) = repo.gates.judgements()
    there = refused.name if source == "branch" else judgement.commit
    with pytest.raises(PermissionError) as caught:
        if transaction:
            with fs.transaction:
                fs.cp(f"flights/{there}/out/a", "flights/main/out/a")
        else:
            fs.cp(f"flights/{there}/out", "flights/main/out", recursive=True)
    assert isinstance(caught.value.__cause__, RunStateError)
    assert "out/a" not in tree(repo.branch("main"))


CALLS = {
    "refuses unpublished work": """
        Branch.commit_changes Branch.copy Branch.link_many Branch.reset Repository.cherry_pick
        Repository.merge Repository.preview_merge Repository.revert""",
    "names a commit, whose history tells where it is from": "Repository.create_branch Tags.create",
    "builds a candidate, which gates judge": "Ingestion.release Run.publish",
    "undoes a published run": "Runs.rollback",
    "takes the name of a branch that it works on": """
        Repository.branch Repository.delete_branch Repository.expire_branch
        Repository.ingestion Repository.moves
        Repository.pack Repository.undo Tables.batch_writer Tables.compact Tables.transaction""",
    "reads": """
        Repository.commit Repository.diff Repository.graph Repository.log Repository.ref Repository.stats
        Repository.view Repository.why View.get View.get_many View.open View.read_range View.uri Run.reads Run.view
        OpenStep.source Runs.plan_rollback Runs.readers Gates.judgement ReadOnlyFileSystem.info_of
        Tables.changes Tables.commits Tables.create_views Tables.diff Tables.entries Tables.ranges
        Tables.read""",
}
"""Every public call that takes a ref, a branch, a view, a commit or entries, by what it does."""
OWNERS = {
    *(graveler.Lake, graveler.Repository, graveler.Branch, graveler.Ref, graveler.Candidate),
    *(Run, Step, OpenStep, Runs, Ingestion, GarbageCollector, GravelerFileSystem, Tables, Gates),
    *(
        kind
        for _, kind in inspect.getmembers(places, inspect.isclass)
        if kind.__module__ == places.__name__
    ),
}
_TAKES = re.compile(r"RefLike|\bView\b|\bEntry\b|\bCommit\b|BranchLike|\bBranch\b")


def calls_that_take_trees():
    for owner in OWNERS:
        for name, call in inspect.getmembers(owner, inspect.isfunction):
            parameters = inspect.signature(call).parameters.values()
            if not name.startswith("_") and any(
                _TAKES.search(str(p.annotation)) for p in parameters
            ):
                yield call.__qualname__


def test_every_call_that_takes_a_tree_is_in_the_table():
    """Those of the first row are in the table of doors in `test_doors.py`."""
    known = {call for calls in CALLS.values() for call in calls.split()}
    same = [("Run.", "RunBranch."), ("View.", "Tree."), ("View.", "Observed.")]
    same += [
        ("Branch.", "RunBranch."),
        ("Branch.", "BranchWriter."),
        ("Repository.", "History."),
        ("Repository.", "Upkeep."),
    ]
    known |= {call.replace(*pair) for call in known for pair in same}
    assert sorted(set(calls_that_take_trees()) - known) == []
