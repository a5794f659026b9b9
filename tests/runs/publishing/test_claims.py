"""What a retry replaces and a rollback withdraws is what the head of the target claims.

The tables tell histories; `tests.runs.histories` explains their words.
"""

from datetime import timedelta

import pytest

from graveler.errors import ExpiredError
from tests.harness.operations.claims import KEY, files, publish
from tests.harness.worlds import ScriptedWorld

MANY = range(52)
"""More publishes than the record of a run keeps."""

RETRIES = {
    "after a publish to another branch": "branch pr; A part-1=1; A@pr part-2=1; A part-3=1; "
    "main part-3=1; pr part-2=1",
    "after an undone rollback": "A p=1; rollback A; main; undo; A q=1; main q=1",
    "after a reverted rollback": "A p=1; it: rollback A; revert it; A q=1; main q=1",
    "after an undone publish": "A p=1; A q=1; undo; main p=1; A r=1; main r=1",
    "after a reset publish": "A p=1; A q=1; reset main~1; main p=1; A r=1; main r=1",
    "after a reverted publish": "A p=1; it: A q=1; revert it; main p=1; A r=1; main r=1",
    "after many": "it: A p=1; "
    + "".join(f"A part-{number}=1; " for number in MANY)
    + "main part-51=1; reset it; A part-x=1; main part-x=1",
    "after many without changes": "A p=1; " + "A p=1; " * len(MANY) + "rollback A; main",
    "of a merged publish": "branch pr; A@pr p=1; merge pr; A q=1; main q=1",
    "of a picked publish": "branch pr; it: A@pr p=1; pick it; A q=1; main q=1",
    "of a reverted merge": "branch pr; A@pr p=1; it: merge pr; back: revert it; A q=1; main q=1; "
    "undo; revert back; A r=1; main r=1",
    "of a publish that wrote again after a rollback": "A a=1 b=1 c=1; A a=2 b=1 d=1; rollback A; "
    "main a=1 b=1 c=1; A e=1; main e=1",
    "of a picked one onto itself": "it: A p=1; pick it ! NoChangesError; A q=1; main q=1",
    "with an equal file of others": "05 S= a=05; 06 S= b=06; 05 a=5; main S= a=5 b=06; "
    "rollback 06; main a=5",
    "above a deletion of what was withdrawn": "A p=1 a=1; work A q=1; B -p; land A; B b=1; "
    "main q=1 b=1",
    "above what others claimed since": "B S=x b=1; work B c=1; A S=x a=1; land B; main S=x a=1 c=1",
    "above a rollback of others": "C p=C; B p=B; work C q=1; rollback B; land C; main q=1",
    "above a rollback of the first writer": "B S=x; work A S=x a=1; rollback B; land A; "
    "main S=x a=1",
    "that claims again": "work C S=x c=1; work B S=x b=1; land B; land C; work B S=x b=2; "
    "rollback C; land B; B b=3; main b=3",
    "in a later attempt": "work A p=1; park A; work A q=1; land A; main q=1",
    "beside others": "A a=1; B b=1; A c=1; main b=1 c=1; A d=1; main b=1 d=1",
    "that writes nothing": "work A/one p=1; work A/one; of A",
    "of two of three steps": "A/one a=1; A/two b=1; A/three c=1; A/one d=1; A/two e=1; "
    "main c=1 d=1 e=1",
    "of what another step changed since": "work A/one s=1 a=1; work A/fix s=2; work A/one b=1; "
    "of A s=2 b=1",
    "that wrote what its step's neighbour stopped writing": "work A/one p=1; work A/two q=1; "
    "work A/one r=1; of A q=1 r=1; work A/two p=1; of A p=1 r=1",
}

