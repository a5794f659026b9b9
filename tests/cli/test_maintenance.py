"""``graveler packing`` and ``graveler maintain``: their output for people and for programs."""

from datetime import timedelta

import pytest

from graveler.errors import BackendUnavailableError

pytestmark = pytest.mark.usefixtures("history")


def test_the_rule_of_packing_is_shown_and_changed(cli):
    said = cli("packing", "set", "--after", "7", "--branch", "main", "--branch", "release-*")
    assert said.out.splitlines() == ["after     7 badly cut ranges", "branches  main, release-*"]
    assert cli("packing", "show", "--json").json == {"after": 7, "branches": ["main", "release-*"]}
    assert cli("packing", "set", "--branch", "", "--json").json["branches"] == []
    assert cli("packing", "set", "--after", "0").out.startswith("after     never\n")


@pytest.fixture
def fragments(repo):
    """Eight fragments on main that fit into one range."""
    main = repo.branch("main")
    for number in range(8):
        main.put(f"z/{number}", b"1" * (number + 1))
    main.commit("all")
    repo.splitting.set(policy="hash", max_bytes=600, min_bytes=0, raggedness=1)
    repo.pack("main", everything=True)
    repo.splitting.set(max_bytes=1 << 20, raggedness=1 << 20)
    main.delete("z/3")
    main.commit("deleted")
    repo.packing.set(after=1)
    return repo


def test_maintenance_says_what_it_would_do_and_does_it(cli, fragments):
    found = fragments.stats().badly_cut
    said = cli("maintain", "--dry-run")
    assert said.out.splitlines() == [
        f"main: {found} ranges are badly cut: a pack is due",
        "dry run: nothing was changed",
    ]
    said = cli("maintain", "--json")
    (state,) = said.json["branches"]
    assert (said.code, said.json["dry_run"], said.json["errors"]) == (0, False, [])
    assert (state["branch"], state["badly_cut"], state["due"]) == ("main", found, True)
    assert state["commit"] == fragments.commit("main").id
    assert state["before"] > 0
    assert cli("maintain").out == "main: 0 ranges are badly cut, too few for a pack\n"
    assert cli("maintain", "--no-pack", "--no-reap", "--no-gc").out == ""


def test_maintenance_shows_runs_and_marks(cli, fragments):
    fragments.gc.keep(count=1)
    said = cli("maintain", "--no-pack")
    assert said.out.startswith("mark ")
    (mark,) = cli("maintain", "--dry-run", "--json").json["marks"]
    assert mark["state"] == "dry-run"


def test_failed_maintenance_shows_the_rest_and_names_it(cli, fragments, monkeypatch):
    def broken(*_, **__):
        raise BackendUnavailableError("the storage does not answer")

    monkeypatch.setattr("graveler.lake.maintenance.pack", broken)
    fragments.gc.keep(count=1)
    said = cli("maintain")
    assert said.code == 1
    assert said.out.startswith("mark ")
    assert said.err.startswith("error: branch 'main': the storage does not answer")
    said = cli("maintain", "--json")
    assert said.json["errors"][0]["code"] == "backend-unavailable"


def test_a_branch_has_an_end(cli, repo):
    cli("branch", "create", "pr-1", "--ttl", "2h")
    (shape,) = [one for one in cli("branch", "list", "--json").lines if one["name"] == "pr-1"]
    assert shape["ends"].endswith("+00:00")
    assert "pr-1  (ends at 2" in cli("branch", "list").out
    assert "branch pr-1: ends in 1 hour\n" in cli("maintain").out
    assert cli("branch", "expire", "pr-1", "--never").out == "branch pr-1 does not end\n"
    assert cli("branch", "expire", "pr-1", "--ttl", "1d", "--json").json["name"] == "pr-1"
    for wrong in ((), ("--never", "--ttl", "1d"), ("--ttl", "soon")):
        assert cli("branch", "expire", "pr-1", *wrong).code == 2
    repo.expire_branch("pr-1", timedelta(microseconds=1))
    repo.branch("pr-1").put("x", b"1")
    assert "UTC, but files are staged on it\n" in cli("maintain").out
    repo.branch("pr-1").reset()
    assert "UTC, and is deleted; `graveler undo pr-1` restores it\n" in cli("maintain").out
    repo.undo("pr-1")
    assert cli("maintain", "--json").json["ending"] == []
