"""Operations of two processes: the second one runs between any two calls of the first one.

The second operation runs before call 1 of the first operation, then before call 2, and so on,
until the first operation ends earlier. So each test covers every such interleaving.
"""

from dataclasses import replace
from math import ceil

import pytest

from graveler.committed.apply import apply
from graveler.errors import (
    AlreadyExistsError,
    MergeConflictError,
    NoChangesError,
    RefNotFoundError,
)
from graveler.model import Commit, Entry
from graveler.refs.mover import advance
from graveler.repository.commits.sealing import (  # a commit calls it before it dies
    MOST_SEALED,
    _seal,
)
from graveler.values import encode_entry, record_id
from tests.harness.worlds import SMALL, Points, ScriptedWorld, interleave, tree


def main_of(world):
    return world.repo(scripted=False).branch("main")


def history(world, ref="main"):
    return list(world.repo(scripted=False).log(ref, first_parent=True))


def assert_linear(world, *commits):
    """Assert that main's history is linear and has each of `commits` once."""
    log = history(world)
    assert all(len(commit.parents) <= 1 for commit in log)
    assert [commit.generation for commit in log] == list(range(len(log), 0, -1))
    ids = [commit.id for commit in log]
    for commit in commits:
        assert ids.count(commit.id) == 1


def start(repo):
    main = repo.branch("main")
    main.put("base", b"0")
    main.put("gone", b"0")
    main.commit("base")
    main.put("staged", b"1")


def put(path, body=b"new"):
    return lambda repo: repo.branch("main").put(path, body)


def commit(message="c"):
    return lambda repo: repo.branch("main").commit(message)


def put_and_commit(path):
    def do(repo):
        repo.branch("main").put(path, path.encode())
        return repo.branch("main").commit(path)

    return do


def test_a_write_is_never_lost_to_a_commit():
    def check(world, entry, _):
        assert entry.path == "w"
        assert tree(main_of(world)) == {"base": "0", "gone": "0", "staged": "1", "w": "new"}
        world.repo(scripted=False).branch("main").commit("rest", allow_empty=True)
        assert tree(world.repo(scripted=False).ref("main"))["w"] == "new"

    interleave(start, put("w"), commit(), check)


def test_a_write_over_a_staged_one_wins_over_its_commit():
    def check(world, _, committed):
        assert committed.message == "c"
        assert tree(main_of(world))["staged"] == "new"

    interleave(start, put("staged"), commit(), check)


def test_a_deletion_is_never_lost_to_a_commit():
    def check(world, outcome, _):
        assert outcome is None
        assert tree(main_of(world)) == {"base": "0", "staged": "1"}

    interleave(start, lambda repo: repo.branch("main").delete("gone"), commit(), check)


def test_a_commit_takes_or_leaves_staged_concurrent_writes():
    def check(world, made, entry):
        assert entry.path == "w"
        committed = tree(world.repo(scripted=False).ref(made.id))
        assert committed["staged"] == "1"  # acknowledged before the commit began
        assert tree(main_of(world)) == {"base": "0", "gone": "0", "staged": "1", "w": "new"}
        staged = {change.path for change in main_of(world).uncommitted()}
        assert ("w" in committed) != ("w" in staged)
        assert_linear(world, made)

    interleave(start, commit("mine"), put("w"), check)


def test_a_commit_beside_a_write_and_a_commit_keeps_both():
    def check(world, made, theirs):
        log = history(world)
        assert theirs.id in {commit.id for commit in log}
        # the other commit may have included all of our writes: then that commit is the result, or,
        # if it landed before our first read, nothing was left to commit
        assert isinstance(made, NoChangesError) or made.id in {commit.id for commit in log}
        assert tree(world.repo(scripted=False).ref("main")) == {
            "base": "0",
            "gone": "0",
            "staged": "1",
            "theirs": "theirs",
        }
        assert_linear(world, theirs)

    interleave(start, commit("mine"), put_and_commit("theirs"), check)


def test_a_writer_taken_along_gets_the_commit_that_has_it():
    outcomes = []

    def check(world, made, theirs):
        if not isinstance(made, NoChangesError):
            assert world.repo(scripted=False).ref(made.id).exists("staged")
            assert made.by_other == (made.id == theirs.id)
        outcomes.append(type(made))

    interleave(start, commit("mine"), put_and_commit("theirs"), check)
    # only if the other commit lands before the read for the commit, which is the second read
    early = ceil(2 / Points.step)
    assert outcomes == [NoChangesError] * early + [Commit] * (len(outcomes) - early)


def test_a_dying_committer_leaves_its_writes_to_another():
    def check(world, made, _):
        assert world.repo(scripted=False).ref(made.id).exists("staged")
        record = world.repo(scripted=False).stores.refs.branches.get("main")
        assert record.sealed_tokens == ()

    interleave(start, commit("mine"), lambda repo: _seal(repo.stores, "main", ""), check)


def test_an_overwrite_between_seal_and_commit_stays_the_newest():
    def check(world, made, _):
        assert made.message == "mine"
        assert tree(main_of(world))["staged"] == "newer"
        world.repo(scripted=False).branch("main").commit("rest", allow_empty=True)
        assert tree(main_of(world))["staged"] == "newer"

    interleave(start, commit("mine"), put("staged", b"newer"), check)


