"""A conditional write without a reply. Another process writes before the key is read again."""

from contextlib import suppress

import pytest

from graveler.errors import (
    AlreadyExistsError,
    FencedError,
    NoChangesError,
    OutcomeUnknownError,
    PreconditionFailedError,
)
from graveler.publishing.landing import CommitSpec
from graveler.repository.commits.sealing import _Committer, _Order, _seal
from tests.harness.faults import FaultyKVStore, Script
from tests.harness.worlds import ScriptedWorld, tree


class Unanswering(FaultyKVStore):
    """Loses the reply of a branch's first conditional write, and then lets other processes work."""

    def __init__(self, store, name, call, *, before=None, after=None):
        super().__init__(store, Script())
        self._key, self._call = b"branch/" + name.encode(), call
        self._before, self._after = before, after

    def _once(self, call, key, work):
        if (call, key) != (self._call, self._key):
            return work()
        self._call = ""
        if self._before is not None:
            self._before()
        with suppress(PreconditionFailedError):
            work()
        if self._after is not None:
            self._after()
        raise OutcomeUnknownError("the reply was lost")

    def set_if(self, partition, key, value, predicate):
        return self._once(
            "set_if", key, lambda: super(Unanswering, self).set_if(partition, key, value, predicate)
        )

    def delete_if(self, partition, key, predicate):
        self._once(
            "delete_if", key, lambda: super(Unanswering, self).delete_if(partition, key, predicate)
        )


@pytest.fixture
def world():
    return ScriptedWorld()


def names(repo):
    return [record.name for record in repo.branches()]


def test_deleting_a_branch_leaves_the_one_that_was_made_after_it(world):
    other = world.repo(scripted=False)
    other.create_branch("dev").put("old", b"1")

    def recreate():
        other.create_branch("dev").put("x", b"1")
        other.branch("dev").commit("acknowledged")

    world.repo(kv=Unanswering(world.kv, "dev", "delete_if", after=recreate)).delete_branch("dev")
    assert "dev" in names(other)
    assert tree(other.ref("dev")) == {"x": "1"}


def test_a_branch_that_was_made_and_deleted_is_not_brought_back(world):
    other = world.repo(scripted=False)
    lossy = Unanswering(world.kv, "dev", "set_if", after=lambda: other.delete_branch("dev"))
    with pytest.raises(OutcomeUnknownError):
        world.repo(kv=lossy).create_branch("dev")
    assert "dev" not in names(other)


def test_the_maker_of_a_branch_knows_it_though_others_moved_it(world):
    other = world.repo(scripted=False)

    def moved():
        other.branch("dev").put("x", b"1")
        other.branch("dev").commit("x")

    made = world.repo(kv=Unanswering(world.kv, "dev", "set_if", after=moved)).create_branch("dev")
    assert made.head.message == "x"


def test_the_loser_of_a_branch_creation_does_not_claim_it(world):
    other = world.repo(scripted=False)
    lossy = Unanswering(world.kv, "dev", "set_if", before=lambda: other.create_branch("dev"))
    with pytest.raises((OutcomeUnknownError, AlreadyExistsError)):
        world.repo(kv=lossy).create_branch("dev")
    assert "dev" in names(other)


def test_a_reset_that_lost_its_race_drops_nothing_sealed(world):
    other = world.repo(scripted=False)
    main = other.branch("main")
    main.put("k", b"first")
    _seal(other.stores, "main", "")  # and the committer dies
    main.put("j", b"second")
    sealed = []
    lossy = Unanswering(
        world.kv, "main", "set_if", before=lambda: sealed.append(_seal(other.stores, "main", ""))
    )
    world.repo(kv=lossy).branch("main").reset()
    assert len(sealed) == 1
    assert tree(main) == {}
    with pytest.raises(NoChangesError):
        main.commit("nothing is left")


def test_the_answer_is_the_commit_with_the_acknowledged_write(world):
    first, second = world.repo(scripted=False), world.repo(scripted=False)
    first.branch("main").put("a", b"a")
    early = _Committer(
        first.stores,
        _Order("main", "", CommitSpec("X"), allow_empty=False, keep=""),
        _seal(first.stores, "main", ""),
    )
    mine = world.repo()
    mine.branch("main").put("b", b"b")

    def others(_):
        early.run()
        second.branch("main").commit("Y")

    world.script.arm(4, others)  # between the read of the branch and the read of its token
    made = mine.branch("main").commit("U")
    assert world.script.disarm() == "scan"
    assert (made.message, made.by_other) == ("Y", True)
    assert mine.ref(made.id).exists("b")


def test_a_commit_from_before_is_the_answer_if_it_has_the_write(world):
    other = world.repo(scripted=False)
    mine = world.repo(kv=Unanswering(world.kv, "main", "set_if"))
    mine.branch("main").put("a", b"a")
    other.branch("main").commit("takes it along")
    made = mine.branch("main").commit("mine")
    assert (made.message, made.by_other) == ("takes it along", True)
    with pytest.raises(NoChangesError):
        mine.branch("main").commit("nothing is left")


@pytest.mark.parametrize("more", [False, True])
def test_a_seal_whose_reply_was_lost_is_found_in_history(world, more):
    other = world.repo(scripted=False)

    def commits():
        if more:  # the commit also includes the live token of the lost seal
            other.branch("main").put("b", b"b")
        other.branch("main").commit("takes it along")

    mine = world.repo(kv=Unanswering(world.kv, "main", "set_if", after=commits))
    mine.branch("main").put("a", b"a")
    made = mine.branch("main").commit("U")
    assert (made.message, made.by_other) == ("takes it along", True)


@pytest.mark.parametrize("allow_empty", [False, True])
def test_a_seal_whose_reply_was_lost_is_fenced(world, allow_empty):
    first = world.repo(scripted=False).runs.open("hour")
    first.put("a", b"a")
    newer = []

    def opens():
        newer.append(world.repo(scripted=False).runs.open("hour"))
        newer[0].put("b", b"b")
        newer[0].commit("of the newer attempt")

    lossy = Unanswering(world.kv, f"~{first.handle.branch}", "set_if", after=opens)
    old = world.repo(kv=lossy).runs.attach(first.handle)
    with pytest.raises(FencedError):
        old.commit("of the old attempt", allow_empty=allow_empty)
    assert newer[0].head.message == "of the newer attempt"


def test_a_hard_reset_with_a_lost_reply_is_not_done_twice(world):
    other = world.repo(scripted=False)
    main = other.branch("main")
    for name in ("a", "b", "c", "d"):
        main.put(name, b"1")
        main.commit(name)

    def moved():
        main.put("n", b"1")
        main.commit("n")

    lossy = Unanswering(world.kv, "main", "set_if", after=moved)
    world.repo(kv=lossy).branch("main").reset(to="main~1")
    assert [commit.message for commit in other.log("main", limit=3)] == ["n", "c", "b"]


def test_a_landed_merge_is_found_however_far_the_branch_moved(world):
    other = world.repo(scripted=False)
    other.create_branch("dev").put("x", b"1")
    landed = other.branch("dev").commit("x")

    def undone_and_moved():
        other.undo("main")
        for number in range(9):
            other.branch("main").put(f"p{number}", b"1")
            other.branch("main").commit(f"p{number}")

    lossy = Unanswering(world.kv, "main", "set_if", after=undone_and_moved)
    merged = world.repo(kv=lossy).merge("dev", into="main")
    assert merged.commit.parents[1] == landed.id
    assert not other.ref("main").exists("x")
