"""Retention rules, marks and their windows, condemned and expired commits."""

from datetime import timedelta

import pytest

from graveler.committed.metarange import read
from graveler.errors import (
    ExpiredError,
    StateError,
)
from graveler.fsck.check import fsck
from graveler.gc.marks import Kind, MarkState
from graveler.gc.reachability.scratch import Scratch
from graveler.gc.reachability.survey import Survey
from graveler.testing.world import link_unseen
from tests.harness.gc_lakes import (
    NOW,
    check_sound,
    collect,
    commit,
    counts,
    keys,
    made_key,
    pass_days,
)


def test_rules_let_old_trees_go_and_keep_the_log(world, repo):
    for number in range(6):
        pass_days(world, 10)
        commit(repo, "main", f"day {number}", p0=f"day {number}")
    repo.gc.keep("main", days=25)
    mark = collect(repo)
    *history, first = repo.log()
    readable = []
    for made in history:
        try:
            readable.append(repo.ref(made.id).get("p0").decode())
        except ExpiredError:
            readable.append("expired")
    assert readable == ["day 5", "day 4", "day 3", "day 2", "expired", "expired", "expired"]
    assert list(repo.ref(first.id).list()) == []  # nothing of an empty tree can be deleted
    assert mark.freed[Kind.COMMITS].count == fsck(repo.stores).expired == 3
    for look in (lambda: repo.ref("main~4"), lambda: list(repo.diff("main~4", "main"))):
        with pytest.raises(ExpiredError):
            look()
    check_sound(repo)


@pytest.mark.parametrize("cached", [True, False])
def test_a_ref_that_was_opened_before_a_sweep_is_expired(world, repo, tmp_path, cached):
    for text in ("old", "new"):
        commit(repo, "main", text, **{"t/a": text})
    ref = repo.ref("main~1")
    if cached:
        assert ref.get("t/a") == b"old"
    entry = ref.stat("t/a") if cached else None
    repo.gc.keep("main", count=1)
    collect(repo)
    for attempt in (
        lambda: ref.get(entry or "t/a"),
        lambda: ref.open(entry or "t/a"),
        lambda: list(ref.get_many([entry or "t/a"])),
        lambda: ref.download("t", tmp_path / "out"),
        lambda: repo.branch("main").get(entry or ref.stat("t/a")),
    ):
        with pytest.raises(ExpiredError, match="expired: garbage collection"):
            attempt()


def test_merged_work_of_runs_goes_with_the_history_of_the_target(world, repo):
    for number in range(4):
        pass_days(world, 10)
        with repo.run(f"hour {number}") as run:
            run.put("part", b"draft %d" % number)
            run.commit("draft")
            run.put("part", b"final %d" % number)
    before = len(keys(repo, "data/"))
    repo.gc.keep("main", count=2)
    collect(repo)
    assert before - len(keys(repo, "data/")) == 6  # every draft, and two finals
    assert repo.branch("main").get("part") == b"final 3"
    assert repo.ref("main~1").get("part") == b"final 2"
    check_sound(repo)


def test_merges_find_their_base_whatever_the_rules_say(world, repo):
    commit(repo, "dev", dev="1")
    for number in range(5):
        pass_days(world, 10)
        commit(repo, "main", main=str(number))
    repo.gc.keep(count=1)
    collect(repo)
    world.repo().merge("dev", "main")
    assert check_sound(repo)["main"]["dev"] == "1"


def test_what_is_young_is_left_alone(world, repo):
    commit(repo, "dev", x="dev")
    repo.delete_branch("dev")
    before = keys(repo)
    assert counts(repo.gc.mark(grace=timedelta(days=1)).condemned) == {}
    pass_days(world, 2)
    assert counts(repo.gc.mark(grace=timedelta(days=1)).condemned)["data"] == 1
    assert keys(repo) == before


