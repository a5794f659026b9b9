"""Collection beside writers: a commit that a ref names can always be read.

The mark is made, its window passes, and then a writer and the sweep run side by side: each of
them runs whole between any two calls of the other. A writer that began before the mark has
ended by then, or has not yet named the commit that it read: such writers run beside the mark.
"""

from contextlib import suppress

import pytest

from graveler.errors import (
    ExpiredError,
    GravelerError,
    NoChangesError,
    RefNotFoundError,
    StateError,
    ThrottledError,
)
from tests.harness.gc_lakes import (
    NOW,
    OUTSIDE,
    check_sound,
    commit,
    days,
    everything,
    link,
    made_key,
    outside,
)
from tests.harness.operations import collection
from tests.harness.operations.collection import sweep, undelete
from tests.harness.worlds import interleave

GARBAGE = {"g0": "garbage 0", "g1": "garbage 1", "g3": "garbage 3"}
STORED = {"u0": "own 0", "u1": "own 1"}


def start(repo):
    repo.links.allow(OUTSIDE)
    commit(repo, "main", "base", a="1", b="2")
    link(repo, "dev", "garbage", **GARBAGE)
    commit(repo, "dev", "garbage in the lake's storage", **STORED)


def condemned(repo):
    """Condemn the tree of a deleted branch, and let its window pass."""
    start(repo)
    repo.delete_branch("dev")
    days(repo, 2)
    repo.gc.mark()
    days(repo, 8)


def commit_the_same(repo):
    """Make the tables of the garbage again. The writer reuses those that exist."""
    return link(repo, "again", "garbage again", **GARBAGE)


def commit_some_of_it(repo):
    return link(repo, "again", "some of it", g0="garbage 0", g3="garbage 3", c="3")


def merge_the_same(repo):
    """Merge two branches; the result equals the condemned tree."""
    for half in (("g0", "g1"), ("g3",)):
        branch = repo.create_branch(f"half-{half[0]}", exist_ok=True)
        branch.link_many(outside({path: GARBAGE[path] for path in half}))
        with suppress(NoChangesError):
            branch.commit("half")
    return repo.merge("half-g0", "half-g3").commit


WRITERS = {
    work.__name__: work
    for work in (
        commit_the_same,
        commit_some_of_it,
        merge_the_same,
    )
}
REFUSED = (ExpiredError, ThrottledError)


def check(world, writer, swept):
    """Assert that both succeed or are repeated with success, and that nothing is lost."""
    assert not isinstance(writer, GravelerError) or isinstance(writer, REFUSED), repr(writer)
    assert not isinstance(swept, GravelerError) or isinstance(swept, StateError), repr(swept)
    repo = world.repo(scripted=False)
    seen = check_sound(repo)
    if not isinstance(swept, GravelerError) and not isinstance(writer, GravelerError):
        assert swept.state == "swept"
    sweep(repo)
    assert everything(repo) == seen
    days(repo, 2)
    repo.gc.run(window=NOW)
    assert everything(repo) == seen
    with suppress(NoChangesError):
        commit_the_same(repo)
    expected = {"a": "1", "b": "2", **GARBAGE}
    again = check_sound(repo)["again"]
    assert {path: again.get(path) for path in expected} == expected


@pytest.mark.parametrize("writer", WRITERS)
def test_a_sweep_comes_in_between_the_steps_of_a_writer(writer):
    interleave(
        condemned,
        WRITERS[writer],
        sweep,
        check,
        least=10,
    )


@pytest.mark.parametrize("writer", WRITERS)
def test_a_writer_comes_in_between_the_steps_of_a_sweep(writer):
    interleave(
        condemned,
        sweep,
        WRITERS[writer],
        lambda world, swept, written: check(world, written, swept),
        least=30,
    )


# -- around the mark


def prepared(repo):
    start(repo)
    days(repo, 2)


def tag_dev(repo):
    return repo.tags.create("kept", "dev")


def move_dev(repo):
    """Move the commit from a branch that sorts late to a branch that sorts early."""
    repo.create_branch("aaa", "dev")
    repo.delete_branch("dev")


def move_dev_back(repo):
    repo.create_branch("zzz", "dev")
    repo.delete_branch("dev")


def merge_dev(repo):
    repo.merge("dev", "main")
    repo.delete_branch("dev")


def delete_and_mark(repo):
    repo.delete_branch("dev")
    repo.gc.mark()