SHARED = {
    "of three writers, the first": "A p=1; B p=2; C p=1; rollback A; main p=1; rollback C; "
    "main p=2; rollback B; main",
    "of three writers, the last": "A p=1; B p=2; C p=1; rollback C; main p=2",
    "the earlier hour first": "05 S= a=05; 06 S= b=06; rollback 05; main S= b=06; rollback 06; main",
    "the later hour first": "05 S= a=05; 06 S= b=06; rollback 06; main S= a=05; rollback 05; main",
    "at once": "work 05 S=; work 06 S=; land 05; land 06; main S=; rollback 05; main S=; "
    "rollback 06; main",
    "by steps": "work A/one S= one=1; work A/two S= two=1; drop A/one; of A S= two=1; "
    "drop A/two; of A",
    "deleted by steps": "user dim=old; work A/a -dim; work A/b -dim; drop A/a; of A; drop A/b; "
    "of A dim=old",
    "first of a user": "user p=1; A p=1; rollback A; main p=1",
    "then of a user": "A p=1 q=1; user p=1 other=1; rollback A; main p=1 other=1",
    "put back by a user": "user p=0; A p=1 q=1; user p=0; rollback A; main p=0",
    "merged": "branch dev; work A p=1 q=1; user@dev p=1; land A; merge dev; rollback A; main p=1",
    "of a user on a branch": "A p=1; branch dev; user@dev p=1; rollback A; merge dev; main p=1",
    "different bytes": "A p=1; B p=2; rollback A ! MergeConflictError 'p' by run 'B'; main p=2",
    "of a writer that ran again": "A p=1; B p=2; A q=1; rollback B; main q=1",
    "of a compaction": "A part-1=1; B -part-1 all=1; A part-2=1; rollback B; main part-2=1",
    "below a claim of equal ones": "A p=1; C p=1; D p=2; A q=1; rollback D; main p=1 q=1",
    "changed by its first writer": "work A/direct p=1; land A; C p=1; work A/direct p=2; land A; "
    "rollback A; main p=1",
    "written twice by a run": "work A/one p=1; work A/two p=2; work A/direct p=3; land A; "
    "rollback A; main",
    "of another step before": "A b=1; work A c=1; work A/direct b=2; land A; rollback A; main b=1",
    "claimed by others since": "user p=0; A p=1; A q=1; B p=0; rollback A; main p=0; rollback B; "
    "main p=1",
    "of an earlier publish": "B u=1 S=x; A S=x; B u=2; rollback A; main u=2; rollback B; "
    "main u=1 S=x",
    "withdrawn by every publish": "it: A S=x u=1; A u=2; C S=x; rollback A; rollback C; "
    "rollback it; main",
    "below what a lower writer withdrew": "A l=A1 a=1; B l=B1 b=1; A l=A2 a=2; B b=2; rollback A; "
    "main l=A1 a=1 b=2",
    "over newer content": "A p=A1; work B p=B; A p=A2; land B source-wins; main p=B; rollback B; "
    "main p=A2",
    "deleted steps later": "work 05/one l=one; work 05/two l=two; land 05; 07 -l; rollback 05; "
    "07 other=x; main other=x",
    "never there and deleted": "A -never; already",
}

ROUNDS = {
    **{
        f"{rounds} times": "05 S= a=05; 06 S= b=06; " * rounds
        + "05 S= a=05; rollback 05; main S= b=06; rollback 06; main"
        for rounds in (1, 2, 3)
    },
    "undone": "05 S= a=05; 06 S= b=06; 05 S= a=05; undo; it: rollback 05; main S= b=06; "
    "rollback 05; already; same it",
    "that rests on an undone rollback": "it: A p=1; rollback A; undo; work A; land A; rollback it; "
    "state A ROLLED_BACK",
    "that rests on a reverted rollback": "it: A p=1; back: rollback A; revert back; work A; land A; "
    "rollback it; state A ROLLED_BACK",
    "that rests on nothing": "it: A p=1; revert it; work A; land A; rollback it; state A PUBLISHED",
    "on another target": "A l=a; branch pr; A@pr l=a; delete pr; rollback A ! NoChangesError; "
    "main l=a",
}