def test_data_that_only_a_young_table_names_is_left_alone(world, repo):
    """A writer that makes the same table again reuses its addresses."""
    entry = repo.branch("main").put("x", b"old data, young table")
    pass_days(world, 3)
    repo.create_branch("dev", "main")
    dev = repo.branch("dev")
    dev.link_many([entry])
    made = dev.commit("young")
    repo.delete_branch("dev")
    repo.branch("main").reset()
    stores = repo.stores  # the state after a committer dies before it writes the commit's record
    stores.kv.delete(f"refs:{stores.uid}", f"commit/{made.id}".encode())
    mark = repo.gc.mark(grace=timedelta(days=1), window=NOW)
    assert counts(mark.condemned) == {}
    repo.gc.sweep(mark.id)
    again = repo.create_branch("again", "main")
    again.put("x", b"old data, young table")
    again.commit("the same table")
    assert check_sound(repo)["again"]["x"] == "old data, young table"


def test_a_mark_is_swept_after_its_window_only(world, repo):
    commit(repo, "dev", x="dev")
    repo.delete_branch("dev")
    before = keys(repo)
    mark = repo.gc.mark(grace=NOW)
    pass_days(world, 6.9)
    with pytest.raises(StateError, match=f"mark {mark.id} may be swept from "):
        repo.gc.sweep(mark.id)
    assert repo.gc.run()[0].freed == {}
    assert keys(repo) == before
    pass_days(world, 0.2)
    assert counts(repo.gc.sweep(mark.id).freed)["data"] == 1
    assert repo.gc.sweep(mark.id).state is MarkState.SWEPT  # a repetition does no harm
    assert repo.gc.get(mark.id).bytes_freed == mark.bytes_condemned


def test_what_was_named_again_meanwhile_is_spared(world, repo):
    lost = commit(repo, "dev", x="dev")
    repo.delete_branch("dev")
    mark = repo.gc.mark(grace=NOW)
    entry = repo.ref(lost.id).stat("x")  # readable during the window
    other = repo.create_branch("other")
    other.link_many([entry])
    pass_days(world, 8)
    swept = repo.gc.sweep(mark.id)
    assert swept.spared[Kind.DATA].count == 1
    assert check_sound(repo)["other"]["x"] == "dev"


def test_a_condemned_commit_is_named_again_after_undelete(world, repo):
    lost = commit(repo, "dev", x="dev")
    repo.delete_branch("dev")
    mark = repo.gc.mark(grace=NOW)
    for name in (
        lambda: repo.create_branch("back", lost.id),
        lambda: repo.tags.create("back", lost.id[:10]),
        lambda: repo.merge(lost.id, "main"),
        lambda: (
            repo.branch("main").reset_hard(lost.id)
            if hasattr(repo.branch("main"), "reset_hard")
            else repo.create_branch("back", f"{lost.id}~0")
        ),
        lambda: repo.revert(lost.id, "main"),
    ):
        with pytest.raises(ExpiredError, match=f"`graveler gc undelete {mark.id}`"):
            name()
    assert repo.ref(lost.id).get("x") == b"dev"
    assert repo.gc.undelete(mark.id).state is MarkState.UNDELETED
    assert repo.gc.undelete(mark.id).state is MarkState.UNDELETED
    repo.create_branch("back", lost.id)
    with pytest.raises(StateError, match="its condemnation was withdrawn"):
        repo.gc.sweep(mark.id)
    pass_days(world, 30)
    collect(repo)
    assert check_sound(repo)["back"]["x"] == "dev"
    with pytest.raises(StateError, match="what it condemned is gone"):
        repo.gc.undelete(list(repo.gc.marks())[-1].id)


def test_a_branch_deleted_again_is_condemned_again(world, repo):
    lost = commit(repo, "dev", x="dev")
    repo.delete_branch("dev")
    repo.gc.undelete(repo.gc.mark(grace=NOW).id)
    repo.create_branch("back", lost.id)
    repo.delete_branch("back")
    assert counts(repo.gc.mark(grace=NOW).condemned)["data"] == 1


