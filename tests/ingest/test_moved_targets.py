"""Moves of the target: an undo or a reset brings back no work of others, and loses no write.

The tables tell histories; `tests.ingest.histories` explains their words.
"""

import pytest

from graveler.ingest.taking import Taking

DROPPED = {
    "below the branch": "mark it; user t=1; in m=1; reset it; tick 5 PUBLISHED; main m=1",
    "below a branch that was made again": "zero: user t=0; one: user t=1; user t=2; in m=bad; "
    "tick 5; reset one; in m=bad n=6; tick 6 HELD; reset zero; in m=bad n=7; tick 7 HELD; in m=1; "
    "tick 8 PUBLISHED; main t=0 m=1 n=7",
    "by a target of another history": "user t=1; in m=1 b=bad; tick 5; restored; undo; gates none; "
    "in e=1; tick 6 PUBLISHED; main m=1 b=bad e=1",
    "by a target without a common history": "user t=1; branch ingest; restored; undo; in m=1; "
    "tick 5 ! ConflictError no history in common",
    "after a publish that the tick took": "in p=1; tick 5 PUBLISHED; mark it; A e=1; in q=q; "
    "gates none; tick 6 PUBLISHED; reset it; in p=7; tick 7 PUBLISHED; main p=7 q=q; "
    "hour 6 PUBLISHED; tick 6 PUBLISHED; hour 5 PUBLISHED",
    "after a publish that a held tick took": "in p=1; tick 5 PUBLISHED; mark it; A e=1; in q=q; "
    "gates no; tick 6 HELD; reset it; gates none; in p=7; tick 7 PUBLISHED; main p=7 q=q; "
    "hour 6 PUBLISHED; tick 6 PUBLISHED; hour 5 PUBLISHED",
    "and came back": "mark it; in m=1; tick 5; mark first; user t=1; in m=2 o=bad; tick 6; "
    "reset it; tick 7; reset first; in o=1; tick 8 ?; main m=2 o=1",
    "below what waits": "user o=0; in -o p=0 b=bad; user p=1 o=1; tick 5 ? o p; user -o; in p=0; "
    "tick 6; in o=2 b=1; tick 7; main b=1 p=1 o=2",
    "below a path that is set aside": "as target; in b=bad; tick 5; A b=theirs; tick 6; undo; "
    "user o=1; tick 7; rollback A; main o=1",
    "and a restored branch": "in m=bad; tick 5; in e=1; tick 6; restored; collect; as quarantine; "
    "tick 7; main e=1",
}

RELEASES = {
    "of what the target lost": "as quarantine; mark it; user t=1; in m=bad; tick 5; reset it; force; "
    "main m=bad",
    "over what it went back to": "as quarantine; it: user m=0; user m=1; in m=bad; tick 5; "
    "reset it; force ! MergeConflictError 'm'; force source-wins; main m=bad",
    "that the target lost": "as quarantine; it: user m=0; in m=bad; tick 5; force; reset it; "
    "in e=1; tick 6; shelves 5; in o=1; tick 7 PUBLISHED; force; main m=bad e=1 o=1; shelves",
    "with a strategy that the target lost": "as quarantine; it: user m=0; in m=1; user m=2; tick 5; "
    "force source-wins; reset it; in e=1; tick 6; shelves 5; in o=1; tick 7 PUBLISHED; "
    "force source-wins; main m=1 e=1 o=1; shelves",
    "that sets aside": "as quarantine; gates none; in a=1 b=1; it: user a=2; tick 5; reset it; "
    "user b=2; release dest-wins; shelf b=1",
    "of equal bytes": "gates none; in p=1; user p=3 o=1; tick 5; user -p; A p=1; "
    "release dest-wins; rollback A; main o=1 p=1",
    "of bytes that lose": "gates none; in p=2; user p=3 o=1; tick 5; user -p; A p=1; "
    "release dest-wins; rollback A; main o=1",
    "of a restored quarantine": "as quarantine; in m=bad; user m=2; tick 5; restored; gates none; "
    "shelves 5; release source-wins; has m=bad",
    "of a restored conflict": "in m=1; user m=2; tick 5; restored; gates none; shelves 5; "
    "release source-wins; has m=1",
    "below an undone target": "as target; in b=ours; user b=theirs; A l=1; tick 5; undo; user l=2; "
    "release dest-wins; shelves; main b=theirs l=2; in n=1; tick 6 PUBLISHED; "
    "main b=theirs l=2 n=1",
}

