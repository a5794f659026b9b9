"""Moves of the target: an undo or a reset brings back no work of others, and loses no write."""

import pytest

from graveler.errors import ConflictError, MergeConflictError
from graveler.gates import gate
from graveler.ingest import HourState
from graveler.ingest.taking import Taking
from graveler.kv.memory import MemoryKVStore
from tests.harness.worlds import ScriptedWorld, tree

FIVE = "2013-01-01T05:00Z"
SIX = "2013-01-01T06:00Z"
SEVEN = "2013-01-01T07:00Z"
SHELF = "quarantine-2013-01-01T05-00"


@pytest.fixture
def world():
    return ScriptedWorld()


@gate
def nothing_bad(candidate):
    """Refuses new files that are bad."""
    new = (*candidate.added(), *candidate.changed())
    return not any(candidate.get(entry.path) == b"bad" for entry in new)


@gate
def nothing(candidate):
    """Refuses everything."""
    del candidate
    return False


def write(branch, **files):
    for path, text in files.items():
        branch.put(path, text.encode())


def commit(repo, **files):
    write(repo.branch("main"), **files)
    return repo.branch("main").commit("others")


def publish(repo, key, **files):
    with repo.run(key) as run, run.step("one") as step:
        write(step, **files)


def test_a_tick_does_not_bring_back_what_was_below_the_branch(repo):
    first = commit(repo, settled="0")
    commit(repo, theirs="1")
    ingestion = repo.ingestion()
    write(ingestion.branch, mine="1")
    repo.branch("main").reset(first.id)
    assert ingestion.tick(FIVE).state is HourState.PUBLISHED
    assert tree(repo.ref("main")) == {"settled": "0", "mine": "1"}


def test_nor_what_was_below_a_branch_that_was_made_again(repo):
    commits = [commit(repo, theirs=text) for text in "012"]
    ingestion = repo.ingestion(gates=[nothing_bad])
    write(ingestion.branch, mine="bad")
    ingestion.tick(FIVE)
    for hour, before in ((SIX, commits[1]), (SEVEN, commits[0])):
        repo.branch("main").reset(before.id)
        write(ingestion.branch, mine="bad", more=hour)
        assert ingestion.tick(hour).state is HourState.HELD
    write(ingestion.branch, mine="1")
    assert ingestion.tick("2013-01-01T08:00Z").state is HourState.PUBLISHED
    assert tree(repo.ref("main")) == {"theirs": "0", "mine": "1", "more": SEVEN}


def undo_below_a_restored_dump(world, tmp_path):
    """A target that was restored from a dump can be undone to one without the earlier history."""
    repo = restored(world, tmp_path)
    repo.undo("main")
    return repo


def restored(world, tmp_path):
    world.repo(scripted=False).dump_refs(tmp_path / "refs")
    world.kv = MemoryKVStore()
    world.lake(scripted=False).restore_repository(tmp_path / "refs", take_over=True)
    return world.repo(scripted=False)


def test_a_branch_is_published_on_a_target_of_another_history(world, repo, tmp_path):
    commit(repo, theirs="1")
    write(repo.ingestion(gates=[nothing_bad]).branch, mine="1", bad="bad")
    repo.ingestion(gates=[nothing_bad]).tick(FIVE)
    repo = undo_below_a_restored_dump(world, tmp_path)
    write(repo.ingestion().branch, more="1")
    assert repo.ingestion().tick(SIX).state is HourState.PUBLISHED
    assert tree(repo.ref("main")) == {"mine": "1", "bad": "bad", "more": "1"}


def test_a_branch_without_history_in_common_is_an_error(world, repo, tmp_path):
    commit(repo, theirs="1")
    repo.create_branch("ingest")
    ingestion = undo_below_a_restored_dump(world, tmp_path).ingestion()
    write(ingestion.branch, mine="1")
    with pytest.raises(ConflictError, match="no history in common"):
        ingestion.tick(FIVE)


def test_a_release_does_not_bring_back_what_the_target_lost(repo):
    ingestion = repo.ingestion(gates=[nothing_bad], on_refusal="quarantine")
    first = commit(repo, settled="0")
    commit(repo, theirs="1")
    write(ingestion.branch, mine="bad")
    ingestion.tick(FIVE)
    repo.branch("main").reset(first.id)
    ingestion.release(SHELF, gates=[])
    assert tree(repo.ref("main")) == {"settled": "0", "mine": "bad"}