MEET = {
    "a merge and what a writer stopped writing": "A p=old; branch dev; B@dev p=B; A p=new; "
    "merge dev source-wins; A q=1; B z=1; main q=1 z=1",
    "two rollbacks in a merge": "branch pr; branch dev; C@dev S=x; merge dev>pr; A@pr S=x; "
    "merge pr>dev; rollback C; rollback A; merge pr>dev; dev",
    "a rollback that is merged and another run": "branch pr; A@pr S=x; C S=x c=1; merge pr; "
    "rollback A; merge pr; main S=x c=1",
    "a merge where one publish is gone": "branch dev; B S=x b=1; merge main>dev; rollback B; "
    "B@dev S=x c=1; merge dev; main S=x c=1",
    "a merge with what a user wrote over a rollback": "05 S=a; branch pr; rollback 05; 06@pr S=b; "
    "user S=c; merge main>pr ! MergeConflictError",
    "two rounds in a merge": "A part-1=1; branch dev; A@dev part-2=1; A part-3=1; "
    "merge dev ! MergeConflictError part-3",
    "two rounds in a merge, the source": "A part-1=1; branch dev; A@dev part-2=1; A part-3=1; "
    "merge dev source-wins; main part-2=1",
    "two rounds in a merge, the target": "A part-1=1; branch dev; A@dev part-2=1; A part-3=1; "
    "merge dev dest-wins; main part-3=1",
    "a pick and an equal file": "branch dev; branch pr; B@dev S=x; it: A@dev S=x a=1; pick it>pr; "
    "pr S=x a=1",
    "a pick of a second round": "branch pr; K same=1 k=2; it: K same=1 k=3; "
    "pick it>pr source-wins; pr same=1 k=3",
    "a revert and another run": "C S=x; C c=1; it: rollback C; B S=x b=1; revert it; "
    "main S=x b=1 c=1",
    "a revert and what its writer stopped writing": "A p=A; it: C p=C; A q=1; revert it; main q=1",
    "a revert of an older publish": "it: A p=1; A b=1; revert it ! NoChangesError; main b=1",
    "a revert below a later publish": "A p=1; it: rollback A; A p=1 q=1; revert it ! NoChangesError; "
    "rollback A; A r=1; main r=1",
    "a revert of an earlier of three": "it: B S=x b=1; B c=1; B S=x d=1; revert it ! NoChangesError; "
    "main S=x d=1",
    "a revert of a user's commit": "it: user p=1; A p=1 q=1; revert it; main p=1 q=1; rollback A; main",
    "a revert of a merge": "branch pr; B@pr S=x b=1; it: merge pr; B S=x c=1; "
    "revert it ! NoChangesError; main S=x c=1",
    "a revert that is repeated": "work A/direct p=1; work A/one p=2; it: land A; back: revert it; "
    "revert back; revert back ! NoChangesError; rollback A; main",
    "a rollback and the revert of a revert": "it: user p=1; back: revert it; A p=1 q=1; revert back; "
    "rollback A; main p=1",
    "a deletion and a claim that lost its equal": "branch pr; it: 07@pr l=x; work 05/; pick it; "
    "work 05 l=x; land 05; work 06/; rollback 05; work 06 -l; land 06; main",
    "a deletion that returns with its run": "06 S=a; user S=b; 07 -S; it: rollback 07; user S=c; "
    "user S=b; revert it; main",
    "an equal write and a change of others": "user p=1; work A p=1; user p=2; "
    "land A ! MergeConflictError 'p'",
}

LOG = "user log0=0; 05 log1=1 t/05=1; 06 log2=1 t/06=1; "
TABLES = {
    "a retry below later versions": LOG + "05 x=1 ! MergeConflictError "
    r"'t/'.*00000000000000000002.json.*tables=\"keep\"; "
    "main log0=0 log1=1 t/05=1 log2=1 t/06=1",
    "a retry of the latest version": LOG + "06 log2=2 t/06b=1; "
    "main log0=0 log1=1 t/05=1 log2=2 t/06b=1",
    "rollbacks": LOG + "rollback 05 ! MergeConflictError t/_delta_log.*RESTORE; rollback 06; "
    "rollback 05; main log0=0",
    "an equal version of two": "user log0=0; work A log1=1 t/a=1; work B log1=1 t/a=1; land A; "
    "land B; rollback A; main log0=0 log1=1 t/a=1; rollback B; main log0=0",
}


@pytest.mark.parametrize("told", RETRIES.values(), ids=RETRIES)
def test_a_retry_replaces_what_stands_of_its_earlier_work(history, told):
    history.play(told)


@pytest.mark.parametrize("told", SHARED.values(), ids=SHARED)
def test_a_shared_file_goes_with_the_last_who_wrote_it(history, told):
    history.play(told)


@pytest.mark.parametrize("told", ROUNDS.values(), ids=ROUNDS)
def test_an_hour_that_ran_again_equally_is_rolled_back(history, told):
    history.play(told)


@pytest.mark.parametrize("told", MEET.values(), ids=MEET)
def test_claims_of_two_branches_meet(history, told):
    history.play(told)


@pytest.mark.parametrize("told", TABLES.values(), ids=TABLES)
def test_a_retry_or_a_rollback_leaves_no_gap_in_a_table(history, told):
    history.play(told)