def checked_later(keep):
    """Return a check that the sweep after the window keeps what `keep` says of the outcomes."""

    def check_later(world, *outcomes):
        repo = world.repo(scripted=False)
        seen = check_sound(repo)
        kept = keep(*outcomes)
        taken = {commit_id for commit_id, _ in repo.stores.refs.expired.list()}
        assert not taken & {record.commit_id for record in repo.branches(hidden=True)}
        days(repo, 8)
        for mark in list(repo.gc.marks()):
            if mark.state == "condemned":
                repo.gc.sweep(mark.id)
        assert check_sound(repo) == seen
        if kept:
            assert any("g0" in held for held in seen.values())

    return check_later


def test_who_looked_a_commit_up_before_the_mark_keeps_it():
    """The ref is made after its commit is condemned, and may be deleted before the sweep."""

    def outcome(named, _):
        if isinstance(named, GravelerError):
            assert isinstance(named, (RefNotFoundError, ExpiredError)), repr(named)
            return False
        return True

    interleave(prepared, tag_dev, delete_and_mark, checked_later(outcome), least=3)


@pytest.mark.parametrize(
    "writer",
    [move_dev, move_dev_back, merge_dev],
)
def test_a_writer_comes_in_between_the_steps_of_a_mark(writer):
    interleave(
        prepared,
        collection.mark,
        writer,
        checked_later(lambda *_: True),
        least=20,
    )


def test_a_writer_comes_in_between_the_fresh_look_of_a_sweep():
    """A condemned commit has a name for some time. The name moves while the sweep reads."""

    def prepare(repo):
        start(repo)
        days(repo, 2)
        lost = repo.commit("dev").id
        repo.delete_branch("dev")
        mark = repo.gc.mark()
        repo.gc.undelete(mark.id)
        repo.create_branch("dev", lost)
        repo.stores.objects.put(made_key(repo), b"x")
        days(repo, 2)
        repo.gc.mark()
        days(repo, 8)

    def operate(repo):
        return repo.gc.sweep(list(repo.gc.marks())[-1].id)

    interleave(prepare, operate, move_dev, checked_later(lambda *_: True), least=20)


# -- two collectors


def test_two_sweeps_of_one_mark_do_no_harm():
    def looked(world, first, second):
        for outcome in (first, second):
            assert not isinstance(outcome, GravelerError) or isinstance(outcome, StateError)
        check(world, None, first)

    interleave(condemned, sweep, sweep, looked, least=30)


def test_of_two_marks_at_once_the_later_one_counts():
    def marked(world, first, second):
        repo = world.repo(scripted=False)
        assert second.state == "condemned"
        if isinstance(first, GravelerError):
            assert isinstance(first, StateError), repr(first)
        states = sorted(mark.state for mark in repo.gc.marks())
        assert states[0] == "condemned"
        names = {record.mark for _, record in repo.stores.refs.expired.list()}
        settled = {mark.id for mark in repo.gc.marks() if mark.state == "condemned"}
        assert names <= settled
        days(repo, 8)
        for mark in settled:
            repo.gc.sweep(mark)
        check_sound(repo)
        freed = sum(mark.freed["data"].count for mark in repo.gc.marks() if mark.swept)
        assert freed == len(STORED)

    def unmarked(repo):
        start(repo)
        repo.delete_branch("dev")
        days(repo, 2)

    interleave(unmarked, collection.mark, collection.mark, marked, least=20)


def test_a_mark_between_the_steps_of_a_sweep_and_vice_versa():
    def looked(world, *_):
        repo = world.repo(scripted=False)
        days(repo, 8)
        for mark in list(repo.gc.marks()):
            if mark.state in ("condemned", "sweeping"):
                repo.gc.sweep(mark.id)
        check_sound(repo)
        commit_the_same(repo)
        assert check_sound(repo)["again"]["g0"] == "garbage 0"

    interleave(condemned, sweep, collection.mark, looked, least=30)
    interleave(condemned, collection.mark, sweep, looked, least=20)


def test_an_undelete_between_the_steps_of_a_sweep_and_vice_versa():
    def looked(world, one, other):
        refused = [isinstance(outcome, GravelerError) for outcome in (one, other)]
        assert refused in ([True, False], [False, True]), (one, other)
        check_sound(world.repo(scripted=False))

    interleave(condemned, sweep, undelete, looked, least=30)
    interleave(condemned, undelete, sweep, looked, least=10)
