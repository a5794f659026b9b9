"""The log of moves, the position of a branch at a given time, and undo."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from graveler.errors import (
    AlreadyExistsError,
    FencedError,
    InvalidInputError,
    ProtectedBranchError,
    RefNotFoundError,
)
from graveler.repository.commits.sealing import _seal
from tests.harness.histories import commit
from tests.harness.worlds import ScriptedWorld, tree


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


def test_what_moves_no_head_is_no_line(repo):
    main = repo.branch("main")
    main.put("a", b"1")
    _seal(repo.stores, "main", "")
    main.reset()
    main.reset(to="main")
    assert actions(repo, "main") == ["create"]


@pytest.mark.parametrize("count", [7, 8, 9, 25])
def test_a_long_log_is_whole(repo, count):
    main = repo.branch("main")
    made = [main.head.id, *(commit(main, a=str(n)).id for n in range(count))]
    lines = list(repo.moves("main"))
    assert [line.after for line in lines] == made[::-1]
    assert_chained(lines)
    assert repo.commit(f"main@{{{count}}}").id == made[0]
    with pytest.raises(RefNotFoundError, match=f"has {count + 1} moves"):
        repo.commit(f"main@{{{count + 1}}}")


def test_the_log_of_a_deleted_branch_stays(repo):
    made = []
    for life in range(3):
        dev = repo.create_branch("dev")
        made += [commit(dev, **{f"x{life}": str(n)}).id for n in range(4 + 5 * life)]
        repo.delete_branch("dev")
    lines = list(repo.moves("dev"))
    assert [line.after for line in lines if line.action == "commit"] == made[::-1]
    assert [line.action for line in lines].count("delete") == 3
    assert (lines[0].action, lines[0].before, lines[0].after) == ("delete", made[-1], None)
    assert [line.position for line in lines] == list(range(len(lines)))
    repo.create_branch("dev")
    assert actions(repo, "dev", limit=2) == ["create", "delete"]
    with pytest.raises(RefNotFoundError, match="deleted by that move"):
        repo.commit("dev@{1}")


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
    shown = [(line.ref, line.action) for line in repo.moves()]
    assert shown == [
        ("v1", "delete"),
        ("v1", "create"),
        ("main", "publish"),
        ("a", "delete"),
        ("a-b", "delete"),
        ("a", "create"),
        ("a-b", "create"),
        ("main", "commit"),
        ("main", "create"),
    ]
    everything = {line.ref for line in repo.moves(hidden=True)}
    assert everything == {"v1", "main", "a", "a-b", "quiet", run.branch}
    assert [line.ref for line in repo.moves(limit=1)] == ["v1"]


def test_the_log_of_a_tag_has_its_makings_and_ends(repo):
    first = commit(repo.branch("main"), a="1")
    repo.tags.create("v1")
    repo.tags.create("v1")  # no second line: the tag exists
    second = commit(repo.branch("main"), a="2")
    with pytest.raises(AlreadyExistsError):
        repo.tags.create("v1")
    repo.tags.delete("v1")
    repo.tags.create("v1")
    repo.tags.create("v10", first.id)
    lines = list(repo.tags.moves("v1"))
    assert [(line.action, line.before, line.after) for line in lines] == [
        ("create", None, second.id),
        ("delete", first.id, None),
        ("create", None, first.id),
    ]
    assert {line.kind for line in lines} == {"tag"}


def test_a_deleted_tag_is_made_again(repo):
    first = commit(repo.branch("main"), a="1")
    repo.tags.create("v1")
    with pytest.raises(AlreadyExistsError, match="was not deleted"):
        repo.tags.undelete("v1")
    repo.tags.delete("v1")
    commit(repo.branch("main"), a="2")
    assert repo.tags.undelete("v1") == first
    assert repo.tags.list() == {"v1": first.id}
    assert [line.action for line in repo.tags.moves("v1")] == ["undo", "delete", "create"]
    with pytest.raises(RefNotFoundError, match="v2"):
        repo.tags.undelete("v2")


def test_an_undo_takes_the_last_move_back_and_a_second_one_that(repo):
    main = repo.branch("main")
    first = commit(main, a="1")
    second = commit(main, a="2")
    main.put("staged", b"s")
    assert repo.undo("main") == first == main.head
    assert tree(main) == {"a": "1", "staged": "s"}  # the staged write remains
    assert repo.undo("main") == second
    assert tree(main) == {"a": "2", "staged": "s"}
    assert actions(repo, "main") == ["undo", "undo", "commit", "commit", "create"]
    assert commit(main, b="1").parents == (second.id,)


def test_an_undo_goes_as_far_back_as_is_said(repo):
    main = repo.branch("main")
    made = [main.head, *(commit(main, a=str(n)) for n in range(10))]
    assert repo.undo("main", to=4) == made[6]
    assert repo.undo("main", to=1) == made[10]
    assert repo.undo("main", to=12) == made[0]
    for to in (0, -1):
        with pytest.raises(InvalidInputError, match="from 1"):
            repo.undo("main", to=to)
    with pytest.raises(RefNotFoundError, match="has 14 moves"):
        repo.undo("main", to=14)


def test_an_undo_takes_a_merge_a_reset_and_a_publish_back(repo):
    main = repo.branch("main")
    first = commit(main, a="1")
    commit(repo.create_branch("dev"), b="1")
    repo.merge("dev", into="main")
    assert repo.undo("main") == first
    main.reset(to="main~1")
    assert repo.undo("main") == first
    with repo.run("hour 05") as run:
        run.put("out", b"1")
    assert repo.undo("main") == first
    assert tree(main) == {"a": "1"}


def test_a_deleted_branch_is_made_again_where_it_was(repo):
    dev = repo.create_branch("dev", hidden=True)
    head = commit(dev, b="1")
    dev.put("staged", b"s")
    repo.delete_branch("dev")
    assert repo.undo("dev") == head
    assert tree(repo.branch("dev")) == {"b": "1"}  # staged writes are gone
    assert repo.stores.refs.branches.get("dev").hidden
    assert actions(repo, "dev") == ["undo", "delete", "commit", "create"]
    with pytest.raises(RefNotFoundError, match="it did not exist"):
        repo.undo("dev")  # the undo of a creation is a deletion
    assert repo.undo("dev", to=3) == repo.commit("main")
    repo.delete_branch("dev")
    assert repo.undo("dev", to=2) == head


def test_nothing_is_undone_of_what_never_was(repo):
    with pytest.raises(RefNotFoundError, match="nowhere"):
        repo.undo("nowhere")
    with pytest.raises(RefNotFoundError, match="has 1 move, "):
        repo.undo("main")
    assert list(repo.moves("nowhere")) == []


def test_the_branch_of_a_run_is_not_undone(repo):
    run = repo.runs.open("hour 05")
    run.put("a", b"1")
    run.commit("a")
    with pytest.raises(FencedError, match="belongs to a run"):
        repo.undo(run.branch)
    run.publish()
    with pytest.raises(FencedError, match="was a run's"):
        repo.undo(run.branch)
    assert [record.name for record in repo.branches(hidden=True)] == ["main"]


def test_a_protected_branch_is_not_undone_but_a_deleted_one_is(repo):
    commit(repo.branch("main"), a="1")
    repo.create_branch("dev")
    repo.delete_branch("dev")
    repo.protection.add("*")
    with pytest.raises(ProtectedBranchError, match="against reset"):
        repo.undo("main")
    repo.undo("dev")


class At:
    """Sets the lake's clock."""

    def __init__(self, repo):
        self._clock = repo.stores.clock
        self._start = datetime(2013, 1, 2, tzinfo=UTC)

    def __call__(self, hours):
        self._clock._now = self._start + timedelta(hours=hours)