def test_a_release_conflicts_with_what_the_target_went_back_to(repo):
    ingestion = repo.ingestion(gates=[nothing_bad], on_refusal="quarantine")
    first = commit(repo, mine="0")
    commit(repo, mine="1")
    write(ingestion.branch, mine="bad")
    ingestion.tick(FIVE)
    repo.branch("main").reset(first.id)
    with pytest.raises(MergeConflictError, match="'mine'"):
        ingestion.release(SHELF, gates=[])
    ingestion.release(SHELF, gates=[], strategy="source-wins")
    assert tree(repo.ref("main")) == {"mine": "bad"}


@pytest.mark.parametrize("strategy", ["source-wins", None])
def test_a_release_that_the_target_lost_is_in_quarantine_again(repo, strategy):
    ingestion = repo.ingestion(gates=[nothing_bad], on_refusal="quarantine")
    before = commit(repo, settled="0", mine="0")
    write(ingestion.branch, mine="bad" if strategy is None else "1")
    if strategy:
        commit(repo, mine="2")
    ingestion.tick(FIVE)
    ingestion.release(SHELF, gates=[], strategy=strategy)
    repo.branch("main").reset(before.id)
    write(ingestion.branch, more="1")
    ingestion.tick(SIX)
    assert [kept.name for kept in ingestion.quarantined()] == [SHELF]
    write(ingestion.branch, other="1")
    assert ingestion.tick(SEVEN).state is HourState.PUBLISHED
    ingestion.release(SHELF, gates=[], strategy=strategy)
    mine = "bad" if strategy is None else "1"
    expected = {"settled": "0", "mine": mine, "more": "1", "other": "1"}
    assert tree(repo.ref("main")) == expected
    assert ingestion.quarantined() == ()


def test_what_a_release_sets_aside_is_not_released(repo):
    """The strategy is for what was in quarantine when the release was called."""
    ingestion = repo.ingestion(on_refusal="quarantine")
    write(ingestion.branch, one="1", two="1")
    start = commit(repo, one="2")
    ingestion.tick(FIVE)
    repo.branch("main").reset(start.id)
    commit(repo, two="2")
    ingestion.release(SHELF, strategy="dest-wins")
    (kept,) = ingestion.quarantined()
    assert tree(repo.branch(kept.name))["two"] == "1"


def test_a_publish_that_returns_is_no_change_of_others(repo):
    ingestion = repo.ingestion(gates=[nothing_bad])
    before = commit(repo, settled="0")
    write(ingestion.branch, mine="1")
    first = ingestion.tick(FIVE).published
    commit(repo, theirs="1")
    write(ingestion.branch, mine="2", other="bad")
    ingestion.tick(SIX)
    repo.branch("main").reset(before.id)
    ingestion.tick(SEVEN)
    repo.branch("main").reset(first.id)
    write(ingestion.branch, other="1")
    assert ingestion.tick("2013-01-01T08:00Z").set_aside == ()
    assert tree(repo.ref("main")) == {"settled": "0", "mine": "2", "other": "1"}


def test_an_equal_write_outlives_that_of_others(repo):
    """Both went with the undo, and only the write of the branch is published again."""
    first = commit(repo, settled="0")
    ingestion = repo.ingestion()
    write(ingestion.branch, path="1")
    publish(repo, "others", path="1")
    assert ingestion.tick(FIVE).state is HourState.PUBLISHED
    repo.branch("main").reset(first.id)
    ingestion.tick(SIX)
    assert tree(repo.ref("main")) == {"settled": "0", "path": "1"}


def test_a_write_that_ends_a_conflict_is_a_write(repo):
    """It stays when the run that has written the same is rolled back."""
    ingestion = repo.ingestion()
    write(ingestion.branch, path="0")
    ingestion.tick(FIVE)
    publish(repo, "others", path="1")
    write(ingestion.branch, path="2")
    assert ingestion.tick(SIX).set_aside == ("path",)
    write(ingestion.branch, path="1")
    assert ingestion.tick(SEVEN).state is HourState.PUBLISHED
    repo.runs.rollback("others")
    assert tree(repo.ref("main")) == {"path": "1"}


@pytest.mark.parametrize(("text", "stays"), [("1", {"path": "1"}), ("2", {})])
def test_a_release_writes_what_is_equal_and_not_what_loses(repo, text, stays):
    """Afterwards the run that wrote the path is rolled back."""
    ingestion = repo.ingestion()
    write(ingestion.branch, path=text)
    commit(repo, path="3", other="1")
    ingestion.tick(FIVE)
    repo.branch("main").delete("path")
    repo.branch("main").commit("others")
    publish(repo, "others", path="1")
    ingestion.release(SHELF, strategy="dest-wins")
    repo.runs.rollback("others")
    assert tree(repo.ref("main")) == {"other": "1", **stays}


