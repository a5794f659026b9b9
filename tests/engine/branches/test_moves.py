"""The log of moves, the position of a branch at a given time, undo and reset."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from graveler.errors import (
    AlreadyExistsError,
    FencedError,
    InvalidInputError,
    RefNotFoundError,
)
from graveler.model import Commit
from graveler.repository.commits.sealing import _seal
from tests.harness.histories import commit
from tests.harness.worlds import tree


def actions(repo, name=None, **options):
    return [line.action for line in repo.moves(name, **options)]


def assert_chained(lines):
    """Assert that each line continues the line before it; the latest line is the first."""
    for later, earlier in pairwise(lines):
        assert later.before == earlier.after
        assert later.position == earlier.position - 1


def test_every_move_is_a_line(repo, monkeypatch):
    monkeypatch.setenv("GRAVELER_COMMITTER", "ann")
    main = repo.branch("main")
    root = main.head
    first = commit(main, a="1")
    dev = repo.create_branch("dev")
    commit(dev, b="1")
    merge = repo.merge("dev", into="main").commit
    picked = repo.cherry_pick("dev", onto="main", allow_empty=True)
    reverted = repo.revert(merge.id, parent=1)
    main.reset(to=first.id)
    lines = list(repo.moves("main"))
    assert [(line.action, line.before, line.after) for line in lines] == [
        ("reset", reverted.id, first.id),
        ("revert", picked.id, reverted.id),
        ("cherry-pick", merge.id, picked.id),
        ("merge", first.id, merge.id),
        ("commit", root.id, first.id),
        ("create", None, root.id),
    ]
    assert_chained(lines)
    assert [line.at for line in lines] == sorted((line.at for line in lines), reverse=True)
    assert {(line.ref, line.kind) for line in lines} == {("main", "branch")}
    assert [line.actor for line in lines] == ["ann"] * 5 + [lines[-1].actor]
    assert [line.position for line in repo.moves("main", limit=2)] == [0, 1]
    assert actions(repo, "dev") == ["commit", "create"]


def test_the_log_of_all_shows_what_is_not_hidden(repo):
    commit(repo.branch("main"), a="1")
    repo.create_branch("quiet", hidden=True)
    repo.create_branch("a-b").delete("x")
    repo.create_branch("a")
    repo.delete_branch("a-b")
    repo.delete_branch("a")
    with repo.run("hour 05") as run:
        run.put("out", b"1")
    repo.tags.create("v1", "main~1")
    repo.tags.delete("v1")
    shown = [f"{line.ref} {line.action}" for line in repo.moves()]
    assert shown == [
        *("v1 delete", "v1 create", "main publish", "a delete", "a-b delete", "a create"),
        *("a-b create", "main commit", "main create"),
    ]
    everything = {line.ref for line in repo.moves(hidden=True)}
    assert everything == {"v1", "main", "a", "a-b", "quiet", run.branch}
    assert [line.ref for line in repo.moves(limit=1)] == ["v1"]


def test_the_log_of_a_tag_has_its_makings_and_ends(repo):
    first = commit(repo.branch("main"), a="1")
    repo.tags.create("v1")
    repo.tags.create("v1")  # no second line: the tag exists
    with pytest.raises(AlreadyExistsError, match="was not deleted"):
        repo.tags.undelete("v1")
    repo.tags.create("v10", first.id)
    second = commit(repo.branch("main"), a="2")
    repo.tags.delete("v1")
    assert repo.tags.undelete("v1") == first
    repo.tags.delete("v1")
    repo.tags.create("v1")
    lines = list(repo.tags.moves("v1"))
    assert [(line.action, line.before, line.after) for line in lines] == [
        ("create", None, second.id),
        ("delete", first.id, None),
        ("undo", None, first.id),
        ("delete", first.id, None),
        ("create", None, first.id),
    ]
    assert {line.kind for line in lines} == {"tag"}
    with pytest.raises(RefNotFoundError, match="v2"):
        repo.tags.undelete("v2")


def test_an_undo_takes_the_last_move_back_and_a_second_one_that(repo):
    main = repo.branch("main")
    first, second = commit(main, a="1"), commit(main, a="2")
    main.put("staged", b"s")
    assert repo.undo("main") == first == main.head
    assert tree(main) == {"a": "1", "staged": "s"}  # the staged write remains
    assert repo.undo("main") == second
    assert tree(main) == {"a": "2", "staged": "s"}
    assert actions(repo, "main") == ["undo", "undo", "commit", "commit", "create"]
    with repo.run("hour 05") as run:
        run.put("out", b"1")
    assert repo.undo("main") == second
    for to in (0, -1):
        with pytest.raises(InvalidInputError, match="from 1"):
            repo.undo("main", to=to)
    with pytest.raises(RefNotFoundError, match="has 7 moves"):
        repo.undo("main", to=7)
    with pytest.raises(RefNotFoundError, match="nowhere"):
        repo.undo("nowhere")
    assert list(repo.moves("nowhere")) == []
    repo.create_branch("new")
    with pytest.raises(RefNotFoundError, match="has 1 move, "):
        repo.undo("new")


def test_a_deleted_branch_is_made_again_where_it_was(repo):
    dev = repo.create_branch("dev", hidden=True)
    head = commit(dev, b="1")
    dev.put("staged", b"s")
    repo.delete_branch("dev")
    assert repo.undo("dev") == head
    assert tree(repo.branch("dev")) == {"b": "1", "staged": "s"}
    assert repo.stores.refs.branches.get("dev").hidden
    assert actions(repo, "dev") == ["undo", "delete", "commit", "create"]
    with pytest.raises(RefNotFoundError, match="it did not exist"):
        repo.undo("dev")  # the undo of a creation is a deletion
    assert repo.undo("dev", to=3) == repo.commit("main")
    repo.delete_branch("dev")
    assert repo.undo("dev", to=2) == head


def test_the_branch_of_a_run_is_not_undone(repo):
    run = repo.runs.open("hour 05")
    run.put("a", b"1")
    run.commit("a")
    for go in (repo.undo, lambda name: repo.branch(name).reset(to="main")):
        with pytest.raises(FencedError, match="belongs to a run"):
            go(run.branch)
    run.publish()
    with pytest.raises(FencedError, match="was a run's"):
        repo.undo(run.branch)
    assert [record.name for record in repo.branches(hidden=True)] == ["main"]


@pytest.fixture
def at(repo):
    """Sets the lake's clock to an hour of a day."""

    def set_hour(hours):
        repo.stores.clock._now = datetime(2013, 1, 2, tzinfo=UTC) + timedelta(hours=hours)

    return set_hour


