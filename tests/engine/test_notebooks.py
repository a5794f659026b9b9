"""Objects of a lake show themselves in a notebook, and lakes, repositories and views read like collections."""

import shutil

import pytest

import graveler
from graveler import gate
from graveler.errors import (
    BackendUnavailableError,
    GateFailedError,
    MergeConflictError,
    NotFoundError,
)

NAME = "in/<b>&\N{SNOWMAN}.csv"
SHOWN = "in/&lt;b&gt;&amp;\N{SNOWMAN}.csv"
FORMS = {
    "lake": (lambda repo: repo.lake, ["flights"]),
    "repository": (lambda repo: repo, ["flights", "dev", "main", "run hour 5"]),
    "branch": (lambda repo: repo["dev"], ["dev", "one side"]),
    "ref": (lambda repo: repo["main~1"], ["main~1", "Repository created"]),
    "commit": (lambda repo: repo.commit("main"), ["run hour 5", "graveler.attempt=1"]),
    "branches": (lambda repo: repo.branches(), ["dev", "commit by ", "main", "publish by "]),
    "log": (lambda repo: repo.log(), ["run hour 5", "Repository created"]),
    "diff": (lambda repo: repo.diff("main", "dev"), ["changed", "5 B", "11 B", SHOWN]),
    "uncommitted": (lambda repo: repo["dev"].uncommitted(), ["added", "later"]),
    "entries": (lambda repo: repo["dev"].entries(), [SHOWN, "11 B", "later"]),
    "folders": (lambda repo: repo["dev"].list(delimiter="/"), ["in/", "later"]),
    "moves": (lambda repo: repo.moves("main"), ["publish", "create"]),
    "run": (lambda repo: repo.refused, ["hour 6", "PARKED", "✕ full: no &lt;rows&gt;", "main"]),
    "runs": (lambda repo: repo.runs.list(), ["hour 6", "PARKED", "hour 5", "PUBLISHED"]),
    "record": (lambda repo: repo.runs.get("hour 5"), ["hour 5", "PUBLISHED", "✓ full"]),
    "published": (lambda repo: repo.published.result, ["run hour 5", "✓ full"]),
    "judgements": (lambda repo: repo.gates.judgements(), ["hour 6", "✕ full", "hour 5"]),
    "verdicts": (lambda repo: repo.judged, ["✓ full"]),
    "why": (lambda repo: repo.why(NAME), [SHOWN, "hour 5", "✓ full"]),
    "preview": (lambda repo: repo.preview_merge("dev", "main"), ["one side", "conflicts"]),
    "conflicts": (lambda repo: repo.preview_merge("dev", "main").conflicts, [SHOWN, "11 B"]),
    "merged": (lambda repo: repo.merge("main~1", "dev"), ["one side", "yes"]),
}


@gate
def full(candidate):
    return "" if candidate.has_below("in/") else "no <rows>"


@pytest.fixture
def flights(lake):
    """A repository with a published run, a refused one, and a branch that conflicts with main."""
    repo = lake.create_repository("flights")
    repo.lake = lake
    dev = repo.create_branch("dev")
    with repo.run("hour 5", gates=[full]) as repo.published:
        repo.published.put(NAME, b"first")
    repo.refused = repo.runs.open("hour 6")
    repo.judged = repo.refused.judge(full)
    repo.refused.delete(NAME)
    repo.refused.commit("nothing left")
    with pytest.raises(GateFailedError) as failed:
        repo.refused.publish([full])
    repo.failed = failed.value
    dev.put(NAME, b"from a side")
    dev.commit("one side")
    dev.put("later", b"staged")
    return repo


@pytest.mark.parametrize("form", FORMS)
def test_an_object_shows_itself(flights, form):
    make, texts = FORMS[form]
    html = make(flights)._repr_html_()
    assert [text for text in texts if text not in html] == []
    assert "<b>" not in html


def test_a_list_is_an_iterator_still(flights):
    log = flights.log()
    newest = next(log)
    assert "Repository created" in log._repr_html_()
    assert newest.message == "run hour 5"
    assert [commit.id for commit in [newest, *log]] == [commit.id for commit in flights.log()]


def test_names_and_refs_are_keys(lake, flights):
    assert [repo.name for repo in lake] == ["flights"]
    assert lake["flights"].name == "flights"
    assert ("flights" in lake, "others" in lake) == (True, False)
    assert flights["dev"].get("later") == b"staged"
    assert flights["main"].name == "main"
    assert flights["main~1"].commit.message == "Repository created"
    assert [branch.name for branch in flights] == ["dev", "main"]
    assert ("main~1" in flights, "other" in flights) == (True, False)
    assert [entry.path for entry in flights["dev"]] == [NAME, "later"]
    assert ("later" in flights["dev"], "later" in flights["main"]) == (True, False)


@pytest.mark.parametrize(
    "key", [lambda lake: lake["others"], lambda lake: lake["flights"]["other"]]
)
def test_a_missing_key_is_a_lookup_error(lake, flights, key):
    with pytest.raises(LookupError) as missing:
        key(lake)
    assert isinstance(missing.value, NotFoundError)


def test_a_graph_has_branches_and_runs(flights):
    drawn = flights.graph()
    assert repr(drawn) == "<graph of 5 commits>"
    assert drawn._repr_svg_() == str(drawn)
    assert all(f">{name} </tspan>" in drawn for name in ("dev", "main", "run hour 6"))
    assert drawn.count('fill="#c02f26"') == 2  # the dot and the name of the refused run
    assert repr(flights.graph("dev")) == "<graph of 2 commits>"
    assert repr(flights.graph(limit=3)) == "<graph of 3 commits>"
    assert repr(flights.graph("main", first_parent=True)) == "<graph of 2 commits>"


def test_a_run_without_work_of_its_own_marks_no_commit(flights):
    flights.runs.open("hour 7").park("the sender is late")
    assert flights.graph().count('<circle cx="14" cy="38" r="5" fill="#c02f26"') == 0
    assert "run hour 7" in flights.graph()


def test_a_refusal_names_the_run_the_gates_and_the_branch(flights):
    assert flights.failed._render_traceback_() == [
        "GateFailedError: run 'hour 6' was refused",
        "  ✕ full: no <rows>",
        "'main' did not move. Correct what the gates name, and try again.",
    ]
    with pytest.raises(MergeConflictError) as conflict:
        flights.merge("dev", into="main")
    first, line = conflict.value._render_traceback_()
    assert first.startswith("MergeConflictError: merge dev into main: 1 path was changed")
    assert line.startswith(f"  path {NAME}: source 11 B, dest 5 B, source_change ")
    assert line.endswith(" hour 5")


def test_a_lake_shows_itself_without_its_storages(tmp_path):
    with graveler.init(tmp_path / "lake") as made:
        made.create_repository("flights", storage=tmp_path / "disk")
    shutil.rmtree(tmp_path / "disk")
    with graveler.open(tmp_path / "lake") as lake:
        with pytest.raises(BackendUnavailableError):
            lake["flights"]
        assert ">flights<" in lake._repr_html_()
