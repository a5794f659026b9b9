"""What goes and what stays."""

from contextlib import suppress
from datetime import timedelta
from itertools import count

import pytest

from graveler.committed.metarange import read
from graveler.errors import (
    CorruptionError,
    ExpiredError,
    InvalidInputError,
    NotFoundError,
    StateError,
)
from graveler.fsck import fsck
from graveler.gc import MarkState
from graveler.gc.marks import Kind
from graveler.gc.reachability.scratch import Scratch
from graveler.gc.reachability.survey import Survey
from graveler.model import Entry
from graveler.objects.memory import MemoryStore
from graveler.repository.commits import _seal
from graveler.repository.witness.marker import MARKER, Marker, Owner, encode_marker
from graveler.runs import RunState
from graveler.testing.clock import FakeClock
from graveler.testing.faults import ProcessDied, dies
from graveler.testing.world import link_unseen
from graveler.values import stage_entry
from tests.harness.gc_lakes import DAY, NOW, check_sound, collect, commit, keys, link, pass_days
from tests.harness.worlds import ScriptedWorld


@pytest.fixture
def world():
    return ScriptedWorld()


@pytest.fixture
def repo(world):
    repo = world.repo(scripted=False)
    commit(repo, "main", "base", **{f"p{number}": str(number) for number in range(9)})
    return repo


def counts(tallies):
    return {kind.value: tally.count for kind, tally in tallies.items() if tally.count}


def test_where_nothing_is_garbage_nothing_goes(repo):
    before = keys(repo)
    mark = collect(repo)
    assert (counts(mark.condemned), counts(mark.freed)) == ({}, {})
    assert keys(repo) == before
    check_sound(repo)


def test_a_deleted_branch_goes_and_leaves_what_others_share(repo):
    seen = check_sound(repo)
    before = keys(repo)
    lost = commit(repo, "dev", x="dev", p0="dev")
    repo.delete_branch("dev")
    mark = collect(repo)
    assert counts(mark.freed)["data"] == 2
    assert mark.freed == mark.condemned
    assert keys(repo) == before
    assert check_sound(repo) == seen
    with pytest.raises(ExpiredError, match="expired: garbage collection"):
        repo.ref(lost.id)
    assert repo.commit(lost.id) == lost


def test_uploads_that_nobody_linked_go(repo):
    before = keys(repo)
    repo.stores.objects.put("data/stray/part-0", b"123")
    repo.branch("main").put("a", b"reset")
    repo.branch("main").reset()
    mark = collect(repo)
    assert (mark.freed[Kind.DATA].count, mark.freed[Kind.DATA].size) == (2, 8)
    assert keys(repo) == before


def reset_head(repo):
    lost = commit(repo, "dev", x="dev")
    repo.create_branch("keeper", lost.id)


def tagged(repo):
    commit(repo, "dev", x="dev")
    repo.tags.create("v1", "dev")
    repo.delete_branch("dev")


def staged(repo):
    repo.branch("main").put("x", b"staged")


def staged_behind(repo):
    """An older write that a newer one hides: a commit may yet take it."""
    repo.branch("main").put("x", b"old")
    _seal(repo.stores, "main", "")
    repo.branch("main").put("x", b"new")


def sealed(repo):
    repo.branch("main").put("x", b"sealed")
    _seal(repo.stores, "main", "")


def open_run(repo):
    run = repo.runs.open("hour")
    run.put("x", b"run")
    run.commit("half")
    run.put("y", b"run")
    with run.step("step") as step:
        step.put("z", b"step")


def parked_run(repo):
    run = repo.runs.open("hour")
    run.put("x", b"run")
    run.commit("half")
    run.park("enough")


def open_step(repo):
    repo.runs.open("hour").step("step").put("z", b"step")


