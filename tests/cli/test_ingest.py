"""``graveler ingest``: ticks, held hours, quarantines and their release."""

import sys

import pytest

HOUR = "2013-01-01T05:00Z"
SHELF = "quarantine-2013-01-01T05-00"


@pytest.fixture
def staged(repo, folder, monkeypatch):
    """A good and a bad file, both staged, and a module with a gate."""
    (folder.parent / "rules.py").write_text(
        "def no_bad(candidate):\n    return not candidate.exists('input/2013/01/01/05:00/bad')\n"
    )
    monkeypatch.syspath_prepend(folder.parent)
    monkeypatch.delitem(sys.modules, "rules", raising=False)
    branch = repo.ingestion().branch
    branch.put("input/2013/01/01/05:00/good", b"1")
    branch.put("input/2013/01/01/05:00/bad", b"2")
    return repo


def test_a_tick_publishes_and_says_so(cli, staged):
    said = cli("ingest", "tick", "--hour", HOUR, "--meta", "who=cron", "--json")
    assert said.code == 0
    assert said.json == {
        "hour": HOUR,
        "state": "published",
        "commit": staged.commit("ingest").id,
        "published": staged.commit("main").id,
        "late": [],
        "quarantined": [],
        "refused": None,
        "set_aside": [],
    }
    assert staged.commit("main").metadata["who"] == "cron"
    assert cli("ingest", "tick", "--hour", HOUR).out == (
        f"{HOUR}  published    {staged.commit('main').id[:12]}\n"
    )


def test_a_held_hour_exits_with_the_code_of_a_gate_and_is_shown(cli, staged):
    said = cli("ingest", "tick", "--hour", HOUR, "--gate", "rules:no_bad")
    assert said.code == 4
    assert said.out.startswith(f"{HOUR}  held\n  ingest {HOUR} was refused: no_bad: ")
    status = cli("ingest", "status", "--json").json
    assert (status["branch"], status["into"], status["staged"]) == ("ingest", "main", 0)
    assert status["held"]["gates"] == ["no_bad"]
    assert [(hour["hour"], hour["state"]) for hour in status["pending"]] == [(HOUR, "held")]
    assert "held: " in cli("ingest", "status").out

    staged.branch("ingest").delete("input/2013/01/01/05:00/bad")
    assert cli("ingest", "tick", "--hour", HOUR, "--gate", "rules:no_bad").code == 0
    assert cli("ingest", "status").out == "ingest → main: 0 staged\n"


def test_a_quarantine_is_listed_and_released(cli, staged):
    said = cli(
        "ingest", "tick", "--hour", HOUR, "--gate", "rules:no_bad", "--on-refusal", "quarantine"
    )
    assert said.code == 0
    assert said.out.startswith(f"{HOUR}  quarantined  on {SHELF}\n")
    assert [one["name"] for one in cli("ingest", "quarantined", "--json").lines] == [SHELF]
    assert cli("ingest", "quarantined").out.startswith(f"{SHELF}  since ")
    assert SHELF in cli("ingest", "status").out

    refused = cli("ingest", "release", SHELF, "--gate", "rules:no_bad")
    assert refused.code == 4
    staged.branch(SHELF).delete("input/2013/01/01/05:00/bad")
    released = cli("ingest", "release", SHELF, "--gate", "rules:no_bad", "--json").json
    head = staged.commit("main").id
    assert released == {"name": SHELF, "commit": head, "already": False}
    again = cli("ingest", "release", SHELF)
    assert again.out == f"was released before: {SHELF} → main {head[:12]}\n"
    assert cli("ingest", "quarantined").out == ""
