"""Errors that a checker must detect, and content that it must accept."""

import pytest

from tests.real.torture.expected import Line, State
from tests.real.torture.judging import Journal, Loss, judge

OLD = {"s0/a": "1"}


def begun(**staged):
    return State({"main": Line("r", OLD, {f"s0/{name}": text for name, text in staged.items()})})


def will(number, name, branch="main", **more):
    return {"will": {"number": number, "name": name, "branch": branch, **more}}


def judged(lines, seen, *, alone=True, state=None):
    journal = Journal(state or begun(), alone=alone)
    journal.hear(lines)
    return judge(journal, State({"main": Line("r", *seen)}))


PUT = will(1, "put", writes={"s0/b": "2"})
ACKNOWLEDGED = [PUT, {"did": 1, "ok": None}]


@pytest.mark.parametrize("alone", [True, False])
def test_an_acknowledged_write_must_be_there(alone):
    assert judged(ACKNOWLEDGED, (OLD, {"s0/b": "2"}), alone=alone).landed == 0
    with pytest.raises(Loss, match="s0/b"):
        judged(ACKNOWLEDGED, (OLD, {}), alone=alone)


@pytest.mark.parametrize("alone", [True, False])
def test_a_write_under_way_may_be_there_and_nothing_else_may(alone):
    judged([PUT], (OLD, {}), alone=alone)
    judged([PUT], (OLD, {"s0/b": "2"}), alone=alone)
    for wrong in ({"s0/b": "3"}, {"s0/c": "2"}, {"s0/a": None}):
        with pytest.raises(Loss):
            judged([PUT], (OLD, wrong), alone=alone)


def test_a_write_that_was_not_acknowledged_and_landed_is_counted():
    assert judged([PUT], (OLD, {"s0/b": "2"})).landed == 1


@pytest.mark.parametrize("alone", [True, False])
def test_a_deletion_does_not_come_back_to_life(alone):
    lines = [will(1, "delete", writes={"s0/a": None}), {"did": 1, "ok": None}]
    judged(lines, (OLD, {"s0/a": None}), alone=alone)
    with pytest.raises(Loss, match="s0/a"):
        judged(lines, (OLD, {}), alone=alone)


@pytest.mark.parametrize("alone", [True, False])
def test_an_acknowledged_commit_holds_earlier_acknowledged_rows(alone):
    lines = [*ACKNOWLEDGED, will(2, "commit", message="c"), {"did": 2, "ok": "id"}]
    judged(lines, ({**OLD, "s0/b": "2"}, {}), alone=alone)
    with pytest.raises(Loss, match="s0/b"):
        judged(lines, (OLD, {"s0/b": "2"}), alone=alone)


def test_a_commit_under_way_is_whole_or_not_there():
    state = begun(b="2", c="3")
    lines = [will(1, "commit", message="c")]
    judged(lines, (OLD, {"s0/b": "2", "s0/c": "3"}), state=state)
    judged(lines, ({**OLD, "s0/b": "2", "s0/c": "3"}, {}), state=state)
    with pytest.raises(Loss):
        judged(lines, ({**OLD, "s0/b": "2"}, {"s0/c": "3"}), state=state)


def test_links_under_way_may_be_there_in_part():
    lines = [will(1, "link", writes={"s0/b": "pool 1", "s0/c": "pool 2"})]
    verdict = judged(lines, (OLD, {"s0/c": "pool 2"}))
    assert verdict.landed == 1
    assert [operation.number for operation in verdict.unclear] == [1]
    with pytest.raises(Loss):
        judged(lines, (OLD, {"s0/c": "pool 1"}))


def test_what_a_victim_reads_must_be_what_is_there():
    look = will(1, "get", writes={"s0/a": None})
    judged([look, {"did": 1, "ok": "1"}], (OLD, {}))
    for wrong in ({"ok": "2"}, {"no": "ObjectNotFoundError"}):
        with pytest.raises(Loss, match="showed"):
            judged([look, {"did": 1, **wrong}], (OLD, {}))


def test_an_answer_that_cannot_be_is_noticed():
    with pytest.raises(Loss, match="NoChangesError"):
        judged([will(1, "commit", message="c"), {"did": 1, "ok": "id"}], (OLD, {}))
    with pytest.raises(Loss, match="no kind of ours"):
        judged([{"crash": "KeyError"}], (OLD, {}))


def test_a_branch_that_is_gone_or_that_nobody_made_is_noticed():
    journal = Journal(begun(), alone=True)
    with pytest.raises(Loss, match="w0-0"):
        judge(journal, State({"main": Line("r", OLD), "w0-0": Line("r", OLD)}))
    with pytest.raises(Loss, match="main"):
        judge(journal, State({}))


def test_a_merge_cut_off_without_a_trace_is_of_unknown_outcome():
    lines = {"main": Line("r", OLD), "dev": Line("r", OLD, behind=True)}
    journal = Journal(State(lines), alone=True)
    journal.hear([will(1, "merge", into="dev")])
    verdict = judge(journal, State({name: Line("r", OLD) for name in lines}))
    assert [pending.number for pending in verdict.unclear] == [1]
    assert verdict.state.lines["dev"].behind is None