@pytest.mark.parametrize(
    "root",
    [reset_head, tagged, staged, staged_behind, sealed, open_run, parked_run, open_step],
)
def test_what_is_named_stays(world, repo, root):
    root(repo)
    seen = check_sound(repo)
    before = keys(repo, "data/")
    repo.gc.keep(count=1)
    pass_days(world, 400)
    for _ in range(2):
        collect(world.repo())
        assert check_sound(world.repo()) == seen
    if root not in (reset_head, tagged):  # those have deleted or detached nothing
        assert keys(repo, "data/") == before


def test_what_a_sealed_token_hides_can_still_be_committed(repo):
    staged_behind(repo)
    collect(repo)
    repo.branch("main").commit("all of it")
    assert check_sound(repo)["main"]["x"] == "new"


def test_what_a_run_is_about_to_publish_stays(world, repo):
    """A process dies between saying what it publishes and the target's move."""
    run = repo.runs.open("hour")
    run.put("x", b"run")
    run.commit("all of it")
    commit(repo, "main", elsewhere="so that the candidate's tree is no branch's")
    record = repo.runs.get("hour")
    for number in count(1):
        world.script.arm(number, dies)
        with suppress(ProcessDied):
            world.repo().runs.attach(run.handle).publish()
        assert world.script.disarm(), "it never died while publishing"
        record = repo.runs.get("hour")
        if record.state is RunState.PUBLISHING:
            break
    repo.gc.keep(count=1)
    pass_days(world, 400)
    collect(repo)
    assert repo.ref(record.candidate).get("x") == b"run"
    assert fsck(repo.stores, also={"run": record.candidate}).sound
    collect(repo)
    run.publish()
    assert check_sound(repo)["main"]["x"] == "run"


def test_a_step_can_be_taken_back_after_a_collection(repo):
    run = repo.runs.open("hour")
    for body in (b"first", b"second"):
        with run.step("load") as step:
            step.put("x", body)
        collect(repo)
    assert run.get("x") == b"second"
    with run.step("load") as step:
        step.put("y", b"third")
    assert {entry.path for entry in run.list()} == {"y"} | {f"p{number}" for number in range(9)}


def test_a_step_beside_another_can_be_undone_after_a_collection(world, repo):
    """The tree of the step's own branch was no other branch's: only the commit names it."""
    run = repo.runs.open("hour")
    with run.step("one") as one, run.step("two") as two:
        one.put("a", b"1")
        two.put("b", b"2")
    collect(repo)
    for name in ("one", "two"):
        # by another process, which has no tables in memory
        with world.repo().runs.attach(run.handle).step(name) as step:
            step.put(f"again {name}", name.encode())
        collect(repo)
    paths = {entry.path for entry in run.list()}
    assert "a" not in paths
    assert "b" not in paths


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
    assert list(repo.ref(first.id).list()) == []  # an empty tree: nothing of it can go
    assert mark.freed[Kind.COMMITS].count == fsck(repo.stores).expired == 3
    for look in (lambda: repo.ref("main~4"), lambda: list(repo.diff("main~4", "main"))):
        with pytest.raises(ExpiredError):
            look()
    check_sound(repo)


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
    """A writer that makes the same table again takes over its addresses."""
    entry = repo.branch("main").put("x", b"old data, young table")
    pass_days(world, 3)
    repo.create_branch("dev", "main")
    dev = repo.branch("dev")
    dev.link_many([entry])
    made = dev.commit("young")
    repo.delete_branch("dev")
    repo.branch("main").reset()
    stores = repo.stores  # a committer that died before it wrote the record of the commit
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
    assert repo.gc.sweep(mark.id).state is MarkState.SWEPT  # once more does no harm
    assert repo.gc.get(mark.id).bytes_freed == mark.bytes_condemned


def test_what_was_named_again_meanwhile_is_spared(world, repo):
    lost = commit(repo, "dev", x="dev")
    repo.delete_branch("dev")
    mark = repo.gc.mark(grace=NOW)
    entry = repo.ref(lost.id).stat("x")  # in the window it can be read
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
    repo.stores.objects.put("data/stray", b"123")
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
    late = repo.create_branch("late")  # as if it had been looked up before the mark
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


