"""Gates that branches require, in all operations that move a branch."""

from functools import partial
from threading import Thread
from typing import Any
from unittest.mock import Mock

import pytest

import graveler
from graveler import checks
from graveler.errors import (
    GateFailedError,
    InvalidInputError,
    MissingDependencyError,
    NoChangesError,
    OutcomeUnknownError,
    RefNotFoundError,
)
from graveler.gates import Candidate, Gate, named
from graveler.gates.named import NamedGate
from tests.gates import samples

BAD = "tests.gates.samples:no_bad_files"


def commit(repo, branch, path, message="more"):
    repo.branch(branch).put(path, path.encode())
    return repo.branch(branch).commit(message)


def bad_branch(repo):
    repo.create_branch("bad")
    return commit(repo, "bad", "bad/1")


def attach(repo):
    run = repo.runs.open("hour 06")
    run.put("bad/1", b"1")
    run.commit_staged()
    repo.runs.attach(run.handle.to_json()).publish()


def ingest(repo):
    ingestion = repo.ingestion()
    ingestion.branch.put("bad/1", b"1")
    tick = ingestion.tick()
    assert tick.refused
    raise GateFailedError(str(tick.refused))


DOORS: dict[str, Any] = {
    "publish elsewhere": lambda repo: lambda: attach(repo),
    "cherry-pick": lambda repo: partial(repo.cherry_pick, bad_branch(repo).id, onto="main"),
    "ingestion": lambda repo: lambda: ingest(repo),
    "create, looking at changes": lambda repo: (
        bad_branch(repo),
        repo.gates.require("main*", checks.file_format("bad/", "parquet")),
        lambda: repo.create_branch("main-2", "bad"),
    )[2],
    "reset to where it never was": lambda repo: (
        bad_branch(repo),
        repo.gates.require("main", checks.only_within("good/")),
        lambda: repo.branch("main").reset(to="bad"),
    )[2],
    "create": lambda repo: (
        bad_branch(repo),
        repo.gates.require("main*", BAD),
        lambda: repo.create_branch("main-2", "bad"),
    )[2],
}


# `tests/refusals` has merge, publish, commit, revert, undo and reset
@pytest.mark.parametrize("door", DOORS)
def test_no_door_leads_round_a_required_gate(repo, door):
    repo.gates.require("main", BAD)
    through = DOORS[door](repo)
    head = repo.commit("main")
    with pytest.raises(GateFailedError, match="bad/1"):
        through()
    assert repo.commit("main") == head
    with pytest.raises(RefNotFoundError):
        repo.branch("main-2")


def test_what_it_lets_through_goes_through_every_door(repo):
    repo.gates.require("*", BAD)
    first = commit(repo, "main", "good/1")
    dev = repo.create_branch("dev")
    made = commit(repo, "dev", "good/2")
    assert repo.merge("dev", into="main").commit.parents[0] == first.id
    repo.revert("main", parent=1)
    repo.cherry_pick(made.id)
    dev.reset(to="main")
    repo.undo("dev")
    with repo.run("hour 05") as run:
        run.put("good/3", b"1")
    assert [verdict.gate for verdict in run.result.verdicts] == ["no_bad_files"]
    assert run.result.commit.metadata["graveler.gates"] == "no_bad_files"
    assert {entry.path for entry in repo.ref("main").entries()} >= {"good/2", "good/3"}


@pytest.mark.parametrize("exists", [True, False])
def test_a_restore_is_judged_by_gates_that_are_here(repo, tmp_path, exists):
    """A dump has a required gate, and content from before the gate was required."""
    name = "main" if exists else "release"
    root = repo.commit("main").parents[0]
    if not exists:
        repo.create_branch(name)
    commit(repo, name, "bad/1")
    repo.gates.require(name, BAD)
    repo.dump_refs(tmp_path / "refs")
    repo.branch(name).reset(to=root)
    if not exists:
        repo.delete_branch(name)
    before = repo.commit("main")
    with pytest.raises(GateFailedError, match="bad/1"):
        repo.restore_refs(tmp_path / "refs")
    assert [branch.name for branch in repo.branches()] == ["main"]
    assert repo.commit("main") == before
    repo.gates.drop(name)
    repo.restore_refs(tmp_path / "refs")
    assert repo.ref(name).exists("bad/1")


def test_a_commit_that_is_refused_is_mended_or_discarded(repo):
    repo.gates.require("main", BAD)
    main = repo.branch("main")
    for number in range(20):  # more than the usual number of sealed tokens
        main.put(f"bad/{number}", b"1")
        with pytest.raises(GateFailedError):
            main.commit("bad")
    assert main.exists("bad/7")
    main.delete_many([f"bad/{number}" for number in range(20)])
    main.put("good", b"1")
    assert main.commit("mended").message == "mended"
    assert [entry.path for entry in repo.ref("main").entries()] == ["good", "settled"]
    main.put("bad/1", b"1")
    with pytest.raises(GateFailedError):
        main.commit("bad")
    main.reset()
    with pytest.raises(NoChangesError):
        main.commit("nothing is left")