EQUAL = {
    "outlives others": "mark it; gates none; in p=1; A p=1; tick 5 PUBLISHED; reset it; tick 6; "
    "main p=1",
    "ends a conflict": "in p=0; tick 5; A p=1; in p=2; tick 6 ? p; in p=1; tick 7 PUBLISHED; "
    "rollback A; main p=1",
    "is set aside in each hour": "as target; it: A p=1; in b=bad; tick 5; in p=2; tick 6; in p=2; "
    "tick 7; revert it; tick 7; hour 6 ? p; hour 7 ? p",
    "conflicts with a later change": "A p=0; in p=0 b=bad; tick 5; rollback A; B p=1; in b=1; "
    "tick 5 ? p; main b=1 p=1; rollback B; main b=1",
    "conflicts with a rollback": "A p=0; in p=0 b=bad; tick 5; rollback A; in b=1; tick 5 ? p; "
    "main b=1",
    "is somewhere": "A p=0; rollback A; in p=0 b=bad; tick 5 HELD; undo; tick 6; B -p; in b=1; "
    "tick 5 ? p; shelf p=0",
    "goes with both writers": "in p=0 b=bad; tick 5 HELD; A p=0; in b=1; tick 5; mark it; "
    "rollback A; main b=1 p=0; revert it; main",
}


@pytest.mark.parametrize("told", DROPPED.values(), ids=DROPPED)
def test_a_tick_does_not_bring_back_what_the_target_dropped(history, told):
    history.play(told)


@pytest.mark.parametrize("told", RELEASES.values(), ids=RELEASES)
def test_a_release_meets_a_target_that_moved(history, told):
    history.play(told)


@pytest.mark.parametrize("told", EQUAL.values(), ids=EQUAL)
def test_an_equal_write_of_ingestion_is_a_write(history, told):
    history.play(told)


@pytest.mark.parametrize("policy", ["hold", "quarantine"])
def test_what_expired_and_returns_is_one_change(history, policy):
    """Hours are published, their commits expire, and the target is reset to before them."""
    history.repo.tags.create("before", "main")
    history.play("in five=1; tick 5; in six=1; tick 6; in seven=1; tick 7; collect; reset before")
    history.play(f"again; collect; gates no; as {policy}; tick 8; collect; gates none")
    for one in history.ingestion.quarantined():
        history.ingestion.release(one.name)
    history.play("tick 9; main five=1 six=1 seven=1")


def test_an_undo_during_a_tick_is_not_taken_back(history, monkeypatch):
    """The branch has taken a rollback; the undo of it comes after the tick has looked."""
    history.play("A p=1; in m=0; tick 5; rollback A; in b=bad; tick 6; in b=1")
    look, undone = Taking.bring_up, list[object]()

    def then_undo(self, head, target):
        look(self, head, target)
        if not undone:
            undone.append(history.repo.undo("main"))

    monkeypatch.setattr(Taking, "bring_up", then_undo)
    history.play("tick 7 PUBLISHED; main p=1 m=0 b=1")


def test_a_path_on_two_shelves_names_the_one_with_the_write(history):
    history.play("as target; gates none; in b=1 l=1; it: user b=t l=t; tick 5; release source-wins")
    history.play("in b=2; user b=later; tick 6")
    history.play("reset it; tick 6:30; in b=3 l=3; tick 7")  # 6:30 brings the first shelf back
    shelves = history.last.quarantined
    assert shelves == ("quarantine-2013-01-01T05-00", "quarantine-2013-01-01T06-00")
    assert [history.repo.ref(shelves[at]).get(path) for at, path in enumerate("lb")] == [b"3"] * 2
