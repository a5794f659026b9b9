"""Staging in a team: who staged a file, and when; what one drops or commits; what expires."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.errors import CorruptionError
from graveler.model import Entry
from graveler.testing import World
from graveler.testing.world import START
from graveler.values import (
    TOMBSTONE,
    is_replacement,
    signature,
    signed_by,
    stage_entry,
    staged_changes,
    staged_epoch,
    staged_value,
)


@pytest.fixture
def world():
    return World()


@pytest.fixture
def repo(world):
    repo = world.open().create_repository("flights")
    repo.branch("main").put("old", b"0")
    repo.branch("main").commit("first")
    repo.create_branch("dev")
    return repo


@pytest.fixture
def put(repo, monkeypatch):
    """Put files on dev as somebody."""

    def done(author, *paths, text="new"):
        monkeypatch.setenv("GRAVELER_COMMITTER", author)
        repo.branch("dev").put_many((path, text.encode()) for path in paths)

    return done


def authors(branch):
    return {change.path: change.author for change in branch.uncommitted()}


def test_a_staged_file_has_an_author_and_a_time(world, repo, put):
    dev = repo.branch("dev")
    put("ann", "a/1", "a/2")
    world.clock.advance(timedelta(hours=1))
    put("bob", "a/2")
    dev.delete("old")
    dev.move("a/1", "b")
    assert authors(dev) == {"a/2": "bob", "b": "bob", "old": "bob"}
    times = {change.at.replace(microsecond=0) for change in dev.uncommitted()}
    assert times == {START + timedelta(hours=1)}
    assert dev.commit("all").committer == "bob"
    assert {entry.path for entry in repo.ref("dev").entries()} == {"a/2", "b"}


def test_a_run_is_the_author_of_its_writes(repo):
    with repo.run("hourly") as run:
        run.put("x", b"1")
        assert authors(run) == {"x": "hourly"}
        run.commit("done")


def test_what_older_versions_staged_has_no_author(repo):
    stores, dev = repo.stores, repo.branch("dev")
    token = stores.refs.branches.get("dev").staging_token
    entry = dev.store("x", b"1")
    stores.staging.set(token, b"x", stage_entry(b"x", entry))
    (change,) = dev.uncommitted()
    assert (change.path, change.author, change.at) == ("x", "", None)
    dev.commit("reads it")
    assert dev.get("x") == b"1"


ENTRY = Entry("a", "data/a", 3, "sha256:00", computed=True)
FORMS = [
    TOMBSTONE,
    stage_entry(b"a", ENTRY),
    stage_entry(b"a", ENTRY, replaces=True),
    stage_entry(b"a", ENTRY, epoch=7),
]


@given(st.sampled_from(FORMS), st.text(max_size=400))
def test_an_author_changes_nothing_that_is_committed(form, author):
    signed = signature(author, START) + form
    assert signed_by(signed) == (author.encode()[:245].decode("utf-8", "replace"), START)
    for read in (staged_value, staged_epoch, is_replacement):
        assert read(signed) == read(form)
    assert list(staged_changes([(b"a", signed)])) == list(staged_changes([(b"a", form)]))
    for raw in (signed[:1], signed[:10], signed[: signed[1]], signed[:1] + b"\1" + signed[2:]):
        with pytest.raises(CorruptionError):
            list(staged_changes([(b"a", raw)]))