def test_a_gate_that_cannot_be_imported_refuses_with_the_remedy(repo, monkeypatch):
    repo.gates.require("main", BAD)
    monkeypatch.delattr(samples, "no_bad_files")
    with pytest.raises(GateFailedError, match="graveler gates drop 'main'") as caught:
        commit(repo, "main", "good/1")
    assert "cannot be made here (AttributeError" in str(caught.value)


def test_another_lake_on_the_store_is_held_to_it(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        lake.create_repository("flights").gates.require("main", checks.only_within("good/"))
    with graveler.open(tmp_path / "lake") as lake, pytest.raises(GateFailedError, match="good/"):
        commit(lake.repository("flights"), "main", "bad/1")


def test_a_gate_whose_module_exits_refuses(monkeypatch, tmp_path):
    (tmp_path / "exiting.py").write_text("raise SystemExit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    path, reason = "exiting:gate", r"ends the process: SystemExit\(3\)"
    required = NamedGate(path).gate("main", {"exiting"})
    with pytest.raises(MissingDependencyError, match=reason):
        required.check(Mock(spec=Candidate))
    with pytest.raises(InvalidInputError, match=reason):
        named(path)


def test_a_gate_required_and_given_is_asked_once(repo):
    repo.gates.require("main", samples.no_bad_files)
    other = Gate("no_bad_files", lambda _: None)
    with repo.run("hour 05", gates=[samples.no_bad_files]) as run:
        run.put("good/1", b"1")
    assert [verdict.gate for verdict in run.result.verdicts] == ["no_bad_files"]
    with repo.run("hour 06", gates=[other]) as run:
        run.put("good/2", b"1")
    names = [verdict.gate for verdict in run.result.verdicts]
    assert names == ["no_bad_files", "no_bad_files (main)"]


def test_a_run_that_judges_first_hears_the_required_gates(repo):
    repo.gates.require("main", BAD)
    run = repo.runs.open("hour 05")
    run.put("bad/1", b"1")
    run.commit_staged()
    (verdict,) = run.judge([])
    assert verdict.refuses


def test_what_is_required_is_kept_and_shown(repo):
    repo.gates.require(
        "main",
        checks.row_count("output/", 10, severity="warn", name="rows"),
        checks.schema("output/", {"a": "int64"}, timeout=30),
        "tests.gates.samples:loops",
        samples.counts,
    )
    (gates,) = repo.gates.required().values()
    assert [(gate.name, gate.severity, gate.timeout) for gate in gates] == [
        ("rows", "warn", None),
        ("schema output/", "error", 30),
        ("loops", "error", 0.3),
        ("counts", "error", None),
    ]
    assert gates[0].check == checks.row_count("output/", 10).check
    assert gates[1].check == checks.schema("output/", {"a": "int64"}).check
    assert gates[3] == samples.counts
    repo.gates.require("main", BAD)  # replaces the others
    assert [gate.name for gate in repo.gates.required()["main"]] == ["no_bad_files"]
    repo.gates.require_named("main", "file_size", {"at_least": 5}, severity="warn")
    repo.gates.require_named("main", "file_size", {"at_least": 6})
    shown = [(one.check, dict(one.parameters)) for one in repo.gates.settings()["main"]]
    assert shown[0] == (BAD, {})
    assert shown[1][1]["at_least"] == 6
    repo.gates.drop("main")
    repo.gates.drop("main")
    assert repo.gates.required() == {}


@pytest.mark.parametrize(
    ("gates", "said"),
    [
        ([], "name at least one"),
        ([lambda _: None], "cannot be required: another process could not import"),
        (["row_cuont"], "no built-in check 'row_cuont'"),
        (["tests.gates.samples:nothing"], "AttributeError"),
        (["tests.nowhere:f"], "ModuleNotFoundError"),
        (["nowhere.at_all:f"], "takes required gates from no module"),
        (["tests.gates.samples:os"], "only imported there"),
        ([samples.counts, samples.counts], "must differ"),
    ],
)
def test_what_cannot_be_required_is_refused_at_once(repo, gates, said):
    with pytest.raises(InvalidInputError, match=said):
        repo.gates.require("main", *gates)
    with pytest.raises(InvalidInputError, match="severity='fatal'"):
        repo.gates.require_named("main", "row_count", severity="fatal")
    with pytest.raises(InvalidInputError, match="unexpected keyword"):
        repo.gates.require_named("main", "row_count", {"least": 1})
    assert repo.gates.required() == {}


def test_two_runs_wrong_together_do_not_both_publish(repo):
    gate = samples.at_most_two_files
    first, second = repo.runs.open("a"), repo.runs.open("b")
    for run in (first, second):
        run.put(f"x/{run.key}", b"1")
        run.put(f"x/{run.key}{run.key}", b"1")
        run.commit_staged()
        assert run.judge([gate])[0].passed
    first.publish([gate])
    with pytest.raises(GateFailedError, match="4 files"):
        second.publish([gate])
    assert not repo.ref("main").exists("x/b")


def test_a_revert_may_do_what_an_equal_commit_may_not(repo):
    added = commit(repo, "main", "x/1.csv")
    repo.gates.require("main", checks.row_count("x/", at_least=0))
    repo.gates.require("main", checks.nothing_deleted_outside("tmp/"))
    with pytest.raises(GateFailedError):
        remove(repo, "x/1.csv")
    repo.branch("main").reset()
    repo.revert(added.id)
    repo.revert("main")
    with pytest.raises(GateFailedError):
        remove(repo, "x/1.csv")


def remove(repo, path):
    repo.branch("main").delete(path)
    repo.branch("main").commit("away with it")


def test_a_run_cannot_replace_a_required_gate_by_its_name(repo):
    repo.gates.require("main", BAD)
    names = ("no_bad_files", "no_bad_files (main)", "no_bad_files (main) (main)")
    with (
        pytest.raises(GateFailedError, match="bad/1"),
        repo.run("hour 05", gates=[Gate(name, lambda _: True) for name in names]) as run,
    ):
        run.put("bad/1", b"1")


def test_a_branch_is_made_from_main_whatever_it_must_bring(repo):
    commit(repo, "main", "x/1.csv")
    repo.gates.require("release-*", checks.row_count("x/"))
    repo.create_branch("release-1")
    repo.create_branch("release-0", "main~1")


def test_protection_keeps_what_says_that_gates_are_required(repo):
    repo.gates.require("main", BAD)
    repo.protection.add("release-*")
    repo.protection.remove("release-*")
    bad_branch(repo)
    with pytest.raises(GateFailedError):
        repo.merge("bad", into="main")


@pytest.mark.parametrize("door", ["commit", "merge"])
def test_what_was_on_its_way_when_gates_were_required_is_judged(repo, door):
    bad_branch(repo)
    repo.branch("main").put("bad/2", b"2")
    advance = repo.stores.refs.branches.replace
    required: list[str] = []

    def late(record, predicate, *, action="move"):
        if record.name == "main" and action == door and not required:
            required.append(door)
            repo.gates.require("main", BAD)
        return advance(record, predicate, action=action)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            type(repo.stores.refs.branches), "replace", lambda _, *a, **k: late(*a, **k)
        )
        with pytest.raises(GateFailedError):
            repo.merge("bad", into="main") if door == "merge" else repo.branch("main").commit("x")
    assert required


def meanwhile(work):
    """Run `work` as another process does while a gate judges."""
    other = Thread(target=work)
    other.start()
    other.join()


@pytest.mark.parametrize("door", ["publish", "ingest"])
def test_a_candidate_under_judgement_gets_newly_required_gates(repo, door):
    def slow(_):
        meanwhile(lambda: repo.gates.require("main", BAD))

    if door == "publish":
        with pytest.raises(GateFailedError), repo.run("hour 05", gates=[Gate("slow", slow)]) as run:
            run.put("bad/1", b"1")
    else:
        ingestion = repo.ingestion(gates=[Gate("slow", slow)])
        ingestion.branch.put("bad/1", b"1")
        assert ingestion.tick("2013-01-01T05:00Z").state == "held"
    assert not repo.ref("main").exists("bad/1")


def test_a_commit_whose_seal_got_no_reply_is_judged(repo, monkeypatch):
    repo.branch("main").put("bad/1", b"1")
    replaced = type(repo.stores.refs.branches).replace
    lost: list[str] = []

    def no_reply(self, record, predicate, *, action="move"):
        made = replaced(self, record, predicate, action=action)
        if record.name == "main" and not lost:
            lost.append(action)
            repo.gates.require("main", BAD)
            raise OutcomeUnknownError("no reply")
        return made

    monkeypatch.setattr(type(repo.stores.refs.branches), "replace", no_reply)
    with pytest.raises(GateFailedError):
        repo.branch("main").commit("one")
    assert lost


@pytest.mark.parametrize(
    "options",
    [
        {"serverity": "warn"},
        {"isolated": "no"},
        {"timeout": True},
        {"also": 5},
        {"also": ["\ud800"]},
    ],
    ids=lambda options: next(iter(options)),
)
def test_an_option_that_no_gate_has_is_not_stored(repo, options):
    with pytest.raises(InvalidInputError):
        repo.gates.require_named("main", "row_count", {"prefix": "x/"}, **options)
    assert repo.gates.settings() == {}
