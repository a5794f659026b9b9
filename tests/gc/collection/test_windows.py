"""Retention rules, marks and their windows, condemned and expired commits."""

from datetime import timedelta

import pytest

from graveler.errors import (
    ExpiredError,
    StateError,
)
from graveler.fsck.check import fsck
from graveler.gc.marks import Kind, MarkState
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


def test_merges_find_their_base_whatever_the_rules_say(world, repo):
    commit(repo, "dev", dev="1")
    for number in range(5):
        pass_days(world, 10)
        commit(repo, "main", main=str(number))
    repo.gc.keep(count=1)
    collect(repo)
    world.repo().merge("dev", "main")
    assert check_sound(repo)["main"]["dev"] == "1"


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
    assert counts(mark.condemned) == {"staging": 1}  # what the reset dropped
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
        lambda: repo.branch("main").reset(lost.id),
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


@pytest.mark.parametrize("rule", [{"days": 300}, {}])
def test_a_rule_loosened_after_a_sweep_keeps_what_is_left(world, repo, rule):
    for number in range(5):
        commit(repo, "main", p0=f"version {number}")
    repo.gc.keep("main", count=2)
    collect(repo)
    left = keys(repo, "data/")
    repo.gc.keep("main", **rule) if rule else repo.gc.forget("main")
    commit(repo, "main", p0="after")
    assert counts(collect(repo).freed) == {}
    assert left <= keys(repo, "data/")
    assert repo.ref("main~2").get("p0") == b"version 3"
    with pytest.raises(ExpiredError):
        repo.ref("main~3")
    assert counts(repo.gc.mark(grace="30d").condemned) == {}
    check_sound(repo)


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
