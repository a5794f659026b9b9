"""What the pages of a lake, a repository, its history and a commit show."""

import re
from datetime import timedelta

import pytest

from graveler.errors import BackendUnavailableError
from graveler.gates import checks
from graveler.lake import RunState
from graveler.pages import ROUTES, Site, render


@pytest.fixture
def site(world, lake):
    return Site(lake, clock=world.clock)


@pytest.fixture
def values(site):
    """Returns what a page shows, as data."""

    def answered(path, /, **parameters):
        page = site.answer(path, parameters)
        assert page.status == 200, page.values
        render(page)
        return page.values

    return answered


def test_every_route_is_a_page(site, flights):
    statuses = {name: site.answer(f"/flights/{name}", {}).status for name in ROUTES}
    assert set(statuses.values()) <= {200, 400}


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/", 200, "flights"),
        ("/flights", 200, "flights"),
        ("/flights/", 200, "flights"),
        ("/trains", 404, "no repository"),
        ("/flights/nothing", 404, "no page"),
        ("/flights/commit/x", 404, "no page"),
    ],
)
def test_paths(lake, site, path, status, text):
    lake.create_repository("flights")
    page = site.answer(path, {})
    assert (page.status, text in render(page)) == (status, True)


def test_an_empty_lake_says_what_comes_next(site):
    assert "graveler repo create" in render(site.answer("/", {}))


def test_a_lake_shows_what_needs_a_look(world, values, flights):
    (line,) = values("/")["lines"]
    assert (line.head.id, line.published[0]) == (flights.commit("main").id, "hour 2")
    assert (line.total.files, line.total.size) == (3, 8 + 4 + 12)
    assert [(run.key, run.state) for run in line.runs] == [("hour 1", RunState.PARKED)]
    assert (line.left, line.collected, line.checked) == ((), None, None)
    flights.fsck(objects="checksum")
    flights.gc.keep(days=1)
    flights.gc.mark()
    world.clock.advance(timedelta(days=2))
    (line,) = values("/")["lines"]
    assert (line.left, line.collected[0]) == (("dev",), "condemned")
    assert (line.checked.objects, line.checked.problems) == ("checksum", 0)


def test_a_silent_run_is_in_trouble(world, values, lake):
    run = lake.create_repository("flights").runs.open("hour 9", into="main")
    assert values("/")["lines"][0].runs == ()
    world.clock.advance(timedelta(hours=1))
    assert [found.key for found in values("/")["lines"][0].runs] == [run.key]


def test_a_repository_that_cannot_be_read_is_one_line(values, lake, flights, monkeypatch):
    lake.create_repository("trains")
    opened = lake.repository

    def broken(name):
        if name == "trains":
            raise BackendUnavailableError("its volume is not mounted")
        return opened(name)

    monkeypatch.setattr(lake, "repository", broken)
    lines = values("/")["lines"]
    assert [(line.name, line.trouble) for line in lines] == [
        ("flights", ""),
        ("trains", "its volume is not mounted"),
    ]


def test_a_broken_store_is_a_page(site, lake, flights, monkeypatch):
    def broken(name):
        raise BackendUnavailableError("its volume is not mounted")

    monkeypatch.setattr(lake, "repository", broken)
    page = site.answer("/flights", {})
    assert (page.status, "its volume is not mounted" in render(page)) == (503, True)


def test_the_branches_of_a_repository(values, flights):
    flights.protection.add("main")
    flights.gates.require("ma*", checks.schema("tables/"))
    dev = flights.branch("dev")
    dev.commit("work")
    dev.put("more", b"x")
    flights.create_branch("old", "main~2")
    lines = {line.name: line for line in values("/flights")["branches"]}
    assert list(lines) == ["dev", "main", "old"]
    found = {
        name: (str(line.ahead), str(line.behind), str(line.staged)) for name, line in lines.items()
    }
    assert found == {"dev": ("1", "0", "1"), "main": ("0", "0", "0"), "old": ("0", "4", "0")}
    assert (lines["main"].gates, "write" in lines["main"].protected) == (["schema"], True)
    assert (lines["dev"].gates, lines["dev"].protected) == ([], [])