def test_writes_of_a_dead_committer_are_older_than_later_ones():
    def prepare(repo):
        start(repo)
        world_main = repo.branch("main")
        record = repo.stores.refs.branches.get("main")
        _seal(repo.stores, "main", "")
        assert repo.stores.refs.branches.get("main").sealed_tokens == (record.staging_token,)
        world_main.put("staged", b"2")
        _seal(repo.stores, "main", "")
        world_main.put("staged", b"3")

    def check(world, made, _):
        assert tree(main_of(world))["staged"] == "3"
        assert tree(world.repo(scripted=False).ref(made.id))["staged"] == "3"
        assert main_of(world).stat("w")

    interleave(prepare, commit("mine"), put("w"), check)


def test_a_commit_beside_a_merge_is_made_on_the_merged_head():
    def prepare(repo):
        start(repo)
        dev = repo.create_branch("dev")
        dev.put("dev", b"d")
        dev.commit("dev")

    def check(world, made, merged):
        assert not merged.already
        assert tree(world.repo(scripted=False).ref("main")) == {
            "base": "0",
            "gone": "0",
            "staged": "1",
            "dev": "d",
        }
        ids = [commit.id for commit in history(world)]
        assert ids.index(made.id) != ids.index(merged.commit.id)

    def merge(repo):
        return repo.merge("dev", "main")

    interleave(prepare, commit("mine"), merge, check)
    interleave(prepare, merge, commit("mine"), lambda w, m, c: check(w, c, m))


def test_two_merges_at_once_both_land():
    def prepare(repo):
        start(repo)
        for name in ("one", "two"):
            branch = repo.create_branch(name)
            branch.put(name, name.encode())
            branch.commit(name)

    def check(world, one, two):
        assert {"one", "two"} <= set(tree(world.repo(scripted=False).ref("main")))
        ids = [commit.id for commit in history(world)]
        assert {one.commit.id, two.commit.id} < set(ids)
        assert main_of(world).get("staged") == b"1"  # the staged write remains

    interleave(prepare, lambda r: r.merge("one", "main"), lambda r: r.merge("two", "main"), check)


def test_of_two_conflicting_merges_one_lands_one_reports_it():
    def prepare(repo):
        start(repo)
        for name in ("one", "two"):
            branch = repo.create_branch(name)
            branch.put("same", name.encode())
            branch.commit(name)

    def check(world, one, two):
        assert isinstance(one, MergeConflictError)
        assert tree(world.repo(scripted=False).ref("main"))["same"] == "two"
        assert history(world)[0].id == two.commit.id

    interleave(prepare, lambda r: r.merge("one", "main"), lambda r: r.merge("two", "main"), check)


def test_a_reader_sees_every_acknowledged_path_whoever_commits():
    expected = {"base": "0", "gone": "0", "staged": "1"}

    def check(world, seen, _):
        assert seen == expected

    interleave(start, lambda repo: tree(repo.branch("main")), commit(), check)
    interleave(
        start,
        lambda repo: {path: repo.branch("main").get(path).decode() for path in expected},
        commit(),
        check,
    )


def test_a_reader_sees_a_whole_commit_or_nothing_of_it():
    def check(world, seen, theirs):
        assert ("theirs" in seen) in (True, False)
        assert {"base", "gone", "staged"} <= set(seen)

    interleave(start, lambda repo: tree(repo.branch("main")), put_and_commit("theirs"), check)


def test_what_is_uncommitted_is_all_or_nothing_beside_a_commit():
    def check(world, paths, _):
        assert paths in (["staged"], [])

    interleave(
        start,
        lambda repo: [change.path for change in repo.branch("main").uncommitted()],
        commit(),
        check,
    )


def test_a_reset_beside_a_commit_discards_all_or_nothing():
    def check(world, made, _):
        here = tree(main_of(world))
        if isinstance(made, NoChangesError):
            assert "staged" not in here
        else:
            assert here["staged"] == "1"
            assert_linear(world, made)

    interleave(start, commit("mine"), lambda repo: repo.branch("main").reset(), check)

    def check_reset(world, outcome, made):
        assert outcome is None
        committed = tree(world.repo(scripted=False).ref("main"))
        assert ("staged" in committed) == (not isinstance(made, NoChangesError))
        assert tree(main_of(world)) == committed

    interleave(start, lambda repo: repo.branch("main").reset(), commit("theirs"), check_reset)


def test_a_write_beside_a_reset_is_staged_or_was_discarded_whole():
    def check(world, entry, _):
        assert entry.path == "w"
        assert set(tree(main_of(world))) <= {"base", "gone", "w"}

    interleave(start, put("w"), lambda repo: repo.branch("main").reset(), check)


def test_of_two_that_make_a_branch_one_wins():
    def make(repo):
        return repo.create_branch("dev")

    def check(world, outcome, other):
        lost = [isinstance(each, AlreadyExistsError) for each in (outcome, other)]
        assert sorted(lost) == [False, True]
        assert world.repo(scripted=False).branch("dev").get("base") == b"0"

    interleave(start, make, make, check, least=2)