def test_a_branch_is_read_as_of_a_time(repo, at):
    main = repo.branch("main")
    at(1)
    first = commit(main, a="1")
    repo.create_branch("dev")
    at(2)
    repo.delete_branch("dev")
    second, third = commit(main, a="2"), commit(main, a="3")
    at(3)
    repo.create_branch("dev")
    between = third.created - (third.created - second.created) / 2
    for expression, expected in {
        "main@{2013-01-02T01:30Z}": first,
        "main@{2013-01-02T01:30:00.5+00:00}": first,
        "main@{2013-01-02T03:30+02:00}": first,
        "main@{20130102T0130Z}": first,
        "main@{2999-01-01T00:00Z}": third,
        f"main@{{{second.created.isoformat()}}}": second,
        f"main@{{{between.isoformat()}}}": second,
        f"main@{{{third.created.isoformat()}}}": third,
        f"main@{{{next(repo.moves('main')).at.isoformat()}}}": third,
        "main@{2013-01-02T02:30Z}~1": second,
        "main@{2013-01-02T02:30Z}^1^0": second,
        "dev@{2013-01-02T01:30Z}": first,  # of the first branch of this name
    }.items():
        assert repo.commit(expression) == expected, expression
    for expression, said in {
        "dev@{2013-01-02T00:30Z}": "its log begins at 2013-01-02T01",
        "dev@{2013-01-02T02:30Z}": r"was deleted at 2013-01-02T02.*made again",
        "nowhere@{0}": None,
        "nowhere@{2013-01-02T01:30Z}": None,
    }.items():
        with pytest.raises(RefNotFoundError, match=said):
            repo.commit(expression)
    for time in ("2013-01-02T01:30", "2013-01-02", "yesterday", "2 hours ago", "-1", "1.5"):
        with pytest.raises(InvalidInputError, match="with its zone in ISO 8601"):
            repo.commit(f"main@{{{time}}}")
    relative = {"2h ago": "03:00", "90 minutes ago": "03:30", "yesterday": "05:00", "noon": "05:00"}
    at(5)
    for time, said in relative.items():
        day = "01-01" if time == "yesterday" else "01-02"
        with pytest.raises(InvalidInputError, match=rf"as in main@{{2013-{day}T{said}Z}}, or"):
            repo.commit(f"main@{{{time}}}")
    for expression in ("main@{}", "main@{1", "main@1}", "main@{1}@", "main@{1}{2}", "main~1@{1}"):
        with pytest.raises(InvalidInputError):
            repo.commit(expression)


def test_a_clock_that_jumps_leaves_the_order_of_the_moves(repo, at):
    main = repo.branch("main")
    made: list[Commit] = []
    for hour in (50, 2, 3):  # the clock jumps back two days
        at(hour)
        made.insert(0, commit(main, a=str(hour)))
    assert [line.after for line in repo.moves("main", limit=3)] == [one.id for one in made]
    assert repo.commit("main@{2013-01-02T02:30Z}") == made[1]
    assert repo.commit("main@{2013-01-04T12:00Z}") == made[0]
    assert repo.undo("main") == made[1]


def test_a_hard_reset_moves_the_branch_and_drops_staged_writes(repo):
    main = repo.branch("main")
    first = commit(main, "one", a="1")
    commit(main, "two", a="2")
    main.put("sealed", b"1")
    _seal(repo.stores, "main", "")  # the state after a committer dies
    main.put("staged", b"1")
    with pytest.raises(RefNotFoundError):
        main.reset(to="main~5")
    assert tree(main) == {"a": "2", "sealed": "1", "staged": "1"}
    assert main.reset(to="main~1") == 2
    assert repo.commit("main") == first == main.head
    assert tree(main) == {"a": "1"}
    assert repo.stores.refs.branches.get("main").sealed_tokens == ()
    repo.undo("main")
    assert tree(main) == {"a": "2", "sealed": "1", "staged": "1"}
    main.reset(to=first)
    before = actions(repo, "main")
    for to in (None, "main"):
        main.reset(to=to)
        assert actions(repo, "main") == before  # what moves no head and drops nothing is no line
        main.put("a", b"3")
        assert main.reset(to=to) == 1
        assert tree(main) == {"a": "1"}
        before = ["reset", *before]
    assert actions(repo, "main") == before