@pytest.fixture
def at(repo):
    return At(repo)


def test_a_branch_is_read_as_of_a_time(repo, at):
    main = repo.branch("main")
    at(1)
    first = commit(main, a="1")
    at(2)
    second = commit(main, a="2")
    for expression, expected in {
        "main@{2013-01-02T01:30Z}": first,
        "main@{2013-01-02T01:30:00.5+00:00}": first,
        "main@{2013-01-02T03:30+02:00}": first,
        "main@{20130102T0130Z}": first,
        "main@{2013-01-02T02:30Z}": second,
        "main@{2999-01-01T00:00Z}": second,
        "main@{2013-01-02T02:30Z}~1": first,
        "main@{2013-01-02T02:30Z}^1^0": first,
    }.items():
        assert repo.commit(expression) == expected, expression
    assert repo.ref("main@{2013-01-02T01:30Z}").get("a") == b"1"
    exact = next(repo.moves("main")).at.isoformat()
    assert repo.commit(f"main@{{{exact}}}") == second


def test_a_time_before_the_branch_or_without_a_zone_is_refused(repo, at):
    at(1)
    repo.create_branch("dev")
    at(2)
    repo.delete_branch("dev")
    with pytest.raises(RefNotFoundError, match="dev"):
        repo.commit("dev@{2013-01-02T01:30Z}")  # deleted at this time
    at(3)
    repo.create_branch("dev")
    with pytest.raises(RefNotFoundError, match="its log begins at 2013-01-02T01"):
        repo.commit("dev@{2013-01-02T00:30Z}")
    with pytest.raises(RefNotFoundError, match=r"was deleted at 2013-01-02T02.*made again"):
        repo.commit("dev@{2013-01-02T02:30Z}")
    assert repo.commit("dev@{2013-01-02T01:30Z}") == repo.commit("main")  # of the first branch
    for time in ("2013-01-02T01:30", "2013-01-02", "yesterday", "2 hours ago", "-1", "1.5"):
        with pytest.raises(InvalidInputError, match="with its zone in ISO 8601"):
            repo.commit(f"main@{{{time}}}")
    for expression in ("main@{}", "main@{1", "main@1}", "main@{1}@", "main@{1}{2}", "main~1@{1}"):
        with pytest.raises(InvalidInputError):
            repo.commit(expression)
    for expression in ("nowhere@{0}", "nowhere@{2013-01-02T01:30Z}"):
        with pytest.raises(RefNotFoundError):
            repo.commit(expression)