def test_deleting_a_branch_spares_a_new_one_of_its_name():
    def prepare(repo):
        start(repo)
        repo.create_branch("dev").put("old", b"1")

    def recreate(repo):
        repo.delete_branch("dev")
        repo.create_branch("dev").put("new", b"1")

    def check(world, outcome, _):
        repo = world.repo(scripted=False)
        if isinstance(outcome, RefNotFoundError):
            pytest.fail("the branch was there all the time but for an instant between calls")
        # deleted before the operation or by another process after it, never in part
        names = [record.name for record in repo.branches()]
        if "dev" in names:
            assert set(tree(repo.branch("dev"))) == {"base", "gone", "new"}

    interleave(prepare, lambda repo: repo.delete_branch("dev"), recreate, check)


def test_a_commit_on_a_branch_that_is_deleted_meanwhile_says_so():
    def prepare(repo):
        start(repo)
        repo.create_branch("dev").put("a", b"1")

    def check(world, outcome, _):
        assert isinstance(outcome, RefNotFoundError) or outcome.message == "x"
        with pytest.raises(RefNotFoundError):
            world.repo(scripted=False).branch("dev")

    interleave(
        prepare,
        lambda repo: repo.branch("dev").commit("x"),
        lambda repo: repo.delete_branch("dev"),
        check,
    )


def test_protection_rules_added_at_once_are_all_kept():
    def check(world, outcome, _):
        assert outcome is None
        assert world.repo(scripted=False).protection.list().keys() == {"a", "b"}

    interleave(
        start, lambda r: r.protection.add("a"), lambda r: r.protection.add("b"), check, least=2
    )


def picked(repo):
    """Move main as a cherry-pick does: one parent, and no staged writes."""
    refs = repo.stores.refs
    record, predicate = refs.branches.get_for_update("main")
    head = refs.commits.get(record.commit_id)
    tree = apply(
        repo.stores.ranges,
        head.metarange,
        [(b"picked", *_record(b"picked")), (b"staged", *_record(b"staged"))],
        SMALL,
    ).metarange
    made = refs.commits.add(
        metarange=tree,
        parents=(head.id,),
        message="picked",
        committer="",
        created=repo.stores.clock.now(),
        metadata={},
    )
    moved = replace(record, commit_id=made.id)
    return advance(refs, moved, predicate, action="cherry-pick")


def _record(key):
    value = encode_entry(Entry("x", "data/other", 5))[1]
    return record_id(key, value), value


def test_a_commit_beside_a_new_head_keeps_both_staged_wins():
    def check(world, made, moved):
        repo = world.repo(scripted=False)
        assert moved
        assert_linear(world, made)
        ref = repo.ref("main")
        assert ref.exists("picked")
        log = [commit.message for commit in history(world)]
        if log.index("mine") < log.index("picked"):
            assert ref.get("staged") == b"1"
        assert repo.ref(made.id).get("staged") == b"1"

    interleave(start, commit("mine"), picked, check)


def test_a_loser_to_a_commit_of_its_own_tokens_lands_its_tree():
    built = []

    def other(repo):
        repo.branch("main").put("more", b"2")
        return repo.branch("main").commit("theirs")

    def mine(repo):
        written = repo.stores.ranges.stats
        made = repo.branch("main").commit("mine")
        built.append(written.metaranges_written)
        return made

    def check(world, made, theirs):
        assert tree(world.repo(scripted=False).ref("main"))["staged"] == "1"
        assert theirs.message == "theirs"

    interleave(start, mine, other, check)
    assert max(built) == 1


def test_discarded_writes_are_never_answered_with_another_commit():
    def meanwhile(repo):
        repo.branch("main").reset()
        repo.branch("main").put("other", b"1")
        return repo.branch("main").commit("theirs")

    def check(world, made, theirs):
        if isinstance(made, NoChangesError):
            assert not world.repo(scripted=False).ref("main").exists("staged")
        else:  # the commit landed before the reset
            assert made.message == "mine"
            assert world.repo(scripted=False).ref(made.id).exists("staged")
        assert_linear(world, theirs)

    interleave(start, commit("mine"), meanwhile, check)


def test_dying_committers_leave_a_bounded_number_of_tokens():
    world = ScriptedWorld()
    repo = world.repo(scripted=False)
    main = repo.branch("main")
    for number in range(3 * MOST_SEALED):
        main.put(f"p{number}", b"1")
        main.put("same", str(number).encode())
        _seal(repo.stores, "main", "")  # and the committer dies
    record = repo.stores.refs.branches.get("main")
    assert len(record.sealed_tokens) == MOST_SEALED
    made = main.commit("the next")
    assert not made.by_other
    assert repo.stores.refs.branches.get("main").sealed_tokens == ()
    shown = tree(repo.ref("main"))
    assert len(shown) == 3 * MOST_SEALED + 1
    assert shown["same"] == str(3 * MOST_SEALED - 1)
    assert not list(main.uncommitted())
    assert [commit.message for commit in history(world)][:2] == ["the next", "the next"]