def test_each_hour_that_wrote_a_path_says_that_it_is_set_aside(repo):
    """The second hour repeats the bytes of the first one, then a run on the target goes."""
    publish(repo, "others", path="1")
    ingestion = repo.ingestion(gates=[nothing_bad], on_conflict="target")
    write(ingestion.branch, bad="bad")
    ingestion.tick(FIVE)
    for hour in (SIX, SEVEN):
        write(ingestion.branch, path="2")
        ingestion.tick(hour)
    repo.revert(repo.branch("main").head)
    ingestion.tick(SEVEN)
    assert [ingestion.hour(hour).set_aside for hour in (SIX, SEVEN)] == [("path",)] * 2


@pytest.mark.parametrize("policy", ["quarantine", "hold"])
def test_a_restored_quarantine_is_released(world, repo, tmp_path, policy):
    ingestion = repo.ingestion(gates=[nothing_bad], on_refusal=policy)
    write(ingestion.branch, mine="bad" if policy == "quarantine" else "1")
    commit(repo, mine="2")
    ingestion.tick(FIVE)
    repo = restored(world, tmp_path)
    ingestion = repo.ingestion()
    assert [one.name for one in ingestion.quarantined()] == [SHELF]
    ingestion.release(SHELF, strategy="source-wins")
    assert tree(repo.ref("main"))["mine"] in ("bad", "1")


def test_what_waits_on_a_restored_branch_is_kept(world, repo, tmp_path):
    ingestion = repo.ingestion(gates=[nothing_bad])
    write(ingestion.branch, mine="bad")
    ingestion.tick(FIVE)
    write(ingestion.branch, more="1")
    ingestion.tick(SIX)
    repo = restored(world, tmp_path)
    repo.gc.keep(count=1)
    repo.gc.run(grace="0s", window="0s")
    repo.ingestion(gates=[nothing_bad], on_refusal="quarantine").tick(SEVEN)
    assert tree(repo.ref("main")) == {"more": "1"}


@pytest.mark.parametrize("settled", ["1", None])
def test_an_equal_write_conflicts_with_a_later_change(repo, settled):
    """The write was acknowledged while the target had it, and waits behind a bad file."""
    publish(repo, "first", path="0")
    ingestion = repo.ingestion(gates=[nothing_bad])
    write(ingestion.branch, path="0", bad="bad")
    ingestion.tick(FIVE)
    repo.runs.rollback("first")
    if settled:
        publish(repo, "second", path=settled)
    write(ingestion.branch, bad="1")
    assert ingestion.tick(FIVE).set_aside == ("path",)
    assert tree(repo.ref("main")) == {"bad": "1", **({"path": settled} if settled else {})}
    if settled:
        repo.runs.rollback("second")
    assert tree(repo.ref("main")) == {"bad": "1"}


def test_an_equal_write_on_a_branch_made_again_is_somewhere(repo):
    """No run claimed the path when it was written. Afterwards the target has it from a run again."""
    publish(repo, "first", path="0")
    repo.runs.rollback("first")
    ingestion = repo.ingestion(gates=[nothing_bad])
    write(ingestion.branch, path="0", bad="bad")
    assert ingestion.tick(FIVE).state is HourState.HELD
    repo.undo("main")
    ingestion.tick(SIX)
    with repo.run("second") as run:
        run.delete("path")
    write(ingestion.branch, bad="1")
    assert ingestion.tick(FIVE).set_aside == ("path",)
    assert repo.ref(SHELF).get("path") == b"0"


def test_an_equal_file_that_waited_goes_with_both_writers(repo):
    """The run wrote it first on main, and the hour of ingestion wrote it, too."""
    ingestion = repo.ingestion(gates=[nothing_bad])
    write(ingestion.branch, path="0", bad="bad")
    assert ingestion.tick(FIVE).state is HourState.HELD
    publish(repo, "first", path="0")
    write(ingestion.branch, bad="1")
    hour = ingestion.tick(FIVE).published
    repo.runs.rollback("first")
    assert tree(repo.ref("main")) == {"bad": "1", "path": "0"}
    repo.revert(hour, "main", parent=1)
    assert tree(repo.ref("main")) == {}


def test_a_shelf_follows_its_target_back(repo):
    """What the shelf deletes is gone on the target, so a later write is no part of the shelf."""
    commit(repo, other="0")
    ingestion = repo.ingestion(gates=[nothing_bad])
    ingestion.branch.delete("other")
    write(ingestion.branch, path="0", bad="bad")
    commit(repo, path="1", other="1")
    assert ingestion.tick(FIVE).set_aside == ("other", "path")
    repo.branch("main").delete("other")
    repo.branch("main").commit("others")
    write(ingestion.branch, path="0")
    ingestion.tick(SIX)
    write(ingestion.branch, other="2", bad="1")
    ingestion.tick(SEVEN)
    assert tree(repo.ref("main")) == {"bad": "1", "path": "1", "other": "2"}