@pytest.mark.parametrize("second", ["06 -dim b=1", "user -dim"])
@pytest.mark.parametrize("away", ["rollback 05", "revert it", "05 part-1=1"])
def test_a_path_that_two_deleted_comes_back_with_the_last(history, second, away):
    history.play(f"user dim=old; it: 05 -dim a=1; then: {second}; {away}")
    assert "dim" not in files(history.repo)
    history.play("revert then")
    assert files(history.repo)["dim"] == "old"


def test_a_table_is_kept_by_a_retry_that_says_so(history):
    repo = history.play(LOG).repo
    before = files(repo)
    run = repo.runs.open("05")
    with run.step("work", tables="keep") as step:
        step.put(f"t/_delta_log/{3:020}.json", b"replaceWhere")
    run.publish()
    assert files(repo) == before | {f"t/_delta_log/{3:020}.json": "replaceWhere"}


def test_a_tick_of_equal_bytes_keeps_a_file(history):
    repo = history.play("work A p=1 q=1").repo
    repo.ingestion().branch.put("p", b"1")
    history.play("land A")
    assert repo.ingestion().tick().published is not None
    history.play("rollback A; main p=1")


def test_an_uploaded_file_that_is_there_is_claimed(history, tmp_path):
    folder = tmp_path / "up"
    folder.mkdir()
    (folder / "p").write_bytes(b"1")
    repo = history.play("A p=1").repo
    with repo.run("B") as run, run.step("work") as step:
        assert step.upload(folder, "").skipped == 1
    history.play("rollback A; main p=1; rollback B; main; A p=1")
    assert repo.branch("main").upload(folder, "").skipped == 1
    repo.branch("main").commit("by hand")
    history.play("rollback A; main p=1")


@pytest.mark.parametrize(("answer", "expected"), [("delete", {}), ("source-wins", {"p": "B"})])
def test_a_function_decides_a_path_that_runs_wrote(history, answer, expected):
    repo = history.play("user p=0; branch dev; A p=A; B@dev p=B").repo
    repo.merge("dev", into="main", strategy=lambda _: answer)
    assert files(repo) == expected


def test_equal_writes_are_claims_and_cost_no_new_tree(history):
    run = history.play("work A/").open["A"]
    head = run.head
    with run.step("work") as step:
        step.put("settled", b"0")
    assert run.head == step.result
    assert (run.head.metarange, run.head.trees == head.trees) == (head.metarange, False)
    parts = "B " + " ".join(f"part-{number}=1" for number in range(100))
    before = history.play(parts).last
    assert history.play(parts).last.commit.trees == before.commit.trees


def test_steps_and_origins_are_known_after_a_rollback(history):
    repo = history.play("A p=1; rollback A").repo
    assert not repo.runs.open("A").joined_steps()
    repo.undo("main")
    assert repo.runs.open("A").joined_steps()["work"].changed
    history.play("it: B q=1; C q=2; rollback C")
    found = repo.why("q")
    assert (found.key, found.commit) == ("B", history.made["it"])


@pytest.fixture
def expired():
    """A lake with empty caches: retention has passed an hour, and one that replaced a file."""
    world = ScriptedWorld()
    repo = world.repo(scripted=False)
    main = repo.branch("main")
    main.put("latest", b"0")
    main.commit("by hand")
    publish(repo, KEY, {"part-1": "1"})
    publish(repo, "other", {"latest": "1"})
    for number in range(3):
        main.put(f"later-{number}", b"1")
        main.commit("later")
    repo.stores.clock.sleep(timedelta(days=30).total_seconds())
    repo.gc.keep(days=1)
    now = timedelta(0)
    repo.gc.sweep(repo.gc.mark(grace=now, window=now).id)
    return world.repo(scripted=False)


def test_an_hour_older_than_retention_runs_again(expired):
    publish(expired, KEY, {"part-2": "1"})
    assert {path for path in files(expired) if "part" in path} == {"part-2"}


def test_a_file_whose_earlier_bytes_are_gone_is_named(expired):
    with pytest.raises(ExpiredError, match=r"'latest'.*--fresh"):
        publish(expired, "other", {"else": "1"})
    run = expired.runs.open("other", fresh=True)
    with run.step("work") as step:
        step.put("else", b"1")
    run.publish()
    assert "latest" not in files(expired)


def test_a_publish_whose_trees_are_collected_is_not_rolled_back(expired):
    before = files(expired)
    with pytest.raises(ExpiredError):
        expired.runs.rollback(KEY)
    assert files(expired) == before
