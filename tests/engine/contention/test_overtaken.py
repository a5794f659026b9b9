"""A committer whose writes another one landed gets a commit that holds them."""

from threading import Thread
from typing import Any

import pytest

from graveler.errors import NoChangesError
from graveler.staging.area import StagingArea


def in_thread(work):
    """Run `work` in another thread and return its result."""
    results = []
    thread = Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    return results[0]


def test_writes_that_landed_before_the_commit_began(repo):
    main = repo.branch("main")
    main.put("a", b"1")
    theirs = in_thread(lambda: main.commit("theirs"))
    later = in_thread(lambda: [main.put("b", b"1"), main.commit("later")][-1])
    mine = main.commit("mine")
    assert theirs.id in {commit.id for commit in repo.log(mine.id)}
    assert (mine.id, mine.by_other) == (later.id, True)
    with pytest.raises(NoChangesError):
        main.commit("again")


def test_the_answer_has_the_merges_of_its_thread(repo):
    main = repo.branch("main")
    main.put("a", b"1")
    in_thread(lambda: main.commit("theirs"))
    side = repo.create_branch("side")
    side.put("b", b"1")
    side.commit("side")
    merged = repo.merge("side", "main")
    mine = main.commit("mine")
    assert (mine.id, mine.by_other) == (merged.commit.id, True)


def test_writes_that_landed_before_they_were_acknowledged(repo, monkeypatch):
    main = repo.branch("main")
    landed: list[Any] = []
    write = StagingArea.set

    def set_and_lose(area, token, key, value):
        write(area, token, key, value)
        if not landed:
            landed.append(None)
            landed[0] = in_thread(lambda: main.commit("theirs"))

    monkeypatch.setattr(StagingArea, "set", set_and_lose)
    main.put("a", b"1")
    mine = main.commit("mine")
    assert (mine.id, mine.by_other) == (landed[0].id, True)
    assert list(main.uncommitted()) == []


def test_a_commit_of_paths_answers_with_anothers_commit(repo):
    main = repo.branch("main")
    main.put("d/k", b"1")
    theirs = in_thread(lambda: main.commit("theirs"))
    in_thread(lambda: [main.put("b", b"1"), main.commit("later")])
    mine = main.commit("mine", paths=["d/"])
    assert (mine.id, mine.by_other) == (theirs.id, True)
    with pytest.raises(NoChangesError):
        main.commit("again", paths=["d/"])


def test_a_commit_of_paths_that_nobody_wrote_is_none(repo):
    main = repo.branch("main")
    main.put("k", b"1")
    in_thread(lambda: main.commit("theirs"))
    with pytest.raises(NoChangesError, match="at l that"):
        main.commit("mine", paths=["l"])
    main.put("k", b"2")
    in_thread(main.reset)
    with pytest.raises(NoChangesError):
        main.commit("discarded", paths=["k"])