@pytest.mark.parametrize("policy", ["hold", "quarantine"])
def test_what_expired_and_returns_is_one_change(world, repo, policy):
    """Hours are published, their commits expire, and the target is reset to before them."""
    commit(repo, settled="0")
    repo.tags.create("settled", "main")
    for hour, path in ((FIVE, "five"), (SIX, "six"), (SEVEN, "seven")):
        write(repo.ingestion().branch, **{path: "1"})
        repo.ingestion().tick(hour)
    repo.gc.keep(count=1)
    repo.gc.run(grace="0s", window="0s")
    repo.branch("main").reset("settled")
    repo = world.repo(scripted=False)
    repo.gc.run(grace="0s", window="0s")
    repo.ingestion(gates=[nothing], on_refusal=policy).tick("2013-01-01T08:00Z")
    repo.gc.run(grace="0s", window="0s")
    assert not repo.fsck().problems
    for one in repo.ingestion().quarantined():
        repo.ingestion().release(one.name)
    repo.ingestion().tick("2013-01-01T09:00Z")
    assert tree(repo.ref("main")) == {"settled": "0", "five": "1", "six": "1", "seven": "1"}


def test_an_undo_during_a_tick_is_not_taken_back(repo, monkeypatch):
    """The branch has taken a rollback; the undo of it comes after the tick has looked."""
    publish(repo, "others", path="1")
    ingestion = repo.ingestion()
    write(ingestion.branch, mine="0")
    ingestion.tick(FIVE)
    repo.runs.rollback("others")
    write(ingestion.branch, bad="bad")
    repo.ingestion(gates=[nothing_bad]).tick(SIX)
    write(ingestion.branch, bad="1")
    look, undone = Taking.bring_up, list[object]()

    def then_undo(self, head, target):
        look(self, head, target)
        if not undone:
            undone.append(repo.undo("main"))

    monkeypatch.setattr(Taking, "bring_up", then_undo)
    assert ingestion.tick(SEVEN).state is HourState.PUBLISHED
    assert tree(repo.ref("main")) == {"path": "1", "mine": "0", "bad": "1"}


def test_a_release_takes_nothing_of_an_undone_target(repo):
    ingestion = repo.ingestion(on_conflict="target")
    write(ingestion.branch, both="ours")
    commit(repo, both="theirs")
    publish(repo, "others", latest="1")
    ingestion.tick(FIVE)
    repo.undo("main")
    commit(repo, latest="2")
    ingestion.release(SHELF, strategy="dest-wins")
    assert ingestion.quarantined() == ()
    assert tree(repo.ref("main")) == {"both": "theirs", "latest": "2"}
    write(ingestion.branch, next="1")
    assert ingestion.tick(SIX).state is HourState.PUBLISHED
    assert tree(repo.ref("main")) == {"both": "theirs", "latest": "2", "next": "1"}


def test_a_path_that_is_set_aside_is_not_claimed(repo):
    ingestion = repo.ingestion(gates=[nothing_bad], on_conflict="target", on_refusal="hold")
    write(ingestion.branch, both="bad")
    ingestion.tick(FIVE)
    publish(repo, "others", both="theirs")
    ingestion.tick(SIX)
    repo.undo("main")
    commit(repo, other="1")
    ingestion.tick(SEVEN)
    repo.runs.rollback("others")
    assert tree(repo.ref("main")) == {"other": "1"}


def test_a_path_on_two_shelves_names_the_one_with_the_write(repo):
    ingestion = repo.ingestion(on_conflict="target")
    write(ingestion.branch, both="1", last="1")
    before = commit(repo, both="theirs", last="theirs")
    ingestion.tick(FIVE)
    ingestion.release(SHELF, strategy="source-wins")
    write(ingestion.branch, both="2")
    commit(repo, both="later")
    ingestion.tick(SIX)
    repo.branch("main").reset(before.id)  # the next tick brings the first shelf back
    ingestion.tick("2013-01-01T06:30Z")
    write(ingestion.branch, both="3", last="3")
    other = "quarantine-2013-01-01T06-00"
    assert ingestion.tick(SEVEN).quarantined == (SHELF, other)
    assert (tree(repo.ref(SHELF))["last"], tree(repo.ref(other))["both"]) == ("3", "3")
