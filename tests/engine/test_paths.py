"""Paths that a folder cannot hold are refused. Paths that were stored earlier stay readable."""

import pytest

from graveler.errors import InvalidInputError
from graveler.model import Entry
from graveler.values import stage_entry
from tests.harness.worlds import ScriptedWorld

ODD = ["/a", "a/", "a//b", ".", "..", "./a", "a/.", "a/../b", "../a", "a/..", "//", "/"]


@pytest.fixture
def repo():
    return ScriptedWorld().repo()


@pytest.mark.parametrize("path", ODD)
def test_a_part_that_is_empty_or_dots_is_refused_on_every_way_in(repo, path):
    main = repo.branch("main")
    there = main.put("there", b"x")
    for write in (
        lambda: main.put(path, b"x"),
        lambda: main.store(path, b"x"),
        lambda: main.link(path, address=there.address),
        lambda: main.link_many([Entry(path, there.address, 1)]),
        lambda: main.commit_changes([Entry(path, there.address, 1)], message="m"),
    ):
        with pytest.raises(InvalidInputError, match="path"):
            write()
    assert [entry.path for entry in main.entries()] == ["there"]


@pytest.mark.parametrize("path", ["a..b", "...", ".a", "a./b", "a b/ c", "..a/b.."])
def test_dots_within_a_part_are_only_dots(repo, path):
    main = repo.branch("main")
    main.put(path, b"x")
    assert main.get(path) == b"x"


@pytest.mark.parametrize("path", ODD)
def test_one_that_was_stored_earlier_can_be_read_and_deleted(repo, path):
    main = repo.branch("main")
    entry = main.put("there", b"x")
    old = Entry(path, entry.address, 1, entry.checksum)
    token = repo.stores.refs.branches.get("main").staging_token
    repo.stores.staging.set(token, path.encode(), stage_entry(path.encode(), old))
    for _ in range(2):
        assert main.get(path) == b"x"
        assert path in [item.path for item in main.list()]
        if list(main.uncommitted()):
            main.commit("as an earlier version did")
    main.delete(path)
    main.commit("gone")
    assert not main.exists(path)