def test_counts_stop_at_a_limit(values, flights, monkeypatch):
    monkeypatch.setattr("graveler.pages.repository_pages._APART", 2)
    monkeypatch.setattr("graveler.pages.repository_pages._BRANCHES", 1)
    flights.create_branch("aaa", "main~2")
    shown = values("/flights")
    assert [(line.name, str(line.behind)) for line in shown["branches"]] == [("aaa", "2+")]
    assert shown["more_branches"]
    assert [line.name for line in values("/flights", after="aaa")["branches"]] == ["dev"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("hour 1", {"runs": ["hour 1"]}),
        ("hour", {"runs": ["hour 2", "hour 1", "hour 0"]}),
        ("v1", {"refs": ["v1"], "commit": True}),
        ("tables/h", {"paths": ["tables/hour/part.csv"]}),
        ("main~1", {"commit": True}),
        ("nothing", {}),
        ("../x", {}),
        ("", {}),
    ],
)
def test_search(values, flights, text, found):
    shown = values("/flights/search", q=text)
    assert shown["found"] == bool(found)
    for name, of in (("runs", "key"), ("refs", ""), ("paths", "path")):
        items = [getattr(item, of) if of else item for item in shown.get(name, [])]
        assert items == found.get(name, [])
    assert bool(shown.get("commit")) == found.get("commit", False)


def test_search_by_the_beginning_of_a_commit_id(values, flights):
    head = flights.commit("main").id
    assert values("/flights/search", q=head[:8])["commit"].id == head


def test_the_graph_leads_to_commits(site, values, flights):
    shown = values("/flights/history")
    head = flights.commit("main").id
    assert f'<a href="/flights/commit?at={head}">' in shown["graph"]
    assert (shown["more"], "run hour 1" in shown["graph"]) == (False, True)
    cut = values("/flights/history", limit="2")
    assert (cut["count"], cut["more"], cut["next_limit"]) == (2, True, 4)
    assert "Show 4" in render(site.answer("/flights/history", {"limit": "2"}))


@pytest.mark.parametrize(
    ("given", "messages"),
    [
        ({"author": "hour"}, ["first hour"]),
        ({"run": "hour 0"}, ["run hour 0", "step hour"]),
        ({"path": "tables/hour/part.csv"}, ["first hour"]),
        ({"path": "tables/"}, ["first hour"]),
        ({"until": "2000-01-01"}, []),
        ({"author": "hour", "since": "2000-01-01"}, ["first hour"]),
    ],
)
def test_filters_of_the_history(values, flights, given, messages):
    commits = values("/flights/history", **given)["commits"]
    assert [commit.message.split("\n")[0] for commit in commits] == messages


def test_a_commit(values, flights):
    shown = values("/flights/commit")
    assert (shown["commit"].id, shown["names"]) == (flights.commit("main").id, ["dev", "main"])
    assert [change.path for change in shown["changes"]] == ["out/hour/2.csv"]
    assert [verdict.gate for verdict in shown["judgement"].verdicts] == ["full"]
    first = values("/flights/commit", at=flights.commit("v1~2").id)
    assert (first["changes"], first["judgement"]) == ([], None)


@pytest.mark.parametrize("at", ["nothing", "main~99", "a b", "0" * 64])
def test_a_commit_that_is_not_there(site, flights, at):
    assert site.answer("/flights/commit", {"at": at}).status in {400, 404}


def test_the_oldest_staged_file_counts(world, values, lake):
    main = lake.create_repository("flights").branch("main")
    main.put("b", b"1")
    world.clock.advance(timedelta(days=2))
    main.put("a", b"1")
    assert values("/")["lines"][0].left == ("main",)


def test_each_command_names_the_repository(site, flights):
    flights.branch("main").put("new", b"1")
    for name in ROUTES:
        html = render(site.answer(f"/flights/{name}", {"path": "tables/hour/part.csv"}))
        commands = re.findall('<code class="shell">graveler (.*?)</code>', html)
        assert [found for found in commands if not found.startswith("--repo flights ")] == []