def test_tables_that_stay_are_read_once_for_all_commits(repo):
    for number in range(10):
        commit(repo, "main", p0=f"version {number}")

    ranges = {info.id for made in repo.log() for info in read(repo.stores.ranges, made.metarange)}
    trees = {made.metarange for made in repo.log()} - {repo.commit("main~11").metarange}
    with Scratch() as scratch:
        survey = Survey(repo.stores, scratch, lambda: (), grace=0, progress=None)
        survey.keep_commits(repo.gc.rules)
        assert survey.trees.read == len(ranges) + len(trees)
        assert scratch.counts() == (len(ranges) + len(trees), len(keys(repo, "data/")))


# -- staging


def test_writes_under_tokens_that_no_branch_names_go(repo):
    main, stores = repo.branch("main"), repo.stores
    dead = stores.refs.branches.get("main").staging_token
    main.put("a", b"1")
    main.commit("a")
    key = b"late"
    for number in range(3):  # a writer that stalled past the commit
        stores.staging.set(dead, key + b"%d" % number, stage_entry(key, Entry("late", "data/x", 1)))
    main.put("b", b"2")
    mark = collect(repo)
    assert (mark.freed[Kind.STAGING].count, mark.freed[Kind.STAGING].size) == (1, 3)
    assert list(stores.staging.scan([dead])) == []
    assert main.get("b") == b"2"
    assert Kind.STAGING not in counts(collect(repo).condemned)


# -- storage


def test_what_is_not_ours_is_left_and_named(repo):
    strange = {"notes.txt", "_graveler/tmp", "datasets/x", "zz/data/1", f"_graveler/{'F' * 64}"}
    for key in strange:
        repo.stores.objects.put(key, b"mine")
    mark = collect(repo)
    assert (mark.unknown, set(mark.unknown_keys)) == (len(strange), strange)
    assert strange < keys(repo)


def test_an_unreadable_table_that_nobody_needs_is_collected(repo):
    repo.stores.objects.put(f"_graveler/{'ab' * 32}", b"no table")
    assert counts(collect(repo).freed) == {"ranges": 1}
    check_sound(repo)


def test_a_storage_that_two_repositories_share_is_refused(repo):
    repo.lake.create_repository("other", storage=repo.storage)
    for name in ("flights", "other"):
        with pytest.raises(StateError, match="give each a storage of its own"):
            repo.lake.repository(name).gc.mark()


def test_a_storage_of_a_repository_of_another_lake_is_refused(repo):
    other = Owner("other", "e" * 32, "flights", "there")
    marker = Marker(other, 1, "nonce", repo.stores.clock.now())
    repo.stores.objects.put(MARKER, encode_marker(marker))
    with pytest.raises(
        StateError, match=f"belongs to lake other, repository 'flights' .{'e' * 32}"
    ):
        repo.gc.mark()
    repo.stores.objects.delete(MARKER)
    repo.gc.mark()


def test_data_kept_for_an_earlier_storage_owner_is_no_obstacle(repo):
    repo.stores.objects.put(f"_graveler/gc/{'e' * 32}/clock", b"")
    assert repo.gc.mark().unknown == 0