def test_a_clock_that_jumps_leaves_the_order_of_the_moves(repo, at):
    main = repo.branch("main")
    at(50)
    ahead = commit(main, a="ahead")
    at(2)  # the clock jumps back two days
    behind = commit(main, a="behind")
    at(3)
    last = commit(main, a="last")
    assert [line.after for line in repo.moves("main")][:3] == [last.id, behind.id, ahead.id]
    assert repo.commit("main@{2013-01-02T02:30Z}") == behind
    assert repo.commit("main@{2013-01-04T12:00Z}") == last  # the jump of the clock does not matter
    assert repo.undo("main") == behind


def test_runs_that_are_over_do_not_slow_the_log_of_all_down():
    def calls_with(runs):
        world = ScriptedWorld()
        repo = world.repo(scripted=False)
        for number in range(runs):
            with repo.run(f"hour {number}") as run, run.step("land") as step:
                step.put(f"out{number}", b"1")
        repo = world.repo()
        world.script.arm(0, lambda _: None)
        shown = list(repo.moves(limit=1))
        assert {line.ref for line in shown} == {"main"}
        return len(world.script.calls)

    assert calls_with(12) == calls_with(2)


def test_less_than_nothing_is_refused(repo):
    for call in (repo.moves, repo.log, repo.branches):
        with pytest.raises(InvalidInputError, match="limit=-1"):
            call(limit=-1)


def test_the_time_of_a_commit_names_that_commit(repo, at):
    main = repo.branch("main")
    made = []
    for hour in (1, 2):
        at(hour)
        made += [commit(main, a=str(hour)), commit(main, a=f"{hour} again")]
    at(3)
    commit(repo.create_branch("dev"), b="1")
    made.append(repo.merge("dev", "main").commit)
    for one in made:
        assert repo.commit(f"main@{{{one.created.isoformat()}}}") == one
    between = made[2].created - (made[2].created - made[1].created) / 2
    assert repo.commit(f"main@{{{between.isoformat()}}}") == made[1]
