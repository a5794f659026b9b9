"""Work that gates refused, or have not judged, reaches no branch by any call."""

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


def entries_of(repo, view):
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
    main = repo.branch("main")
    ref = repo.ref(refused.name)
    for view, origin in ((refused, refused.name), (ref, ref.commit.id)):
        found = list(entries_of(repo, view))
        assert {entry.origin for entry in found} == {origin}
        assert found[0] == replace(found[0], origin="")
        assert "origin" not in repr(found[0])
        for entry in found:
            with pytest.raises(RunStateError, match="not published"):
                main.link_many([entry])
            with pytest.raises(RunStateError, match="not published"):
                main.commit_changes([entry], message="c")
    changes = [*repo.diff("main", refused), *repo.diff(refused, "main")]
    assert [change.path for change in changes] == ["out/a", "out/a"]
    for entry in (changes[0].after, changes[1].before):
        with pytest.raises(RunStateError):
            main.link_many([entry])
    assert list(main.uncommitted()) == []


def test_staged_files_of_a_run_are_refused(repo, open_run):
    main = repo.branch("main")
    for view in (open_run, repo.branch(open_run.branch)):
        entry = view.stat("out/a")
        with pytest.raises(RunStateError, match="not published"):
            main.copy(view, "out/", "out/")
        with pytest.raises(RunStateError, match="not published"):
            main.link_many([entry])
    (change,) = open_run.uncommitted()
    with pytest.raises(RunStateError):
        main.link_many([change.after])
    with pytest.raises(RunStateError):
        repo.runs.open("07").copy(open_run, "out/", "out/")


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


def test_a_branch_that_was_made_of_refused_work_is_refused(repo, refused):
    dev = repo.create_branch("dev", refused)
    entry = dev.stat("out/a")
    repo.delete_branch("dev")
    with pytest.raises(RunStateError, match="work of run '05'"):
        repo.branch("main").link_many([entry])


def test_quarantined_files_are_refused(repo, refused):
    from graveler.publishing.landing import CommitSpec
    from graveler.repository.commits.sealing import commit

    shelf = repo.create_branch("quarantine")
    shelf.put("q", b"bad")
    commit(repo.stores, "quarantine", CommitSpec("q", {"graveler.quarantine": "quarantine"}))
    for source in (shelf, "quarantine", repo.ref("quarantine")):
        with pytest.raises(RunStateError, match="is in quarantine"):
            repo.branch("main").copy(source, "q", "q")


def test_entries_that_a_gate_kept_are_refused(repo):
    stolen = []
    run = repo.runs.open("05")
    run.put("out/a", b"bad")
    run.commit_staged()

    def steal(candidate):
        stolen.extend([candidate.stat("out/a"), *candidate.entries()])
        stolen.extend(change.after for change in candidate.changes())
        return "bad"

    with pytest.raises(GateFailedError):
        run.publish(gates.Gate("thief", steal))
    assert len(stolen) == 3
    for entry in stolen:
        with pytest.raises(RunStateError, match="the candidate"):
            repo.branch("main").link_many([entry])


def by_resolver(repo, refused):
    dev = repo.create_branch("dev", "main")
    dev.put("kept", b"dev")
    dev.commit("dev")
    repo.branch("main").put("kept", b"main 2")
    repo.branch("main").commit("main")
    entry = replace(refused.stat("out/a"), path="kept")
    repo.merge("dev", into="main", strategy=lambda _: entry)


def by_cp(repo, refused, *, transaction=False):
    cp_from(repo, refused.name, transaction=transaction)


def cp_from(repo, ref, *, transaction=False):
    fs = GravelerFileSystem(repo.stores.location)
    try:
        if transaction:
            with fs.transaction:
                fs.cp(f"flights/{ref}/out/a", "flights/main/out/a")
        else:
            fs.cp(f"flights/{ref}/out", "flights/main/out", recursive=True)
    except PermissionError as error:
        raise error.__cause__ or error from None