@pytest.mark.parametrize("what", ["metarange", "range", "commit", "branch"])
def test_nothing_is_condemned_where_something_is_missing(repo, what):
    head = repo.commit("main")
    commit(repo, "dev", x="dev")
    repo.delete_branch("dev")
    stores = repo.stores
    if what == "metarange":
        stores.objects.delete(f"_graveler/{head.metarange}")
    elif what == "range":
        info = read(stores.ranges, head.metarange)[0]
        body = bytearray(stores.objects.get(f"_graveler/{info.id.hex()}"))
        body[10] ^= 1
        stores.objects.put(f"_graveler/{info.id.hex()}", bytes(body))
    elif what == "commit":
        stores.kv.delete(f"refs:{stores.uid}", f"commit/{head.id}".encode())
    else:
        stores.kv.set(f"refs:{stores.uid}", b"branch/odd", b"{}")
    before = keys(repo)
    with pytest.raises(CorruptionError):
        repo.gc.run(grace=NOW, window=NOW)
    assert keys(repo) == before
    assert list(stores.refs.expired.list()) == []


def test_what_makes_no_sense_is_refused(repo):
    with pytest.raises(InvalidInputError, match="grace="):
        repo.gc.mark(grace=timedelta(days=-1))
    with pytest.raises(NotFoundError, match="no mark 'x'"):
        repo.gc.sweep("x")


@pytest.mark.parametrize("hours", [-48, 48])
def test_a_machine_with_a_wrong_clock_deletes_nothing_young(hours):
    """The store's clock tells the age of objects, and when a window is over."""
    store_clock = FakeClock()

    class OtherClock(ScriptedWorld):
        def lake(self, *, scripted=True, kv=None):
            lake = super().lake(scripted=scripted, kv=kv)
            kept = self.__dict__.setdefault("_store", MemoryStore("skewed", clock=store_clock))
            lake._open_store = lambda _uri: kept
            return lake

    world = OtherClock()
    repo = world.repo(scripted=False)
    world._clock.sleep(hours * 3_600)
    commit(repo, "main", a="1")
    commit(repo, "dev", x="dev")
    repo.delete_branch("dev")
    repo.branch("main").put("staged", b"2")
    stray = repo.stores.objects.put("data/stray", b"x")
    before = keys(repo)
    grace, window = timedelta(hours=24), timedelta(hours=36)
    assert counts(repo.gc.mark(grace=grace, window=window).condemned) == {}
    store_clock.sleep(25 * 3_600)
    world._clock.sleep(25 * 3_600)
    mark = repo.gc.mark(grace=grace, window=window)
    assert counts(mark.condemned)["data"] == 2
    world._clock.sleep(1_000 * 3_600)  # the machine's clock jumps
    with pytest.raises(StateError, match="may be swept from"):
        repo.gc.sweep(mark.id)
    world._clock.sleep(-2_000 * 3_600)
    store_clock.sleep(36 * 3_600)
    repo.gc.sweep(mark.id)
    assert before - keys(repo) > {stray.key}
    assert check_sound(repo)["main"] == {"a": "1", "staged": "2"}


def test_days_are_counted_by_the_clock_that_dates_commits(world, repo):
    assert DAY == 86_400
    pass_days(world, 10)
    commit(repo, "main", p0="new")
    repo.gc.keep("main", days=5)
    assert counts(repo.gc.mark(grace=NOW).condemned) == {}
    pass_days(world, 6)
    assert counts(repo.gc.mark(grace=NOW).condemned)["commits"] == 1


# -- what it costs


def test_a_writer_pays_for_collection_only_where_a_table_exists(world, repo, monkeypatch):
    asked = []
    get = world.kv.get

    def noted(partition, key):
        if partition.startswith("gc:"):
            asked.append(key)
        return get(partition, key)

    monkeypatch.setattr(world.kv, "get", noted)
    link(repo, "main", "base", p0="linked")
    link(repo, "main", "new tables", p0="changed")
    repo.merge("main", repo.create_branch("other", "main~1").name)
    repo.ref("main").get("p0")
    assert [key[:7] for key in asked if not key.startswith(b"file/")] == [b"commit/"] * 2  # branch
    asked.clear()
    link(repo, "main", "back", p0="linked")  # to records, and tables, that were there before
    tables = [key for key in asked if key.startswith(b"file/")]
    assert 1 <= len(tables) == len(set(tables)) == len(asked)