def test_marks_day_after_day_condemn_everything_once(world, repo):
    condemned = 0
    for day in range(12):
        commit(repo, f"dev{day}", x=f"dev {day}")
        repo.delete_branch(f"dev{day}")
        pass_days(world, 1)
        new, *_ = repo.gc.run(grace=timedelta(hours=1))
        condemned += new.condemned[Kind.DATA].count
    assert condemned == 12
    states = [mark.state for mark in repo.gc.marks()]
    assert states == [MarkState.SWEPT] * 5 + [MarkState.CONDEMNED] * 7
    assert sum(mark.freed[Kind.DATA].count for mark in repo.gc.marks() if mark.swept) == 5
    check_sound(repo)


def test_what_waits_for_its_sweep_is_not_condemned_once_more(world, repo):
    repo.stores.objects.put(made_key(repo), b"123")
    dead = repo.stores.refs.branches.get("main").staging_token
    repo.branch("main").put("a", b"1")
    repo.branch("main").commit("a")
    repo.stores.staging.set(dead, b"late", b"\x00")
    first = repo.gc.mark(grace=NOW)
    assert counts(first.condemned) == {"data": 1, "staging": 1}
    assert counts(repo.gc.mark(grace=NOW).condemned) == {}
    repo.gc.undelete(first.id)
    assert counts(repo.gc.mark(grace=NOW).condemned) == {"data": 1, "staging": 1}
    pass_days(world, 8)
    freed = [mark.freed for mark in repo.gc.run() if mark.freed]
    assert [counts(found) for found in freed] == [{}, {"data": 1, "staging": 1}]


def test_what_a_later_mark_swept_does_not_stop_the_earlier_one(world, repo):
    lost = commit(repo, "dev", x="dev")
    entry = repo.ref("dev").stat("x")
    repo.delete_branch("dev")
    earlier = repo.gc.mark(grace=NOW)
    late = repo.create_branch("late")  # as if it was read before the mark
    repo.stores.refs.expired.keep(lost.id)
    link_unseen(late, [entry])
    late.commit("late")
    repo.delete_branch("late")
    later = repo.gc.mark(grace=NOW, window=NOW)
    assert later.condemned[Kind.COMMITS].count == 2
    repo.gc.sweep(later.id)
    pass_days(world, 8)
    assert repo.gc.sweep(earlier.id).state is MarkState.SWEPT
    check_sound(repo)
    with pytest.raises(ExpiredError):
        repo.ref(lost.id)


def test_a_dry_run_finds_the_same_and_writes_nothing(world, repo):
    commit(repo, "dev", x="dev")
    repo.delete_branch("dev")
    before = keys(repo)
    dry = repo.gc.mark(grace=NOW, window=NOW, dry_run=True)
    assert list(repo.gc.marks()) == []
    assert list(repo.stores.kv.scan(f"gc:{repo.stores.uid}")) == []
    mark = repo.gc.mark(grace=NOW, window=timedelta(days=1))
    assert (dry.condemned, dry.kept) == (mark.condemned, mark.kept)
    records = list(repo.stores.kv.scan(f"gc:{repo.stores.uid}"))
    swept = repo.gc.sweep(mark.id, dry_run=True)
    assert swept.freed == mark.condemned
    assert list(repo.stores.kv.scan(f"gc:{repo.stores.uid}")) == records
    assert keys(repo) == before


def test_tables_that_stay_are_read_once_for_all_commits(repo, monkeypatch):
    for number in range(10):
        commit(repo, "main", p0=f"version {number}")

    ranges = {info.id for made in repo.log() for info in read(repo.stores.ranges, made.metarange)}
    trees = {made.metarange for made in repo.log()} - {repo.commit("main~11").metarange}
    with Scratch() as scratch:
        survey = Survey(repo.stores, scratch, lambda: (), grace=0, progress=None)
        gotten, get = [], repo.stores.objects.get

        def counted(key):
            gotten.append(key)
            return get(key)

        monkeypatch.setattr(repo.stores.objects, "get", counted)
        survey.keep_commits(repo.gc.rules)
        assert len(gotten) == len(set(gotten)) == len(ranges) + len(trees)
        assert scratch.counts() == (len(ranges) + len(trees), len(keys(repo, "data/")))