DOORS = {
    "Repository.merge": lambda repo, refused: repo.merge(refused, into="main"),
    "Repository.merge, a resolver": by_resolver,
    "Repository.preview_merge": lambda repo, refused: repo.preview_merge(refused, into="main"),
    "Repository.cherry_pick": lambda repo, refused: repo.cherry_pick(refused.head, onto="main"),
    "Repository.revert": lambda repo, refused: repo.revert(refused.head, on="main"),
    "Branch.copy": lambda repo, refused: repo.branch("main").copy(refused, "out/", "out/"),
    "Branch.copy, a name": lambda repo, refused: repo.branch("main").copy(refused.name, "", ""),
    "Branch.copy, a ref": lambda repo, refused: repo.branch("main").copy(
        repo.ref(refused.name), "out/a", "out/a"
    ),
    "Branch.link_many": lambda repo, refused: repo.branch("main").link_many(
        [refused.stat("out/a")]
    ),
    "Branch.commit_changes": lambda repo, refused: repo.branch("main").commit_changes(
        [refused.stat("out/a")], message="c"
    ),
    "Branch.reset": lambda repo, refused: repo.branch("main").reset(to=refused.head),
    "GravelerFileSystem.cp": by_cp,
    "GravelerFileSystem.cp, in a transaction": lambda repo, refused: by_cp(
        repo, refused, transaction=True
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_refused_work_stays_out_by_every_door(repo, refused, door):
    with pytest.raises(RunStateError, match="not published"):
        DOORS[door](repo, refused)
    assert "out/a" not in tree(repo.branch("main"))


@pytest.mark.parametrize("transaction", [False, True])
@pytest.mark.usefixtures("refused")
def test_the_filesystem_copies_no_refused_candidate(repo, transaction):
    (judgement,) = repo.gates.judgements()
    with pytest.raises(RunStateError, match="not published"):
        cp_from(repo, judgement.commit, transaction=transaction)
    assert "out/a" not in tree(repo.branch("main"))


READS = "reads"
NAMES = "names a commit, whose history tells where it is from"
BRANCH = "takes the name of a branch that it works on"
JUDGED = "builds a candidate, which gates judge"
DOOR = "refuses unpublished work"

CALLS = {
    "Branch.commit_changes": DOOR,
    "Branch.copy": DOOR,
    "Branch.link_many": DOOR,
    "Branch.reset": DOOR,
    "Repository.cherry_pick": DOOR,
    "Repository.merge": DOOR,
    "Repository.preview_merge": DOOR,
    "Repository.revert": DOOR,
    "Repository.create_branch": NAMES,
    "Tags.create": NAMES,
    "Ingestion.release": JUDGED,
    "Run.publish": JUDGED,
    "Runs.plan_rollback": READS,
    "Runs.rollback": "undoes a published run",
    **dict.fromkeys(
        [
            "Repository.branch",
            "Repository.delete_branch",
            "Repository.ingestion",
            "Repository.moves",
            "Repository.pack",
            "Repository.undo",
            "Tables.batch_writer",
            "Tables.compact",
            "Tables.transaction",
        ],
        BRANCH,
    ),
    **dict.fromkeys(
        [
            "Repository.commit",
            "Repository.diff",
            "Repository.log",
            "Repository.ref",
            "Repository.stats",
            "Repository.view",
            "Repository.why",
            "View.get",
            "View.get_many",
            "View.open",
            "View.uri",
            "Run.reads",
            "Run.view",
            "OpenStep.source",
            "Runs.readers",
            "Gates.judgement",
            "ReadOnlyFileSystem.info_of",
            "Tables.changes",
            "Tables.commits",
            "Tables.create_views",
            "Tables.diff",
            "Tables.entries",
            "Tables.ranges",
            "Tables.read",
        ],
        READS,
    ),
}
OWNERS = (
    graveler.Lake,
    graveler.Repository,
    graveler.Branch,
    graveler.Ref,
    graveler.Candidate,
    Run,
    Step,
    OpenStep,
    Runs,
    Ingestion,
    GarbageCollector,
    GravelerFileSystem,
    Tables,
    *(
        kind
        for _, kind in inspect.getmembers(places, inspect.isclass)
        if kind.__module__ == places.__name__
    ),
)
_TAKES = re.compile(r"RefLike|\bView\b|\bEntry\b|\bCommit\b|BranchLike|\bBranch\b")


def calls_that_take_trees():
    """Yield each public call with a parameter for a ref, a branch, a view, a commit or entries."""
    for owner in {*OWNERS, places.Tags, places.Gates}:
        for name, call in inspect.getmembers(owner, inspect.isfunction):
            parameters = inspect.signature(call).parameters.values()
            if not name.startswith("_") and any(
                _TAKES.search(str(p.annotation)) for p in parameters
            ):
                yield call.__qualname__


def test_every_call_that_takes_a_tree_is_in_the_table():
    found = set(calls_that_take_trees())
    same = [("Run.", "RunBranch."), ("View.", "Tree."), ("View.", "Observed.")]
    same += [("Branch.", "BranchWriter."), ("Repository.", "History."), ("Repository.", "Upkeep.")]
    known = {*CALLS, *(call.replace(*pair) for call in CALLS for pair in same)}
    assert sorted(found - known) == []
    doors = {call for call, why in CALLS.items() if why == DOOR}
    assert doors <= {door.partition(",")[0] for door in DOORS}


def test_entries_of_writes_and_reports_of_a_run_are_refused(repo, refused):
    """Those that put, store, why and the preview of a conflict return."""
    with pytest.raises(ValueError, match="failed"), repo.run("07") as run, run.step("one") as step:
        found = [step.put("kept", b"bad"), step.store("out/b", b"bad")]
        raise ValueError("failed")
    seen = repo.create_branch("seen", refused.head)
    found.append(repo.why("out/a", refused.head.id).entry)
    seen.put("out/c", b"seen")
    seen.commit("seen")
    other = repo.create_branch("other", "main")
    other.put("out/a", b"other")
    other.commit("other")
    found.append(repo.preview_merge("other", "seen").conflicts[0].dest)
    for entry in found:
        with pytest.raises(RunStateError):
            repo.branch("main").link_many([entry])
    assert tree(repo.branch("main")) == {"kept": "main"}
